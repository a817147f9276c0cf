package volumelock

import "testing"

// A pod gets its volume through the volume lock, and gives it back.
func TestOnePod(t *testing.T) {
	l := newLab(t)
	l.start(t)
	pv := l.disk(t, "db", "1")
	pod := l.pod(t, "db", "db", "a")
	l.runs(t, pod, pv, "a")
	l.heldBy(t, pv, "a")
	l.delete(t, pod)
	l.gone(t, pod)
	l.free(t, pv)
}

package terminate

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	testclock "k8s.io/utils/clock/testing"
)

func TestContainerID(t *testing.T) {
	for cgroup, want := range map[string]string{
		"cri-containerd-0a1b.scope": "0a1b",
		"crio-0a1b.scope":           "0a1b",
		"crio-0a1b":                 "0a1b",
		"0a1b":                      "0a1b",
		"crio-conmon-0a1b.scope":    "",
		"crio-conmon-0a1b":          "",
	} {
		if got := containerID(cgroup); got != want {
			t.Errorf("%s: got %q, want %q", cgroup, got, want)
		}
	}
}

func TestSignalNumber(t *testing.T) {
	for name, want := range map[corev1.Signal]unix.Signal{
		corev1.SIGQUIT: unix.SIGQUIT, corev1.SIGRTMIN: 34, corev1.SIGRTMINPLUS3: 37, corev1.SIGRTMAX: 64, corev1.SIGRTMAXMINUS2: 62,
		"": unix.SIGTERM, "SIGNONE": unix.SIGTERM, "SIGRTMIN+x": unix.SIGTERM,
	} {
		if got := signalNumber(name); got != want {
			t.Errorf("%s: got %d, want %d", name, got, want)
		}
	}
}

// Sidecars stop after the others, the last one first; the signal is the status's, else the spec's.
func TestMembers(t *testing.T) {
	sidecar := func(name string) corev1.Container {
		return corev1.Container{Name: name, RestartPolicy: new(corev1.ContainerRestartPolicyAlways)}
	}
	is := func(name string) corev1.ContainerStatus {
		return corev1.ContainerStatus{Name: name, ContainerID: "containerd://" + name}
	}
	quits := is("quits")
	quits.StopSignal = new(corev1.SIGQUIT)
	pod := &corev1.Pod{
		Spec: corev1.PodSpec{
			InitContainers: []corev1.Container{sidecar("first"), {Name: "once"}, sidecar("second")},
			Containers:     []corev1.Container{{Name: "main", Lifecycle: &corev1.Lifecycle{StopSignal: new(corev1.SIGINT)}}, {Name: "quits"}},
		},
		Status: corev1.PodStatus{
			InitContainerStatuses:      []corev1.ContainerStatus{is("first"), is("once"), is("second")},
			ContainerStatuses:          []corev1.ContainerStatus{is("main"), quits, {Name: "waits"}},
			EphemeralContainerStatuses: []corev1.ContainerStatus{is("debug")},
		},
	}
	want := map[string]member{
		"first": {order: 3, signal: unix.SIGTERM}, "once": {signal: unix.SIGTERM}, "second": {order: 1, signal: unix.SIGTERM},
		"main": {signal: unix.SIGINT}, "quits": {signal: unix.SIGQUIT}, "debug": {signal: unix.SIGTERM},
	}
	if diff := cmp.Diff(want, members(pod), cmp.AllowUnexported(member{})); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// While the local sequence is within its time, whoever waits for the pod's memory goes on waiting. What does not end by it is stuck.
func TestStopping(t *testing.T) {
	const at = 10 * time.Second
	limits := DefaultLimits()
	begun := func(restarts int, containers ...container) local {
		return local{begun: true, restarts: restarts, containers: containers}
	}
	for name, test := range map[string]struct {
		local local
		after time.Duration // the signal
		want  bool
	}{
		"not begun":                            {local{containers: []container{{stage: killed, signalled: at}}}, 0, false},
		"about to be signalled":                {begun(0, container{stage: living}), 0, true},
		"signals fail":                         {begun(0, container{stage: living, tries: 2}), 0, false},
		"signalled, within its grace":          {begun(0, container{stage: termed, signalled: at}), localGrace(1), true},
		"signalled, long over":                 {begun(0, container{stage: termed, signalled: at}), localGrace(1) + limits.Margin, false},
		"killed just now":                      {begun(0, container{stage: killed, signalled: at}), limits.Margin - 1, true},
		"killed, and still there":              {begun(0, container{stage: killed, signalled: at}), limits.Margin, false},
		"one is stuck, the other killed now":   {begun(0, container{stage: killed}, container{stage: killed, signalled: at}), 0, true},
		"started again by the kubelet":         {begun(1, container{stage: killed, signalled: at}), 0, false},
		"nothing is left but the pod's object": {begun(0), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			s := State{limits: limits, graceSeconds: 1, local: test.local}
			if got := s.stopping(at + test.after); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// stats are processes by id.
type stats map[int]Stat

func (s stats) Stat(pid int) (Stat, error) {
	if stat, ok := s[pid]; ok {
		return stat, nil
	}
	return Stat{}, ErrNoProcess
}
func (stats) Signal(int, unix.Signal, func() (bool, error)) error { return nil }
func (stats) OOMScoreAdj(int) (int, error)                        { return 0, nil }
func (stats) Pending(int) (uint64, error)                         { return 0, nil }

// The main process is the one that the runtime started first. Its child may be of the same tick, and of a lower id where ids have begun again.
func TestMainProcess(t *testing.T) {
	const shim = 7
	for name, tc := range map[string]struct {
		all  stats
		also []int // have ended meanwhile
		want int
	}{
		"alone":                            {stats{20: {shim, 100}}, nil, 20},
		"of the same tick, a lower id":     {stats{32766: {shim, 100}, 301: {32766, 100}, 302: {301, 100}}, nil, 32766},
		"exec, later":                      {stats{20: {shim, 100}, 21: {20, 100}, 19: {shim, 900}}, nil, 20},
		"no parent that can be seen":       {stats{20: {0, 100}, 10: {20, 100}}, nil, 20},
		"it ended, and a child is left":    {stats{21: {20, 100}, 22: {21, 101}}, []int{20}, 21},
		"all have ended":                   {stats{}, []int{20}, 0},
		"the clock's tick is all there is": {stats{20: {shim, 100}, 21: {shim, 100}}, nil, 20},
	} {
		t.Run(name, func(t *testing.T) {
			v := &victim{t: &Terminator{processes: tc.all}}
			pids := slices.Concat(slices.Collect(maps.Keys(tc.all)), tc.also)
			if pid, ok := v.mainProcess(pids); pid != tc.want || ok != (tc.want != 0) {
				t.Errorf("got %d, %t", pid, ok)
			}
		})
	}
}

// Ended is what the last look saw: no container has a process, although the sandbox may. A look that failed, or none, says nothing.
func TestEndedVictim(t *testing.T) {
	for name, tt := range map[string]struct {
		sight      sight
		containers []container
		dying      bool
		want       bool
	}{
		"the sandbox is left":  {sight: sight{seen: true}, dying: true, want: true},
		"a container runs":     {sight: sight{seen: true}, containers: []container{{id: "a"}}, dying: true},
		"there was no look":    {dying: true},
		"the last look failed": {sight: sight{seen: true, blind: true}, dying: true},
		"nothing has begun":    {sight: sight{seen: true}},
	} {
		v := &victim{t: &Terminator{clock: testclock.NewFakeClock(time.Time{})}, state: State{phase: active, sight: tt.sight, local: local{containers: tt.containers}, dying: tt.dying}}
		if got, ok := v.standing(); !ok || got.Ended != tt.want {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A pod that may have changed since it was seen is not frozen: somebody may be stopping it.
func TestStaleRequestFreezesNoPod(t *testing.T) {
	for stale, want := range map[bool]bool{false: true, true: false} {
		r := Request{Pod: &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}, Stale: stale}
		if asked := r.asked(); asked.Freeze != want {
			t.Errorf("stale %t: freeze %t", stale, asked.Freeze)
		}
	}
}

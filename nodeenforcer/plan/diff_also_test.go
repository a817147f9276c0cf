package plan

import (
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// What another version of the runtime writes is no drift; a third value is.
func TestDiffAlso(t *testing.T) {
	tree := &Tree{Groups: []Group{{Path: "/c", Level: LevelContainer, Files: map[string]Value{
		"cpu.max": {Want: "16000 100000", Also: "15500 100000", Owner: Runtime},
	}}}}
	for have, drift := range map[string]bool{"16000 100000": false, "15500 100000": false, "15000 100000": true} {
		d := Diff(tree, Have{"/c": {Files: map[string]string{"cpu.max": have}, MemoryUsage: -1}}, v1alpha1.NodeModeRepair, DiffOptions{})
		if got := len(d.Drift) > 0; got != drift {
			t.Errorf("%s: drift %v", have, d.Drift)
		}
	}
}

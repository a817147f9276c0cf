package fidelity

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/kubernetes/pkg/kubelet/cm/cpumanager/state"
	"k8s.io/utils/cpuset"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// checkpoints are such as the kubelet writes.
var checkpoints = draw.Of(func(s draw.Source) *state.CPUManagerCheckpointV2 {
	set := func() string {
		var list []int
		for i := range 12 {
			if s.Chance(7) {
				list = append(list, i*draw.Pick(s, 1, 1, 1, 13))
			}
		}
		return cpuset.New(list...).String()
	}
	c := &state.CPUManagerCheckpointV2{PolicyName: draw.Pick(s, "static", "none"), DefaultCPUSet: set(), Entries: map[string]map[string]string{}}
	for i := range s.Below(4) {
		containers := map[string]string{}
		for n := range s.Below(3) {
			containers[draw.Pick(s, "app", "plan.app", `"quoted"`, "Checksum:(plan.checkpointSum)0}")+fmt.Sprint(n)] = set()
		}
		c.Entries[fmt.Sprintf("uid-%d", i)] = containers
	}
	return c
})

// TestFidelityNodeCPUManager: a checkpoint of the kubelet is read as the kubelet does, its checksum too, and so is one without a
// checksum or written otherwise; one that was changed, and that the kubelet refuses, is refused. Not all that the kubelet accepts is:
// what it would not have written itself is refused, knowingly.
func TestFidelityNodeCPUManager(t *testing.T) {
	t.Parallel()
	draw.Check(t, draw.Shares{"with entries": 30, "changed and refused": 30, "without a checksum": 30}, func(t *rapid.T, counts *draw.Tally) {
		c := checkpoints.Draw(t, "checkpoint")
		text, err := c.MarshalCheckpoint()
		if err != nil {
			t.Fatal(err)
		}
		got, err := plan.ParseCPUManagerState(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		want := &plan.CPUManagerState{PolicyName: c.PolicyName, DefaultCPUSet: c.DefaultCPUSet, Entries: c.Entries}
		if len(c.Entries) == 0 {
			want.Entries = got.Entries // absent or empty
		} else {
			counts.Add("with entries")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: -kubelet +plan:\n%s", text, diff)
		}
		unsigned := strings.Replace(string(text), fmt.Sprintf(`"checksum":%d`, c.Checksum), `"checksum":0`, 1)
		var indented bytes.Buffer
		if err := json.Indent(&indented, []byte(rapid.SampledFrom([]string{unsigned, string(text)}).Draw(t, "form")), "", "  "); err != nil {
			t.Fatal(err)
		}
		if bytes.Contains(indented.Bytes(), []byte(`"checksum": 0`)) {
			counts.Add("without a checksum")
		}
		accepted := &state.CPUManagerCheckpointV2{Entries: map[string]map[string]string{}}
		if err := errors.Join(accepted.UnmarshalCheckpoint(indented.Bytes()), accepted.VerifyChecksum()); err != nil {
			t.Fatalf("the kubelet refuses %s: %v", &indented, err)
		}
		if got, err = plan.ParseCPUManagerState(indented.Bytes()); err != nil {
			t.Fatalf("the kubelet accepts %s: %v", &indented, err)
		}
		if got.PolicyName != accepted.PolicyName || got.DefaultCPUSet != accepted.DefaultCPUSet || len(got.Entries) != len(accepted.Entries) || len(got.Entries) > 0 && !cmp.Equal(got.Entries, accepted.Entries) {
			t.Fatalf("%s is read as %+v, by the kubelet as %+v", &indented, got, accepted)
		}
		changed := strings.Replace(string(text), rapid.SampledFrom([]string{"1", "2", "5", "app", "static", "none"}).Draw(t, "old"), "7", 1)
		again := &state.CPUManagerCheckpointV2{Entries: map[string]map[string]string{}}
		if err := again.UnmarshalCheckpoint([]byte(changed)); err == nil && again.VerifyChecksum() == nil {
			return
		}
		counts.Add("changed and refused")
		if s, err := plan.ParseCPUManagerState([]byte(changed)); err == nil {
			t.Fatalf("the kubelet refuses %s, read as %+v", changed, s)
		}
	})
}

package eviction_test

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

func TestRank(t *testing.T) {
	t.Parallel()
	podLevel := func(c *eviction.Candidate) {
		c.Pod.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("50")}}
	}
	overhead := func(c *eviction.Candidate) {
		c.Pod.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("30")}
	}
	for name, tc := range map[string]struct {
		signal v1alpha1.EvictionSignal
		in     []eviction.Candidate
		want   string
	}{
		"memory: above the request before priority": {memory, []eviction.Candidate{
			candidate("below", uses(memory, 100), requests(corev1.ResourceMemory, "100"), prio(-5)),
			candidate("above", uses(memory, 101), requests(corev1.ResourceMemory, "100"), prio(500)),
		}, "above below"},
		"memory: priority before usage": {memory, []eviction.Candidate{
			candidate("high", uses(memory, 1000), prio(1)), candidate("low", uses(memory, 1)),
		}, "low high"},
		"memory: usage above the request": {memory, []eviction.Candidate{
			candidate("a", uses(memory, 150), requests(corev1.ResourceMemory, "100")),
			candidate("b", uses(memory, 70)),
			candidate("c", uses(memory, 1000), requests(corev1.ResourceMemory, "940")),
		}, "b c a"},
		"stall ranks as memory": {stall, []eviction.Candidate{candidate("a", uses(memory, 1)), candidate("b", uses(memory, 2))}, "b a"},
		"the order between priority and usage": {memory, []eviction.Candidate{
			candidate("a", uses(memory, 1000), order(10)), candidate("b", uses(memory, 1), order(90)), candidate("c", uses(memory, 2000)),
			candidate("d", uses(memory, 1), prio(1), order(100)),
		}, "b a c d"},
		"an order that can't be read is none": {memory, []eviction.Candidate{
			candidate("a", uses(memory, 1), annotated(v1alpha1.AnnotationEnforcement, `{"eviction":{"order":101}}`)),
			candidate("b", uses(memory, 1), annotated(v1alpha1.AnnotationEnforcement, `order=1`)),
			candidate("c", uses(memory, 1), annotated(v1alpha1.AnnotationEnforcement, `{"oom":{"rank":100}}`)),
			candidate("d", uses(memory, 1), order(1)),
		}, "d a b c"},
		"ties by name": {memory, []eviction.Candidate{candidate("b", uses(memory, 1)), candidate("a", uses(memory, 1))}, "a b"},
		"what is not known comes last": {memory, []eviction.Candidate{
			candidate("unknown", prio(-1)), candidate("negative", uses(memory, -1), prio(-2)), candidate("disk", uses(disk, 5)),
			candidate("known", uses(memory, 0), requests(corev1.ResourceMemory, "1"), prio(1000)),
		}, "known negative unknown disk"},
		"pod-level requests": {memory, []eviction.Candidate{
			candidate("pod", uses(memory, 60), podLevel, requests(corev1.ResourceMemory, "10")), // 10 above 50
			candidate("container", uses(memory, 60), requests(corev1.ResourceMemory, "45")),     // 15 above 45
		}, "container pod"},
		"overhead counts where something is requested": {memory, []eviction.Candidate{
			candidate("with", uses(memory, 60), overhead, requests(corev1.ResourceMemory, "10")), // 20 above 40
			candidate("without", uses(memory, 60), overhead),                                     // 60 above 0
			candidate("plain", uses(memory, 60), requests(corev1.ResourceMemory, "25")),          // 35 above 25
		}, "without plain with"},
		"disk: usage above the request": {disk, []eviction.Candidate{
			candidate("a", uses(disk, 150), requests(corev1.ResourceEphemeralStorage, "100")), candidate("b", uses(disk, 70)),
		}, "b a"},
		"inodes: one is above": {inodes, []eviction.Candidate{candidate("one", uses(inodes, 1), prio(1)), candidate("none", uses(inodes, 0))}, "one none"},
		"disk: as memory, of ephemeral storage": {disk, []eviction.Candidate{
			candidate("below", uses(disk, 100), requests(corev1.ResourceEphemeralStorage, "100"), prio(-5)),
			candidate("above", uses(disk, 101), requests(corev1.ResourceEphemeralStorage, "100"), prio(5)),
			candidate("memory", uses(disk, 50), requests(corev1.ResourceMemory, "1000"), prio(6)),
		}, "above memory below"},
		"inodes: all that use one are above, and the storage request is taken off": {inodes, []eviction.Candidate{
			candidate("none", uses(inodes, 0), prio(-1)),
			candidate("storage", uses(inodes, 5000), requests(corev1.ResourceEphemeralStorage, "1Gi")),
			candidate("few", uses(inodes, 10)),
		}, "few storage none"},
		"processes: priority, then their number": {pids, []eviction.Candidate{
			candidate("many", uses(pids, 500)), candidate("few", uses(pids, 5)), candidate("low", uses(pids, 1), prio(-1)), candidate("ordered", uses(pids, 1), order(1)),
		}, "low ordered many few"},
		"never": {memory, []eviction.Candidate{
			candidate("mirror", uses(memory, 9), annotated(corev1.MirrorPodAnnotationKey, "x")),
			candidate("critical", uses(memory, 9), prio(2_000_000_000)),
			candidate("node-critical", uses(memory, 9), prio(2_000_001_000)),
			candidate("failed", uses(memory, 9), phase(corev1.PodFailed)),
			candidate("succeeded", uses(memory, 9), phase(corev1.PodSucceeded)),
			candidate("almost", uses(memory, 9), prio(1_999_999_999)),
			candidate("pretends", uses(memory, 9), annotated("kubernetes.io/config.source", "file")),
			candidate("pending", uses(memory, 9), phase(corev1.PodPending), prio(1)),
		}, "pretends pending almost"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, reversed := range []bool{false, true} {
				in := slices.Clone(tc.in)
				if reversed {
					slices.Reverse(in)
				}
				got := eviction.Rank(tc.signal, in)
				if names(got) != tc.want {
					t.Errorf("got %s, want %s", names(got), tc.want)
				}
				for i, r := range got {
					if r.Position != i+1 || r.Of != len(got) {
						t.Errorf("%s is %d of %d", r.Pod.Name, r.Position, r.Of)
					}
				}
			}
		})
	}
}

// The words stand in what explain and the agent say.
func TestExempt(t *testing.T) {
	t.Parallel()
	for want, pod := range map[string]eviction.Candidate{
		"":                              candidate("plain"),
		"it is a static pod":            candidate("mirror", annotated(corev1.MirrorPodAnnotationKey, "")),
		"it is critical for the system": candidate("critical", prio(2_000_000_000)),
		"it has finished":               candidate("over", phase(corev1.PodSucceeded)),
	} {
		if got := eviction.Exempt(pod.Pod); got != want {
			t.Errorf("%s: got %q, want %q", pod.Pod.Name, got, want)
		}
	}
}

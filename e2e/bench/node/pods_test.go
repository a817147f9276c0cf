package node

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// The planned tree has every pod, every container and each QoS class, all below our own root.
func TestPodsArePlanned(t *testing.T) {
	tree := plan.Build(largeNode(), repairPolicy(), podsOf(steadyNode, 110))
	if n := tree.Count(plan.LevelPod); n != 110 {
		t.Errorf("%d pods", n)
	}
	if n := tree.Count(plan.LevelContainer); n != containers(110) || len(tree.Processes) != n {
		t.Errorf("%d containers and %d processes, want %d", n, len(tree.Processes), containers(110))
	}
	classes := map[corev1.PodQOSClass]int{}
	for _, g := range tree.Groups {
		if g.Level == plan.LevelPod {
			classes[g.QOS]++
		}
		if len(g.Path) <= len(ourRoot()) || g.Path[:len(ourRoot())+1] != ourRoot()+"/" {
			t.Errorf("%s is not below %s", g.Path, ourRoot())
		}
	}
	if classes[corev1.PodQOSGuaranteed] != 22 || classes[corev1.PodQOSBurstable] != 66 || classes[corev1.PodQOSBestEffort] != 22 {
		t.Errorf("QoS classes: %v", classes)
	}
}

// Every planned file but the period can be made to drift, and so can every process.
func TestOtherwise(t *testing.T) {
	tree := plan.Build(largeNode(), repairPolicy(), podsOf(steadyNode, 10))
	for _, g := range tree.Groups {
		for file, v := range g.Files {
			if otherwise(file, v.Want) == v.Want && file != "cpu.cfs_period_us" {
				t.Errorf("%s of %s: no other value than %s", file, g.Path, v.Want)
			}
		}
	}
	for _, p := range tree.Processes {
		if other := otherwiseAdj(p.OOMScoreAdj); other == p.OOMScoreAdj || p.OOMScoreAdj >= 0 && other < 0 || other > 1000 {
			t.Errorf("oom_score_adj %d becomes %d", p.OOMScoreAdj, other)
		}
	}
}

package fidelity

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

type resolveCase struct {
	Pod     *corev1.Pod
	Classes map[string]*schedulingv1.PriorityClass
}

func (c *resolveCase) GoString() string { return draw.Show(c.Pod, c.Classes) }

// resolveCases name classes more often than pods do, and give the class's own values as well as wrong ones.
var resolveCases = draw.Of(func(s draw.Source) *resolveCase {
	c := &resolveCase{Pod: drawPod(s), Classes: drawClasses(s)}
	for name, value := range map[string]int32{"system-cluster-critical": 2000000000, "system-node-critical": 2000001000} {
		if c.Classes[name] == nil {
			c.Classes[name] = &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: new(corev1.PreemptLowerPriority)}
		}
	}
	spec := &c.Pod.Spec
	if s.Chance(9) {
		spec.PriorityClassName = draw.Pick(s, "web", "batch", "critical", "system-cluster-critical", "system-node-critical", absentClass)
	}
	class := c.Classes[spec.PriorityClassName]
	if class == nil {
		class = defaulting.GlobalDefaultOf(c.Classes)
	}
	own := int32(0)
	if class != nil {
		own = class.Value
	}
	spec.Priority = draw.Maybe(s, 5, own, own, own, 1000)
	spec.PreemptionPolicy = draw.Maybe(s, 5, corev1.PreemptLowerPriority, corev1.PreemptNever)
	return c
})

// TestFidelityReviewPriority: ResolvePriority does to a pod what the in-tree Priority plugin does, and refuses what that
// refuses.
func TestFidelityReviewPriority(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	wanted := draw.Shares{"refused": 10, "class named": 15, "by the globalDefault": 5, "of several globalDefaults": 2, "no class": 5, "system class": 5}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := resolveCases.Draw(t, "case")
		if severalLowest(c.Classes) {
			counts.Add("passed over: which globalDefault is chance")
			return
		}
		server.setClasses(t, c.Classes)
		internal, got := received(t, c.Pod), sent(t, received(t, c.Pod))
		want := server.admit(internal)
		err := defaulting.ResolvePriority(got, defaulting.Facts{PriorityClasses: c.Classes, GlobalDefault: defaulting.GlobalDefaultOf(c.Classes)})
		if (want == nil) != (err == nil) {
			t.Fatalf("the plugin says %v, ResolvePriority %v", want, err)
		}
		if want != nil {
			counts.Add("refused")
			return
		}
		if have := tripleOf(received(t, got)); !equality.Semantic.DeepEqual(have, tripleOf(internal)) {
			t.Fatalf("the triples differ\n%s", draw.Show(tripleOf(internal), have))
		}
		c.count(got, counts)
	})
}

func (c *resolveCase) count(got *corev1.Pod, counts *draw.Tally) {
	switch name := c.Pod.Spec.PriorityClassName; {
	case name != "":
		counts.Add("class named")
		if len(name) > 7 && name[:7] == "system-" {
			counts.Add("system class")
		}
	case got.Spec.PriorityClassName == "":
		counts.Add("no class")
	default:
		counts.Add("by the globalDefault")
		defaults := 0
		for _, class := range c.Classes {
			if class.GlobalDefault {
				defaults++
			}
		}
		if defaults > 1 {
			counts.Add("of several globalDefaults")
		}
	}
}

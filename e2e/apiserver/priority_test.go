package apiserver

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
)

func givesClass(name string) v1alpha1.PodPolicySpec {
	return v1alpha1.PodPolicySpec{Priority: &v1alpha1.PrioritySection{ClassName: name}, AllowSkip: []v1alpha1.Section{v1alpha1.SectionPriority}}
}

// The in-tree plugin runs again after a change of ours and refuses a triple that is not the class's.
func TestSecondPass(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	newClass(t, s, "second-pass", 1234, func(c *schedulingv1.PriorityClass) { c.PreemptionPolicy = ptr.To(corev1.PreemptNever) })
	s.Policy(t, ns, givesClass("second-pass"))
	p, warnings := mustCreate(t, s, newPod(ns))
	if diff := cmp.Diff([3]any{"second-pass", int32(1234), "Never"}, triple(p)); diff != "" {
		t.Error(diff)
	}
	if len(warnings) > 0 {
		t.Errorf("a default is no reason to warn: %q", warnings)
	}
}

// A class that was stored without preemptionPolicy gets the API's default; a pod must too.
func TestNilPreemptionPolicy(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	newClass(t, s, "nil-preemption", 77)
	s.Policy(t, ns, givesClass("nil-preemption"))
	p, _ := mustCreate(t, s, newPod(ns))
	if diff := cmp.Diff([3]any{"nil-preemption", int32(77), "PreemptLowerPriority"}, triple(p)); diff != "" {
		t.Error(diff)
	}
}

// A chosen class stays, even one of lower value.
func TestChosenClassStays(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	newClass(t, s, "chosen-default", 10)
	newClass(t, s, "chosen-own", -5)
	s.Policy(t, ns, givesClass("chosen-default"))
	p, _ := mustCreate(t, s, newPod(ns, class("chosen-own")))
	if diff := cmp.Diff([3]any{"chosen-own", int32(-5), "PreemptLowerPriority"}, triple(p)); diff != "" {
		t.Error(diff)
	}
}

// The API server gives the globalDefault class before any webhook is called: it counts as not chosen, unless the pod
// opts out.
func TestGlobalDefault(t *testing.T) {
	t.Run("while there is one", globalDefault)
	s := shared.Get(t)
	suite.Eventually(t, "the globalDefault class given to no more pods", func(ctx context.Context) (bool, error) {
		probe := newPod("default")
		err := s.Client.Create(ctx, probe, client.DryRunAll)
		return probe.Spec.PriorityClassName == "", err
	})
}

func globalDefault(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	newClass(t, s, "web", 5000)
	newClass(t, s, "cluster-default", 100, func(c *schedulingv1.PriorityClass) { c.GlobalDefault = true })
	suite.Eventually(t, "the globalDefault class given to pods", func(ctx context.Context) (bool, error) {
		probe := newPod("default")
		err := s.Client.Create(ctx, probe, client.DryRunAll)
		return probe.Spec.PriorityClassName == "cluster-default", err
	})
	s.Policy(t, ns, givesClass("web"))
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		want   [3]any
	}{
		"none named":              {func(*corev1.Pod) {}, [3]any{"web", int32(5000), "PreemptLowerPriority"}},
		"the default named":       {class("cluster-default"), [3]any{"web", int32(5000), "PreemptLowerPriority"}},
		"the default, opting out": {func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationSkip: "priority"} }, [3]any{"cluster-default", int32(100), "PreemptLowerPriority"}},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := mustCreate(t, s, newPod(ns, tc.change))
			if diff := cmp.Diff(tc.want, triple(p)); diff != "" {
				t.Error(diff)
			}
			if err := s.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A policy is chosen by the class that the pod ends with. Where another policy gives it, the API server calls the webhook a second time, with a
// pod that has it; the two calls and the validation agree.
func TestPolicyByPriority(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	newClass(t, s, "by-priority-low", -7)
	newClass(t, s, "by-priority-high", 7000)
	s.Policy(t, ns, givesClass("by-priority-low"))
	by := func(m v1alpha1.PodMatch, g v1alpha1.GracePeriodSection) {
		s.Policy(t, ns, v1alpha1.PodPolicySpec{Match: &m, GracePeriod: &g})
	}
	by(v1alpha1.PodMatch{Priority: &v1alpha1.PriorityRange{Max: new(int32(0))}}, v1alpha1.GracePeriodSection{MaxSeconds: new(int64(20))})
	by(v1alpha1.PodMatch{PriorityClassNames: []string{"by-priority-high"}}, v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(90))})
	for name, tc := range map[string]struct {
		change func(*corev1.Pod)
		class  string
		grace  int64
	}{
		"given":             {func(*corev1.Pod) {}, "by-priority-low", 20},
		"chosen":            {class("by-priority-low"), "by-priority-low", 20},
		"another":           {class("by-priority-high"), "by-priority-high", 90},
		"declined, so none": {func(p *corev1.Pod) { p.Annotations = map[string]string{v1alpha1.AnnotationSkip: "priority"} }, "", 20},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(ns, tc.change)
			if err := s.Client.Create(t.Context(), p, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			if got := *p.Spec.TerminationGracePeriodSeconds; p.Spec.PriorityClassName != tc.class || got != tc.grace {
				t.Errorf("got class %q and %d s, want %q and %d s", p.Spec.PriorityClassName, got, tc.class, tc.grace)
			}
		})
	}
}

// A class that does not exist never breaks the creation of pods: it shows as a warning and in the status, until it exists.
func TestUnknownClass(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	policy := s.Policy(t, ns, givesClass("not-yet"))
	p, warnings := mustCreate(t, s, newPod(ns))
	if diff := cmp.Diff([3]any{"", int32(0), "PreemptLowerPriority"}, triple(p)); diff != "" {
		t.Error(diff)
	}
	wantWarning(t, warnings, `PriorityClass "not-yet" does not exist: the pod keeps the priority it has`)

	ready := func(want, inMessage string) {
		t.Helper()
		suite.Eventually(t, "Ready="+want, func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy)
			c := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady)
			return c != nil && string(c.Status) == want && strings.Contains(c.Message, inMessage), err
		})
	}
	ready("False", `PriorityClass "not-yet" does not exist`)
	newClass(t, s, "not-yet", 9)
	ready("True", "in force")
}

// The list of one policy holds beside a heavier policy with another section.
func TestAllowList(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	newClass(t, s, "allowed", 1)
	newClass(t, s, "not-allowed", 2)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Weight: 1, Priority: &v1alpha1.PrioritySection{AllowedClassNames: []string{"allowed"}}})
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Weight: 100, Priority: &v1alpha1.PrioritySection{ClassName: "not-allowed"}})

	err := s.Client.Create(t.Context(), newPod(ns, class("not-allowed")))
	if err == nil || !strings.Contains(err.Error(), `PriorityClass "not-allowed" is not allowed here`) || !strings.Contains(err.Error(), "allows allowed") {
		t.Errorf("want a refusal that names the classes allowed, got %v", err)
	}
	p, warnings := mustCreate(t, s, newPod(ns))
	if p.Spec.PriorityClassName != "" {
		t.Errorf("got class %q, which is not allowed", p.Spec.PriorityClassName)
	}
	wantWarning(t, warnings, "does not allow it")
}

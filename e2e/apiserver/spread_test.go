package apiserver

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
)

func zoneAndHost() v1alpha1.PodPolicySpec {
	return v1alpha1.PodPolicySpec{TopologySpread: &v1alpha1.TopologySpreadSection{Constraints: []v1alpha1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway},
		{MaxSkew: 2, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway},
	}}}
}

func ownedBy(rs *appsv1.ReplicaSet) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Labels = rs.Spec.Template.Labels
		p.Name, p.GenerateName = "", rs.Name+"-"
		p.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rs, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))}
	}
}

func newReplicaSet(namespace string) *appsv1.ReplicaSet {
	labels := map[string]string{"app": "web", "pod-template-hash": "abc"}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-abc"},
		Spec: appsv1.ReplicaSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: newPod("").Spec},
		},
	}
}

// matchLabelKeys is merged into the selector after mutation and before validation. That is no drift: the pod passes, and
// its selector is what the scheduler would have derived. The ReplicaSet is a moment old, as for the first pods of a real
// one: the informer need not have it.
func TestMatchLabelKeysMerge(t *testing.T) {
	s := shared.Get(t)
	s.Since(t, suite.MergesMatchLabelKeys, "matchLabelKeys that are merged into the selector")
	ns := s.Namespace(t)
	s.Policy(t, ns, zoneAndHost())
	rs := newReplicaSet(ns)
	s.Create(t, rs)
	p, warnings := mustCreate(t, s, newPod(ns, ownedBy(rs)))
	selector := &metav1.LabelSelector{
		MatchLabels:      map[string]string{"app": "web"},
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "pod-template-hash", Operator: metav1.LabelSelectorOpIn, Values: []string{"abc"}}},
	}
	want := []corev1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector, MatchLabelKeys: []string{"pod-template-hash"}},
		{MaxSkew: 2, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, LabelSelector: selector, MatchLabelKeys: []string{"pod-template-hash"}},
	}
	if diff := cmp.Diff(want, p.Spec.TopologySpreadConstraints); diff != "" {
		t.Error(diff)
	}
	if len(warnings) > 0 {
		t.Errorf("unexpected warnings %q", warnings)
	}
}

// A pod of a controller has an empty name at mutation and a generated one at validation.
func TestGenerateName(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, gives(v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(40))}))
	p, _ := mustCreate(t, s, newPod(ns, func(p *corev1.Pod) { p.Name, p.GenerateName = "", "web-" }))
	if p.Name == "" || *p.Spec.TerminationGracePeriodSeconds != 40 {
		t.Errorf("got name %q, grace %d", p.Name, *p.Spec.TerminationGracePeriodSeconds)
	}
}

func TestNoSelectorNoConstraint(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, zoneAndHost())
	p, warnings := mustCreate(t, s, newPod(ns))
	if p.Spec.TopologySpreadConstraints != nil {
		t.Errorf("got %v", p.Spec.TopologySpreadConstraints)
	}
	if len(warnings) > 0 { // nobody can act on them: a pod without a controller is alone
		t.Errorf("warnings %q", warnings)
	}
}

// A Service that selects the pod gives the selector, once the informer has it.
func TestSelectorFromServices(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, zoneAndHost())
	s.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Port: 80}}}})
	suite.Eventually(t, "constraints from the Service", func(ctx context.Context) (bool, error) {
		p := newPod(ns)
		err := s.Client.Create(ctx, p, client.DryRunAll)
		return len(p.Spec.TopologySpreadConstraints) == 2 && cmp.Equal(p.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels, map[string]string{"app": "web"}), err
	})
}

// A hard constraint that no node can meet now is said, softened or refused.
func TestInfeasible(t *testing.T) {
	s := shared.Get(t)
	if err := s.AddNode(t.Context(), "no-rack", map[string]string{corev1.LabelHostname: "no-rack"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "no-rack"}})
	})
	rule := v1alpha1.OwnerRule{APIGroup: "example.com", Kind: "App", LabelKeys: []string{"app"}}
	owned := func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.com/v1", Kind: "App", Name: "a", UID: "1", Controller: new(true)}}
	}
	for action, want := range map[v1alpha1.InfeasibleAction]string{
		v1alpha1.InfeasibleWarn:   "DoNotSchedule",
		v1alpha1.InfeasibleSoften: "ScheduleAnyway",
		v1alpha1.InfeasibleDeny:   "",
	} {
		t.Run(string(action), func(t *testing.T) {
			ns := s.Namespace(t)
			s.Policy(t, ns, v1alpha1.PodPolicySpec{TopologySpread: &v1alpha1.TopologySpreadSection{
				OnInfeasible: action, OwnerRules: []v1alpha1.OwnerRule{rule},
				Constraints: []v1alpha1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "example.com/rack", WhenUnsatisfiable: corev1.DoNotSchedule}},
			}})
			suite.Eventually(t, "the node known to the webhook", func(ctx context.Context) (bool, error) {
				kube, warnings := s.Warned(t, "")
				err := kube.Create(ctx, newPod(ns, owned), client.DryRunAll)
				return err != nil || len(warnings.Take()) > 0, nil
			})
			p := newPod(ns, owned)
			kube, warnings := s.Warned(t, "")
			err := kube.Create(t.Context(), p, client.DryRunAll)
			if want == "" {
				if err == nil {
					t.Error("want a refusal")
				}
				return
			}
			if err != nil || len(p.Spec.TopologySpreadConstraints) != 1 || string(p.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable) != want {
				t.Errorf("got %v, %v; want %s", p.Spec.TopologySpreadConstraints, err, want)
			}
			wantWarning(t, warnings.Take(), "no node that the pod may use has the label example.com/rack")
		})
	}
}

package controlplane

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
)

// The first pods of a new Deployment come before any informer has its ReplicaSet; each gets its constraints all the same,
// and the scheduler keeps them. The second revision spreads by itself: the first one fills a zone, and were it counted too, the second
// would have to keep out of there.
func TestRolloutSpreadsEachRevision(t *testing.T) {
	s := start(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{TopologySpread: zoneAndHost(1)})
	d := deployment(ns, "web", 6, func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{corev1.LabelTopologyZone: "zone-a"} })
	// Nothing says that a pod is ready, so that both revisions are there whole.
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxSurge: new(intstr.FromString("100%")), MaxUnavailable: new(intstr.FromInt32(0))}
	s.Create(t, d)
	old := bound(t, s, ns, 6)[0].Labels[appsv1.DefaultDeploymentUniqueLabelKey]
	patch := client.MergeFrom(d.DeepCopy())
	d.Spec.Template.Spec.NodeSelector = nil
	if err := s.Client.Patch(t.Context(), d, patch); err != nil {
		t.Fatal(err)
	}

	pods := bound(t, s, ns, 12)
	first, second := []corev1.Pod{}, []corev1.Pod{}
	for _, p := range pods {
		if p.Labels[appsv1.DefaultDeploymentUniqueLabelKey] == old {
			first = append(first, p)
		} else {
			second = append(second, p)
		}
		if s.Minor(t) >= suite.MergesMatchLabelKeys {
			countsItsRevision(t, &p, pods)
		}
	}
	for _, revision := range []struct {
		name         string
		pods         []corev1.Pod
		zones, nodes map[string]int
	}{
		{"first", first, map[string]int{"zone-a": 6}, map[string]int{"node-0": 3, "node-3": 3}},
		{"second", second, map[string]int{"zone-a": 2, "zone-b": 2, "zone-c": 2}, map[string]int{"node-0": 1, "node-1": 1, "node-2": 1, "node-3": 1, "node-4": 1, "node-5": 1}},
	} {
		if diff := cmp.Diff(revision.zones, perZone(revision.pods)); diff != "" {
			t.Errorf("zones of the %s revision (-want +got):\n%s", revision.name, diff)
		}
		nodes := map[string]int{}
		for _, p := range revision.pods {
			nodes[p.Spec.NodeName]++
		}
		if diff := cmp.Diff(revision.nodes, nodes); diff != "" {
			t.Errorf("nodes of the %s revision (-want +got):\n%s", revision.name, diff)
		}
	}
}

// countsItsRevision fails unless each of the pod's constraints, as the API server has it, counts the pods of its revision, which are one
// half, and no others. The API server merges matchLabelKeys into the selector (pkg/registry/core/pod/strategy.go, 1.36.3).
func countsItsRevision(t *testing.T, p *corev1.Pod, pods []corev1.Pod) {
	t.Helper()
	const key = appsv1.DefaultDeploymentUniqueLabelKey
	var over []string
	for _, c := range p.Spec.TopologySpreadConstraints {
		over = append(over, c.TopologyKey)
		if !slices.Equal(c.MatchLabelKeys, []string{key}) {
			t.Errorf("pod %s: the constraint over %s has the matchLabelKeys %q", p.Name, c.TopologyKey, c.MatchLabelKeys)
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			t.Fatal(err)
		}
		counted := map[string]int{}
		for _, other := range pods {
			if selector.Matches(labels.Set(other.Labels)) {
				counted[other.Labels[key]]++
			}
		}
		if diff := cmp.Diff(map[string]int{p.Labels[key]: len(pods) / 2}, counted); diff != "" {
			t.Errorf("pod %s: the constraint over %s counts by %s (-want +got, by revision):\n%s", p.Name, c.TopologyKey, selector, diff)
		}
	}
	if !slices.Equal(over, []string{corev1.LabelTopologyZone, corev1.LabelHostname}) {
		t.Errorf("pod %s has constraints over %q", p.Name, over)
	}
}

func TestControllersGetWhatThePolicyGives(t *testing.T) {
	s := start(t)
	ns := s.Namespace(t)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "controllers"}, Value: 11}
	s.Create(t, class)
	spread := zoneAndHost(2)
	spread.OwnerRules = []v1alpha1.OwnerRule{{APIGroup: "batch", Kind: "Job", LabelKeys: []string{batchv1.JobNameLabel}}}
	s.Policy(t, ns, v1alpha1.PodPolicySpec{
		Priority: &v1alpha1.PrioritySection{ClassName: "controllers"}, TopologySpread: spread,
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(50))},
		Node:        &v1alpha1.Enforcement{OOM: &v1alpha1.OOMEnforcement{Rank: 3}},
	})
	suite.Eventually(t, "the class known", func(ctx context.Context) (bool, error) {
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe"}, Spec: template("x").Spec}
		err := s.Client.Create(ctx, probe, client.DryRunAll)
		return probe.Spec.PriorityClassName == "controllers", err
	})
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	job := template("a")
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "sts"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1)), Selector: selector, Template: template("a")}})
	s.Create(t, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "job"}, Spec: batchv1.JobSpec{Template: job}})
	s.Create(t, &corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "rc"}, Spec: corev1.ReplicationControllerSpec{Replicas: new(int32(1)), Selector: selector.MatchLabels, Template: new(template("a"))}})
	onSix := template("a", func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"e2e": "six"} })
	s.Create(t, &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "ds"}, Spec: appsv1.DaemonSetSpec{Selector: selector, Template: onSix}})
	for _, p := range bound(t, s, ns, 3+6) {
		kind := p.OwnerReferences[0].Kind
		// given is what the policy gives to a pod.
		type given struct {
			class, enforcement string
			priority           int32
			grace              int64
			constraints        int
		}
		want := given{class: "controllers", enforcement: `{"oom":{"rank":3}}`, priority: 11, grace: 50, constraints: 2}
		if kind == "DaemonSet" {
			want.constraints = 0 // pinned to its node
		}
		got := given{
			class: p.Spec.PriorityClassName, enforcement: p.Annotations[v1alpha1.AnnotationEnforcement], priority: *p.Spec.Priority,
			grace: *p.Spec.TerminationGracePeriodSeconds, constraints: len(p.Spec.TopologySpreadConstraints),
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(given{})); diff != "" {
			t.Errorf("pod of a %s (-want +got):\n%s\nthe webhook counts:\n%s", kind, diff, s.Counted(t, ns))
			continue
		}
		if kind == "Job" && p.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels[batchv1.JobNameLabel] != "job" {
			t.Errorf("the Job's pod has the selector %v", p.Spec.TopologySpreadConstraints[0].LabelSelector)
		}
	}
}

// minDomains that can't be met and a maxSkew that is used up: the next pod would stay Pending, and is softened instead.
func TestMinDomains(t *testing.T) {
	s := start(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{TopologySpread: &v1alpha1.TopologySpreadSection{
		OnInfeasible: v1alpha1.InfeasibleSoften,
		Constraints:  []v1alpha1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: new(int32(5))}},
	}})
	d := deployment(ns, "web", 3)
	s.Create(t, d)
	for _, p := range bound(t, s, ns, 3) {
		if got := p.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable; got != corev1.DoNotSchedule {
			t.Errorf("three zones have room for three pods, but %s has %s", p.Name, got)
		}
	}
	// The webhook's informer of pods follows the scheduler's bindings; scale up once it has them.
	probe := func(ctx context.Context) (bool, error) {
		p := bound(t, s, ns, 3)[0].DeepCopy()
		p = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "probe", Labels: p.Labels, OwnerReferences: p.OwnerReferences}, Spec: template("web").Spec}
		err := s.Client.Create(ctx, p, client.DryRunAll)
		return err == nil && p.Spec.TopologySpreadConstraints[0].WhenUnsatisfiable == corev1.ScheduleAnyway, err
	}
	suite.Eventually(t, "the three pods known to the webhook", probe)
	patch := client.MergeFrom(d.DeepCopy())
	d.Spec.Replicas = new(int32(4))
	if err := s.Client.Patch(t.Context(), d, patch); err != nil {
		t.Fatal(err)
	}
	bound(t, s, ns, 4)
}

// Whoever applies a workload is warned about what its pods will meet; nothing is refused, and nobody else is told.
func TestWorkloadWarnings(t *testing.T) {
	s := start(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{
		GracePeriod:    &v1alpha1.GracePeriodSection{PreStopMarginSeconds: new(int64(10))},
		TopologySpread: &v1alpha1.TopologySpreadSection{Constraints: []v1alpha1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "example.com/rack", WhenUnsatisfiable: corev1.DoNotSchedule}}},
	})
	kube, warnings := s.Warned(t, "")
	hooked := jobTemplate()
	preStop("25")(&hooked.Spec)
	for name, tc := range map[string]struct {
		object client.Object
		want   string
	}{
		"unknown class":    {deployment(ns, "unknown-class", 0, func(p *corev1.PodSpec) { p.PriorityClassName = "nowhere" }), "its pods will be refused: no PriorityClass with name nowhere was found"},
		"infeasible":       {deployment(ns, "infeasible", 0), "the hard spread constraint over example.com/rack can't be met now"},
		"short for hook":   {deployment(ns, "short", 0, preStop("25")), "is now 35, not 30: PodPolicy"},
		"unknown for hook": {&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "hook"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "hook"}}, Template: template("hook", preStop("drain"))}}, "how long it takes is not known"},
		"CronJob":          {&batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "cron"}, Spec: batchv1.CronJobSpec{Schedule: "@yearly", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: hooked}}}}, "is now 35, not 30: PodPolicy"},
		"ReplicationController": {&corev1.ReplicationController{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "rc"}, Spec: corev1.ReplicationControllerSpec{
			Replicas: new(int32(0)), Selector: map[string]string{"app": "rc"}, Template: new(template("rc", preStop("25"))),
		}}, "is now 35, not 30: PodPolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := kube.Create(t.Context(), tc.object); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = kube.Delete(context.Background(), tc.object) })
			got := warnings.Take()
			if all := strings.Join(got, "\n"); !strings.Contains(all, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
	t.Run("scaling is no news", func(t *testing.T) {
		d := deployment(ns, "scaled", 0)
		if err := kube.Create(t.Context(), d); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = kube.Delete(context.Background(), d) })
		if len(warnings.Take()) == 0 {
			t.Fatal("no warning at creation")
		}
		patch := client.MergeFrom(d.DeepCopy())
		d.Spec.Paused = true
		if err := kube.Patch(t.Context(), d, patch); err != nil {
			t.Fatal(err)
		}
		if got := warnings.Take(); len(got) > 0 {
			t.Errorf("warned again: %q", got)
		}
	})
}

func preStop(command string) func(*corev1.PodSpec) {
	return func(p *corev1.PodSpec) {
		p.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sleep", command}}}}
	}
}

func jobTemplate() corev1.PodTemplateSpec {
	t := template("job")
	t.Spec.RestartPolicy = corev1.RestartPolicyNever
	return t
}

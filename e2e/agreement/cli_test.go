package agreement

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
)

// The program itself, with a live cluster for state and policies.
func TestProgramWithACluster(t *testing.T) {
	s := shared.Get(t)
	if err := s.AddNode(t.Context(), "of-the-cli", nil); err != nil {
		t.Fatal(err)
	}
	ns := s.Namespace(t)
	policy := s.Policy(t, ns, v1alpha1.PodPolicySpec{
		GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(45))},
		Removal:     &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll},
	})
	s.Policy(t, s.Namespace(t), v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(1))}}) // for none of it
	stored(t, s, ns, "p", bound("of-the-cli"))
	preempted(t, s, ns, "of-the-cli")
	given := spreadByPolicy(t, s)
	podgrace := build(t)
	kubeconfig, err := s.KubeconfigFor("cli", masters)
	if err != nil {
		t.Fatal(err)
	}
	manifest := "{apiVersion: v1, kind: Pod, metadata: {name: q, namespace: " + ns + "}, spec: {containers: [{name: c, image: i}]}}"
	for name, test := range map[string]struct {
		stdin string
		args  []string
		code  int
		says  []string
	}{
		"review":  {manifest, []string{"review", "-f", "-", "--details"}, 0, []string{"WARNED", "Pod " + ns + "/q", "+   terminationGracePeriodSeconds: 45", policy.Name}},
		"what if": {manifest, []string{"review", "-f", "-", "--operation", "delete", "--grace-period", "0", "--as", "jane"}, 1, []string{"DENIED", "may still run"}},
		"explain": {"", []string{"explain", "-n", ns, "p"}, 0, []string{ns + "/p", "on of-the-cli", "at least 45 s", "delete --force  REFUSED", "For cli now"}},
		"explain a preempted": {"", []string{"explain", "-n", ns, "small"}, 0, []string{
			"Preempted by the scheduler, for " + ns + "/big (as its Event says), at ", "preempting to accommodate a higher priority pod",
			"PodDisruptionBudget small allows no disruption", "a scale-down by the cluster-autoscaler",
		}},
		"its own constraints": {"", []string{"explain", "-n", given, "spread"}, 0, []string{"Counts app=spread; selector from the Service that selects it", "gives them to pods that have none"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := run(t, podgrace, test.stdin, append(test.args, "--kubeconfig", kubeconfig)...)
			if code != test.code {
				t.Errorf("exit %d, want %d", code, test.code)
			}
			for _, words := range test.says {
				if !strings.Contains(out, words) {
					t.Errorf("does not say %q", words)
				}
			}
			if strings.Contains(out, "it is for none of what was reviewed") {
				t.Error("remarks on others' policies of the cluster")
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// preempted stores a pod of a node that the scheduler is about to remove for another one, with a budget, in a cluster with a cluster-autoscaler.
func preempted(t *testing.T, s *suite.Suite, namespace, node string) {
	t.Helper()
	p := stored(t, s, namespace, "small", func(p *corev1.Pod) {
		bound(node)(p)
		p.Labels = map[string]string{"app": "small"}
	})
	p.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: corev1.PodReasonPreemptionByScheduler, LastTransitionTime: metav1.Now(),
		Message: "default-scheduler: preempting to accommodate a higher priority pod",
	}}
	if err := s.Client.Status().Update(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	app := &metav1.LabelSelector{MatchLabels: p.Labels}
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "small"}, Spec: policyv1.PodDisruptionBudgetSpec{Selector: app}}
	s.Create(t, budget)
	budget.Status = policyv1.PodDisruptionBudgetStatus{ObservedGeneration: budget.Generation, ExpectedPods: 1}
	if err := s.Client.Status().Update(t.Context(), budget); err != nil {
		t.Fatal(err)
	}
	s.Create(t, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, Name: "small.1"},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: p.Name, UID: p.UID},
		Related:        &corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: "big"},
		Reason:         "Preempted", Message: "Preempted by pod u9 on node " + node,
	})
	s.Create(t, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "cluster-autoscaler"}, Spec: appsv1.DeploymentSpec{
		Selector: app, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: p.Labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "localhost/cluster-autoscaler:1"}}}},
	}})
}

// What is in a cluster is reviewed by policies that are not in force there: the removals that they would refuse, and what they would make of its workloads. It takes
// nobody but one who may read, and changes nothing.
func TestReviewOfACluster(t *testing.T) {
	s := shared.Get(t)
	if err := s.AddNode(t.Context(), "of-the-review", nil); err != nil {
		t.Fatal(err)
	}
	ns := s.Namespace(t)
	stored(t, s, ns, "p", bound("of-the-review"))
	s.Create(t, stopped(ns, "web", 30))
	kubeconfig, err := s.KubeconfigFor("reader", "readers")
	if err != nil {
		t.Fatal(err)
	}
	// All of the API, so that it is the method that keeps it from writing.
	s.Grant(t, rbacv1.GroupKind, "readers", "", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"get", "list"}})
	coming := policyFile(t, &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "coming"}, Spec: v1alpha1.PodPolicySpec{
		Match:       &v1alpha1.PodMatch{NamespaceSelector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{corev1.LabelMetadataName: v1alpha1.LabelValue(ns)}}},
		GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(45))},
		Removal:     &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll},
	}})
	podgrace := build(t)
	for name, test := range map[string]struct {
		args      []string
		code      int
		says, not []string
	}{
		"created":            {nil, 0, []string{"WARNED", "Deployment " + ns + "/web", "30 → 45", "in the cluster"}, []string{"Node"}},
		"force-deleted":      {[]string{"--operation", "delete", "--grace-period", "0"}, 1, []string{"DENIED", "Pod " + ns + "/p", "may still run", "Node of-the-review"}, []string{"Deployment " + ns}},
		"of one namespace":   {[]string{"--operation", "delete", "--grace-period", "0", "-n", ns}, 1, []string{"DENIED", "Pod " + ns + "/p", "Reviewed 1 in the cluster"}, []string{"Node of-the-review"}},
		"evicted with grace": {[]string{"--operation", "evict", "-n", ns}, 0, []string{"Reviewed 1 in the cluster"}, []string{"DENIED"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := run(t, podgrace, "", append([]string{"review", "--kubeconfig", kubeconfig, "--policy", coming}, test.args...)...)
			if code != test.code {
				t.Errorf("exit %d, want %d", code, test.code)
			}
			for _, words := range test.says {
				if !strings.Contains(out, words) {
					t.Errorf("does not say %q", words)
				}
			}
			for _, words := range test.not {
				if strings.Contains(out, words) {
					t.Errorf("says %q", words)
				}
			}
			if t.Failed() {
				t.Log(out)
			}
		})
	}
}

// spreadByPolicy makes a pod to which a policy gives constraints, and returns its namespace.
func spreadByPolicy(t *testing.T, s *suite.Suite) string {
	t.Helper()
	ns, app := s.Namespace(t), map[string]string{"app": "spread"}
	s.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "spread"}, Spec: corev1.ServiceSpec{Selector: app, Ports: []corev1.ServicePort{{Port: 80}}}})
	s.Policy(t, ns, v1alpha1.PodPolicySpec{TopologySpread: &v1alpha1.TopologySpreadSection{Constraints: []v1alpha1.TopologySpreadConstraint{
		{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule},
	}}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "spread", Labels: app}, Spec: corev1.PodSpec{SchedulerName: "nobody", Containers: []corev1.Container{{Name: "main", Image: "localhost/none:1"}}}}
	suite.Eventually(t, "constraints by the Service", func(ctx context.Context) (bool, error) {
		asked := pod.DeepCopy()
		err := s.Client.Create(ctx, asked, client.DryRunAll)
		return len(asked.Spec.TopologySpreadConstraints) == 1, err
	})
	s.Create(t, pod)
	return ns
}

// build compiles podgrace.
func build(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "podgrace")
	if err := cluster.GoBuild(t.Context(), program, "cmd/podgrace"); err != nil {
		t.Fatal(err)
	}
	return program
}

// run returns the exit code and all that is printed.
func run(t *testing.T, program, stdin string, args ...string) (int, string) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &out
	cmd.Env = append(os.Environ(), "KUBECONFIG=/dev/null")
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

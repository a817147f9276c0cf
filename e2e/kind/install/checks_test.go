package install

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/e2e/suite"
)

// examples are applied in each installation.
var examples = []string{"production-web", "stateful", "batch"}

// exampleFiles are kubectl's flags for these files of examples, file by file; ".": the whole folder.
func (w *world) exampleFiles(examples []string, files ...string) []string {
	var flags []string
	for _, file := range files {
		for _, name := range examples {
			flags = append(flags, "--filename="+filepath.Join(w.lab.Dir, current, "examples", name, file))
		}
	}
	return flags
}

// applyExamples applies files of every example.
func (w *world) applyExamples(t *testing.T, files ...string) {
	t.Helper()
	if _, err := w.Kubectl(t.Context(), append([]string{"apply"}, w.exampleFiles(examples, files...)...)...); err != nil {
		t.Fatal(err)
	}
}

// applyPolicies applies the examples' policies and returns when every replica decides by them.
func (w *world) applyPolicies(t *testing.T) {
	t.Helper()
	w.applyExamples(t, "cluster.yaml", "policy.yaml")
	w.waitPolicies(t)
}

// waitPolicies returns when every replica decides by the policies that there are, and by no other.
func (w *world) waitPolicies(t *testing.T) {
	t.Helper()
	const metric = "podgrace_pod_policy_in_force_generation{"
	suite.EventuallyWithin(t, 2*time.Minute, "the policies in force in all replicas", func(ctx context.Context) (bool, error) {
		var policies v1alpha1.PodPolicyList
		if err := w.client.List(ctx, &policies); err != nil {
			return false, err
		}
		var want []string
		for _, p := range policies.Items {
			want = append(want, fmt.Sprintf("%spolicy=%q} %d", metric, p.Name, p.Generation))
		}
		slices.Sort(want)
		for _, pod := range w.webhookPods(t) {
			text, err := w.metrics(ctx, pod.Name)
			if err != nil {
				return false, err
			}
			lines := slices.DeleteFunc(strings.Split(text, "\n"), func(line string) bool { return !strings.HasPrefix(line, metric) })
			slices.Sort(lines)
			if !slices.Equal(lines, want) {
				return false, nil
			}
		}
		return len(want) > 0, nil
	})
}

// removeExamples deletes what the examples made and waits until it is gone: first the workloads, while their policies are in force.
func (w *world) removeExamples(t *testing.T) {
	t.Helper()
	for _, files := range [][]string{{"workloads.yaml"}, {"policy.yaml", "cluster.yaml"}} {
		if _, err := w.Kubectl(t.Context(), append([]string{"delete", "--ignore-not-found", "--timeout=4m"}, w.exampleFiles(examples, files...)...)...); err != nil {
			t.Error(err)
		}
	}
	w.lab.Logf("%s: examples are removed", t.Name())
}

// check is the suite: the examples' pods get their defaults and run, a force delete of a stateful one is refused through the
// Service, an ordinary delete is not, and both are counted.
func (w *world) check(t *testing.T) {
	t.Helper()
	w.applyPolicies(t)
	w.applyExamples(t, ".") // as a newcomer does
	defer w.removeExamples(t)
	pods := w.running(t, "data", "db", 3)
	for _, pod := range pods {
		if got := *pod.Spec.TerminationGracePeriodSeconds; got != 120 {
			t.Errorf("pod %s has %d s to stop, want 120", pod.Name, got)
		}
		if got := pod.Spec.PriorityClassName; got != "data" {
			t.Errorf("pod %s has priority class %q, want data", pod.Name, got)
		}
		if pod.Annotations[v1alpha1.AnnotationEnforcement] == "" {
			t.Errorf("pod %s has no annotation %s", pod.Name, v1alpha1.AnnotationEnforcement)
		}
		if len(pod.Spec.TopologySpreadConstraints) != 2 {
			t.Errorf("pod %s has constraints %v, want two", pod.Name, pod.Spec.TopologySpreadConstraints)
		}
	}
	w.waitInForce(t) // else nobody is asked
	_, err := w.Kubectl(t.Context(), "delete", "pod", "--namespace=data", "--grace-period=0", "--force", pods[0].Name)
	if err == nil || !strings.Contains(err.Error(), `admission webhook "delete.removal.podgrace.dev" denied the request`) {
		t.Errorf("a force delete of %s: got %v, want it refused", pods[0].Name, err)
	}
	if _, err := w.Kubectl(t.Context(), "delete", "pod", "--namespace=data", "--timeout=3m", pods[1].Name); err != nil {
		t.Errorf("an ordinary delete: %v", err)
	}
	w.checkMetrics(t)
	w.lab.Logf("%s: examples have their defaults and are guarded", t.Name())
	w.checkNode(t)
	w.lab.Logf("%s: the node's files are checked", t.Name())
	w.checkFencer(t)
	w.lab.Logf("%s: the fencer is checked", t.Name())
}

// checkNode: what the example's policy asks of the node is in the kernel's files of its pods once a NodePolicy writes, and not before.
func (w *world) checkNode(t *testing.T) {
	t.Helper()
	var enforcers, pods corev1.PodList
	err := errors.Join(
		w.client.List(t.Context(), &enforcers, client.InNamespace(nodeNamespace), client.MatchingLabels{"app.kubernetes.io/name": "podgrace-nodeenforcer"}),
		w.client.List(t.Context(), &pods, client.InNamespace("shop"), client.MatchingLabels{"app": "frontend"}))
	if err != nil || len(enforcers.Items) == 0 || len(pods.Items) == 0 {
		t.Fatalf("%d node enforcers, %d pods, %v", len(enforcers.Items), len(pods.Items), err)
	}
	name := pods.Items[0].Namespace + "/" + pods.Items[0].Name
	// The weight of 200, in what the node's version of cgroups has for it.
	shares := func(ctx context.Context) (string, error) {
		out, err := w.Kubectl(ctx, "exec", "--namespace="+nodeNamespace, enforcers.Items[0].Name, "--", "/usr/local/bin/nodeenforcer", "plan", "-o=json", "--node-name="+kind.Node, "--cgroup-root=/host/cgroup")
		if err != nil {
			return "", err
		}
		var plan nodeplan.NodePlan
		if err := json.Unmarshal([]byte(out), &plan); err != nil {
			return "", err
		}
		at := slices.IndexFunc(plan.Cgroups, func(c nodeplan.Cgroup) bool { return c.Level == "pod" && c.Pod == name })
		if at < 0 {
			return "", fmt.Errorf("the plan does not have pod %s", name)
		}
		return w.lab.Docker.Run(ctx, "exec", kind.Node, "sh", "-c", `cat "/sys/fs/cgroup/cpu$1/cpu.shares" 2>/dev/null || cat "/sys/fs/cgroup$1/cpu.weight"`, "shares", path.Join("/", plan.Cgroups[at].Path))
	}
	asked := []string{"5219", "200"}
	if kubelets, err := shares(t.Context()); err != nil || slices.Contains(asked, kubelets) {
		t.Errorf("without a NodePolicy %s has %q, %v", name, kubelets, err)
	}
	tune := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "tune"}, Spec: v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune}}
	if err := w.client.Create(t.Context(), tune); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.client.Delete(context.WithoutCancel(t.Context()), tune); err != nil {
			t.Error(err)
		}
	}()
	suite.EventuallyWithin(t, 2*time.Minute, "the weight that the policy asks for", func(ctx context.Context) (bool, error) {
		now, err := shares(ctx)
		if err == nil && !slices.Contains(asked, now) {
			err = fmt.Errorf("%s has %q", name, now)
		}
		return err == nil, err
	})
}

// checkFencer: a fencer leads, by the rights and the image that it is installed with, and says of a policy what it can do here: nothing. The only node is of the control plane, and no agent knows those that
// tests have made.
func (w *world) checkFencer(t *testing.T) {
	t.Helper()
	example := filepath.Join(w.lab.Dir, current, "examples", "fencing")
	if _, err := w.Kubectl(t.Context(), "apply", "--filename="+example); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if _, err := w.Kubectl(t.Context(), "delete", "--ignore-not-found", "--timeout=2m", "--filename="+example); err != nil {
			t.Error(err)
		}
	}()
	suite.EventuallyWithin(t, 2*time.Minute, "the fencer's word on the policy", func(ctx context.Context) (bool, error) {
		var p v1alpha1.FencePolicy
		if err := w.client.Get(ctx, client.ObjectKey{Name: "workers"}, &p); err != nil {
			return false, err
		}
		ready := meta.FindStatusCondition(p.Status.Conditions, "Ready")
		if ready == nil || ready.Reason != "NoNodes" && ready.Reason != "NoAgent" {
			return false, fmt.Errorf("its conditions are %v", p.Status.Conditions)
		}
		return true, nil
	})
}

// running waits until a StatefulSet's pods are ready, and returns them.
func (w *world) running(t *testing.T, ns, name string, replicas int32) []corev1.Pod {
	t.Helper()
	suite.EventuallyWithin(t, 3*time.Minute, "pods of "+name, func(ctx context.Context) (bool, error) {
		var set appsv1.StatefulSet
		if err := w.client.Get(ctx, client.ObjectKey{Namespace: ns, Name: name}, &set); err != nil {
			return false, err
		}
		return set.Status.ReadyReplicas == replicas, nil
	})
	var pods corev1.PodList
	if err := w.client.List(t.Context(), &pods, client.InNamespace(ns), client.MatchingLabels{"app": name}); err != nil {
		t.Fatal(err)
	}
	return pods.Items
}

// checkMetrics: some replica counted the refusal, some the pods that were changed, and they say their version.
func (w *world) checkMetrics(t *testing.T) {
	t.Helper()
	var all strings.Builder
	for _, pod := range w.webhookPods(t) {
		text, err := w.metrics(t.Context(), pod.Name)
		if err != nil {
			t.Fatal(err)
		}
		all.WriteString(text + "\n")
	}
	for _, want := range []string{"podgrace_build_info{", "podgrace_pod_changes_total{", "podgrace_removals_total{"} {
		if !strings.Contains(all.String(), "\n"+want) {
			t.Errorf("no replica has the metric %s...", want)
		}
	}
}

// checkGone: nothing of Podgrace is left.
func (w *world) checkGone(t *testing.T) {
	t.Helper()
	out, err := w.Kubectl(t.Context(), "get", "mutatingwebhookconfigurations,validatingwebhookconfigurations,validatingadmissionpolicies,validatingadmissionpolicybindings",
		"--selector=app.kubernetes.io/part-of=podgrace", "--output=name")
	if err != nil || out != "" {
		t.Errorf("left behind: %s (%v)", out, err)
	}
	if out, err := w.Kubectl(t.Context(), append([]string{"get", "--ignore-not-found", "--output=name"}, definitions...)...); err != nil || out != "" {
		t.Errorf("left behind: %s (%v)", out, err)
	}
}

// checkNodesClean: no Node has a taint or a condition of a node enforcer.
func (w *world) checkNodesClean(t *testing.T) {
	t.Helper()
	out, err := w.Kubectl(t.Context(), "get", "nodes", "--output=jsonpath={.items[*].status.conditions[*].type} {.items[*].spec.taints[*].key}")
	if err != nil || strings.Contains(strings.ToLower(out), "podgrace") {
		t.Errorf("Nodes have %s (%v)", out, err)
	}
}

// checkNothingActs: what is left of the cluster works, and nothing of Podgrace acts.
func (w *world) checkNothingActs(t *testing.T) {
	t.Helper()
	const ns = "afterwards"
	for _, args := range [][]string{
		{"create", "namespace", ns},
		{"create", "deployment", "--namespace=" + ns, "still", "--image=localhost/podgrace/pause:1", "--replicas=2"},
		{"rollout", "status", "--namespace=" + ns, "deployment/still", "--timeout=2m"},
		{"delete", "pod", "--namespace=" + ns, "--all", "--grace-period=0", "--force"},
		{"rollout", "status", "--namespace=" + ns, "deployment/still", "--timeout=2m"},
		// If a namespace still has pods, its controller waits for half their grace period before it looks again.
		{"delete", "deployment", "--namespace=" + ns, "still", "--cascade=foreground", "--timeout=2m"},
		{"delete", "namespace", ns, "--timeout=3m"},
	} {
		if _, err := w.Kubectl(t.Context(), args...); err != nil {
			t.Errorf("after the removal: %v", err)
		}
	}
	w.lab.Logf("%s: nothing acts any more", t.Name())
}

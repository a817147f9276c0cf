package install

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/kind"
	"github.com/podgrace/podgrace/e2e/suite"
)

// A pod network that the control plane has no route to: nothing is refused and everything goes on, the policy's status and the doctor say why; and on the
// nodes' network it works (docs/install.md, Where API servers can't reach pods).
func TestOverlayThatAPIServersCantReach(t *testing.T) {
	w := get(t)
	w.cutOff(t)
	w.install(t, helm, selfManaged, current)
	// One example: the API server waits for each call that is dropped.
	if _, err := w.Kubectl(t.Context(), append([]string{"apply"}, w.exampleFiles([]string{"stateful"}, "cluster.yaml", "policy.yaml", "workloads.yaml")...)...); err != nil {
		t.Fatal(err)
	}
	w.lab.Logf("%s: examples are applied", t.Name())
	defer w.removeExamples(t)
	w.waitGuard(t, "waiting for an answer", func(ready string) bool { return ready == v1alpha1.ReasonGuardWaiting })
	pods := w.running(t, "data", "db", 3) // whose grace is less than the policy's bound: nobody raises it, and nobody refuses them for it
	if _, err := w.Kubectl(t.Context(), "delete", "pod", "--namespace=data", "--grace-period=0", "--force", pods[0].Name); err != nil {
		t.Errorf("a force delete while nobody can be asked: %v", err)
	}
	if said, err := w.podgrace(t, "doctor"); err == nil || !strings.Contains(said, "the API server can't reach the webhook's pods") {
		t.Errorf("the doctor ends with %v:\n%s", err, said)
	}
	w.lab.Logf("%s: nothing is refused, and the doctor tells why", t.Name())
	// One node has room for one.
	w.install(t, helmWith("webhook.hostNetwork=true", "webhook.replicas=1"), selfManaged, current)
	w.waitInForce(t) // by one answer; a connection that is recreated may still lead to a replica that can't be reached, and is not refused by Podgrace then
	w.waitEnd(t, "the replicas in the pod network", func(pod corev1.Pod) bool { return !pod.Spec.HostNetwork })
	w.lab.Logf("%s: the replicas in the pod network have ended", t.Name())
	pods = w.running(t, "data", "db", 3)
	_, err := w.Kubectl(t.Context(), "delete", "pod", "--namespace=data", "--grace-period=0", "--force", pods[0].Name)
	if err == nil || !strings.Contains(err.Error(), `admission webhook "delete.removal.podgrace.dev" denied the request`) {
		t.Errorf("a force delete of %s: got %v, want it refused", pods[0].Name, err)
	}
	w.removeExamples(t)
	w.uninstall(t, helm, selfManaged)
}

// podgrace runs the command line, as whoever has installed Podgrace, and returns what it prints.
func (w *world) podgrace(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return w.podgraceAs(t, w.Kubeconfig, args...)
}

// podgraceAs runs the command line by a kubeconfig.
func (w *world) podgraceAs(t *testing.T, kubeconfig string, args ...string) (string, error) {
	t.Helper()
	program, err := w.commandLine()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+kubeconfig)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// cutOff drops what the API server, which is on the node's own network, sends to the webhook's port of pods, until the test ends.
func (w *world) cutOff(t *testing.T) {
	t.Helper()
	var node corev1.Node
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: kind.Node}, &node); err != nil {
		t.Fatal(err)
	}
	rule := []string{"OUTPUT", "--protocol", "tcp", "--destination", node.Spec.PodCIDR, "--destination-port", "9443", "--jump", "DROP"}
	iptables := func(ctx context.Context, what string) error {
		_, err := w.lab.Docker.Run(ctx, slices.Concat([]string{"exec", kind.Node, "iptables", "--wait", what}, rule)...)
		return err
	}
	if err := iptables(t.Context(), "--insert"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := iptables(context.Background(), "--delete"); err != nil {
			t.Error(err)
		}
	})
}

// waitInForce returns when the removal guard is armed for the policies that there are now: the leader arms it, and if it is killed before that, what nobody can judge is let through.
func (w *world) waitInForce(t *testing.T) {
	t.Helper()
	w.waitGuard(t, "in force", func(ready string) bool { return ready == v1alpha1.ReasonValid })
}

// waitGuard returns when the reason of each policy that guards removals is as wanted.
func (w *world) waitGuard(t *testing.T, what string, wanted func(reason string) bool) {
	t.Helper()
	suite.EventuallyWithin(t, 2*time.Minute, "the removal guard "+what, func(ctx context.Context) (bool, error) {
		var policies v1alpha1.PodPolicyList
		if err := w.client.List(ctx, &policies); err != nil {
			return false, err
		}
		guards := 0
		for _, p := range policies.Items {
			if p.Spec.Removal == nil {
				continue
			}
			guards++
			if ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady); ready == nil || !wanted(ready.Reason) {
				return false, nil
			}
		}
		return guards > 0, nil
	})
}

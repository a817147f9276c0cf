package faults

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// The guard refuses what nobody answers about only where a policy asks for it and after a replica has answered; it can be switched off while
// none does, in a way that outlives whatever applies the manifests again; and it goes with Podgrace's namespace.
func TestGuardIsArmedWhenItCanAnswer(t *testing.T) {
	a := newArmory(t)
	a.stop(t)
	a.lets(t, "no policy")
	policy := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{}}}
	a.create(t, policy)
	a.lets(t, "a policy, and nobody has ever answered by it")

	a.start(t)
	a.ready(t, policy, metav1.ConditionTrue, v1alpha1.ReasonValid)
	a.saysArmed(t, "admissions judgedremovals guardednamespaces guardednodes closedlimits inforceversions")
	a.stop(t)
	a.refuses(t) // from the moment that the status says so

	a.patchRole(t, switchOff(t))
	a.saysArmed(t, "")
	a.lets(t, "switched off")
	a.applyAgain(t)
	a.start(t)
	a.ready(t, policy, metav1.ConditionFalse, v1alpha1.ReasonGuardOff)
	a.stop(t)
	a.lets(t, "still switched off")

	a.start(t)
	a.patchRole(t, `{"metadata":{"annotations":{"podgrace.dev/guard":null}}}`)
	a.ready(t, policy, metav1.ConditionTrue, v1alpha1.ReasonValid)
	a.applyAgain(t)
	a.stop(t)
	a.refuses(t)

	a.start(t)
	if err := a.kube.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	a.armed(t, false)
	again := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}, Spec: policy.Spec}
	a.create(t, again)
	a.ready(t, again, metav1.ConditionTrue, v1alpha1.ReasonValid) // the Role alone does not say that the API server has seen it
	a.stop(t)
	a.refuses(t)
	if err := a.kube.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "podgrace-system"}}); err != nil {
		t.Fatal(err)
	}
	a.lets(t, "the namespace is gone, or going")
	var left admissionregistrationv1.ValidatingWebhookConfiguration
	if err := a.kube.Get(t.Context(), types.NamespacedName{Name: certs.ConfigurationName}, &left); err != nil {
		t.Errorf("so that nothing shows that it is the guard which is gone: %v", err)
	}
}

// Limits that fail closed are armed as the guard is: they refuse pods about which nobody answers only where there is a policy, after a replica has answered; they can be switched off while
// none does; and they go with Podgrace's namespace. An installation whose replicas never come up holds up no pod.
func TestLimitsFailClosedWhenTheyCanAnswer(t *testing.T) {
	const limits = "pods.validate.podgrace.dev"
	a := newArmory(t)
	a.resource, a.asks = controllers.ResourceClosedLimits, func(ctx context.Context) error {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "localhost/none:1"}}}}
		return a.kube.Create(ctx, p, client.DryRunAll)
	}
	suite.Eventually(t, "a service account", func(ctx context.Context) (bool, error) {
		err := a.kube.Get(ctx, client.ObjectKey{Namespace: "default", Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
	a.stop(t)
	a.failClosed(t)
	a.lets(t, "no policy")
	policy := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Spec: v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MaxSeconds: new(int64(60))}}}
	a.create(t, policy)
	a.lets(t, "a policy, and nobody has ever answered by it")

	a.start(t)
	a.armed(t, true)
	a.stop(t)
	suite.InForce(t, limits, a.asks, "failed calling webhook")

	a.patchRole(t, switchOff(t))
	a.lets(t, "switched off")
	a.applyAgain(t)
	a.start(t)
	a.armed(t, false)
	a.patchRole(t, `{"metadata":{"annotations":{"podgrace.dev/guard":null}}}`)
	a.armed(t, true)
	a.applyAgain(t)
	a.stop(t)
	suite.InForce(t, limits, a.asks, "failed calling webhook")

	a.start(t)
	if err := a.kube.Delete(t.Context(), policy); err != nil {
		t.Fatal(err)
	}
	a.armed(t, false)
	a.stop(t)
	a.lets(t, "no policy any more")
	a.create(t, &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "limits"}, Spec: policy.Spec})
	a.start(t)
	a.armed(t, true)
	a.stop(t)
	suite.InForce(t, limits, a.asks, "failed calling webhook")
	if err := a.kube.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "podgrace-system"}}); err != nil {
		t.Fatal(err)
	}
	a.lets(t, "the namespace is gone, or going")
}

// failClosed changes the webhook configuration as the component does.
func (a *armory) failClosed(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile("../../deploy/components/limits-fail-closed/kustomization.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var component struct{ Patches []struct{ Patch string } }
	if err := yaml.Unmarshal(text, &component); err != nil || len(component.Patches) != 1 {
		t.Fatalf("%d patches, %v", len(component.Patches), err)
	}
	patch, err := yaml.YAMLToJSON([]byte(component.Patches[0].Patch))
	if err != nil {
		t.Fatal(err)
	}
	c := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: certs.ConfigurationName}}
	if err := a.kube.Patch(t.Context(), c, client.RawPatch(types.JSONPatchType, patch)); err != nil {
		t.Fatal(err)
	}
}

// switchOff is the patch that operations.md says to type.
func switchOff(t *testing.T) string {
	t.Helper()
	return operations(t, `kubectl -n podgrace-system patch role podgrace-in-force --field-manager=podgrace-guard --type=merge -p '(.*)'`)
}

// saysArmed asks what operations.md says to ask.
func (a *armory) saysArmed(t *testing.T, want string) {
	t.Helper()
	path := operations(t, `kubectl -n podgrace-system get role podgrace-in-force -o (jsonpath=\S+) `)
	out, complaints, err := a.Kubectl(t.Context(), "-n", "podgrace-system", "get", "role", "podgrace-in-force", "-o", strings.ReplaceAll(path, "'", ""))
	if err != nil || strings.TrimSpace(out) != want {
		t.Errorf("whether it is armed: %q, want %q (%v %s)", out, want, err, complaints)
	}
}

// operations is what a line of operations.md has in a command's brackets.
func operations(t *testing.T, command string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + command).FindSubmatch(text)
	if found == nil {
		t.Fatalf("operations.md does not have %s", command)
	}
	return string(found[1])
}

// armory is a cluster of its own, with one replica that comes and goes.
type armory struct {
	*cluster.Cluster
	kube    client.Client
	webhook *podgrace.Webhook
	node    *corev1.Node
	// resource is that of the right that arms.
	resource string
	// asks makes a request about which somebody has to answer once that is armed.
	asks func(context.Context) error
}

func newArmory(t *testing.T) *armory {
	t.Helper()
	c, err := cluster.Start(t.Context(), cluster.Options{ControllerManager: true})
	if err != nil {
		t.Fatal(err)
	}
	a := &armory{Cluster: c, node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "empty"}}, resource: controllers.ResourceGuardedNodes}
	a.asks = a.remove
	t.Cleanup(func() {
		if a.webhook != nil {
			_ = a.webhook.Stop()
		}
		if err := c.Stop(); err != nil {
			t.Error(err)
		}
	})
	if a.kube, err = suite.NewClient(c.Config); err != nil {
		t.Fatal(err)
	}
	if a.webhook, err = podgrace.Install(t.Context(), c, podgrace.Options{}); err != nil {
		t.Fatal(err)
	}
	a.create(t, a.node)
	return a
}

func (a *armory) create(t *testing.T, o client.Object) {
	t.Helper()
	if err := a.kube.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

func (a *armory) stop(t *testing.T) {
	t.Helper()
	if err := a.webhook.Stop(); err != nil {
		t.Fatal(err)
	}
}

// start starts the replica where the API server looks for it.
func (a *armory) start(t *testing.T) {
	t.Helper()
	at, err := url.Parse(a.webhook.URL)
	if err != nil {
		t.Fatal(err)
	}
	w, err := podgrace.Start(t.Context(), a.Cluster, filepath.Join(a.Dir, "bin", "webhook"), podgrace.Options{Args: []string{"--port", at.Port()}})
	if err != nil {
		t.Fatal(err)
	}
	w.URL, a.webhook = a.webhook.URL, w
}

// remove is what every cluster's autoscaler does with a node that is empty.
func (a *armory) remove(ctx context.Context) error {
	return a.kube.Delete(ctx, a.node.DeepCopy(), client.DryRunAll)
}

// lets waits for the API server to have seen what arms, and nothing else.
func (a *armory) lets(t *testing.T, why string) {
	t.Helper()
	suite.OutOfForce(t, "what fails closed ("+why+")", a.asks)
}

func (a *armory) refuses(t *testing.T) {
	t.Helper()
	if err := a.asks(t.Context()); err == nil || !strings.Contains(err.Error(), "failed calling webhook") {
		t.Errorf("nobody answers: %v", err)
	}
}

func (a *armory) role(ctx context.Context) (*rbacv1.Role, error) {
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "podgrace-system", Name: controllers.InForce}}
	return role, a.kube.Get(ctx, client.ObjectKeyFromObject(role), role)
}

func (a *armory) armed(t *testing.T, want bool) {
	t.Helper()
	suite.Eventually(t, "what fails closed to be armed or not", func(ctx context.Context) (bool, error) {
		role, err := a.role(ctx)
		return controllers.AskedBy(role.Rules).Allows(a.resource, "") == want, err
	})
}

func (a *armory) patchRole(t *testing.T, patch string) {
	t.Helper()
	role, err := a.role(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.kube.Patch(t.Context(), role, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
}

// applyAgain does what a GitOps tool does that repairs drift: it touches neither the rules nor the switch.
func (a *armory) applyAgain(t *testing.T) {
	t.Helper()
	before, err := a.role(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, how := range [][]string{{"--server-side", "--force-conflicts"}, nil} {
		if _, _, err := a.Kubectl(t.Context(), append([]string{"apply", "-f", "../../deploy/webhook/rbac.yaml"}, how...)...); err != nil {
			t.Fatal(err)
		}
	}
	after, err := a.role(t.Context())
	if err != nil || !equality.Semantic.DeepEqual(before.Rules, after.Rules) || before.Annotations[controllers.AnnotationGuard] != after.Annotations[controllers.AnnotationGuard] {
		t.Errorf("applied again: %v, %v, were %v, %v (%v)", after.Rules, after.Annotations, before.Rules, before.Annotations, err)
	}
}

// ready waits until the policy's status says so, of this generation.
func (a *armory) ready(t *testing.T, policy *v1alpha1.PodPolicy, want metav1.ConditionStatus, reason string) {
	t.Helper()
	suite.Eventually(t, "status "+string(want)+" for "+reason, func(ctx context.Context) (bool, error) {
		err := a.kube.Get(ctx, client.ObjectKeyFromObject(policy), policy)
		c := meta.FindStatusCondition(policy.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.Status == want && c.Reason == reason, err
	})
}

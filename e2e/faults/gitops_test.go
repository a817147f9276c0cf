package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// syncs are the ways by which GitOps tools bring a cluster to what stands in Git: server-side apply, as Flux does it always and Argo CD with
// ServerSideApply=true; client-side apply, as Argo CD does it by default; and each with how it looks for what is left to apply.
var syncs = []struct {
	name        string
	apply, diff []string
}{
	{"server-side apply", []string{"apply", "--server-side", "--force-conflicts", "--field-manager=gitops"}, []string{"diff", "--server-side", "--force-conflicts", "--field-manager=gitops"}},
	{"client-side apply", []string{"apply"}, []string{"diff"}},
}

// A GitOps tool that applies the manifests again and again, beside a leader that writes caBundle, the allowed actors and whether the guard is armed:
// both come to rest, nothing is left to apply, and none of what the leader wrote is ever gone.
func TestGitOpsAppliesWhatTheLeaderCompletes(t *testing.T) {
	a := newArmory(t)
	files := a.manifests(t)
	policy := a.guardedFor(t, "system:serviceaccount:ops:first")
	for _, sync := range syncs {
		t.Run(sync.name, func(t *testing.T) {
			lacking := a.watchLosses(t)
			for i := range 3 { // the leader has something to write while the tool applies
				actors := fmt.Sprintf(`{"spec":{"removal":{"allowedActors":["system:serviceaccount:ops:%s-%d"]}}}`, sync.name[:6], i)
				if err := a.kube.Patch(t.Context(), policy, client.RawPatch(types.MergePatchType, []byte(actors))); err != nil {
					t.Fatal(err)
				}
				a.sync(t, files, sync.apply...)
				a.sync(t, files, sync.apply...)
				a.whole(t, policy)
			}
			before := a.versions(t, files)
			for range 3 {
				a.sync(t, files, sync.apply...)
			}
			if after := a.versions(t, files); !maps.Equal(before, after) {
				t.Errorf("no fixed point: %v, then %v", before, after)
			}
			if out, _, err := a.Kubectl(t.Context(), append(slices.Clone(sync.diff), "-f", files)...); err != nil || out != "" {
				t.Errorf("left to apply: %v %s", err, out)
			}
			if lost := lacking(); len(lost) > 0 {
				t.Errorf("lost: %v", lost)
			}
			a.stop(t)
			a.sync(t, files, sync.apply...)
			a.refuses(t)
			a.start(t)
		})
	}
}

// Replace takes from the configurations what the leader wrote, and from the RoleBinding that the guard is armed. The leader puts back both at once,
// each time; in between a removal can be refused for want of an answer, or not be judged. Nobody leads, and the guard stays disarmed.
//
// Configurations that were deleted, and are put back while nobody leads, have no caBundle, and fail closed where the guard was armed; not where it is
// switched off.
func TestGitOpsReplaces(t *testing.T) {
	a := newArmory(t)
	files := a.manifests(t)
	policy := a.guardedFor(t, "system:serviceaccount:ops:first")
	held := a.held(t)
	ended, lacking := a.ask(t, held), a.watchLosses(t)
	for range 10 {
		a.sync(t, files, "replace")
		a.whole(t, policy)
	}
	a.judges(t, held)
	lost := lacking()
	if len(lost) < 10 {
		t.Errorf("replaced ten times, and only %d times something was lost: %v", len(lost), lost)
	}
	t.Logf("lost, and for how long: %v", lost)
	t.Logf("asked meanwhile: %v", ended())

	a.stop(t)
	a.sync(t, files, "replace")
	a.lets(t, "replaced, and nobody leads")
	a.start(t)
	a.whole(t, policy)
	a.judges(t, held)

	a.stop(t)
	if _, _, err := a.Kubectl(t.Context(), "delete", "mutatingwebhookconfigurations,validatingwebhookconfigurations", "-l", "app.kubernetes.io/part-of=podgrace"); err != nil {
		t.Fatal(err)
	}
	a.lets(t, "the configurations are deleted")
	a.sync(t, files, syncs[0].apply...)
	suite.InForce(t, "node.removal.podgrace.dev", a.removal(held), "failed calling webhook") // the configurations that were put back
	a.patchRole(t, switchOff(t))
	a.lets(t, "put back and switched off")
	a.start(t)
	a.patchRole(t, `{"metadata":{"annotations":{"podgrace.dev/guard":null}}}`)
	a.whole(t, policy)
	a.judges(t, held)
}

// held is a node that must not be deleted: a pod of a StatefulSet may run there.
func (a *armory) held(t *testing.T) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "held"}}
	a.create(t, node)
	a.create(t, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db-0", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "db", Controller: new(true)}}},
		Spec:       corev1.PodSpec{NodeName: node.Name, ServiceAccountName: "default", Containers: []corev1.Container{{Name: "main", Image: "localhost/none:1"}}},
	})
	return node
}

// What may come of the DELETE of a node that is held.
const (
	judged   = "refused by the guard"
	unjudged = "refused because nobody could be asked"
	passed   = "let through"
)

// removal deletes a node, in a dry run.
func (a *armory) removal(node *corev1.Node) func(context.Context) error {
	return func(ctx context.Context) error { return a.kube.Delete(ctx, node.DeepCopy(), client.DryRunAll) }
}

func (a *armory) verdict(ctx context.Context, held *corev1.Node) (string, error) {
	switch err := a.removal(held)(ctx); {
	case err == nil:
		return passed, nil
	case strings.Contains(err.Error(), "failed calling webhook"):
		return unjudged, nil
	case strings.Contains(err.Error(), "denied the request"):
		return judged, nil
	default:
		return "", err
	}
}

// judges waits until the API server has learnt of all that the leader has written.
func (a *armory) judges(t *testing.T, held *corev1.Node) {
	t.Helper()
	suite.InForce(t, "node.removal.podgrace.dev", a.removal(held), "denied the request")
}

// ask asks without pause; the function ends that, and says for how long without interruption it was answered otherwise than by the guard.
func (a *armory) ask(t *testing.T, held *corev1.Node) (ended func() map[string]time.Duration) {
	t.Helper()
	a.judges(t, held)
	ctx, cancel := context.WithCancel(t.Context())
	longest := map[string]time.Duration{}
	done := make(chan struct{})
	go func() {
		defer close(done)
		last, since := judged, time.Now()
		for ctx.Err() == nil {
			verdict, err := a.verdict(ctx, held)
			if err != nil {
				if ctx.Err() == nil {
					t.Error(err)
				}
				return
			}
			if verdict == last {
				continue
			}
			if last != judged {
				longest[last] = max(longest[last], time.Since(since))
			}
			last, since = verdict, time.Now()
		}
	}()
	return func() map[string]time.Duration {
		cancel()
		<-done
		return longest
	}
}

// manifests writes what a GitOps tool has of Podgrace in Git into a folder: the configurations call this process.
func (a *armory) manifests(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, file := range []string{"webhook/rbac.yaml", "webhook/configurations.yaml", "webhook/policies.yaml", "webhook/fencing.yaml", "components/selfmanaged/rbac.yaml", "components/selfmanaged/policies.yaml"} {
		all, err := podgrace.Manifest(filepath.Join("../../deploy", file), a.webhook)
		if err != nil {
			t.Fatal(err)
		}
		for i, o := range all {
			text, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s-%02d.json", strings.ReplaceAll(file, "/", "-"), i)), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	return dir
}

// guardedFor makes a policy that guards and allows an actor, and waits until the leader has written all that it writes.
func (a *armory) guardedFor(t *testing.T, actor string) *v1alpha1.PodPolicy {
	t.Helper()
	policy := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guarded"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{AllowedActors: []string{actor}}}}
	a.create(t, policy)
	a.ready(t, policy, metav1.ConditionTrue, v1alpha1.ReasonValid)
	a.whole(t, policy)
	return policy
}

func (a *armory) sync(t *testing.T, files string, how ...string) {
	t.Helper()
	if _, _, err := a.Kubectl(t.Context(), append(slices.Clone(how), "-f", files)...); err != nil {
		t.Fatal(err)
	}
}

// whole waits until everything that is the leader's is there: caBundle in each webhook, the policy's actors, and that the guard and limits that fail closed are armed. What it writes while a tool
// replaces is the tool's conflict.
func (a *armory) whole(t *testing.T, policy *v1alpha1.PodPolicy) {
	t.Helper()
	suite.Eventually(t, "all that the leader writes", func(ctx context.Context) (bool, error) {
		var v admissionregistrationv1.ValidatingWebhookConfiguration
		var m admissionregistrationv1.MutatingWebhookConfiguration
		for _, o := range []client.Object{&v, &m} {
			if err := a.kube.Get(ctx, types.NamespacedName{Name: certs.ConfigurationName}, o); err != nil {
				return false, err
			}
		}
		var role rbacv1.Role
		err := a.kube.Get(ctx, types.NamespacedName{Namespace: "podgrace-system", Name: controllers.InForce}, &role)
		if asked := controllers.AskedBy(role.Rules); err != nil || !asked.Nodes || !asked.Limits {
			return false, err
		}
		return missing(&v, policy.Spec.Removal.AllowedActors[0]) == "" && !slices.ContainsFunc(m.Webhooks, func(w admissionregistrationv1.MutatingWebhook) bool { return len(w.ClientConfig.CABundle) == 0 }), nil
	})
}

// missing says what a configuration lacks of what the leader writes; of actors this one, or any if it is empty.
func missing(v *admissionregistrationv1.ValidatingWebhookConfiguration, actor string) string {
	for _, w := range v.Webhooks {
		if len(w.ClientConfig.CABundle) == 0 {
			return w.Name + " has no caBundle"
		}
		named := slices.ContainsFunc(w.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool {
			return c.Name == "not-an-allowed-actor" && strings.Contains(c.Expression, actor)
		})
		if strings.HasSuffix(w.Name, ".removal.podgrace.dev") && w.Name != "enforcer.removal.podgrace.dev" && !named {
			return w.Name + " does not know the allowed actors"
		}
	}
	return ""
}

// loss is a version of the ValidatingWebhookConfiguration that lacked something, until the first one that did not.
type loss struct {
	what string
	took time.Duration
}

func (l loss) String() string {
	return fmt.Sprintf("%s for %v", l.what, l.took.Round(time.Millisecond))
}

// watchLosses watches the ValidatingWebhookConfiguration; the function ends that.
func (a *armory) watchLosses(t *testing.T) (ended func() []loss) {
	t.Helper()
	kube, err := client.NewWithWatch(a.Config, client.Options{Scheme: a.kube.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	var list admissionregistrationv1.ValidatingWebhookConfigurationList
	if err := kube.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	events, err := kube.Watch(t.Context(), &admissionregistrationv1.ValidatingWebhookConfigurationList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		t.Fatal(err)
	}
	all := make(chan []loss, 1)
	go func() {
		var losses []loss
		var now loss
		var since time.Time
		for event := range events.ResultChan() {
			v, ok := event.Object.(*admissionregistrationv1.ValidatingWebhookConfiguration)
			if !ok {
				continue
			}
			what := missing(v, "")
			if what != "" && now.what == "" {
				now.what, since = what, time.Now()
			}
			if what == "" && now.what != "" {
				losses, now = append(losses, loss{now.what, time.Since(since)}), loss{}
			}
		}
		if now.what != "" {
			losses = append(losses, now)
		}
		all <- losses
	}()
	return func() []loss {
		events.Stop()
		return <-all
	}
}

// versions are the resource versions of what the files hold.
func (a *armory) versions(t *testing.T, files string) map[string]string {
	t.Helper()
	out, _, err := a.Kubectl(t.Context(), "get", "-f", files, "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var list struct{ Items []unstructured.Unstructured }
	if err := json.Unmarshal([]byte(out), &list); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, o := range list.Items {
		versions[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o.GetResourceVersion()
	}
	if len(versions) < 20 {
		t.Fatalf("only %d objects in %s", len(versions), files)
	}
	return versions
}

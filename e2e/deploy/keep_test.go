package deploy

import (
	"context"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// removalOfDocs is how docs/install.md removes what kubectl has applied, but for the policies: the arguments of each kubectl.
func removalOfDocs(t *testing.T) [][]string {
	t.Helper()
	text, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)To keep them:\n\n```\n(.*?)\n```").FindSubmatch(text)
	if block == nil {
		t.Fatal("docs/install.md does not say how to keep the policies")
	}
	var all [][]string
	for line := range strings.SplitSeq(string(block[1]), "\n") {
		words := strings.Fields(strings.ReplaceAll(line, " deploy/", " "+manifests+"/"))
		if words[0] != "kubectl" {
			t.Fatalf("docs/install.md: no kubectl: %s", line)
		}
		all = append(all, words[1:])
	}
	return all
}

// refusing is a policy that the API server itself judges by.
const refusing = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: refusing}
spec:
  match: {namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: shop}}}
  removal: {forceDelete: Deny, zeroGrace: Deny}
`

// Podgrace is removed as docs/install.md says, but for policies and their definitions. They stay, nothing acts by them, and a new
// installation does.
func TestRemovalThatKeepsPolicies(t *testing.T) {
	w := empty(t)
	w.install(t, certManagerCRDs(t))
	removal := removalOfDocs(t)
	for _, v := range variants[:2] {
		t.Run(v.name, func(t *testing.T) {
			dir, installed := v.folder(t), v.kustomized(t)
			w.kubectl(t, "apply", "-k", dir)
			for _, o := range installed {
				w.established(t, o)
			}
			policies := append(readFiles(t, manifests+"/policies/first.yaml"), objects(t, []byte(refusing))...)
			for _, o := range policies {
				if err := w.kube.Create(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
			w.arm(t)
			w.wantActs(t, true)
			order := w.watchDeletions(t)
			for _, args := range removal {
				w.kubectl(t, args...)
			}
			order.wantConfigurationsFirst(t)
			w.wantActs(t, false)
			w.armed = false
			w.gone(t, slices.DeleteFunc(slices.Clone(installed), func(o *unstructured.Unstructured) bool { return o.GetKind() == "CustomResourceDefinition" }))
			w.wantKept(t, policies)
			w.kubectl(t, "apply", "-k", dir)
			w.wantKept(t, policies)
			w.arm(t)
			w.wantActs(t, true)
			w.kubectl(t, "delete", "--ignore-not-found", "-k", manifests+"/overlays/"+v.overlay) // policies and all
			w.gone(t, installed)
			w.armed = false
		})
	}
}

// arm arms the guard, as the leader does, of which there is none here.
func (w *world) arm(t *testing.T) {
	t.Helper()
	w.armed = true
	w.inForce(t, controllers.Asked{Admissions: true, Removals: true, Guarded: controllers.Closed{All: true}, Nodes: true})
}

// inForce writes what the API server asks, as the leader does.
func (w *world) inForce(t *testing.T, asked controllers.Asked) {
	t.Helper()
	rules, err := json.Marshal(map[string]any{"rules": asked.Rules()})
	if err != nil {
		t.Fatal(err)
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: controllers.InForce}}
	if err := w.kube.Patch(t.Context(), role, client.RawPatch(types.MergePatchType, rules)); err != nil {
		t.Fatal(err)
	}
}

// wantActs waits until what Podgrace refuses is refused, or nothing of it: a StatefulSet without grace, by the policy and the API server
// itself, and the DELETE of a Node, by the webhook, which does not answer.
func (w *world) wantActs(t *testing.T, acts bool) {
	t.Helper()
	wants := func(name string, request func(context.Context) error, words ...string) {
		t.Helper()
		if acts {
			suite.InForce(t, name, request, words...)
		} else {
			suite.OutOfForce(t, name, request)
		}
	}
	wants("zero-grace.podgrace.dev", func(ctx context.Context) error {
		set := statefulSet(shop, "zero", "n1")
		set.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(0))
		return w.kube.Create(ctx, set, client.DryRunAll)
	}, "PodPolicy refusing refuses that")
	wants("node.removal.podgrace.dev", func(ctx context.Context) error {
		return w.kube.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}, client.DryRunAll)
	})
}

// wantKept fails where a policy is gone, or another one than it was.
func (w *world) wantKept(t *testing.T, policies []*unstructured.Unstructured) {
	t.Helper()
	for _, o := range policies {
		now := o.DeepCopy()
		if err := w.kube.Get(t.Context(), client.ObjectKeyFromObject(o), now); err != nil || now.GetUID() != o.GetUID() || now.GetGeneration() != o.GetGeneration() {
			t.Errorf("%s: %v, UID %s was %s, generation %d was %d", key(o), err, now.GetUID(), o.GetUID(), now.GetGeneration(), o.GetGeneration())
		}
	}
}

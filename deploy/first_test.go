package deploy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// firstPolicy is one by the CustomResourceDefinition's own rules.
func firstPolicy(t *testing.T) *v1alpha1.PodPolicy {
	t.Helper()
	policies, err := policyfile.Load("policies/first.yaml")
	if err != nil || len(policies) != 1 {
		t.Fatalf("got %d policies, %v", len(policies), err)
	}
	return policies[0]
}

// The first policy has nothing but a guard, for all namespaces: every other section would change pods.
func TestFirstPolicyIsAGuard(t *testing.T) {
	want := v1alpha1.PodPolicySpec{Removal: firstPolicy(t).Spec.Removal}
	if diff := cmp.Diff(want, firstPolicy(t).Spec); diff != "" || want.Removal == nil {
		t.Errorf("it does more than to guard removals: %s", diff)
	}
}

const (
	firstSpec    = `spec: {nodeName: n1, terminationGracePeriodSeconds: %d, containers: [{name: c, image: "web:1"}]}`
	firstOwner   = `ownerReferences: [{apiVersion: apps/v1, kind: StatefulSet, name: db, uid: s, controller: true}]`
	firstRunning = `{apiVersion: v1, kind: Pod, metadata: {name: db-0, namespace: shop, uid: u, ` + firstOwner + `}, ` + firstSpec + `, status: {phase: Running}}`
	// A force delete of which only the first step passed.
	firstHalfDone = `{apiVersion: v1, kind: Pod, metadata: {name: db-0, namespace: shop, uid: u, deletionTimestamp: "2026-01-01T00:00:00Z", deletionGracePeriodSeconds: 0, ` +
		`%s` + firstOwner + `}, spec: {nodeName: n1, containers: [{name: c, image: "web:1"}]}, status: {phase: Running}}`
	firstNode       = `{apiVersion: v1, kind: Node, metadata: {name: n1, uid: n1-uid}, spec: {%s}, status: {conditions: [{type: Ready, status: "True"}]}}`
	firstAttachment = `{apiVersion: storage.k8s.io/v1, kind: VolumeAttachment, metadata: {name: va}, spec: {nodeName: n1, attacher: a, source: {persistentVolumeName: pv}}, status: {attached: true}}`
	firstWorkload   = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db, namespace: shop}, spec: {serviceName: db, selector: {matchLabels: {app: db}}, ` +
		`template: {metadata: {labels: {app: db}}, spec: {terminationGracePeriodSeconds: %d, containers: [{name: c, image: "web:1"}]}}}}`
)

// updates is the AdmissionReview of an update.
func updates(kind, resource, subresource, name, before, after string) string {
	return fmt.Sprintf(`{apiVersion: admission.k8s.io/v1, kind: AdmissionReview, request: {uid: r, operation: UPDATE, kind: {version: v1, kind: %s}, `+
		`resource: {version: v1, resource: %s}, subResource: "%s", namespace: %s, name: %s, userInfo: {username: jane}, oldObject: %s, object: %s, options: {}}}`,
		kind, resource, subresource, map[string]string{"Pod": "shop", "Node": `""`}[kind], name, before, after)
}

// asked is what somebody does, and what the first policy says to it; nothing: it is ordinary.
type asked struct {
	text      string
	operation string // of review.Question; empty: creation, or what an AdmissionReview says
	grace     *int64
	says      string
}

// everything is each way by which a policy with a removal section can change or refuse something, and what is ordinary beside it.
func everything() map[string]asked {
	none, running := new(int64(0)), fmt.Sprintf(firstRunning, 30)
	node := fmt.Sprintf(firstNode, "")
	return map[string]asked{
		"a pod":                     {text: running},
		"a pod with grace 0":        {text: fmt.Sprintf(firstRunning, 0), says: "terminationGracePeriodSeconds is 0, so every delete of the pod is a force delete"},
		"a StatefulSet":             {text: fmt.Sprintf(firstWorkload, 30)},
		"a StatefulSet with 0":      {text: fmt.Sprintf(firstWorkload, 0), says: "terminationGracePeriodSeconds is 0, so every delete of the pod is a force delete"},
		"delete":                    {text: running, operation: review.OperationDelete},
		"force delete":              {text: running, operation: review.OperationDelete, grace: none, says: "pod shop/db-0 may still run on n1"},
		"delete of one with 0":      {text: fmt.Sprintf(firstRunning, 0), operation: review.OperationDelete, says: "pod shop/db-0 may still run on n1"},
		"eviction":                  {text: running, operation: review.OperationEvict},
		"eviction without grace":    {text: running, operation: review.OperationEvict, grace: none, says: "pod shop/db-0 may still run on n1"},
		"status":                    {text: updates("Pod", "pods", "status", "db-0", running, strings.Replace(running, "phase: Running", "phase: Failed", 1)), says: "pod shop/db-0 may still run on n1"},
		"last finalizer":            {text: updates("Pod", "pods", "", "db-0", fmt.Sprintf(firstHalfDone, "finalizers: [a/b], "), fmt.Sprintf(firstHalfDone, "")), says: "pod shop/db-0 may still run on n1"},
		"delete of a node":          {text: node, operation: review.OperationDelete, says: "pods may still run on node n1"},
		"out of service":            {text: updates("Node", "nodes", "", "n1", node, fmt.Sprintf(firstNode, "taints: [{key: node.kubernetes.io/out-of-service, effect: NoExecute}]")), says: "pods may still run on node n1"},
		"another taint":             {text: updates("Node", "nodes", "", "n1", node, fmt.Sprintf(firstNode, "taints: [{key: example.org/x, effect: NoExecute}]"))},
		"delete of an attachment":   {text: firstAttachment, operation: review.OperationDelete, says: "node n1 (ready) may still write to volume pv"},
		"force delete, kube-system": {text: strings.Replace(running, "namespace: shop", "namespace: kube-system", 1), operation: review.OperationDelete, grace: none},
	}
}

// reviewed says what becomes of all of it under these policies: the webhook's own handlers decide, and the ValidatingAdmissionPolicies.
func reviewed(t *testing.T, policies ...*v1alpha1.PodPolicy) map[string]*review.Result {
	t.Helper()
	state := review.NewState()
	for _, text := range []string{
		`{apiVersion: v1, kind: Namespace, metadata: {name: shop}}`, fmt.Sprintf(firstNode, ""), fmt.Sprintf(firstRunning, 30),
		`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: n1, namespace: kube-node-lease}, spec: {}}`,
	} {
		if err := state.Add(document(t, text), ""); err != nil {
			t.Fatal(err)
		}
	}
	engine, err := review.NewEngine(state, policies...)
	if err != nil {
		t.Fatal(err)
	}
	results := map[string]*review.Result{}
	for name, a := range everything() {
		q := review.Question{Operation: a.operation, GracePeriodSeconds: a.grace, User: authenticationv1.UserInfo{Username: "jane"}}
		r, wrong := engine.Review(t.Context(), document(t, a.text), q)
		if wrong != nil || r == nil {
			t.Fatalf("%s: %v, %v", name, r, wrong)
		}
		results[name] = r
	}
	return results
}

func document(t *testing.T, text string) *manifest.Document {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	var o metav1.PartialObjectMetadata
	if err := json.Unmarshal(raw, &o); err != nil {
		t.Fatal(err)
	}
	return &manifest.Document{File: "f.yaml", Line: 1, JSON: raw, APIVersion: o.APIVersion, Kind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

func TestFirstPolicyOnlyWarns(t *testing.T) {
	strict := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "strict"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ZeroGrace: v1alpha1.ZeroGraceDeny}}}
	first, none, refused := reviewed(t, firstPolicy(t)), reviewed(t), reviewed(t, strict)
	for name, a := range everything() {
		t.Run(name, func(t *testing.T) {
			got := first[name]
			if got.Decision != review.Allowed || len(got.Patch) > 0 {
				t.Errorf("%s %s, patch %v", got.Decision, got.Message, got.Patch)
			}
			if a.says == "" {
				if len(got.Warnings) > 0 {
					t.Errorf("warnings %q", got.Warnings)
				}
				return
			}
			if !strings.Contains(strings.Join(got.Warnings, " "), a.says) {
				t.Errorf("warnings %q, want %q", got.Warnings, a.says)
			}
			// It is the policy that says it, and it is what a strict one refuses.
			if len(none[name].Warnings) > 0 || none[name].Decision != review.Allowed {
				t.Errorf("without a policy: %+v", none[name])
			}
			if refused[name].Decision != review.Denied {
				t.Errorf("a strict policy: %+v", refused[name])
			}
		})
	}
}

// The first policy may stay beside others: what these refuse, raise or leave is the same with it.
func TestFirstPolicyMakesNoOtherStricter(t *testing.T) {
	for _, forceDelete := range []v1alpha1.RemovalAction{v1alpha1.RemovalDeny, v1alpha1.RemovalWarn, v1alpha1.RemovalAllow} {
		for _, zero := range []v1alpha1.ZeroGraceAction{v1alpha1.ZeroGraceDeny, v1alpha1.ZeroGraceRaise, v1alpha1.ZeroGraceWarn} {
			for _, eviction := range []v1alpha1.GraceAction{v1alpha1.GraceDeny, v1alpha1.GraceRaise} {
				for _, actor := range []string{"jane", "joe"} { // jane is who asks
					t.Run(fmt.Sprintf("%s %s %s %s", forceDelete, zero, eviction, actor), func(t *testing.T) {
						t.Parallel()
						other := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1alpha1.PodPolicySpec{
							Removal: &v1alpha1.RemovalSection{ForceDelete: forceDelete, ZeroGrace: zero, EvictionWithoutGrace: eviction, AllowedActors: []string{actor}},
						}}
						same(t, reviewed(t, other), reviewed(t, other, firstPolicy(t)))
					})
				}
			}
		}
	}
}

// The first policy does not hold up an actor that a policy which denies allows by name, whether it names the actor or not: while the webhook is down a cloud
// controller must be able to remove a Node.
func TestFirstPolicyLetsPassWhomOthersAllow(t *testing.T) {
	other := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{AllowedActors: []string{"jane"}}}}
	naming := firstPolicy(t).DeepCopy()
	naming.Spec.Removal.AllowedActors = []string{"jane"}
	for _, name := range []string{"force delete", "delete of a node", "delete of an attachment"} {
		for _, first := range []*v1alpha1.PodPolicy{firstPolicy(t), naming} {
			if got := reviewed(t, other, first)[name]; got.Decision != review.Allowed || len(got.Warnings) > 0 {
				t.Errorf("%s: %s, warnings %q", name, got.Decision, got.Warnings)
			}
		}
	}
}

// same says where decisions or changes differ.
func same(t *testing.T, alone, both map[string]*review.Result) {
	t.Helper()
	for name, want := range alone {
		got := both[name]
		if diff := cmp.Diff(want.Patch, got.Patch); diff != "" || got.Decision != want.Decision {
			t.Errorf("%s: %s, with the first policy %s %s; patch %s", name, want.Decision, got.Decision, got.Message, diff)
		}
	}
}

func TestFirstNodePolicyObserves(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("policies", "first.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, o := range objects(t, text) {
		if o.GetKind() != "NodePolicy" {
			continue
		}
		found++
		if spec := as[v1alpha1.NodePolicy](t, o).Spec; spec.Mode != v1alpha1.NodeModeObserve || spec.Eviction != nil {
			t.Errorf("it does more than to observe: %+v", spec)
		}
	}
	if found != 1 {
		t.Errorf("%d NodePolicies", found)
	}
}

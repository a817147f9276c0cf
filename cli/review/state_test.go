package review

import (
	"slices"
	"strings"
	"testing"

	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	byName = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: by-name}
spec:
  match: {namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: OP, values: [legacy, shop]}]}}
  gracePeriod: {minSeconds: 40}
`
	plainPod = `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: NS, labels: {app: web}}, spec: {terminationGracePeriodSeconds: 10, containers: [{name: c, image: "web:1"}]}}`
)

// The API server labels each Namespace with its name, so that one from a file has that label, too, whatever the file says.
func TestNamespaceByName(t *testing.T) {
	for name, test := range map[string]struct {
		operator, namespace string
		state               []string
		raised              bool
	}{
		"from a file":                {"In", "legacy", []string{`{apiVersion: v1, kind: Namespace, metadata: {name: legacy}}`}, true},
		"with other labels":          {"In", "shop", []string{shop}, true},
		"with a wrong one":           {"In", "legacy", []string{`{apiVersion: v1, kind: Namespace, metadata: {name: legacy, labels: {kubernetes.io/metadata.name: other}}}`}, true},
		"exempt, from a file":        {"NotIn", "legacy", []string{`{apiVersion: v1, kind: Namespace, metadata: {name: legacy}}`}, false},
		"another one":                {"In", "new", []string{`{apiVersion: v1, kind: Namespace, metadata: {name: new}}`}, false},
		"known by its name":          {"In", "legacy", nil, true},
		"exempt, known by its name":  {"NotIn", "shop", nil, false},
		"another, known by its name": {"NotIn", "new", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, strings.Replace(byName, "OP", test.operator, 1), test.state...)
			r := mustReview(t, e, strings.Replace(plainPod, "NS", test.namespace, 1), Question{})
			if _, raised := patchOf(r)["/spec/terminationGracePeriodSeconds"]; raised != test.raised {
				t.Errorf("%+v", r)
			}
			if len(r.Unknown) > 0 {
				t.Errorf("not known: %v", r.Unknown)
			}
		})
	}
}

// What names no namespace goes where a workload that names none goes.
func TestStateWithoutNamespace(t *testing.T) {
	add := func(t *testing.T, namespace, policies string, state ...string) *Engine {
		e := engineOf(t, policies, high)
		for _, text := range state {
			if err := e.State.Add(document(t, text), namespace); err != nil {
				t.Fatal(err)
			}
		}
		if namespace != "" {
			e.Namespace = namespace
		}
		return e
	}
	bare := func(text string) string { return strings.Replace(text, "namespace: shop, ", "", 1) }
	for _, namespace := range []string{"", "default", "team"} {
		t.Run("a Service for "+namespace, func(t *testing.T) {
			e := add(t, namespace, web, `{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {selector: {app: web}}}`)
			r := mustReview(t, e, strings.Replace(plainPod, ", namespace: NS", "", 1), Question{})
			if spread := patchOf(r)["/spec/topologySpreadConstraints"]; !strings.Contains(spread, `{"app":"web"}`) || len(r.Unknown) > 0 {
				t.Errorf("%s %v", spread, r.Unknown)
			}
		})
		t.Run("a claim for "+namespace, func(t *testing.T) {
			policy := strings.Replace(web, "protect: All", "protect: Stateful", 1)
			e := add(t, namespace, policy, `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: data}, spec: {accessModes: [ReadWriteMany]}}`)
			deployed := strings.Replace(strings.Replace(deployment, ", namespace: shop", "", 1), "containers:", "volumes: [{name: d, persistentVolumeClaim: {claimName: data}}], containers:", 1)
			r := mustReview(t, e, deployed, Question{Operation: OperationDelete, GracePeriodSeconds: new(int64(0))})
			if r.Decision != Allowed {
				t.Errorf("%s, not known: %v", r.Message, r.Unknown)
			}
		})
		t.Run("a Lease for "+namespace, func(t *testing.T) {
			e := add(t, namespace, web, ready, strings.Replace(lease, ", namespace: kube-node-lease", "", 1), bare(shop))
			r := mustReview(t, e, strings.Replace(running, ", namespace: shop", "", 1), Question{Operation: OperationDelete, GracePeriodSeconds: new(int64(0))})
			if r.Decision != Denied || len(r.Unknown) > 0 {
				t.Errorf("%s, not known: %v", r.Message, r.Unknown)
			}
		})
	}
}

// Who asks for more than decisions read has it: kept in order, and of what is not in a namespace none is made up.
func TestFurtherKinds(t *testing.T) {
	s := NewState(&storagev1.StorageClass{}, &policyv1.PodDisruptionBudget{})
	for _, text := range []string{
		`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: slow}, provisioner: example.com/slow}`,
		`{apiVersion: storage.k8s.io/v1, kind: StorageClass, metadata: {name: fast}, provisioner: example.com/fast}`,
		`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}}`,
		`{apiVersion: storage.k8s.io/v1, kind: CSINode, metadata: {name: kept-by-nobody}, spec: {drivers: []}}`,
	} {
		if err := s.Add(document(t, text), "shop"); err != nil {
			t.Fatal(err)
		}
	}
	var names []string
	for _, o := range Objects[*storagev1.StorageClass](s) {
		names = append(names, o.Namespace+"/"+o.Name)
	}
	for _, o := range Objects[*policyv1.PodDisruptionBudget](s) {
		names = append(names, o.Namespace+"/"+o.Name)
	}
	for key, want := range map[client.ObjectKey]bool{{Name: "fast"}: true, {Name: "none"}: false, {Namespace: "shop", Name: "fast"}: false} {
		if s.Has(&storagev1.StorageClass{}, key) != want {
			t.Errorf("%s: known is not %t", key, want)
		}
	}
	if s.Has(&storagev1.CSINode{}, client.ObjectKey{Name: "kept-by-nobody"}) {
		t.Error("a kind that nobody asked for is kept")
	}
	if want := []string{"/fast", "/slow", "shop/web"}; !slices.Equal(names, want) {
		t.Errorf("got %q, want %q", names, want)
	}
}

package collect

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/doctor"
	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/policy"
)

var now = time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)

func TestCalls(t *testing.T) {
	const text = `# HELP apiserver_admission_webhook_fail_open_count calls
apiserver_admission_webhook_fail_open_count{name="pods.mutate.podgrace.dev",type="admit"} 3
apiserver_admission_webhook_rejection_count{error_type="calling_webhook_error",name="node.removal.podgrace.dev",operation="DELETE",rejection_code="0",type="validating"} 2
apiserver_admission_webhook_rejection_count{error_type="no_error",name="node.removal.podgrace.dev",operation="DELETE",rejection_code="403",type="validating"} 9
apiserver_admission_webhook_request_total{code="200",name="node.removal.podgrace.dev",operation="DELETE",rejected="true",type="validating"} 9
apiserver_admission_webhook_request_total{code="600",name="node.removal.podgrace.dev",operation="DELETE",rejected="true",type="validating"} 2
apiserver_admission_webhook_request_total{code="200",name="x.example.org",operation="CREATE",rejected="false",type="admit"} 1e+06
etcd_requests_total{name="node.removal.podgrace.dev"} 4
`
	got, err := calls(strings.NewReader(text))
	want := doctor.Calls{
		Answered: map[string]int{"node.removal.podgrace.dev": 11},
		Failed:   map[string]int{"pods.mutate.podgrace.dev": 3, "node.removal.podgrace.dev": 2},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

// What files have no object and no list of is unread; an empty list is an answer.
func TestFromFiles(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"nodes.yaml":    "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Node, metadata: {name: n1}}\n",
		"policies.yaml": "apiVersion: podgrace.dev/v1alpha1\nkind: PodPolicyList\nitems: []\n",
		"hooks.yaml": `apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: podgrace}
webhooks:
- {name: node.removal.podgrace.dev, admissionReviewVersions: [v1], sideEffects: None, clientConfig: {service: {name: podgrace-webhook, namespace: guard}}}
`,
		"pods.yaml":  "{apiVersion: v1, kind: Pod, metadata: {name: ours, namespace: guard}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: theirs, namespace: shop}}\n",
		"other.yaml": "{apiVersion: example.org/v1, kind: Deployment, metadata: {name: none}}\n",
		"wrong.yaml": "{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: wrong}, spec: {template: 3}}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, errs := FromFiles(&input.Reader{}, Options{Now: now}, dir)
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "wrong.yaml:1: DaemonSet wrong: ") {
		t.Errorf("errors %v", errs)
	}
	if len(s.Nodes) != 1 || s.OwnNamespace != "guard" || len(s.Pods) != 1 || s.Pods[0].Name != "ours" || len(s.Validating) != 1 {
		t.Errorf("%+v", s)
	}
	for source := range doctor.Rights() {
		read := source == doctor.Nodes || source == doctor.PodPolicies || source == doctor.Validating || source == doctor.Pods || source == doctor.Records ||
			source == doctor.NodePools // no Node is of one
		if read != (s.Unread[source] == "") {
			t.Errorf("%s: %q", source, s.Unread[source])
		}
	}
}

// Where no kubelet answers nothing is known of any; one that does is enough to tell of the others.
func TestKubelets(t *testing.T) {
	for name, test := range map[string]struct {
		answers map[string]string
		unread  string
		read    int
	}{
		"none":       {nil, "no kubelet can be asked", 0},
		"empty":      {map[string]string{"a": "{}", "b": "{}"}, "it told no configuration", 0},
		"one of two": {map[string]string{"a": `{"kubeletconfig":{"cgroupDriver":"systemd"}}`}, "", 1},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				node := strings.TrimSuffix(strings.TrimPrefix(r.URL.Path, "/api/v1/nodes/"), "/proxy/configz")
				if test.answers[node] == "" {
					w.WriteHeader(http.StatusBadGateway)
				}
				_, _ = w.Write([]byte(test.answers[node]))
			}))
			defer server.Close()
			typed, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
			if err != nil {
				t.Fatal(err)
			}
			r := &reader{rest: typed.Discovery().RESTClient(), s: newSnapshot(Options{Kubelets: true})}
			for _, node := range []string{"a", "b"} {
				r.s.Add(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
			}
			r.kubelets(t.Context())
			if unread := r.s.Unread[doctor.Kubelets]; len(r.s.Kubelets) != test.read || !strings.Contains(unread, test.unread) || (unread == "") != (test.unread == "") {
				t.Errorf("unread %q, read %v", unread, r.s.Kubelets)
			}
		})
	}
}

// What is looked at in Podgrace's own namespace alone is not read by what there is of it in another one.
func TestForeignObjects(t *testing.T) {
	foreign := `{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: v1, kind: LimitRange, metadata: {name: l, namespace: shop}}
---
{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: podgrace-webhook, namespace: shop}}
---
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: x.example.org}}
---
{apiVersion: v1, kind: Pod, metadata: {name: kcm, namespace: kube-system, labels: {component: kube-controller-manager}}}
`
	own := strings.NewReplacer("namespace: shop", "namespace: podgrace-system", "name: shop", "name: podgrace-system", "x.example.org", "podpolicies.podgrace.dev", "namespace: kube-system", "namespace: podgrace-system").Replace(foreign)
	for text, want := range map[string]map[doctor.Source]bool{
		foreign: {doctor.ControllerManagers: true, doctor.Records: true},
		own:     {doctor.Namespace: true, doctor.LimitRanges: true, doctor.Leases: true, doctor.CRDs: true, doctor.Pods: true, doctor.Records: true},
	} {
		s, errs := FromFiles(&input.Reader{Stdin: strings.NewReader(text)}, Options{Now: now}, "-")
		if len(errs) > 0 {
			t.Fatal(errs)
		}
		for source := range doctor.Rights() {
			if read := s.Unread[source] == ""; read != want[source] {
				t.Errorf("%s: read %t, of\n%s", source, read, text)
			}
		}
	}
}

// That NodePools are missing counts only where a Node is of one.
func TestNodePoolsOfFiles(t *testing.T) {
	const node, pool = "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {karpenter.sh/nodepool: batch}}}\n", "---\n{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: batch}, spec: {template: {spec: {terminationGracePeriod: 5m}}}}\n"
	for text, pools := range map[string]int{node: 0, node + pool: 1} {
		s, errs := FromFiles(&input.Reader{Stdin: strings.NewReader(text)}, Options{Now: now}, "-")
		if len(errs) > 0 || len(s.NodePools) != pools || (s.Unread[doctor.NodePools] == "") != (pools > 0) {
			t.Errorf("%v, %v, %q of\n%s", errs, s.NodePools, s.Unread[doctor.NodePools], text)
		}
	}
}

// A policy whose removal section was dropped by an older definition guards all the same: its managed fields say that it had one.
func TestDroppedRemoval(t *testing.T) {
	dropped := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guard", ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, APIVersion: v1alpha1.GroupVersion.String(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:removal":{"f:forceDelete":{}}}}`),
	}}}}
	kube := fake.NewClientBuilder().WithScheme(newScheme()).WithReturnManagedFields().WithObjects(dropped, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", ManagedFields: dropped.ManagedFields}}).Build()
	r := &reader{kube: kube, s: newSnapshot(Options{})}
	r.list(t.Context(), doctor.PodPolicies, &v1alpha1.PodPolicyList{})
	r.list(t.Context(), doctor.Nodes, &corev1.NodeList{})
	if !policy.InForce(r.s.PodPolicies).RemovalOfAll().Guards() || len(r.s.Nodes) != 1 || len(r.s.Nodes[0].ManagedFields) > 0 {
		t.Errorf("%v: policies %+v, nodes %+v", r.s.Unread, r.s.PodPolicies, r.s.Nodes)
	}
}

// Of the pods of all namespaces those are kept that ask something of their node, with what they ask, and nothing else.
func TestRecords(t *testing.T) {
	created := metav1.NewTime(now.Truncate(time.Second))
	pod := func(namespace string, annotations map[string]string) *corev1.Pod {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "p", CreationTimestamp: created, Annotations: annotations}}
	}
	kube := fake.NewClientBuilder().WithScheme(newScheme()).WithObjects(pod("shop", map[string]string{v1alpha1.AnnotationEnforcement: "{}"}), pod("free", map[string]string{"a": "b"})).Build()
	r := &reader{kube: kube, s: newSnapshot(Options{})}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
	r.list(t.Context(), doctor.Records, list)
	want := map[types.NamespacedName]doctor.Record{{Namespace: "shop", Name: "p"}: {Created: created.Time, Text: "{}"}}
	if d := cmp.Diff(want, r.s.Records); d != "" || len(r.s.Unread) != 1 {
		t.Errorf("unread %v, records (-want +got):\n%s", r.s.Unread, d)
	}
}

// An API server that lets somebody read nothing is told as such, source by source; one that is not there is an error.
func TestFromClusterForbidden(t *testing.T) {
	var methods []string
	date := now.Add(-24 * time.Hour)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		methods = append(methods, r.Method)
		w.Header().Set("Date", date.Add(time.Duration(len(methods)-1)*time.Hour).Format(http.TimeFormat))
		w.Header().Set("Content-Type", "application/json")
		switch r.URL.Path {
		case "/version":
			_, _ = w.Write([]byte(`{"gitVersion":"v1.36.3"}`))
		case "/apis":
			_, _ = w.Write([]byte(`{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}]}]}`))
		case "/api":
			_, _ = w.Write([]byte(`{"kind":"APIVersions","versions":["v1"]}`))
		case "/api/v1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"nodes","kind":"Node"},{"name":"namespaces","kind":"Namespace"},{"name":"pods","kind":"Pod","namespaced":true}]}`))
		case "/apis/apps/v1":
			_, _ = w.Write([]byte(`{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"apps/v1","resources":[{"name":"deployments","kind":"Deployment","namespaced":true}]}`))
		default:
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`))
		}
	}))
	defer server.Close()
	s, err := FromCluster(t.Context(), &rest.Config{Host: server.URL}, Options{Now: now, Kubelets: true})
	if err != nil {
		t.Fatal(err)
	}
	for source, want := range map[doctor.Source]string{
		doctor.Version: "", doctor.APIs: "", doctor.Nodes: "you may not list nodes", doctor.Deployments: "you may not list deployments.apps", doctor.Namespace: "you may not get namespaces",
		doctor.Pods: "you may not list pods in Podgrace's namespaces", doctor.ControllerManagers: "you may not list pods in kube-system", doctor.Records: "you may not list pods", doctor.Metrics: "you may not get /metrics",
	} {
		if s.Unread[source] != want {
			t.Errorf("%s: %q", source, s.Unread[source])
		}
	}
	for _, m := range methods {
		if m != http.MethodGet {
			t.Errorf("sent %s", m)
		}
	}
	if s.Now != date {
		t.Errorf("it is %s, and the API server says %s", s.Now, date)
	}
	server.Close()
	if _, err := FromCluster(t.Context(), &rest.Config{Host: server.URL}, Options{Now: now}); err == nil {
		t.Error("no error without an API server")
	}
}

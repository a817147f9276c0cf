package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/lookup"
)

func cluster(objects ...client.Object) client.WithWatch {
	return fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(objects...).Build()
}

func namespace(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": name}}}
}

func podPolicy(name string, spec v1alpha1.PodPolicySpec) *v1alpha1.PodPolicy {
	return &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
}

func newEngine(t testing.TB, informers, live client.Reader, policies ...*v1alpha1.PodPolicy) *webhook.Engine {
	t.Helper()
	store, err := webhook.NewPolicyStore(logr.Discard(), policies...)
	if err != nil {
		t.Fatal(err)
	}
	return &webhook.Engine{Policies: store, Lookup: &lookup.Lookup{Informers: informers, Live: live}, Ready: func() bool { return true }}
}

func review(kind metav1.GroupVersionKind, object string) admission.Request {
	return admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Kind: kind, Namespace: "shop", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)},
	}}
}

var pods = metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}

const plainPod = `{"metadata":{"name":"p","labels":{"app":"web"}},"spec":{"containers":[{"name":"c"}],"priority":0,"preemptionPolicy":"PreemptLowerPriority","terminationGracePeriodSeconds":30}}`

func message(r admission.Response) string {
	if r.Result == nil {
		return ""
	}
	return r.Result.Message
}

// Fields that this version of the types does not know survive, at every level: the patch has our fields only.
func TestUnknownFieldsSurvive(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop")), nil, podPolicy("p", v1alpha1.PodPolicySpec{
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45))},
		Node:        &v1alpha1.Enforcement{OOM: &v1alpha1.OOMEnforcement{Rank: 1}},
	}))
	object := `{"future":1,"metadata":{"name":"p","annotations":{"a/b":"c"}},"spec":{"containers":[{"name":"c","later":true}],"terminationGracePeriodSeconds":30,"newer":{"x":[1]}}}`
	response := webhook.Handler(e.MutatePods).Handle(t.Context(), review(pods, object))
	raw, err := json.Marshal(response.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(raw)
	if err != nil {
		t.Fatal(err)
	}
	got, err := patch.Apply([]byte(object))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"future":1,"metadata":{"name":"p","annotations":{"a/b":"c","podgrace.dev/enforcement":"{\"oom\":{\"rank\":1}}"}},"spec":{"containers":[{"name":"c","later":true}],"terminationGracePeriodSeconds":45,"newer":{"x":[1]}}}`
	if !jsonpatch.Equal(got, []byte(want)) {
		t.Errorf("got %s", got)
	}
	if response.AuditAnnotations["terminationGracePeriodSeconds"] != "45 (PodPolicy p: default 45 s (30 counts as unset))" || response.AuditAnnotations["policies"] != "p" {
		t.Errorf("audit annotations %v", response.AuditAnnotations)
	}
}

// Until the informers have synced the pod passes, and its creator is told.
// What an API server asks, whose pod is decoded with its review, is answered as what asks the handler itself, as a review of files does.
func TestPodsAreAnsweredAlike(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop")), nil, podPolicy("p", v1alpha1.PodPolicySpec{
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45)), MaxSeconds: new(int64(60))},
	}))
	changed := func(from, to string) admission.Request { return review(pods, strings.Replace(plainPod, from, to, 1)) }
	for name, tt := range map[string]struct {
		request          admission.Request
		mutates, refuses bool
	}{
		"a pod that chose nothing": {request: review(pods, plainPod), mutates: true},
		"one beyond a limit":       {request: changed(`:30`, `:61`), mutates: true, refuses: true},
		"one within it":            {request: changed(`:30`, `:50`)},
		"what is no pod":           {request: changed(`[{"name":"c"}]`, `7`), refuses: true},
		"another kind":             {request: review(metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, plainPod), refuses: true},
	} {
		for path, handler := range map[string]webhook.Handler{webhook.PathMutatePods: e.MutatePods, webhook.PathValidatePods: e.ValidatePods} {
			want := handler.Handle(t.Context(), tt.request)
			if err := want.Complete(tt.request); err != nil {
				t.Fatal(err)
			}
			got := served(t, e, path, tt.request)
			if d := cmp.Diff(&want.AdmissionResponse, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("%s, %s: (-the handler, +served):\n%s", name, path, d)
			}
			if path == webhook.PathMutatePods && len(got.Patch) > 0 != tt.mutates || path == webhook.PathValidatePods && got.Allowed == tt.refuses {
				t.Errorf("%s, %s: %+v", name, path, got)
			}
		}
	}
}

func TestNotReady(t *testing.T) {
	e := newEngine(t, cluster(), nil)
	e.Ready = func() bool { return false }
	registry := prometheus.NewRegistry()
	e.Metrics = webhook.NewMetrics(registry, e.Policies.(*webhook.PolicyStore), webhook.Namespaces{Most: 100})
	for name, handle := range map[string]webhook.Handler{"mutate": e.MutatePods, "validate": e.ValidatePods} {
		got := handle.Handle(t.Context(), review(pods, plainPod))
		if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "does not know the cluster yet") || len(got.Patches) > 0 {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	got := webhook.Handler(e.ValidateWorkloads).Handle(t.Context(), review(metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, `{}`))
	if !got.Allowed || len(got.Warnings) != 1 {
		t.Errorf("workloads: got %+v", got)
	}
	const missed = `# HELP podgrace_reviews_missed_total Admission requests that this replica allowed without judging them, by path: its informers had not synced, or a lookup failed. Requests that never reached a replica are not counted.
# TYPE podgrace_reviews_missed_total counter
podgrace_reviews_missed_total{path="/mutate-evictions"} 0
podgrace_reviews_missed_total{path="/mutate-pods"} 1
podgrace_reviews_missed_total{path="/validate-pod-groups"} 0
podgrace_reviews_missed_total{path="/validate-pods"} 1
podgrace_reviews_missed_total{path="/validate-workloads"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(missed), "podgrace_reviews_missed_total"); err != nil {
		t.Error(err)
	}
}

// A class that was deleted between the two reviews: the pod passes, and its creator is told what was not checked.
func TestPriorityClassDeletedBetweenTwoReviews(t *testing.T) {
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10}
	informers := cluster(namespace("shop"), class)
	e := newEngine(t, informers, nil, podPolicy("p", v1alpha1.PodPolicySpec{Priority: &v1alpha1.PrioritySection{ClassName: "high"}}))
	if got := webhook.Handler(e.MutatePods).Handle(t.Context(), review(pods, plainPod)); len(got.Patches) != 3 {
		t.Fatalf("got %+v, want the triple", got)
	}
	if err := informers.Delete(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	final := strings.Replace(plainPod, `"priority":0`, `"priority":10,"priorityClassName":"high"`, 1)
	got := webhook.Handler(e.ValidatePods).Handle(t.Context(), review(pods, final))
	if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], `PriorityClass "high" was not found when the pod was checked`) {
		t.Errorf("got %+v", got)
	}
}

func TestPriorityMismatchIsRefused(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop"), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10}), nil)
	final := strings.Replace(plainPod, `"priority":0`, `"priority":11,"priorityClassName":"high"`, 1)
	got := webhook.Handler(e.ValidatePods).Handle(t.Context(), review(pods, final))
	if got.Allowed || got.Result.Reason != "PriorityMismatch" || !strings.Contains(message(got), `spec.priority is 11 but PriorityClass "high" has value 10`) {
		t.Errorf("got %+v", got)
	}
}

// The namespace and the controller of a pod may be a moment old: what the informers lack is read live, and what can't be
// read at all is said.
func TestFreshObjectsAreReadLive(t *testing.T) {
	rs := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	spec := v1alpha1.PodPolicySpec{
		Match:          &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{"team": "shop"})},
		TopologySpread: &v1alpha1.TopologySpreadSection{Constraints: []v1alpha1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway}}},
	}
	owned := `{"metadata":{"generateName":"web-","labels":{"app":"web"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web","uid":"1","controller":true}]},"spec":{}}`
	down := interceptor.NewClient(cluster(), interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("connection refused")
	}})
	for name, tc := range map[string]struct {
		live    client.Reader
		patches int
		warning string
	}{
		"live has both":      {cluster(namespace("shop"), rs), 1, ""},
		"no controller":      {cluster(namespace("shop")), 0, "ReplicaSet web, its controller, was not found"},
		"API server is away": {down, 0, "namespace shop could not be looked up"},
	} {
		t.Run(name, func(t *testing.T) {
			got := webhook.Handler(newEngine(t, cluster(), tc.live, podPolicy("p", spec)).MutatePods).Handle(t.Context(), review(pods, owned))
			if !got.Allowed || len(got.Patches) != tc.patches {
				t.Errorf("got %+v", got)
			}
			if all := strings.Join(got.Warnings, "\n"); !strings.Contains(all, tc.warning) || tc.warning == "" && all != "" {
				t.Errorf("warnings %q, want %q", got.Warnings, tc.warning)
			}
		})
	}
}

// An informer that fails is no reason to stop pods.
func TestInformerFails(t *testing.T) {
	broken := interceptor.NewClient(cluster(namespace("shop")), interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
		return errors.New("cache is broken")
	}})
	got := webhook.Handler(newEngine(t, broken, nil).MutatePods).Handle(t.Context(), review(pods, plainPod))
	if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "defaults were not applied to this pod: list PriorityClasses: cache is broken") {
		t.Errorf("got %+v", got)
	}
}

func TestRequestsThatAreNotForUs(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop")), nil)
	update := review(pods, plainPod)
	update.Operation = admissionv1.Update
	resize := review(pods, plainPod)
	resize.SubResource = "resize"
	for name, tc := range map[string]struct {
		request admission.Request
		allowed bool
		says    string
	}{
		"update":       {update, true, "pods are decided at creation only"},
		"subresource":  {resize, true, "pods are decided at creation only"},
		"other kind":   {review(metav1.GroupVersionKind{Version: "v1", Kind: "Service"}, `{}`), false, "the request is for /v1 Service"},
		"no kind":      {review(metav1.GroupVersionKind{}, `{}`), false, "is this an AdmissionReview?"},
		"no object":    {review(pods, ``), false, "decode the pod"},
		"wrong shapes": {review(pods, `{"spec":{"containers":{}}}`), false, "decode the pod"},
	} {
		t.Run(name, func(t *testing.T) {
			got := webhook.Handler(e.MutatePods).Handle(t.Context(), tc.request)
			if said := message(got) + strings.Join(got.Warnings, ""); got.Allowed != tc.allowed || !strings.Contains(said, tc.says) {
				t.Errorf("got allowed %v, %q", got.Allowed, said)
			}
		})
	}
}

// Whoever applies a workload is warned about what its pods will meet, of each kind that makes pods; what can't be read is said.
func TestWorkloadsAreForeseen(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop")), nil, podPolicy("p", v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(60))}}))
	const template = `"template":{"metadata":{},"spec":{"containers":[{"name":"a"}],"terminationGracePeriodSeconds":5}}`
	for kind, object := range map[metav1.GroupVersionKind]string{
		{Group: "apps", Version: "v1", Kind: "Deployment"}:  `{"spec":{` + template + `}}`,
		{Group: "apps", Version: "v1", Kind: "ReplicaSet"}:  `{"spec":{` + template + `}}`,
		{Group: "apps", Version: "v1", Kind: "StatefulSet"}: `{"spec":{` + template + `}}`,
		{Group: "apps", Version: "v1", Kind: "DaemonSet"}:   `{"spec":{` + template + `}}`,
		{Group: "batch", Version: "v1", Kind: "Job"}:        `{"spec":{` + template + `}}`,
		{Group: "batch", Version: "v1", Kind: "CronJob"}:    `{"spec":{"jobTemplate":{"spec":{` + template + `}}}}`,
		{Version: "v1", Kind: "ReplicationController"}:      `{"spec":{` + template + `}}`,
	} {
		got := webhook.Handler(e.ValidateWorkloads).Handle(t.Context(), review(kind, object))
		if want := "terminationGracePeriodSeconds is now 60, not 5: PodPolicy p: minimum 60 s"; !got.Allowed || len(got.Warnings) != 1 || got.Warnings[0] != want {
			t.Errorf("%s: %v, %q", kind.Kind, got.Allowed, got.Warnings)
		}
	}
	got := webhook.Handler(e.ValidateWorkloads).Handle(t.Context(), review(metav1.GroupVersionKind{Version: "v1", Kind: "ReplicationController"}, `{"spec":{}}`))
	if !got.Allowed || len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "this workload was not checked: ") {
		t.Errorf("without a template: %+v", got)
	}
}

// Each probe's grace period has a name of its own in the audit log, beside the pod's.
func TestAuditOfProbes(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop")), nil, podPolicy("p", v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(60))}}))
	probe := `{"terminationGracePeriodSeconds":7}`
	got := webhook.Handler(e.MutatePods).Handle(t.Context(), review(pods, `{"metadata":{},"spec":{"containers":[{"name":"a","livenessProbe":`+probe+`,"startupProbe":`+probe+`}],"terminationGracePeriodSeconds":5}}`))
	const why = "60 (PodPolicy p: minimum 60 s)"
	want := map[string]string{"policies": "p", "terminationGracePeriodSeconds": why, "containers.0.livenessProbe": why, "containers.0.startupProbe": why}
	if diff := cmp.Diff(want, got.AuditAnnotations); diff != "" {
		t.Error(diff)
	}
}

// All denials are told at once, and the audit log has their reasons.
func TestRefusal(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop"), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "x"}}), nil,
		podPolicy("p", v1alpha1.PodPolicySpec{Priority: &v1alpha1.PrioritySection{AllowedClassNames: []string{"a"}}, GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(60))}}))
	got := webhook.Handler(e.ValidatePods).Handle(t.Context(), review(pods, `{"metadata":{},"spec":{"priorityClassName":"x","priority":0,"preemptionPolicy":"Never","terminationGracePeriodSeconds":5}}`))
	if got.Allowed || got.Result.Code != 403 || !strings.Contains(message(got), `"x" is not allowed here`) || !strings.Contains(message(got), "must be 60") {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff(map[string]string{"policies": "p", "denied": "PriorityClassNotAllowed,GracePeriodOutOfBounds"}, got.AuditAnnotations); diff != "" {
		t.Error(diff)
	}
}

func FuzzMutatePods(f *testing.F) {
	f.Add([]byte(plainPod))
	f.Add([]byte(`{"spec":{"containers":[{"lifecycle":{"preStop":{"sleep":{"seconds":9223372036854775807}}}}],"terminationGracePeriodSeconds":-9223372036854775808}}`))
	store, err := webhook.NewPolicyStore(logr.Discard(), podPolicy("p", v1alpha1.PodPolicySpec{
		Priority:    &v1alpha1.PrioritySection{ClassName: "high", AllowedClassNames: []string{"high"}},
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45)), MaxSeconds: new(int64(90)), PreStopMarginSeconds: new(int64(5))},
		Node:        &v1alpha1.Enforcement{OOM: &v1alpha1.OOMEnforcement{Rank: 1}},
		Removal:     &v1alpha1.RemovalSection{Protect: v1alpha1.ProtectStateful},
	}))
	if err != nil {
		f.Fatal(err)
	}
	informers := cluster(namespace("shop"), &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "high"}, Value: 10})
	e := &webhook.Engine{Policies: store, Lookup: &lookup.Lookup{Informers: informers}, Ready: func() bool { return true }}
	f.Fuzz(func(t *testing.T, object []byte) {
		got := webhook.Handler(e.MutatePods).Handle(t.Context(), review(pods, string(object)))
		if !got.Allowed && message(got) == "" {
			t.Error("refused without a reason")
		}
		if _, err := json.Marshal(got.Patches); err != nil {
			t.Errorf("patch: %v", err)
		}
	})
}

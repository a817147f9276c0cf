package docs_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/decisionlog"
	"github.com/podgrace/podgrace/internal/program/logging"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/lookup"
)

var (
	linesShown = regexp.MustCompile("(?s)```json\n(.*?)```\n")
	jqShown    = regexp.MustCompile("jq -rR '([^']*)'")
	fieldShown = regexp.MustCompile("(?m)^\\| (`[^|]*`) \\|")
	// What differs in each run, and between versions.
	times   = regexp.MustCompile(`"ts":"[^"]*"`)
	callers = regexp.MustCompile(`(decisions\.go):\d+`)
	took    = regexp.MustCompile(`"seconds":[0-9.e-]+`)
)

// logged are the lines of the page, as the webhook writes them.
func logged(t *testing.T) string {
	t.Helper()
	now := time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)
	db := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "pod-1",
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "set-1", Controller: new(true)}}}, Spec: corev1.PodSpec{NodeName: "n1", TerminationGracePeriodSeconds: new(int64(30))}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-1"}, Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}}}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n1"}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: now.Add(-10 * time.Minute)}}}
	kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(db, node, lease,
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "standard"}, Value: 1000}).Build()
	store, err := webhook.NewPolicyStore(logr.Discard(),
		&v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "stateful"}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}}},
		&v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "defaults"}, Spec: v1alpha1.PodPolicySpec{
			Priority: &v1alpha1.PrioritySection{ClassName: "standard"}, GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45)), MaxSeconds: new(int64(120))},
		}})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	log := logging.Options{Format: logging.JSON}
	engine := &webhook.Engine{
		Policies: store, Lookup: &lookup.Lookup{Informers: kube, Live: kube}, Ready: func() bool { return true }, Clock: testclock.NewFakePassiveClock(now),
		Decisions: webhook.NewDecisions(log.New(&out), 100, prometheus.NewRegistry()),
	}
	encoded := func(o any) runtime.RawExtension {
		text, err := json.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: text}
	}
	web := func(grace int64) runtime.RawExtension {
		return encoded(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-5d9c7b-", OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-5d9c7b", UID: "set-2", Controller: new(true)}}},
			Spec: corev1.PodSpec{TerminationGracePeriodSeconds: &grace, Priority: new(int32(0)), PreemptionPolicy: new(corev1.PreemptLowerPriority)}})
	}
	noGrace := runtime.RawExtension{Raw: []byte(`{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","gracePeriodSeconds":0}`)}
	for i, r := range []struct {
		path, user string
		request    admissionv1.AdmissionRequest
	}{
		{webhook.PathValidateRemoval, "alice@example.com", admissionv1.AdmissionRequest{Operation: admissionv1.Delete, Name: "db-0", OldObject: encoded(db), Options: noGrace}},
		{webhook.PathMutatePods, "system:serviceaccount:kube-system:replicaset-controller", admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: web(30)}},
		{webhook.PathMutatePods, "system:serviceaccount:kube-system:replicaset-controller", admissionv1.AdmissionRequest{Operation: admissionv1.Create, Object: web(3600)}},
		{webhook.PathValidateRemoval, "bob@example.com", admissionv1.AdmissionRequest{Operation: admissionv1.Create, SubResource: "eviction", Name: "db-0", DryRun: new(true), Object: encoded(map[string]any{"deleteOptions": map[string]any{"gracePeriodSeconds": 0}})}},
	} {
		req := admission.Request{AdmissionRequest: r.request}
		req.UID = types.UID("8e6d7a5c-1f0b-4c3d-9a2e-00000000000" + string(rune('1'+i)))
		req.Kind, req.Resource, req.Namespace = metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, "shop"
		req.UserInfo = authenticationv1.UserInfo{Username: r.user}
		engine.Decisions.Logged(r.path, engine.Handlers()[r.path]).Handle(t.Context(), req)
	}
	engine.Decisions.Flush(time.Minute)
	text := times.ReplaceAllString(out.String(), `"ts":"2026-11-26T10:00:00.000000Z"`)
	return took.ReplaceAllString(callers.ReplaceAllString(text, "$1:140"), `"seconds":0.0004`)
}

// logs.md shows what the webhook writes, and has each field of it.
func TestLogsAreAsShown(t *testing.T) {
	page, lines := readPage(t, "logs.md"), logged(t)
	shown := linesShown.FindStringSubmatchIndex(page)
	if shown == nil {
		t.Fatal("logs.md shows no lines")
	}
	fresh(t, "logs.md", page[:shown[2]]+lines+page[shown[3]:])
	documented := map[string]bool{}
	for _, m := range fieldShown.FindAllStringSubmatch(page, -1) {
		for field := range strings.SplitSeq(m[1], ", ") {
			documented[strings.Trim(field, "`")] = true
		}
	}
	var out bytes.Buffer
	log := logging.Options{Format: logging.JSON}
	decisionlog.Log(log.New(&out), decisionlog.Entry{
		Component: "x", Decision: "x", Reason: "x", Message: "x", Policy: "x", Policies: "x", User: "x", UID: "x", Path: "x", Operation: "x", Resource: "x", Namespace: "x", Name: "x",
		Owner: "x", Node: "x", Fence: "x", DryRun: true, Defaults: "x", Seconds: 1, Suppressed: 1,
	})
	var all map[string]any
	if err := json.Unmarshal(out.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	all["err"] = "x" // of errors
	if has, want := slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(all)); !slices.Equal(has, want) {
		t.Errorf("the page has the fields\n%q, the log\n%q", has, want)
	}
}

// The queries of the page find what they are said to.
func TestQueriesOfLogs(t *testing.T) {
	jq, err := exec.LookPath("jq")
	if err != nil {
		t.Skip("the page's queries are jq's, which is not installed")
	}
	lines := "starting before the flags are read\n" + strings.Replace(logged(t), `"decision":"Deny"`, `"decision":"Warn"`, 1)
	queries := jqShown.FindAllStringSubmatch(readPage(t, "logs.md"), -1)
	if len(queries) != 2 {
		t.Fatalf("logs.md shows %d queries", len(queries))
	}
	for i, want := range []string{
		"shop\tstateful\talice@example.com\tStatefulSet/db\n",
		"2026-11-26T10:00:00.000000Z\twebhook\talice@example.com\tWarn\tUnsafe\tpod shop/db-0 may still run on n1",
	} {
		command := exec.CommandContext(t.Context(), jq, "-rR", queries[i][1])
		command.Stdin = strings.NewReader(lines)
		got, err := command.CombinedOutput()
		if err != nil || !strings.HasPrefix(string(got), want) {
			t.Errorf("%s: %v\n%s\nwant %s", queries[i][1], err, got, want)
		}
	}
}

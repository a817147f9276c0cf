package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	patchapi "gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// The removals of these tests are of pod db-0 of a StatefulSet in namespace shop, on node n1, which has been silent for ten
// minutes. A policy guards all namespaces and allows ops:repair.

const repair = "system:serviceaccount:ops:repair"

type podChange func(*corev1.Pod)

func dbPod(changes ...podChange) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "pod-1",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "set-1", Controller: new(true)}}},
		Spec:   corev1.PodSpec{NodeName: "n1", TerminationGracePeriodSeconds: new(int64(30)), Containers: []corev1.Container{{Name: "db"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
	for _, c := range changes {
		c(p)
	}
	return p
}

func halfDone(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, new(int64(0))
}

func stateless(p *corev1.Pod) { p.OwnerReferences = nil }

// recorded is what admission wrote when it was created.
func recorded(p *corev1.Pod) {
	p.Annotations = map[string]string{v1alpha1.AnnotationProtected: "StatefulSet.apps/db"}
}

// confirmed is what kubectl podgrace confirm writes, while n1 is silent.
func confirmed(p *corev1.Pod) { confirmedAgo(0)(p) }

func confirmedAgo(ago time.Duration) podChange {
	return func(p *corev1.Pod) {
		n := guard.NodeOf(silentNode(), lease(9*time.Minute), time.Now()) // a little later than in the cluster of the test
		p.Annotations = map[string]string{guard.AnnotationConfirmForceDelete: guard.ConfirmPod(p, n, time.Now().Add(-ago))}
	}
}

func ownGrace(n int64) podChange {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &n }
}

func ended(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }

func labelled(p *corev1.Pod) { p.Labels = map[string]string{"touched": "true"} }

func finalizers(names ...string) podChange { return func(p *corev1.Pod) { p.Finalizers = names } }

func silentNode() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-1"},
		Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot-1"}, Conditions: []corev1.NodeCondition{
			{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: metav1.Time{Time: time.Now().Add(-10 * time.Minute)}},
		}},
	}
}

func lease(ago time.Duration) *coordinationv1.Lease {
	return &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n1"}, Spec: coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: time.Now().Add(-ago)}}}
}

// attachment is of node n1. The API server stores it without a namespace.
func attachment() *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "n1", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv-data")}},
		Status: storagev1.VolumeAttachmentStatus{Attached: true}}
}

// silentCluster is what a live read finds, with more objects.
func silentCluster(objects ...client.Object) client.WithWatch {
	objects = append([]client.Object{namespace("shop"), silentNode(), lease(10 * time.Minute)}, objects...)
	return fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(objects...).
		WithIndex(&corev1.Pod{}, "spec.nodeName", func(o client.Object) []string { return []string{o.(*corev1.Pod).Spec.NodeName} }).Build()
}

// confirmedOff hands out nodes that somebody has confirmed to be off, as they and their leases are.
type confirmedOff struct{ client.Reader }

func (c confirmedOff) Get(ctx context.Context, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
	err := c.Reader.Get(ctx, key, into, options...)
	if n, ok := into.(*corev1.Node); ok && err == nil {
		var renewed coordinationv1.Lease
		err = c.Reader.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: n.Name}, &renewed)
		n.Annotations = map[string]string{guard.AnnotationConfirmOff: guard.ConfirmOff(n, &renewed)}
	}
	return err
}

// away is an API server that does not answer.
func away() client.WithWatch {
	return interceptor.NewClient(silentCluster(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return errors.New("connection refused")
		},
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("connection refused")
		},
	})
}

func guarding(change ...func(*v1alpha1.RemovalSection)) *v1alpha1.PodPolicy {
	r := &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectStateful, AllowedActors: []string{repair}}
	for _, c := range change {
		c(r)
	}
	return podPolicy("guarded", v1alpha1.PodPolicySpec{Removal: r})
}

func raising(r *v1alpha1.RemovalSection) { r.EvictionWithoutGrace = v1alpha1.GraceRaise }

// guardedEngine reads everything live.
func guardedEngine(t *testing.T, live client.Reader, policies ...*v1alpha1.PodPolicy) *webhook.Engine {
	t.Helper()
	if len(policies) == 0 {
		policies = append(policies, guarding())
	}
	e := newEngine(t, cluster(namespace("shop")), live, policies...)
	e.Exempt = policy.ExemptIn("podgrace-system")
	return e
}

type requestChange func(*admission.Request)

func encoded(o any) runtime.RawExtension {
	text, err := json.Marshal(o)
	if err != nil {
		panic(err)
	}
	return runtime.RawExtension{Raw: text}
}

func removal(operation admissionv1.Operation, resource, sub, name string, changes ...requestChange) admission.Request {
	req := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: operation, Resource: metav1.GroupVersionResource{Version: "v1", Resource: resource}, SubResource: sub, Name: name,
		UserInfo: authenticationv1.UserInfo{Username: "alice", UID: "7", Groups: []string{"system:authenticated"}, Extra: map[string]authenticationv1.ExtraValue{"scopes": {"all"}}},
	}}
	if resource == "pods" {
		req.Namespace = "shop"
	}
	for _, c := range changes {
		c(&req)
	}
	return req
}

func by(user string) requestChange { return func(r *admission.Request) { r.UserInfo.Username = user } }

func old(o any) requestChange { return func(r *admission.Request) { r.OldObject = encoded(o) } }

func object(o any) requestChange { return func(r *admission.Request) { r.Object = encoded(o) } }

// unnamed is how the requests of a collection come.
func unnamed(r *admission.Request) { r.Name = "" }

func optioned(text string) requestChange {
	return func(r *admission.Request) { r.Options = runtime.RawExtension{Raw: []byte(text)} }
}

func dryRun(r *admission.Request) { r.DryRun = new(true) }

const noGrace = `{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","gracePeriodSeconds":0}`

func forceDelete(pod *corev1.Pod, changes ...requestChange) admission.Request {
	return removal(admissionv1.Delete, "pods", "", pod.Name, append([]requestChange{old(pod), optioned(noGrace)}, changes...)...)
}

func eviction(body string, changes ...requestChange) admission.Request {
	return removal(admissionv1.Create, "pods", "eviction", "db-0", append([]requestChange{func(r *admission.Request) { r.Object.Raw = []byte(body) }}, changes...)...)
}

const (
	evictionV1      = `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"db-0","namespace":"shop"},"deleteOptions":{"gracePeriodSeconds":0,"preconditions":{"uid":"pod-1"}}}`
	evictionV1beta1 = `{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":"db-0","namespace":"shop"},"deleteOptions":{"gracePeriodSeconds":0}}`
	evictionBare    = `{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"db-0","namespace":"shop"}}`
)

func updated(sub string, before, after *corev1.Pod, changes ...requestChange) admission.Request {
	return removal(admissionv1.Update, "pods", sub, before.Name, append([]requestChange{old(before), object(after)}, changes...)...)
}

func taint(before, after bool, changes ...requestChange) admission.Request {
	node := func(tainted bool) *corev1.Node {
		n := silentNode()
		n.Spec.Taints = []corev1.Taint{{Key: "x", Effect: corev1.TaintEffectNoSchedule}}
		if tainted {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute})
		}
		return n
	}
	return removal(admissionv1.Update, "nodes", "", "n1", append(changes, old(node(before)), object(node(after)))...)
}

type nodeChange = func(*corev1.Node)

func changedNode(changes ...nodeChange) *corev1.Node {
	n := silentNode()
	for _, c := range changes {
		c(n)
	}
	return n
}

// held is a Node that somebody drains before it goes, draining one that is to go, and goes nothing of that.
func held(n *corev1.Node) { n.Finalizers = []string{"karpenter.sh/termination"} }

// adopted has a finalizer that the DELETE itself takes away.
func adopted(n *corev1.Node) { n.Finalizers = []string{"orphan"} }

func draining(n *corev1.Node) {
	n.DeletionTimestamp = &metav1.Time{Time: time.Now()}
	n.Finalizers = []string{"karpenter.sh/termination", "example.org/hold"}
}

func goes(*corev1.Node) {}

func outOfService(n *corev1.Node) {
	n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}
}

// drained is an update of a Node.
func drained(subresource string, before nodeChange, after ...nodeChange) admission.Request {
	return removal(admissionv1.Update, "nodes", subresource, "n1", old(changedNode(before)), object(changedNode(after...)))
}

// served is the answer of the real HTTP handler to a whole AdmissionReview.
func served(t *testing.T, e *webhook.Engine, path string, req admission.Request) *admissionv1.AdmissionResponse {
	t.Helper()
	text, err := json.Marshal(admissionv1.AdmissionReview{TypeMeta: metav1.TypeMeta{APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview"}, Request: &req.AdmissionRequest})
	if err != nil {
		t.Fatal(err)
	}
	mux := paths{}
	e.Register(mux)
	call := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(text))
	call.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	mux[path].ServeHTTP(recorder, call)
	var review admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &review); err != nil || review.Response == nil {
		t.Fatalf("%s: %v", recorder.Body, err)
	}
	return review.Response
}

type paths map[string]http.Handler

func (p paths) Register(path string, hook http.Handler) { p[path] = hook }

// Each road as the API server sends it: refused with who, where and what to type; let through for an actor that the policy
// names, where the node is confirmed off, and where no policy guards.
func TestRemovalRoads(t *testing.T) {
	const onSilentNode = "n1 (not ready, silent since "
	for name, tc := range map[string]struct {
		request admission.Request
		road    string
		says    []string
	}{
		"kubectl delete --force":                   {forceDelete(dbPod()), "delete", []string{"pod shop/db-0 may still run on " + onSilentNode, "it is a pod of StatefulSet db", "kubectl podgrace confirm -n shop db-0"}},
		"DELETECOLLECTION with grace 0":            {forceDelete(dbPod(), func(r *admission.Request) { r.Name = "" }), "delete", []string{"pod shop/db-0 may still run"}},
		"DELETECOLLECTION without options, own 0":  {removal(admissionv1.Delete, "pods", "", "", old(dbPod(ownGrace(0)))), "delete", []string{"pod shop/db-0 may still run"}},
		"plain DELETE, a stored 0 was left behind": {removal(admissionv1.Delete, "pods", "", "db-0", old(dbPod(halfDone)), optioned(`{}`)), "delete", []string{"pod shop/db-0 may still run"}},
		"options with a field of a later version":  {removal(admissionv1.Delete, "pods", "", "db-0", old(dbPod()), optioned(`{"gracePeriodSeconds":0,"later":[1]}`)), "delete", []string{"pod shop/db-0 may still run"}},
		"eviction, policy/v1":                      {eviction(evictionV1), "eviction", []string{"pod shop/db-0 may still run on " + onSilentNode}},
		"eviction, policy/v1beta1":                 {eviction(evictionV1beta1), "eviction", []string{"pod shop/db-0 may still run on " + onSilentNode}},
		"status Failed":                            {updated("status", dbPod(), dbPod(ended)), "status", []string{"pod shop/db-0 may still run on " + onSilentNode}},
		"the last finalizer":                       {updated("", dbPod(halfDone, finalizers("x/y")), dbPod(halfDone)), "finalizer", []string{"pod shop/db-0 may still run on " + onSilentNode}},
		"Node DELETECOLLECTION":                    {removal(admissionv1.Delete, "nodes", "", "", old(silentNode())), "node", []string{"pods may still run on node " + onSilentNode, "shop/db-0", "kubectl podgrace confirm node/n1"}},
		"out-of-service taint, without a name":     {taint(false, true, unnamed), "out-of-service", []string{"pods may still run on node " + onSilentNode, "kubectl podgrace confirm node/n1"}},
		"VolumeAttachment DELETECOLLECTION":        {removal(admissionv1.Delete, "volumeattachments", "", "", old(attachment())), "volume-attachment", []string{"node " + onSilentNode, "may still write to volume pv-data"}},
		"DELETE of a Node that holds nobody":       {removal(admissionv1.Delete, "nodes", "", "n1", old(changedNode(adopted))), "node", []string{"pods may still run on node " + onSilentNode}},
		"Node DELETE":                              {removal(admissionv1.Delete, "nodes", "", "n1", old(silentNode())), "node", []string{"pods may still run on node " + onSilentNode, "shop/db-0", "kubectl podgrace confirm node/n1"}},
		"the last finalizer of a Node":             {drained("", draining, goes), "node", []string{"pods may still run on node " + onSilentNode, "shop/db-0"}},
		"the last finalizer, by its status":        {drained("status", draining, goes), "node", []string{"pods may still run on node " + onSilentNode, "shop/db-0"}},
		"the last finalizer, and the taint":        {drained("", draining, goes, outOfService), "node", []string{"pods may still run on node " + onSilentNode, "shop/db-0"}},
		"a Node that is created with the taint":    {removal(admissionv1.Create, "nodes", "", "n1", object(changedNode(outOfService))), "out-of-service", []string{"pods may still run on node " + onSilentNode}},
		"out-of-service taint":                     {taint(false, true), "out-of-service", []string{"pods may still run on node " + onSilentNode, "kubectl podgrace confirm node/n1"}},
		"VolumeAttachment DELETE":                  {removal(admissionv1.Delete, "volumeattachments", "", "csi-1", old(attachment())), "volume-attachment", []string{"node " + onSilentNode, "may still write to volume pv-data"}},
	} {
		t.Run(name, func(t *testing.T) {
			live, now := silentCluster(dbPod()), testclock.NewFakePassiveClock(time.Now()) // the texts say for how long a node is silent
			guarded := guardedEngine(t, live)
			guarded.Clock = now
			got := served(t, guarded, webhook.PathValidateRemoval, tc.request)
			if got.Allowed || got.Result.Code != http.StatusForbidden || got.Result.Reason != "Unsafe" {
				t.Fatalf("got %+v", got)
			}
			for _, part := range append(tc.says, "Ways on: ", "(PodPolicy guarded)") {
				if !strings.Contains(got.Result.Message, part) {
					t.Errorf("the refusal lacks %q: %s", part, got.Result.Message)
				}
			}
			if diff := cmp.Diff(map[string]string{"removal": tc.road, "verdict": "Deny", "reason": "Unsafe"}, got.AuditAnnotations); diff != "" {
				t.Error(diff)
			}
			actor := tc.request
			actor.UserInfo.Username = repair
			warning := guarding(func(r *v1alpha1.RemovalSection) { r.ForceDelete = v1alpha1.RemovalWarn })
			for why, allowed := range map[string]*admissionv1.AdmissionResponse{
				"AllowedActor": served(t, guardedEngine(t, live), webhook.PathValidateRemoval, actor),
				"NodeStopped":  served(t, guardedEngine(t, confirmedOff{live}), webhook.PathValidateRemoval, tc.request),
				"NotGuarded":   served(t, newEngine(t, cluster(namespace("shop")), live), webhook.PathValidateRemoval, tc.request),
			} {
				if !allowed.Allowed || allowed.AuditAnnotations["reason"] != why || len(allowed.Warnings) > 0 {
					t.Errorf("%s: got %+v", why, allowed)
				}
			}
			warns := guardedEngine(t, live, warning)
			warns.Clock = now
			if warned := served(t, warns, webhook.PathValidateRemoval, tc.request); !warned.Allowed || strings.Join(warned.Warnings, " ") != got.Result.Message || slices.ContainsFunc(warned.Warnings, func(w string) bool { return len(w) > defaulting.MaxWarning }) {
				t.Errorf("Warn: got %+v", warned)
			}
		})
	}
}

// Ordinary work that the match conditions do not stop from being asked is let through.
func TestOrdinaryRemovals(t *testing.T) {
	shorter := func(p *corev1.Pod) {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: time.Now()}, new(int64(30))
	}
	for name, tc := range map[string]struct {
		request admission.Request
		reason  string // empty: on no road
	}{
		"a plain delete shows the effective grace": {removal(admissionv1.Delete, "pods", "", "db-0", old(dbPod()), optioned(`{"gracePeriodSeconds":30}`)), "NotForced"},
		"DELETECOLLECTION without options":         {removal(admissionv1.Delete, "pods", "", "", old(dbPod())), "NotForced"},
		"a finished pod":                           {forceDelete(dbPod(ended)), "Finished"},
		"a pod that was never scheduled":           {forceDelete(dbPod(func(p *corev1.Pod) { p.Spec.NodeName = "" })), "NeverScheduled"},
		"an eviction":                              {eviction(evictionBare), "NotForced"},
		"a status that does not end it":            {updated("status", dbPod(), dbPod(labelled)), ""},
		"a label":                                  {updated("", dbPod(), dbPod(labelled)), ""},
		"a label of a pod that has its grace":      {updated("", dbPod(shorter), dbPod(shorter, labelled)), "NotForced"},
		"one of two finalizers":                    {updated("", dbPod(halfDone, finalizers("x/y", "x/z")), dbPod(halfDone, finalizers("x/z"))), ""},
		"a Job's finalizer":                        {updated("", dbPod(halfDone, ended, finalizers("batch.kubernetes.io/job-tracking")), dbPod(halfDone, ended)), "Finished"},
		"another taint":                            {taint(false, false), ""},
		"a Node with a finalizer":                  {removal(admissionv1.Delete, "nodes", "", "n1", old(changedNode(held))), "Held"},
		"one of two finalizers of a Node":          {drained("", draining, held), ""},
		"a finalizer of a Node that stays":         {drained("", held, goes), ""},
		"status of a Node":                         {drained("status", goes, goes), ""},
		"a Node is created":                        {removal(admissionv1.Create, "nodes", "", "n1", object(silentNode())), ""},
		"the taint was there":                      {taint(true, true), ""},
		"the taint is taken away":                  {taint(true, false), ""},
		"kube-system":                              {forceDelete(dbPod(func(p *corev1.Pod) { p.Namespace = "kube-system" })), "NotGuarded"},
		"Podgrace's own":                           {forceDelete(dbPod(func(p *corev1.Pod) { p.Namespace = "podgrace-system" })), "NotGuarded"},
		"an excluded one":                          {forceDelete(dbPod(func(p *corev1.Pod) { p.Namespace = "openshift-dns" })), "NotGuarded"},
	} {
		t.Run(name, func(t *testing.T) {
			e := guardedEngine(t, silentCluster(dbPod()))
			e.Exempt = excludingOpenShift(t)
			got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), tc.request)
			if !got.Allowed || got.AuditAnnotations["reason"] != tc.reason || len(got.Warnings) > 0 {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A pod whose stored grace period is 0 is removed by any update that leaves it without finalizers, whatever it is about.
func TestFinalizerRoad(t *testing.T) {
	finalized := finalizers("x/y")
	for name, tc := range map[string]struct {
		request admission.Request
		reason  string
	}{
		"a half-done pod gets a label":    {updated("", dbPod(halfDone), dbPod(halfDone, labelled)), "Unsafe"},
		"pods/status of a half-done pod":  {updated("status", dbPod(halfDone), dbPod(halfDone, labelled)), "Unsafe"},
		"pods/status takes the finalizer": {updated("status", dbPod(halfDone, finalized), dbPod(halfDone)), "Unsafe"},
		"pods/status ends it":             {updated("status", dbPod(halfDone, finalized), dbPod(halfDone, ended)), "Unsafe"},
		"an ephemeral container":          {updated("ephemeralcontainers", dbPod(halfDone), dbPod(halfDone)), "Unsafe"},
		"a resize":                        {updated("resize", dbPod(halfDone), dbPod(halfDone)), "Unsafe"},
		"the confirmation itself":         {updated("", dbPod(halfDone), dbPod(halfDone, confirmed)), "Confirmed"},
		"a confirmation of another":       {updated("", dbPod(halfDone), dbPod(halfDone, func(p *corev1.Pod) { confirmed(p); p.Annotations[guard.AnnotationConfirmForceDelete] = "pod-0" })), "Unsafe"},
		"no other confirmation undoes the record": {updated("", dbPod(halfDone, stateless, recorded), dbPod(halfDone, stateless, func(p *corev1.Pod) {
			p.Annotations = map[string]string{guard.AnnotationConfirmForceDelete: "pod-0"}
		})), "Unsafe"},
		"it was confirmed before":             {updated("", dbPod(halfDone, finalized, confirmed), dbPod(halfDone, confirmed)), "Confirmed"},
		"it was confirmed too long before":    {updated("", dbPod(halfDone, finalized, confirmedAgo(2*time.Hour)), dbPod(halfDone, confirmedAgo(2*time.Hour))), "Unsafe"},
		"a new object can't say it finished":  {updated("", dbPod(halfDone), dbPod(halfDone, ended)), "Unsafe"},
		"a new object can't say it is bound":  {updated("", dbPod(halfDone), dbPod(halfDone, func(p *corev1.Pod) { p.Spec.NodeName = "" })), "Unsafe"},
		"a new object can't say it is nobody": {updated("", dbPod(halfDone), dbPod(halfDone, stateless)), "Unsafe"},
	} {
		t.Run(name, func(t *testing.T) {
			e := guardedEngine(t, silentCluster(dbPod()))
			got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), tc.request)
			road := guard.RoadFinalizer
			if name == "pods/status ends it" {
				road = guard.RoadStatus
			}
			if got.Allowed != (tc.reason == "Confirmed") || got.AuditAnnotations["reason"] != tc.reason || got.AuditAnnotations["removal"] != string(road) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// The facts of a review are read live, and what can't be read is not taken for good news.
func TestRemovalFacts(t *testing.T) {
	ready := func() *corev1.Node {
		n := silentNode()
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastHeartbeatTime = corev1.ConditionTrue, metav1.Time{Time: time.Now()}
		return n
	}
	without := func(kind client.Object) client.Reader {
		return interceptor.NewClient(silentCluster(dbPod()), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			if reflect.TypeOf(into) == reflect.TypeOf(kind) {
				return errors.New("connection refused")
			}
			return c.Get(ctx, key, into, options...)
		}})
	}
	// hesitant answers for a node only who waits for longer than a second.
	hesitant := interceptor.NewClient(silentCluster(dbPod()), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
		deadline, ok := ctx.Deadline()
		if _, node := into.(*corev1.Node); node && ok && time.Until(deadline) <= time.Second {
			return context.DeadlineExceeded
		}
		return c.Get(ctx, key, into, options...)
	}})
	claim := func(mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}}}
	}
	claiming := func(p *corev1.Pod) {
		stateless(p)
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	plain := fake.NewClientBuilder().WithScheme(webhook.NewScheme())
	for name, tc := range map[string]struct {
		live    client.Reader
		pod     *corev1.Pod
		allowed bool
		says    string
	}{
		"the API server is away":            {away(), dbPod(), false, "n1 (whose state could not be read)"},
		"there is no API server":            {nil, dbPod(), false, "n1 (whose state could not be read)"},
		"the node can't be read":            {without(&corev1.Node{}), dbPod(), false, "n1 (whose state could not be read)"},
		"its lease can't be read":           {without(&coordinationv1.Lease{}), dbPod(), false, "n1 (whose state could not be read)"},
		"the node is read slowly":           {hesitant, dbPod(), false, "n1 (not ready, silent since"},
		"it has no lease":                   {plain.WithObjects(silentNode()).Build(), dbPod(), false, "n1 (not ready, silent since"},
		"it is ready":                       {fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(ready(), lease(time.Second)).Build(), dbPod(), false, "n1 (ready)"},
		"it is gone":                        {cluster(), dbPod(), true, ""},
		"confirmed off":                     {confirmedOff{silentCluster()}, dbPod(), true, ""},
		"confirmed off, but its lease runs": {confirmedOff{fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(silentNode(), lease(time.Second)).Build()}, dbPod(), false, "n1 (not ready, but heard of at"},
		"an exclusive claim":                {silentCluster(claim(corev1.ReadWriteOnce)), dbPod(claiming), false, "its claim data is ReadWriteOnce"},
		"a claim that is shared":            {silentCluster(claim(corev1.ReadWriteMany)), dbPod(claiming), true, ""},
		"a claim that does not exist":       {silentCluster(), dbPod(claiming), false, "the access mode of its claim data is not known"},
		"a claim that can't be read":        {without(&corev1.PersistentVolumeClaim{}), dbPod(claiming), false, "the access mode of its claim data is not known"},
		"a pod that nothing protects":       {silentCluster(), dbPod(stateless), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got := webhook.Handler(guardedEngine(t, tc.live).ValidateRemoval).Handle(t.Context(), forceDelete(tc.pod))
			if got.Allowed != tc.allowed || !strings.Contains(message(got), tc.says) {
				t.Errorf("got %+v, %q", got, message(got))
			}
		})
	}
}

// An unreadable namespace is guarded by every policy.
func TestRemovalInAnUnknownNamespace(t *testing.T) {
	elsewhere := guarding()
	elsewhere.Spec.Match = &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{"team": "till"})}
	e := newEngine(t, cluster(), away(), elsewhere)
	if got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), forceDelete(dbPod())); got.Allowed || !strings.Contains(message(got), "(PodPolicy guarded)") {
		t.Errorf("unknown: got %+v", got)
	}
	if got := webhook.Handler(guardedEngine(t, silentCluster(), elsewhere).ValidateRemoval).Handle(t.Context(), forceDelete(dbPod())); !got.Allowed {
		t.Errorf("known: got %+v", got)
	}
}

func TestRemovalNotReady(t *testing.T) {
	e := guardedEngine(t, silentCluster(dbPod()), guarding(raising))
	e.Ready = func() bool { return false }
	got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), forceDelete(dbPod()))
	if got.Allowed || got.Result.Code != http.StatusServiceUnavailable || !strings.Contains(message(got), "does not know the cluster yet") || !strings.Contains(message(got), "try again") {
		t.Errorf("got %+v", got)
	}
	if got := webhook.Handler(e.MutateEvictions).Handle(t.Context(), eviction(evictionV1)); !got.Allowed || len(got.Patches) > 0 {
		t.Errorf("mutation: got %+v", got)
	}
}

// What no rule of ours sends is a mistake in the configuration, and is said to be one.
func TestNoRoad(t *testing.T) {
	e := guardedEngine(t, silentCluster(dbPod()))
	for name, tc := range map[string]struct {
		request admission.Request
		says    string
	}{
		"another resource":           {removal(admissionv1.Delete, "services", "", "x", old(dbPod())), "DELETE services/ is no removal that Podgrace judges: check the rules of the webhook configuration"},
		"another operation":          {removal(admissionv1.Create, "pods", "", "db-0", object(dbPod())), "CREATE pods/ is no removal"},
		"another subresource":        {removal(admissionv1.Create, "pods", "binding", "db-0", object(dbPod())), "CREATE pods/binding is no removal"},
		"a scale of a node":          {removal(admissionv1.Update, "nodes", "scale", "n1", old(silentNode()), object(silentNode())), "UPDATE nodes/scale is no removal"},
		"nothing":                    {admission.Request{}, "is no removal"},
		"no old object":              {removal(admissionv1.Delete, "pods", "", "db-0", optioned(noGrace)), "decode the old object"},
		"no new object":              {removal(admissionv1.Update, "pods", "status", "db-0", old(dbPod())), "decode the object"},
		"no JSON":                    {removal(admissionv1.Delete, "volumeattachments", "", "a", func(r *admission.Request) { r.OldObject.Raw = []byte("{") }), "decode the old object"},
		"options of another shape":   {removal(admissionv1.Delete, "pods", "", "db-0", old(dbPod()), optioned(`{"gracePeriodSeconds":"0"}`)), "decode the options"},
		"an eviction that is no one": {eviction(`[]`), "decode the eviction"},
		"a node that is nobody":      {removal(admissionv1.Delete, "nodes", "", "n1", old(&corev1.Node{})), "does not say which node"},
	} {
		t.Run(name, func(t *testing.T) {
			got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), tc.request)
			if got.Allowed || got.Result.Code != http.StatusBadRequest || !strings.Contains(message(got), tc.says) {
				t.Errorf("got %+v", got)
			}
			if mutated := webhook.Handler(e.MutateEvictions).Handle(t.Context(), tc.request); !mutated.Allowed || len(mutated.Patches) > 0 {
				t.Errorf("mutation: got %+v", mutated)
			}
		})
	}
}

// An eviction has the pod's name only. Drain takes "not found" for done, so a pod that has gone meanwhile must be said so;
// one that can't be read is no mistake of the caller's.
func TestEvictionWithoutAPod(t *testing.T) {
	for name, tc := range map[string]struct {
		live client.Reader
		code int32
		says string
	}{
		"gone":                   {silentCluster(), http.StatusNotFound, "read pod shop/db-0"},
		"the API server is away": {away(), http.StatusServiceUnavailable, "read pod shop/db-0: connection refused"},
		"there is no API server": {nil, http.StatusServiceUnavailable, "read pod shop/db-0: no API server to ask"},
	} {
		t.Run(name, func(t *testing.T) {
			e := guardedEngine(t, tc.live, guarding(raising))
			got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), eviction(evictionV1))
			if got.Allowed || !strings.Contains(message(got), tc.says) {
				t.Fatalf("got %+v", got)
			}
			if got.Result.Code != tc.code {
				t.Errorf("code %d, want %d", got.Result.Code, tc.code)
			}
			if mutated := webhook.Handler(e.MutateEvictions).Handle(t.Context(), eviction(evictionV1)); !mutated.Allowed || len(mutated.Patches) > 0 {
				t.Errorf("mutation: got %+v", mutated)
			}
		})
	}
}

// A confirmation is proof by itself, for as long as it holds: the API server asked for the verb when it was written.
func TestRemovalConfirmed(t *testing.T) {
	ready := silentNode()
	ready.Status.Conditions[0].Status, ready.Status.Conditions[0].LastHeartbeatTime = corev1.ConditionTrue, metav1.Now()
	back := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(namespace("shop"), ready, lease(0)).Build()
	for name, tc := range map[string]struct {
		live    client.Reader
		pod     *corev1.Pod
		allowed bool
		says    string
	}{
		"confirmed":                 {silentCluster(), dbPod(confirmed), true, ""},
		"half-done, reviewed again": {silentCluster(), dbPod(confirmed, halfDone), true, ""},
		"not confirmed":             {silentCluster(), dbPod(), false, "kubectl podgrace confirm -n shop db-0, and repeat"},
		"confirmed long ago":        {silentCluster(), dbPod(confirmedAgo(2 * time.Hour)), false, "its confirmation is void, it is older than 55 minutes"},
		"heard of since":            {back, dbPod(confirmed), false, "its confirmation is void, node n1 was heard of since"},
	} {
		t.Run(name, func(t *testing.T) {
			got := webhook.Handler(guardedEngine(t, tc.live).ValidateRemoval).Handle(t.Context(), forceDelete(tc.pod))
			if got.Allowed != tc.allowed || !strings.Contains(message(got), tc.says) {
				t.Errorf("got %+v, %q", got, message(got))
			}
		})
	}
}

// The taint of an actor whom every policy allows is its confirmation that the node is off. Nobody else's is, and no other update.
func TestMutateNodes(t *testing.T) {
	actor := func(r *v1alpha1.RemovalSection) { r.AllowedActors = []string{"alice", "bob"} }
	strict := guarding()
	strict.Name = "strict"
	annotated := func(n *corev1.Node) { outOfService(n); n.Annotations = map[string]string{"a": "b"} }
	ready := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionTrue }
	both := func(changes ...nodeChange) nodeChange {
		return func(n *corev1.Node) {
			for _, c := range changes {
				c(n)
			}
		}
	}
	unknownLease := interceptor.NewClient(silentCluster(), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
		if _, ok := into.(*coordinationv1.Lease); ok {
			return errors.New("timeout")
		}
		return c.Get(ctx, key, into, options...)
	}})
	stored := lease(10 * time.Minute)
	live := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(silentNode(), stored).Build()
	const whole, one = "/metadata/annotations", "/metadata/annotations/podgrace.dev~1confirm-off"
	for name, tc := range map[string]struct {
		live     client.Reader
		policies []*v1alpha1.PodPolicy
		request  func(before *corev1.Node) admission.Request
		path     string
	}{
		"an actor":                             {live, []*v1alpha1.PodPolicy{guarding(actor)}, func(b *corev1.Node) admission.Request { return updatedNode(b, outOfService) }, whole},
		"an actor, of a node with annotations": {live, []*v1alpha1.PodPolicy{guarding(actor)}, func(b *corev1.Node) admission.Request { return updatedNode(b, annotated) }, one},
		"nobody's":                             {live, []*v1alpha1.PodPolicy{guarding()}, func(b *corev1.Node) admission.Request { return updatedNode(b, outOfService) }, ""},
		"one policy does not allow":            {live, []*v1alpha1.PodPolicy{guarding(actor), strict}, func(b *corev1.Node) admission.Request { return updatedNode(b, outOfService) }, ""},
		"no policy":                            {live, nil, func(b *corev1.Node) admission.Request { return updatedNode(b, outOfService) }, ""},
		"a ready node":                         {live, []*v1alpha1.PodPolicy{guarding(actor)}, func(b *corev1.Node) admission.Request { ready(b); return updatedNode(b, both(ready, outOfService)) }, ""},
		"its lease can't be read":              {unknownLease, []*v1alpha1.PodPolicy{guarding(actor)}, func(b *corev1.Node) admission.Request { return updatedNode(b, outOfService) }, ""},
		"another update":                       {live, []*v1alpha1.PodPolicy{guarding(actor)}, func(b *corev1.Node) admission.Request { return updatedNode(b, goes) }, ""},
		"the taint was there":                  {live, []*v1alpha1.PodPolicy{guarding(actor)}, func(b *corev1.Node) admission.Request { outOfService(b); return updatedNode(b, outOfService) }, ""},
		"it is confirmed": {live, []*v1alpha1.PodPolicy{guarding(actor)}, func(b *corev1.Node) admission.Request {
			b.Annotations = map[string]string{guard.AnnotationConfirmOff: guard.ConfirmOff(b, stored)}
			return updatedNode(b, outOfService)
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := silentNode()
			request := tc.request(before)
			got := webhook.Handler(newEngine(t, cluster(), tc.live, tc.policies...).MutateNodes).Handle(t.Context(), request)
			if !got.Allowed || len(got.Warnings) > 0 {
				t.Fatalf("got %+v", got)
			}
			if tc.path == "" {
				if len(got.Patches) > 0 {
					t.Errorf("it writes %v", got.Patches)
				}
				return
			}
			var renewed coordinationv1.Lease
			if err := tc.live.Get(t.Context(), client.ObjectKeyFromObject(stored), &renewed); err != nil {
				t.Fatal(err)
			}
			var value any = guard.ConfirmOff(before, &renewed)
			if tc.path == whole {
				value = map[string]string{guard.AnnotationConfirmOff: guard.ConfirmOff(before, &renewed)}
			}
			text, err := json.Marshal(value)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]patchapi.Operation{{Operation: "add", Path: tc.path, Value: json.RawMessage(text)}}, got.Patches); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// updatedNode is an update of a Node as it is stored.
func updatedNode(before *corev1.Node, change nodeChange) admission.Request {
	after := before.DeepCopy()
	change(after)
	return removal(admissionv1.Update, "nodes", "", before.Name, old(before), object(after))
}

// What the attach-detach controller takes from a silent node by force is judged by the policies of the claim, which it reads live.
func TestForceDetach(t *testing.T) {
	const controller = "system:serviceaccount:kube-system:attachdetach-controller"
	bound := func(namespace string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-data"}, Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{mode}, ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h"}},
		}}
	}
	using := func(volumes ...corev1.UniqueVolumeName) *corev1.Node {
		n := silentNode()
		n.Status.VolumesInUse = volumes
		return n
	}
	live := func(n *corev1.Node, objects ...client.Object) client.Reader {
		return fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(append(objects, namespace("shop"), namespace("till"), n, lease(10*time.Minute))...).Build()
	}
	policy := guarding()
	policy.Spec.Match = &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{"team": "shop"})}
	const inUse = "kubernetes.io/csi/d^h"
	for name, tc := range map[string]struct {
		live    client.Reader
		reason  string
		allowed bool
	}{
		"of an excluded namespace":  {live(using(inUse), namespace("openshift-dns"), bound("openshift-dns", corev1.ReadWriteOnce)), "NotGuarded", true},
		"in use":                    {live(using(inUse), bound("shop", corev1.ReadWriteOnce)), "Unsafe", false},
		"of an unguarded namespace": {live(using(inUse), bound("till", corev1.ReadWriteOnce)), "NotGuarded", true},
		"unmounted":                 {live(using("kubernetes.io/csi/d^other"), bound("shop", corev1.ReadWriteOnce)), "AttachDetachController", true},
		"used by many":              {live(using(inUse), bound("shop", corev1.ReadWriteMany)), "AttachDetachController", true},
		"a volume that is gone":     {live(using(inUse)), "Unsafe", false},
		"a node that is gone":       {live(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n2"}}, bound("shop", corev1.ReadWriteOnce)), "AttachDetachController", true},
		"confirmed off":             {confirmedOff{live(using(inUse), bound("shop", corev1.ReadWriteOnce))}, "NodeStopped", true},
		"nothing can be read":       {away(), "Unsafe", false},
	} {
		t.Run(name, func(t *testing.T) {
			request := removal(admissionv1.Delete, "volumeattachments", "", "csi-1", old(attachment()), func(r *admission.Request) { r.UserInfo.Username = controller })
			e := newEngine(t, cluster(), tc.live, policy)
			e.Exempt = excludingOpenShift(t)
			got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), request)
			if got.Allowed != tc.allowed || got.AuditAnnotations["reason"] != tc.reason {
				t.Errorf("got %+v", got)
			}
			if !tc.allowed && !strings.Contains(message(got), "may still write to volume pv-data") {
				t.Errorf("got %q", message(got))
			}
		})
	}
}

// A detach by anybody else is judged by the policies of all namespaces, but where the claim's was excluded.
func TestDetachOfExcluded(t *testing.T) {
	volume := func(claim *corev1.ObjectReference) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-data"}, Spec: corev1.PersistentVolumeSpec{ClaimRef: claim}}
	}
	claim := func(namespace string) *corev1.ObjectReference {
		return &corev1.ObjectReference{Namespace: namespace, Name: "data"}
	}
	for name, tc := range map[string]struct {
		live    client.Reader
		exempt  policy.Exempt
		allowed bool
	}{
		"excluded":                  {silentCluster(volume(claim("openshift-dns"))), excludingOpenShift(t), true},
		"excluded elsewhere":        {silentCluster(volume(claim("openshift-dns"))), policy.ExemptIn("podgrace-system"), false},
		"of another namespace":      {silentCluster(volume(claim("shop"))), excludingOpenShift(t), false},
		"of kube-system, as always": {silentCluster(volume(claim("kube-system"))), excludingOpenShift(t), false},
		"of no claim":               {silentCluster(volume(nil)), excludingOpenShift(t), false},
		"gone":                      {silentCluster(), excludingOpenShift(t), false},
		"it can't be read":          {away(), excludingOpenShift(t), false},
	} {
		t.Run(name, func(t *testing.T) {
			e := guardedEngine(t, tc.live)
			e.Exempt = tc.exempt
			request := removal(admissionv1.Delete, "volumeattachments", "", "csi-1", old(attachment()))
			if got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), request); got.Allowed != tc.allowed || tc.allowed && got.AuditAnnotations["reason"] != "NotGuarded" {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// No policy is for what is exempt: it goes on also while the policies can't be read.
func TestExemptWhilePoliciesCantBeRead(t *testing.T) {
	in := func(namespace string) *corev1.Pod { return dbPod(func(p *corev1.Pod) { p.Namespace = namespace }) }
	ofClaim := func(namespace string) client.Reader {
		return silentCluster(&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-data"}, Spec: corev1.PersistentVolumeSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: "data"},
		}})
	}
	detach := func(user string) admission.Request {
		return removal(admissionv1.Delete, "volumeattachments", "", "csi-1", old(attachment()), by(user))
	}
	const controller, enforcer = "system:serviceaccount:kube-system:attachdetach-controller", "system:serviceaccount:podgrace-node:podgrace-nodeenforcer"
	fromNode := func(r *admission.Request) {
		r.UserInfo.Extra = map[string]authenticationv1.ExtraValue{"authentication.kubernetes.io/node-name": {"n1"}}
	}
	for name, tc := range map[string]struct {
		live    client.Reader
		request admission.Request
		exempt  bool
	}{
		"a pod of kube-system by its node's enforcer": {silentCluster(), forceDelete(in("kube-system"), by(enforcer), fromNode), true},
		"a pod of an excluded namespace":              {silentCluster(), forceDelete(in("openshift-dns")), true},
		"a pod of another one":                        {silentCluster(), forceDelete(in("shop")), false},
		"the controller's detach for kube-system":     {ofClaim("kube-system"), detach(controller), true},
		"the controller's detach for another one":     {ofClaim("shop"), detach(controller), false},
		"a detach for an excluded namespace":          {ofClaim("openshift-dns"), detach("alice"), true},
		"a detach for kube-system":                    {ofClaim("kube-system"), detach("alice"), false},
		"a node":                                      {silentCluster(), removal(admissionv1.Delete, "nodes", "", "n1", old(silentNode())), false},
	} {
		t.Run(name, func(t *testing.T) {
			e := guardedEngine(t, tc.live)
			e.Exempt = excludingOpenShift(t)
			e.LivePolicies = func(context.Context) (policy.Policies, error) { return nil, errors.New("the API server is away") }
			if got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), tc.request); (got.AuditAnnotations["reason"] == "NotGuarded") != tc.exempt || tc.exempt && !got.Allowed {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func excludingOpenShift(t *testing.T) policy.Exempt {
	t.Helper()
	exempt, err := policy.ExemptIn("podgrace-system").Excluding("calico-system", "openshift-*")
	if err != nil {
		t.Fatal(err)
	}
	return exempt
}

// A Node is not deleted while pods that a policy would not let be force-deleted may run on it.
func TestNodeRoad(t *testing.T) {
	in := func(name string) podChange { return func(p *corev1.Pod) { p.Namespace = name } }
	lax := guarding(func(r *v1alpha1.RemovalSection) { r.ForceDelete = v1alpha1.RemovalAllow })
	lax.Name, lax.Spec.Match = "lax", &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{"team": "play"})}
	warning := guarding(func(r *v1alpha1.RemovalSection) { r.ForceDelete = v1alpha1.RemovalWarn })
	warning.Name, warning.Spec.Match = "warning", &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{"team": "try"})}
	strict := guarding()
	strict.Spec.Match = &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{"team": "shop"})}
	for name, tc := range map[string]struct {
		pods []client.Object
		says string // empty: allowed
	}{
		"a protected pod":           {[]client.Object{dbPod()}, "shop/db-0"},
		"a half-done one":           {[]client.Object{dbPod(halfDone, finalizers("x/y"))}, "shop/db-0"},
		"none":                      {nil, ""},
		"one that nothing protects": {[]client.Object{dbPod(stateless)}, ""},
		"one that has finished":     {[]client.Object{dbPod(ended)}, ""},
		"one of another node":       {[]client.Object{dbPod(func(p *corev1.Pod) { p.Spec.NodeName = "n2" })}, ""},
		"forceDelete: Allow there":  {[]client.Object{namespace("play"), dbPod(in("play"))}, ""},
		"no policy there":           {[]client.Object{namespace("other"), dbPod(in("other"))}, ""},
		"kube-system":               {[]client.Object{dbPod(in("kube-system"))}, ""},
		"Podgrace's own":            {[]client.Object{dbPod(in("podgrace-system"))}, ""},
		"excluded namespaces":       {[]client.Object{dbPod(in("openshift-dns")), dbPod(in("calico-system"))}, ""},
		"an excluded one and shop":  {[]client.Object{dbPod(in("openshift-dns")), dbPod()}, "its pods are force-deleted: shop/db-0. Ways on"},
		"a name like an excluded":   {[]client.Object{dbPod(in("openshift"))}, "openshift/db-0"},
		"a namespace that is gone":  {[]client.Object{dbPod(in("gone"))}, "gone/db-0"},
	} {
		t.Run(name, func(t *testing.T) {
			e := guardedEngine(t, silentCluster(tc.pods...), strict, lax, warning)
			e.Exempt = excludingOpenShift(t)
			got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), removal(admissionv1.Delete, "nodes", "", "n1", old(silentNode())))
			if got.Allowed != (tc.says == "") || !strings.Contains(message(got), tc.says) || len(got.Warnings) > 0 {
				t.Errorf("got %+v, %q", got, message(got))
			}
		})
	}
	t.Run("forceDelete: Warn there", func(t *testing.T) {
		e := guardedEngine(t, silentCluster(namespace("try"), dbPod(in("try"))), strict, lax, warning)
		got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), removal(admissionv1.Delete, "nodes", "", "n1", old(silentNode())))
		if !got.Allowed || !strings.Contains(strings.Join(got.Warnings, " "), "its pods are force-deleted: try/db-0") {
			t.Errorf("got %+v", got)
		}
	})
	t.Run("forceDelete: Warn there, Deny elsewhere on it", func(t *testing.T) {
		e := guardedEngine(t, silentCluster(namespace("try"), dbPod(in("try")), dbPod()), strict, lax, warning)
		got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), removal(admissionv1.Delete, "nodes", "", "n1", old(silentNode())))
		if got.Allowed || !strings.Contains(message(got), "its pods are force-deleted: shop/db-0. Ways on") || !strings.Contains(message(got), "(PodPolicy guarded)") {
			t.Errorf("got %q", message(got))
		}
	})
	t.Run("they can't be listed", func(t *testing.T) {
		broken := interceptor.NewClient(silentCluster(), interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error {
			return errors.New("connection refused")
		}})
		got := webhook.Handler(guardedEngine(t, broken).ValidateRemoval).Handle(t.Context(), removal(admissionv1.Delete, "nodes", "", "n1", old(silentNode())))
		if got.Allowed || !strings.Contains(message(got), "which they are could not be read") {
			t.Errorf("got %+v", got)
		}
	})
}

// A pod that is bound to the node while the pods of it are looked at is seen, and one that comes with each look holds it.
func TestBoundWhileTheNodeIsJudged(t *testing.T) {
	for name, tc := range map[string]struct {
		until   int // the last look with which one comes
		allowed bool
		says    string
	}{
		"once":   {2, false, "shop/late-1"},
		"twice":  {3, false, "shop/late-2"},
		"always": {100, false, "which they are could not be read"},
	} {
		t.Run(name, func(t *testing.T) {
			looks := 0
			live := interceptor.NewClient(silentCluster(dbPod(stateless)), interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				err := c.List(ctx, list, options...)
				if pods, ok := list.(*corev1.PodList); ok {
					if looks++; looks >= 2 && looks <= tc.until {
						late := dbPod()
						late.Name, late.UID = fmt.Sprintf("late-%d", looks-1), types.UID(fmt.Sprint(looks))
						pods.Items = append(pods.Items, *late)
					}
				}
				return err
			}})
			got := webhook.Handler(guardedEngine(t, live).ValidateRemoval).Handle(t.Context(), removal(admissionv1.Delete, "nodes", "", "n1", old(silentNode())))
			if got.Allowed != tc.allowed || !strings.Contains(message(got), tc.says) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A policy that warns beside one that denies: what that one refuses, raises and lets pass stays, and the rest is warned about.
func TestWarningBesideDenying(t *testing.T) {
	warning := guarding(func(r *v1alpha1.RemovalSection) {
		r.ForceDelete, r.Protect, r.AllowedActors = v1alpha1.RemovalWarn, v1alpha1.ProtectAll, nil
	})
	warning.Name = "warning"
	for name, tc := range map[string]struct {
		request admission.Request
		pod     *corev1.Pod
		says    string // empty: refused by the other
	}{
		"refused":                  {forceDelete(dbPod()), dbPod(), ""},
		"an actor of the other":    {removal(admissionv1.Delete, "pods", "", "db-0", old(dbPod()), optioned(`{"gracePeriodSeconds":0}`), by(repair)), dbPod(), "it is a pod of StatefulSet db"},
		"protected by itself only": {forceDelete(dbPod(stateless)), dbPod(stateless), "the policy protects all pods"},
	} {
		t.Run(name, func(t *testing.T) {
			got := webhook.Handler(guardedEngine(t, silentCluster(tc.pod), guarding(), warning).ValidateRemoval).Handle(t.Context(), tc.request)
			switch {
			case tc.says == "" && (got.Allowed || !strings.Contains(message(got), "(PodPolicy guarded)")):
				t.Errorf("got %+v", got)
			case tc.says != "" && (!got.Allowed || !strings.Contains(strings.Join(got.Warnings, " "), tc.says)):
				t.Errorf("got %+v", got)
			}
		})
	}
	for name, tc := range map[string]struct {
		pod    *corev1.Pod
		raised bool
	}{"an eviction is raised": {dbPod(), true}, "one that is only warned about is not": {dbPod(stateless), false}} {
		t.Run(name, func(t *testing.T) {
			got := webhook.Handler(guardedEngine(t, silentCluster(tc.pod), guarding(raising), warning).MutateEvictions).Handle(t.Context(), eviction(evictionV1))
			if !got.Allowed || (len(got.Patches) > 0) != tc.raised {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// TestMutateEvictions: a grace period of 0 is raised where it would be refused, where the policy wants it, and where raising
// makes a difference. What is raised then passes validation as no force delete.
func TestMutateEvictions(t *testing.T) {
	const enforcer = "system:serviceaccount:podgrace-node:podgrace-nodeenforcer"
	for name, tc := range map[string]struct {
		request admission.Request
		pod     *corev1.Pod
		policy  *v1alpha1.PodPolicy
		want    string // deleteOptions; empty: not raised
	}{
		"with options":               {eviction(evictionV1), dbPod(), guarding(raising), `{"gracePeriodSeconds":30,"preconditions":{"uid":"pod-1"}}`},
		"policy/v1beta1":             {eviction(evictionV1beta1), dbPod(), guarding(raising), `{"gracePeriodSeconds":30}`},
		"the pod's own":              {eviction(evictionV1beta1), dbPod(ownGrace(600)), guarding(raising), `{"gracePeriodSeconds":600}`},
		"own grace 0: the default":   {eviction(evictionV1beta1), dbPod(ownGrace(0)), guarding(raising), `{"gracePeriodSeconds":30}`},
		"no options, own grace 0":    {eviction(evictionBare), dbPod(ownGrace(0)), guarding(raising), `{"gracePeriodSeconds":30}`},
		"null options, own grace 0":  {eviction(strings.Replace(evictionBare, `"metadata"`, `"deleteOptions":null,"metadata"`, 1)), dbPod(ownGrace(0)), guarding(raising), `{"gracePeriodSeconds":30}`},
		"empty options, own grace 0": {eviction(strings.Replace(evictionBare, `"metadata"`, `"deleteOptions":{},"metadata"`, 1)), dbPod(ownGrace(0)), guarding(raising), `{"gracePeriodSeconds":30}`},
		"terminating already":        {eviction(evictionV1beta1), dbPod(finalizers("x/y"), func(p *corev1.Pod) { halfDone(p); p.DeletionGracePeriodSeconds = new(int64(20)) }), guarding(raising), `{"gracePeriodSeconds":30}`},
		"policy says Deny":           {eviction(evictionV1), dbPod(), guarding(), ""},
		"not forced":                 {eviction(evictionBare), dbPod(), guarding(raising), ""},
		"unprotected":                {eviction(evictionV1), dbPod(stateless), guarding(raising), ""},
		"finished":                   {eviction(evictionV1), dbPod(ended), guarding(raising), ""},
		"by an allowed actor":        {eviction(evictionV1, by(repair)), dbPod(), guarding(raising), ""},
		"half-done: no grace helps":  {eviction(evictionV1), dbPod(halfDone, finalizers("x/y")), guarding(raising), ""},
		"enforcer of another node":   {eviction(evictionV1, by(enforcer)), dbPod(), guarding(raising), ""},
		"a removal that is no such":  {forceDelete(dbPod()), dbPod(), guarding(raising), ""},
		"an update, by a wrong rule": {updated("", dbPod(halfDone), dbPod(halfDone)), dbPod(), guarding(raising), ""},
		"only warned about":          {eviction(evictionV1), dbPod(), guarding(raising, func(r *v1alpha1.RemovalSection) { r.ForceDelete = v1alpha1.RemovalWarn }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := guardedEngine(t, silentCluster(tc.pod), tc.policy)
			before := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), tc.request)
			got := webhook.Handler(e.MutateEvictions).Handle(t.Context(), tc.request)
			if !got.Allowed || (len(got.Patches) > 0) != (tc.want != "") {
				t.Fatalf("got %+v", got)
			}
			if tc.want == "" {
				return
			}
			if len(got.Warnings) != 1 || !strings.Contains(got.Warnings[0], "eviction of pod shop/db-0: a grace period of 0 was raised") {
				t.Errorf("warnings %q", got.Warnings)
			}
			raised := tc.request
			raised.Object.Raw = patchedBy(t, got, tc.request.Object.Raw)
			var after struct {
				DeleteOptions json.RawMessage `json:"deleteOptions"`
			}
			if err := json.Unmarshal(raised.Object.Raw, &after); err != nil || !jsonpatch.Equal(after.DeleteOptions, []byte(tc.want)) {
				t.Errorf("options %s, %v, want %s", after.DeleteOptions, err, tc.want)
			}
			if reason := before.AuditAnnotations["reason"]; reason != "Unsafe" {
				t.Errorf("raised what was %s", reason)
			}
			if then := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), raised); !then.Allowed || then.AuditAnnotations["reason"] != "NotForced" {
				t.Errorf("then %+v", then)
			}
			if again := webhook.Handler(e.MutateEvictions).Handle(t.Context(), raised); !again.Allowed || len(again.Patches) > 0 {
				t.Errorf("raised again: %+v", again)
			}
		})
	}
}

// holding is what a live read finds, with a pod that no finalizer holds: the fake API server keeps no such pod.
func holding(pod *corev1.Pod) client.Reader {
	return interceptor.NewClient(silentCluster(), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
		if p, ok := into.(*corev1.Pod); ok && key == client.ObjectKeyFromObject(pod) {
			pod.DeepCopyInto(p)
			return nil
		}
		return c.Get(ctx, key, into, options...)
	}})
}

// An eviction with another grace period than 0 is judged where it could be raised, by its pod.
func TestPlainEvictions(t *testing.T) {
	patient := strings.Replace(evictionV1, `"gracePeriodSeconds":0`, `"gracePeriodSeconds":30`, 1)
	const graceless = "its own grace period is 0, give it one: kubectl drain --grace-period=30"
	for name, tc := range map[string]struct {
		body    string
		pod     *corev1.Pod
		verdict guard.Verdict
		reason  string
		says    string
	}{
		"ordinary":                     {evictionBare, dbPod(), guard.Allow, "NotForced", ""},
		"ordinary, with a grace":       {patient, dbPod(), guard.Allow, "NotForced", ""},
		"own grace 0":                  {evictionBare, dbPod(ownGrace(0)), guard.Deny, guard.Unsafe.Code, graceless},
		"own grace 0, with a grace":    {patient, dbPod(ownGrace(0)), guard.Allow, "NotForced", ""},
		"own grace 0, unprotected":     {evictionBare, dbPod(ownGrace(0), stateless), guard.Warn, "Unprotected", "it may still run on n1"},
		"own grace 0, finished":        {evictionBare, dbPod(ownGrace(0), ended), guard.Allow, "Finished", ""},
		"own grace 0, confirmed":       {evictionBare, dbPod(ownGrace(0), confirmed), guard.Allow, guard.Confirmed.Code, ""},
		"half-done":                    {evictionBare, dbPod(halfDone), guard.Deny, guard.Unsafe.Code, "a force delete of it was refused half-way, so evicting it would remove it at once"},
		"half-done, with a grace":      {patient, dbPod(halfDone), guard.Deny, guard.Unsafe.Code, "refused half-way"},
		"half-done, unprotected":       {evictionBare, dbPod(halfDone, stateless), guard.Warn, "Unprotected", ""},
		"half-done, finished":          {evictionBare, dbPod(halfDone, ended), guard.Allow, "Finished", ""},
		"half-done, confirmed":         {patient, dbPod(halfDone, confirmed), guard.Allow, guard.Confirmed.Code, ""},
		"half-done, a finalizer":       {evictionBare, dbPod(halfDone, finalizers("x/y")), guard.Allow, "NotForced", ""},
		"with grace 0: judged later":   {evictionV1, dbPod(), "", "", ""},
		"grace 0, half-done: the same": {evictionV1, dbPod(halfDone), "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			registry, events := prometheus.NewRegistry(), &recorder{}
			e := guardedEngine(t, holding(tc.pod))
			e.Metrics, e.Events = webhook.NewMetrics(registry, e.Policies.(*webhook.PolicyStore), webhook.Namespaces{Most: 100}), webhook.NewEvents(events)
			got := webhook.Handler(e.MutateEvictions).Handle(t.Context(), eviction(tc.body))
			kept := tc.verdict != guard.Deny && tc.verdict != "" && tc.body == evictionBare && name != "ordinary" // what removes the pod at once, to this pod
			if got.Allowed != (tc.verdict != guard.Deny) || len(got.Patches) > 0 != kept || got.AuditAnnotations["verdict"] != string(tc.verdict) || got.AuditAnnotations["reason"] != tc.reason {
				t.Fatalf("got %+v", got)
			}
			if said := strings.Join(append(got.Warnings, message(got)), ""); !strings.Contains(said, tc.says) || (said == "") != (tc.verdict == guard.Allow || tc.verdict == "") {
				t.Errorf("it says %q, want %q", said, tc.says)
			}
			if tc.verdict == guard.Deny && (got.Result.Code != http.StatusForbidden || len(*events) != 1) {
				t.Errorf("code %d, Events %q", got.Result.Code, *events)
			}
			counted := 0
			if tc.verdict != "" {
				counted = 1
			}
			if n := judgedEvictions(t, registry); n != counted {
				t.Errorf("%d evictions counted, want %d", n, counted)
			}
		})
	}
	t.Run("half-done: no grace helps", func(t *testing.T) {
		got := webhook.Handler(guardedEngine(t, holding(dbPod(halfDone)), guarding(raising)).MutateEvictions).Handle(t.Context(), eviction(evictionBare))
		if got.Allowed || len(got.Patches) > 0 {
			t.Errorf("got %+v", got)
		}
	})
}

// An eviction that removes a pod at once, and is let go, removes that one and no successor of its name, nor the same once it is bound.
func TestEvictionIsKeptToItsPod(t *testing.T) {
	versioned := func(p *corev1.Pod) { p.ResourceVersion = "7" }
	nowhere := func(p *corev1.Pod) { p.Spec.NodeName = "" }
	options := func(text string) string {
		return strings.Replace(evictionBare, `"metadata"`, `"deleteOptions":`+text+`,"metadata"`, 1)
	}
	for name, tc := range map[string]struct {
		body string
		pod  *corev1.Pod
		want string // deleteOptions
	}{
		"finished":                   {evictionV1beta1, dbPod(ended, versioned), `{"gracePeriodSeconds":0,"preconditions":{"uid":"pod-1"}}`},
		"confirmed":                  {evictionV1beta1, dbPod(confirmed, versioned), `{"gracePeriodSeconds":0,"preconditions":{"uid":"pod-1"}}`},
		"not bound yet":              {evictionV1beta1, dbPod(nowhere, versioned), `{"gracePeriodSeconds":0,"preconditions":{"uid":"pod-1","resourceVersion":"7"}}`},
		"not bound yet, of its UID":  {evictionV1, dbPod(nowhere, versioned), `{"gracePeriodSeconds":0,"preconditions":{"uid":"pod-1","resourceVersion":"7"}}`},
		"of another UID":             {options(`{"gracePeriodSeconds":0,"preconditions":{"uid":"other"}}`), dbPod(ended), `{"gracePeriodSeconds":0,"preconditions":{"uid":"other"}}`},
		"of a version":               {options(`{"gracePeriodSeconds":0,"preconditions":{"resourceVersion":"6"}}`), dbPod(nowhere, versioned), `{"gracePeriodSeconds":0,"preconditions":{"uid":"pod-1","resourceVersion":"6"}}`},
		"own grace 0, no options":    {evictionBare, dbPod(ownGrace(0), ended), `{"preconditions":{"uid":"pod-1"}}`},
		"own grace 0, null options":  {options("null"), dbPod(ownGrace(0), ended), `{"preconditions":{"uid":"pod-1"}}`},
		"own grace 0, other options": {options(`{"propagationPolicy":"Orphan"}`), dbPod(ownGrace(0), ended), `{"propagationPolicy":"Orphan","preconditions":{"uid":"pod-1"}}`},
		"ordinary":                   {options(`{"gracePeriodSeconds":30}`), dbPod(versioned), `{"gracePeriodSeconds":30}`},
		"unprotected":                {evictionV1beta1, dbPod(stateless, versioned), `{"gracePeriodSeconds":0,"preconditions":{"uid":"pod-1"}}`},
		"refused":                    {evictionV1beta1, dbPod(versioned), `{"gracePeriodSeconds":0}`},
	} {
		t.Run(name, func(t *testing.T) {
			got := webhook.Handler(guardedEngine(t, holding(tc.pod)).MutateEvictions).Handle(t.Context(), eviction(tc.body))
			var after struct {
				DeleteOptions json.RawMessage `json:"deleteOptions"`
			}
			if err := json.Unmarshal(patchedBy(t, got, []byte(tc.body)), &after); err != nil || !jsonpatch.Equal(after.DeleteOptions, []byte(tc.want)) {
				t.Errorf("options %s, %v, want %s", after.DeleteOptions, err, tc.want)
			}
		})
	}
}

// An eviction by an actor that the policy allows stays as it is: nothing was judged of the pod.
func TestEvictionByAnActorStaysAsItIs(t *testing.T) {
	got := webhook.Handler(guardedEngine(t, silentCluster(dbPod())).MutateEvictions).Handle(t.Context(), eviction(evictionV1beta1, by(repair)))
	if !got.Allowed || len(got.Patches) > 0 {
		t.Errorf("got %+v", got)
	}
}

// judgedEvictions is how many evictions were judged, by the metrics.
func judgedEvictions(t *testing.T, registry *prometheus.Registry) int {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == "podgrace_removals_total" && l.GetName() == "road" && l.GetValue() == string(guard.RoadEviction) {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return int(sum)
}

// An ordinary eviction costs the read of its pod and no more: a drain has many. It is so also for a replica that knows nothing yet.
func TestOrdinaryEvictionReadsItsPodAlone(t *testing.T) {
	var reads []string
	counting := interceptor.NewClient(silentCluster(dbPod()), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, options ...client.GetOption) error {
			reads = append(reads, fmt.Sprintf("%T %s", into, key))
			return c.Get(ctx, key, into, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, options ...client.ListOption) error {
			reads = append(reads, fmt.Sprintf("%T", into))
			return c.List(ctx, into, options...)
		},
	})
	e := guardedEngine(t, counting)
	e.LivePolicies = func(context.Context) (policy.Policies, error) {
		reads = append(reads, "policies")
		return e.Policies.Policies(), nil
	}
	e.Ready = func() bool { return false }
	if got := webhook.Handler(e.MutateEvictions).Handle(t.Context(), eviction(evictionBare)); !got.Allowed || len(got.Warnings) > 0 {
		t.Errorf("got %+v", got)
	}
	if diff := cmp.Diff([]string{"*v1.Pod shop/db-0"}, reads); diff != "" {
		t.Errorf("reads (-want +got):\n%s", diff)
	}
}

// A plain eviction whose pod can't be read goes on, as it does while the webhook is away; offline, where nobody waits, it is refused. One that
// would remove its pod at once and can't be judged is refused only if a policy that this replica knows denies.
func TestPlainEvictionUnjudged(t *testing.T) {
	const unreadable = "can't be decoded: the validating webhook says so"
	for name, tc := range map[string]struct {
		live    client.Reader
		offline bool
		code    int32 // 0: allowed
		says    string
	}{
		"gone: the API server says so":             {silentCluster(), false, 0, ""},
		"the API server is away":                   {away(), false, 0, "podgrace: this eviction was not judged: look up the pod of the eviction: read pod shop/db-0: connection refused"},
		"offline":                                  {away(), true, http.StatusServiceUnavailable, "read pod shop/db-0"},
		"own grace 0, and it has just started":     {silentCluster(dbPod(ownGrace(0))), false, http.StatusServiceUnavailable, "does not know the cluster yet; try again"},
		"own grace 0, and it knows only a warning": {silentCluster(dbPod(ownGrace(0))), false, 0, "podgrace: this eviction was not judged: "},
		unreadable: {away(), false, 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			body := evictionBare
			if name == unreadable {
				body = `{"kind":"Eviction","deleteOptions":{"gracePeriodSeconds":"soon"}}`
			}
			registry := prometheus.NewRegistry()
			warns := strings.HasSuffix(name, "only a warning")
			e := guardedEngine(t, tc.live)
			if warns {
				e = guardedEngine(t, tc.live, guarding(func(r *v1alpha1.RemovalSection) { r.ForceDelete = v1alpha1.RemovalWarn }))
			}
			e.Offline = tc.offline
			e.Metrics, e.Ready = webhook.NewMetrics(registry, e.Policies.(*webhook.PolicyStore), webhook.Namespaces{Most: 100}), func() bool { return false }
			got := webhook.Handler(e.MutateEvictions).Handle(t.Context(), eviction(body))
			if got.Allowed != (tc.code == 0) || !got.Allowed && got.Result.Code != tc.code || !strings.Contains(strings.Join(append(got.Warnings, message(got)), ""), tc.says) || tc.says == "" && len(got.Warnings) > 0 {
				t.Errorf("got %+v, %q", got, message(got))
			}
			missed := 0
			if warns || name == "the API server is away" {
				missed = 1
			}
			if diff := testutil.GatherAndCompare(registry, strings.NewReader(fmt.Sprintf(`
# HELP podgrace_reviews_missed_total Admission requests that this replica allowed without judging them, by path: its informers had not synced, or a lookup failed. Requests that never reached a replica are not counted.
# TYPE podgrace_reviews_missed_total counter
podgrace_reviews_missed_total{path="/mutate-evictions"} %d
podgrace_reviews_missed_total{path="/mutate-pods"} 0
podgrace_reviews_missed_total{path="/validate-pods"} 0
podgrace_reviews_missed_total{path="/validate-workloads"} 0
podgrace_reviews_missed_total{path="/validate-pod-groups"} 0
`, missed)), "podgrace_reviews_missed_total"); diff != nil {
				t.Error(diff)
			}
		})
	}
}

func patchedBy(t *testing.T, response admission.Response, body []byte) []byte {
	t.Helper()
	text, err := json.Marshal(response.Patches)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatal(err)
	}
	after, err := patch.Apply(body)
	if err != nil {
		t.Fatalf("%s does not take %s: %v", body, text, err)
	}
	return after
}

// recorder keeps Events.
type recorder []string

func (r *recorder) Eventf(regarding, _ runtime.Object, kind, reason, action, _ string, args ...any) {
	name := regarding.GetObjectKind().GroupVersionKind().Kind
	*r = append(*r, strings.Join([]string{name, kind, reason, action, args[0].(string)}, "|"))
}

// Metrics count each review by road, verdict and reason; an Event tells of refusals and of what was confirmed. A dry run does
// neither.
func TestRemovalIsTold(t *testing.T) {
	store, err := webhook.NewPolicyStore(logr.Discard(), guarding())
	if err != nil {
		t.Fatal(err)
	}
	registry, events := prometheus.NewRegistry(), &recorder{}
	e := guardedEngine(t, silentCluster(dbPod()))
	e.Metrics, e.Events = webhook.NewMetrics(registry, store, webhook.Namespaces{Most: 100}), webhook.NewEvents(events)
	requests := []admission.Request{
		forceDelete(dbPod()), forceDelete(dbPod(confirmed)), forceDelete(dbPod(stateless)), forceDelete(dbPod(ended)),
		removal(admissionv1.Delete, "nodes", "", "n1", old(silentNode())), removal(admissionv1.Delete, "volumeattachments", "", "csi-1", old(attachment())),
	}
	for _, req := range requests {
		webhook.Handler(e.ValidateRemoval).Handle(t.Context(), req)
		dryRun(&req)
		webhook.Handler(e.ValidateRemoval).Handle(t.Context(), req)
	}
	const metric = `
# HELP podgrace_removals_total Removals judged, by road (the kind of request: delete, eviction, status, finalizer, node, out-of-service, volume-attachment), verdict and reason. Dry runs are not counted.
# TYPE podgrace_removals_total counter
podgrace_removals_total{reason="Confirmed",road="delete",verdict="Allow"} 1
podgrace_removals_total{reason="Finished",road="delete",verdict="Allow"} 1
podgrace_removals_total{reason="Unprotected",road="delete",verdict="Warn"} 1
podgrace_removals_total{reason="Unsafe",road="delete",verdict="Deny"} 1
podgrace_removals_total{reason="Unsafe",road="eviction",verdict="Deny"} 0
podgrace_removals_total{reason="Unsafe",road="finalizer",verdict="Deny"} 0
podgrace_removals_total{reason="Unsafe",road="node",verdict="Deny"} 1
podgrace_removals_total{reason="Unsafe",road="out-of-service",verdict="Deny"} 0
podgrace_removals_total{reason="Unsafe",road="status",verdict="Deny"} 0
podgrace_removals_total{reason="Unsafe",road="volume-attachment",verdict="Deny"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(metric), "podgrace_removals_total"); err != nil {
		t.Error(err)
	}
	want := []string{"Pod|Warning|RemovalRefused|delete|delete by alice refused: pod shop/db-0", "Pod|Normal|RemovalConfirmed|delete|delete by alice allowed", "Node|Warning|RemovalRefused|node|node by alice refused", "VolumeAttachment|Warning|RemovalRefused|volume-attachment|"}
	if len(*events) != len(want) {
		t.Fatalf("events %q", *events)
	}
	for i, event := range *events {
		if !strings.HasPrefix(event, want[i]) {
			t.Errorf("event %q, want %q", event, want[i])
		}
	}
	for range 100 {
		webhook.Handler(e.ValidateRemoval).Handle(t.Context(), forceDelete(dbPod()))
	}
	if len(*events) > 30 {
		t.Errorf("%d events: a loop floods the cluster", len(*events))
	}
	// The loop hides nobody else's, and not what is confirmed in its own namespace.
	before := len(*events)
	elsewhere := forceDelete(dbPod(func(p *corev1.Pod) { p.Namespace = "till" }))
	elsewhere.Namespace = "till"
	webhook.Handler(e.ValidateRemoval).Handle(t.Context(), elsewhere)
	webhook.Handler(e.ValidateRemoval).Handle(t.Context(), forceDelete(dbPod(confirmed)))
	if more := (*events)[before:]; len(more) != 2 || !strings.HasPrefix(more[0], "Pod|Warning|RemovalRefused") || !strings.HasPrefix(more[1], "Pod|Normal|RemovalConfirmed") {
		t.Errorf("after a loop: %q", more)
	}
	// Nor do loops in many namespaces flood it.
	before = len(*events)
	for i := range 1000 {
		elsewhere.Namespace = fmt.Sprint("ns-", i)
		webhook.Handler(e.ValidateRemoval).Handle(t.Context(), elsewhere)
	}
	if more := len(*events) - before; more > 400 {
		t.Errorf("%d events of a thousand namespaces", more)
	}
}

// FuzzValidateRemoval: whatever comes, there is an answer, and a refusal has words that a terminal can show.
func FuzzValidateRemoval(f *testing.F) {
	asText := func(o any) []byte { return encoded(o).Raw }
	f.Add(uint8(0), asText(dbPod()), []byte(nil), []byte(noGrace), "alice")
	f.Add(uint8(1), []byte(nil), []byte(evictionV1), []byte(nil), "alice")
	f.Add(uint8(2), asText(dbPod()), asText(dbPod(ended)), []byte(nil), "system:node:n1")
	f.Add(uint8(3), asText(dbPod(halfDone)), asText(dbPod(halfDone, confirmed)), []byte(nil), repair)
	f.Add(uint8(4), []byte(`null`), []byte(`null`), []byte(`null`), "")
	f.Add(uint8(5), asText(silentNode()), []byte(`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service"}]}}`), []byte(nil), "alice")
	f.Add(uint8(6), asText(attachment()), []byte(nil), []byte(nil), "system:kube-controller-manager")
	f.Add(uint8(0), []byte(`{"metadata":{"ownerReferences":[{"kind":"StatefulSet","name":"a\n\u001b[2K","controller":true}]},"spec":{"nodeName":"n1"}}`), []byte(nil), []byte(`{"gracePeriodSeconds":0}`), "alice")
	roads := []struct {
		operation     admissionv1.Operation
		resource, sub string
	}{
		{admissionv1.Delete, "pods", ""}, {admissionv1.Create, "pods", "eviction"}, {admissionv1.Update, "pods", "status"}, {admissionv1.Update, "pods", ""},
		{admissionv1.Delete, "nodes", ""}, {admissionv1.Update, "nodes", ""}, {admissionv1.Delete, "volumeattachments", ""}, {admissionv1.Connect, "pods", "exec"},
	}
	store, err := webhook.NewPolicyStore(logr.Discard(), guarding(raising))
	if err != nil {
		f.Fatal(err)
	}
	online := &webhook.Engine{Policies: store, Lookup: &lookup.Lookup{Informers: cluster(namespace("shop")), Live: silentCluster(dbPod())}, Ready: func() bool { return true }}
	offline := &webhook.Engine{Policies: store, Lookup: &lookup.Lookup{Informers: cluster()}, Ready: func() bool { return true }}
	f.Fuzz(func(t *testing.T, road uint8, before, now, options []byte, user string) {
		r := roads[int(road)%len(roads)]
		req := removal(r.operation, r.resource, r.sub, "db-0", by(user), func(r *admission.Request) {
			r.OldObject.Raw, r.Object.Raw, r.Options.Raw = before, now, options
		})
		for _, e := range []*webhook.Engine{online, offline} {
			got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), req)
			if !got.Allowed && message(got) == "" {
				t.Error("refused without a reason")
			}
			for _, said := range append(got.Warnings, message(got)) {
				if got.AuditAnnotations["verdict"] != "" && (!utf8.ValidString(said) || strings.ContainsFunc(said, unicode.IsControl)) {
					t.Errorf("%q is no line of text", said)
				}
			}
			mutated := webhook.Handler(e.MutateEvictions).Handle(t.Context(), req)
			if !mutated.Allowed && (message(mutated) == "" || mutated.AuditAnnotations["removal"] != string(guard.RoadEviction)) {
				t.Errorf("mutation refuses what is no eviction, or without a reason: %+v", mutated)
			}
		}
	})
}

// TestRemovalFactsAreCurrent: a replica whose watch of namespaces or claims is broken judges by what is so now.
func TestRemovalFactsAreCurrent(t *testing.T) {
	now := time.Now()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "data", CreationTimestamp: metav1.NewTime(now)},
		Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}},
	}
	old := claim.DeepCopy()
	old.CreationTimestamp = metav1.Time{}
	claiming := func(p *corev1.Pod) {
		stateless(p)
		p.Status.StartTime = new(metav1.NewTime(now.Add(-time.Hour)))
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}
	unlabelled := namespace("shop")
	unlabelled.Labels = nil
	policy := guarding()
	policy.Spec.Match = &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{"team": "shop"})}
	for name, tc := range map[string]struct {
		informers, live client.Reader
		pod             *corev1.Pod
		says            string
	}{
		"the namespace was labelled since": {cluster(unlabelled), silentCluster(), dbPod(), "it is a pod of StatefulSet db"},
		"the claim was recreated since":    {cluster(namespace("shop"), old), silentCluster(claim), dbPod(claiming), "its claim data was not there before it started"},
	} {
		t.Run(name, func(t *testing.T) {
			e := newEngine(t, tc.informers, tc.live, policy)
			got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), forceDelete(tc.pod))
			if got.Allowed || !strings.Contains(got.Result.Message, tc.says) {
				t.Errorf("got %+v, %+v", got, got.Result)
			}
		})
	}
}

package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// owned is a review of the creation of a pod of a ReplicaSet.
func owned(t *testing.T, namespace, replicaSet string, uid types.UID) admission.Request {
	t.Helper()
	return ownedBy(t, namespace, metav1.OwnerReference{APIVersion: "apps/v1", Kind: "ReplicaSet"}, replicaSet, uid)
}

// ownedBy is a review of the creation of a pod with a controller.
func ownedBy(t *testing.T, namespace string, owner metav1.OwnerReference, name string, uid types.UID) admission.Request {
	t.Helper()
	owner.Name, owner.UID, owner.Controller = name, uid, new(true)
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: map[string]string{"app": "web"}, OwnerReferences: []metav1.OwnerReference{owner}}}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	r := review(pods, string(raw))
	r.Namespace = namespace
	return r
}

func spreading(constraints ...v1alpha1.TopologySpreadConstraint) v1alpha1.PodPolicySpec {
	return v1alpha1.PodPolicySpec{TopologySpread: &v1alpha1.TopologySpreadSection{Constraints: constraints, OnInfeasible: v1alpha1.InfeasibleDeny}}
}

var (
	softly = v1alpha1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.ScheduleAnyway}
	hardly = v1alpha1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: "zone", WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: new(int32(2))}
)

// Whoever may create pods can name owners that nobody has. Each costs one read, and all of a namespace no more than its limit.
func TestReadsOfAbsentOwners(t *testing.T) {
	var reads atomic.Int64
	live := interceptor.NewClient(cluster(), interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, options ...client.GetOption) error {
		if _, ok := o.(*appsv1.ReplicaSet); ok {
			reads.Add(1)
		}
		return c.Get(ctx, key, o, options...)
	}})
	e := newEngine(t, cluster(namespace("shop"), namespace("other")), live, podPolicy("p", spreading(softly)))
	e.Lookup.Reads = lookup.NewReads(live)

	for range 50 {
		webhook.Handler(e.MutatePods).Handle(t.Context(), owned(t, "shop", "made-up", "1"))
	}
	if got := reads.Load(); got != 1 {
		t.Errorf("one absent owner was read %d times", got)
	}
	// It is made now, a moment after it was asked for in vain: it has a UID that nobody knew.
	made := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "made-up", UID: "2"}, Spec: appsv1.ReplicaSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}}}
	if err := live.Create(t.Context(), made); err != nil {
		t.Fatal(err)
	}
	if got := webhook.Handler(e.MutatePods).Handle(t.Context(), owned(t, "shop", "made-up", "2")); len(got.Patches) != 1 {
		t.Errorf("the first pod of a new owner: %+v", got)
	}

	reads.Store(0)
	began := time.Now()
	const many = 2000
	for i := range many {
		webhook.Handler(e.MutatePods).Handle(t.Context(), owned(t, "shop", "made-up-too", types.UID(fmt.Sprint("u", i))))
	}
	if most := int64(201 + 50*time.Since(began).Seconds()); reads.Load() > most || reads.Load() >= many {
		t.Errorf("%d owners that nobody has were read %d times, at most %d are allowed", many, reads.Load(), most)
	}
	before := reads.Load()
	webhook.Handler(e.MutatePods).Handle(t.Context(), owned(t, "other", "made-up", "3"))
	if reads.Load() != before+1 {
		t.Error("another namespace waits for the one that asks without end")
	}
}

// The creation of a workload is judged before the workload is there. That nobody looked for it then is seen by its first pod, which comes before the informer's event.
func TestAWorkloadIsNoAbsentOwner(t *testing.T) {
	live := cluster()
	e := newEngine(t, cluster(namespace("shop")), live, podPolicy("p", spreading(softly)))
	e.Lookup.Reads = lookup.NewReads(live)
	set := &appsv1.StatefulSet{
		TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"}, ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db", UID: "1"},
		Spec: appsv1.StatefulSetSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}},
	}
	raw, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	created := review(metav1.GroupVersionKind{Group: "apps", Version: "v1", Kind: "StatefulSet"}, string(raw))
	created.Namespace = "shop"
	if got := webhook.Handler(e.ValidateWorkloads).Handle(t.Context(), created); !got.Allowed || len(got.Warnings) != 0 {
		t.Fatalf("the workload: %+v", got)
	}
	if err := live.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	if got := webhook.Handler(e.MutatePods).Handle(t.Context(), ownedBy(t, "shop", metav1.OwnerReference{APIVersion: "apps/v1", Kind: "StatefulSet"}, "db", "1")); len(got.Patches) != 1 {
		t.Errorf("its first pod: %+v", got)
	}
}

// Pods are counted where minDomains is short, of one namespace and one selector, once for all that ask at the same time.
func TestPodsAreCountedWhereMinDomainsIsShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lists atomic.Int64
		asked, goOn := make(chan struct{}), make(chan struct{})
		var zones atomic.Int64
		live := interceptor.NewClient(cluster(), interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			found, ok := list.(*corev1.PodList)
			if !ok {
				t.Errorf("listed %T", list)
				return nil
			}
			var o client.ListOptions
			o.ApplyOptions(options)
			if o.Namespace != "shop" || !o.LabelSelector.Matches(labels.Set{"app": "web"}) || o.LabelSelector.Matches(labels.Set{"app": "db"}) || o.FieldSelector.String() != "spec.nodeName!=" || o.Limit == 0 {
				t.Errorf("listed %+v", o)
			}
			if lists.Add(1) == 1 {
				close(asked)
				<-goOn
			}
			if o.Continue == "" { // page by page
				found.Items, found.Continue = []corev1.Pod{{Spec: corev1.PodSpec{NodeName: "nowhere"}}}, "next"
				return nil
			}
			running := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{NodeName: "n1"}}
			ended := *running.DeepCopy()
			ended.Status.Phase = corev1.PodFailed
			found.Items = []corev1.Pod{ended}
			if zones.Load() == 1 {
				found.Items = append(found.Items, running)
			}
			return nil
		}})
		node := func(name, zone string) *corev1.Node {
			return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"zone": zone}}}
		}
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
		informers := cluster(namespace("shop"), service, node("n1", "a"), node("n2", "b"))
		e := newEngine(t, informers, live, podPolicy("p", spreading(hardly)))
		e.Lookup.Reads = lookup.NewReads(live)

		if got := webhook.Handler(e.MutatePods).Handle(t.Context(), review(pods, plainPod)); len(got.Patches) != 1 || lists.Load() != 0 {
			t.Errorf("two domains are there and pods were listed %d times: %+v", lists.Load(), got)
		}
		if err := informers.Delete(t.Context(), node("n2", "b")); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() {
				if got := webhook.Handler(e.MutatePods).Handle(t.Context(), review(pods, plainPod)); len(got.Patches) != 1 {
					t.Errorf("nothing runs there: %+v", got)
				}
			})
		}
		<-asked
		synctest.Wait() // for all to share the first one's list
		close(goOn)
		all.Wait()
		if got := lists.Load(); got != 2 {
			t.Errorf("five pods at once: %d pages were read of 2", got)
		}
		zones.Store(1)
		e.Lookup.Reads = lookup.NewReads(live) // as after a moment
		if got := webhook.Handler(e.MutatePods).Handle(t.Context(), review(pods, plainPod)); got.Allowed || !strings.Contains(message(got), "each already has maxSkew (1) pods") {
			t.Errorf("a pod runs in the only domain: %+v", got)
		}
	})
}

// Pods without number are not counted, and that is counted.
func TestTooManyPodsAreNotJudged(t *testing.T) {
	full := make([]corev1.Pod, 500)
	for i := range full {
		full[i].Spec.NodeName = "n1"
	}
	pages := 0
	live := interceptor.NewClient(cluster(), interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		pages++
		list.(*corev1.PodList).Items = full
		list.(*corev1.PodList).Continue = "next"
		return nil
	}})
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a"}}}
	e := newEngine(t, cluster(namespace("shop"), service, node), live, podPolicy("p", spreading(hardly)))
	e.Lookup.Reads = lookup.NewReads(live)
	registry := prometheus.NewRegistry()
	e.Metrics = webhook.NewMetrics(registry, e.Policies.(*webhook.PolicyStore), webhook.Namespaces{Most: 100})
	if got := webhook.Handler(e.MutatePods).Handle(t.Context(), review(pods, plainPod)); !got.Allowed || len(got.Patches) != 1 {
		t.Errorf("what is not known is not judged: %+v", got)
	}
	if pages != 10 {
		t.Errorf("%d pages of 500 pods were read", pages)
	}
	const want = `# HELP podgrace_spread_unjudged_total Pods whose hard topology spread constraints were not checked for feasibility, by reason: TooDear to compare with all nodes, or PodsUnknown. Dry runs are not counted.
# TYPE podgrace_spread_unjudged_total counter
podgrace_spread_unjudged_total{reason="PodsUnknown"} 1
podgrace_spread_unjudged_total{reason="TooDear"} 0
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(want), "podgrace_spread_unjudged_total"); err != nil {
		t.Error(err)
	}
}

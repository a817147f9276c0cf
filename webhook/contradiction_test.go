package webhook_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/defaulting/topology"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// contradicting is a cluster in which the zone leaves n3 only for one more pod foo=bar, and the hostname n2 only; it counts the lists of pods.
func contradicting(t testing.TB, lists *atomic.Int64) client.WithWatch {
	return interceptor.NewClient(cluster(), interceptor.Funcs{List: func(_ context.Context, _ client.WithWatch, list client.ObjectList, _ ...client.ListOption) error {
		found, ok := list.(*corev1.PodList)
		if !ok {
			t.Errorf("listed %T", list)
			return nil
		}
		lists.Add(1)
		for i, node := range []string{"n1", "n1", "n2", "n3", "n3"} {
			found.Items = append(found.Items, corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint(i), Labels: map[string]string{"foo": "bar"}}, Spec: corev1.PodSpec{NodeName: node}})
		}
		return nil
	}})
}

func threeNodes() *topology.Nodes {
	nodes := topology.New()
	for name, zone := range map[string]string{"n1": "A", "n2": "A", "n3": "B"} {
		nodes.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone, corev1.LabelHostname: name}}})
	}
	return nodes
}

const (
	constraint     = `{"maxSkew":1,"topologyKey":"%s","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"foo":"bar"}}}`
	contradictions = "topologySpreadConstraints on topology.kubernetes.io/zone and kubernetes.io/hostname can each be met now, and together they can't: the first leaves node n3 only, the second n2 only; " +
		"raise maxSkew, use another topologyKey or ScheduleAnyway for one of them"
)

// spreadItself is a pod, or the template of one, with hard constraints of its own over the zone and the hostname.
func spreadItself() string {
	return `{"metadata":{"name":"p","labels":{"foo":"bar"}},"spec":{"containers":[{"name":"c"}],"priority":0,"preemptionPolicy":"PreemptLowerPriority","terminationGracePeriodSeconds":30,"topologySpreadConstraints":[` +
		fmt.Sprintf(constraint, corev1.LabelTopologyZone) + "," + fmt.Sprintf(constraint, corev1.LabelHostname) + `]}}`
}

// Whoever creates a pod or a workload whose own constraints contradict each other is told; a controller is not, and costs nothing.
func TestContradictionsAreTold(t *testing.T) {
	var lists atomic.Int64
	live := contradicting(t, &lists)
	e := newEngine(t, cluster(namespace("shop")), live)
	e.Lookup.Nodes, e.Lookup.Reads = threeNodes(), lookup.NewReads(live)
	template := strings.NewReplacer(`"priority":0,"preemptionPolicy":"PreemptLowerPriority",`, "").Replace(spreadItself())
	workload := func(group, kind, rest string) admission.Request {
		return review(metav1.GroupVersionKind{Group: group, Version: "v1", Kind: kind}, `{"metadata":{"name":"w"},"spec":{"selector":{"matchLabels":{"foo":"bar"}},"template":`+template+rest+`}}`)
	}
	var pod corev1.Pod
	if err := json.Unmarshal([]byte(spreadItself()), &pod); err != nil {
		t.Fatal(err)
	}
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "w-1", Controller: new(true)}}
	controlled, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		handle  webhook.Handler
		request admission.Request
		told    bool
		lists   int64
	}{
		"a Deployment":                   {e.ValidateWorkloads, workload("apps", "Deployment", ""), true, 1},
		"a Job":                          {e.ValidateWorkloads, workload("batch", "Job", ""), true, 1},
		"a Deployment scaled to 0":       {e.ValidateWorkloads, workload("apps", "Deployment", `,"replicas":0`), false, 0},
		"a ReplicaSet that adopts them":  {e.ValidateWorkloads, workload("apps", "ReplicaSet", ""), false, 1},
		"a bare pod":                     {e.ValidatePods, review(pods, spreadItself()), true, 1},
		"a bare pod, before it is final": {e.MutatePods, review(pods, spreadItself()), false, 0},
		"a controller's pod":             {e.ValidatePods, review(pods, string(controlled)), false, 0},
		"a pod without constraints":      {e.ValidatePods, review(pods, plainPod), false, 0},
	} {
		lists.Store(0)
		e.Lookup.Reads = lookup.NewReads(live)
		got := tt.handle.Handle(t.Context(), tt.request)
		if !got.Allowed || len(got.Warnings) > 1 || (len(got.Warnings) == 1 && got.Warnings[0] == contradictions) != tt.told {
			t.Errorf("%s: %v, %q", name, got.Allowed, got.Warnings)
		}
		if lists.Load() != tt.lists {
			t.Errorf("%s: pods were listed %d times", name, lists.Load())
		}
	}
}

// What a review costs by the constraints of its pod, beside 5,000 nodes: without hard ones of its own no more than ever.
func BenchmarkValidatePods(b *testing.B) {
	nodes := topology.New()
	for i := range 5000 {
		name := fmt.Sprint("node", i)
		nodes.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: fmt.Sprint(i % 3), corev1.LabelHostname: name}}})
	}
	var lists atomic.Int64
	live := contradicting(b, &lists)
	e := newEngine(b, cluster(namespace("shop")), live)
	e.Lookup.Nodes, e.Lookup.Reads = nodes, lookup.NewReads(live)
	soft := strings.ReplaceAll(spreadItself(), "DoNotSchedule", "ScheduleAnyway")
	for name, pod := range map[string]string{"no constraints": plainPod, "soft constraints": soft, "hard constraints": spreadItself()} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				webhook.Handler(e.ValidatePods).Handle(b.Context(), review(pods, pod))
			}
		})
	}
}

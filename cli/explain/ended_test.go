package explain_test

import (
	"bytes"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/pod/graceperiod/deadline"
)

func disrupted(reason, message string) option {
	return func(in *explain.Input) {
		in.Pod.Status.Conditions = append(in.Pod.Status.Conditions, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: metav1.NewTime(now),
		})
	}
}

// failed is a pod that its kubelet ended.
func failed(reason, message string) option {
	return func(in *explain.Input) {
		in.Pod.Status.Phase, in.Pod.Status.Reason, in.Pod.Status.Message = corev1.PodFailed, reason, message
	}
}

func thresholds(hard, soft map[string]string, longest int32) option {
	return func(in *explain.Input) {
		in.Kubelet = &kubeletconfigv1beta1.KubeletConfiguration{EvictionHard: hard, EvictionSoft: soft, EvictionMaxPodGracePeriod: longest}
	}
}

// Who ended a pod, for whom, and how long it had are told as far as they are known.
func TestEnded(t *testing.T) {
	const (
		short = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 60Mi. Container c was using 9Gi, request is 0, has larger consumption of memory. "
		soft  = "The node was low on resource: memory. Threshold quantity: 1Gi, available: 600Mi. "
	)
	byUID := func(in *explain.Input) {
		in.Events = []corev1.Event{{Reason: "Pulled", Message: "a b c d"}, {Reason: "Preempted", Message: "Preempted by pod u9 on node n1"}}
	}
	grace := func(seconds int64) option {
		return func(in *explain.Input) { in.Pod.Spec.TerminationGracePeriodSeconds = &seconds }
	}
	for name, test := range map[string]struct {
		options []option
		want    []string // none: it was not ended
		grace   int64    // -1: not known
	}{
		"evicted, with an Event that anybody wrote": {[]option{disrupted("EvictionByEvictionAPI", "evicting"), byUID}, []string{"autoscaler), at 2026"}, 30},
		"it runs":                   {nil, nil, 0},
		"it failed by itself":       {[]option{failed("Error", "")}, nil, 0},
		"a condition that is False": {[]option{disrupted("PreemptionByScheduler", ""), func(in *explain.Input) { in.Pod.Status.Conditions[0].Status = corev1.ConditionFalse }}, nil, 0},
		"preempted":                 {[]option{disrupted("PreemptionByScheduler", "default-scheduler: preempting to accommodate a higher priority pod"), byUID}, []string{"Preempted by the scheduler, for u9 (as its Event says)"}, 30},
		"preempted for a pod of the node": {[]option{disrupted("PreemptionByScheduler", ""), byUID, func(in *explain.Input) {
			in.Neighbours = []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Namespace: "pay", Name: "till", UID: "u9"}}}
		}}, []string{"for pay/till"}, 30},
		"preempted for the pod of the Event": {[]option{disrupted("PreemptionByScheduler", ""), byUID, func(in *explain.Input) {
			in.Events[1].Related = &corev1.ObjectReference{Namespace: "pay", Name: "till-2"}
		}}, []string{"for pay/till-2"}, 30},
		"evicted with less than its own": {[]option{disrupted("EvictionByEvictionAPI", "Eviction API: evicting"), func(in *explain.Input) { in.Pod.DeletionGracePeriodSeconds = new(int64(5)) }}, []string{"the eviction API", "by the deletion"}, 5},
		"by a taint":                     {[]option{disrupted("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")}, []string{"NoExecute"}, 30},
		"by the garbage collector":       {[]option{disrupted("DeletionByPodGC", "PodGC: node no longer exists")}, []string{"garbage collector", "node no longer exists"}, 30},
		"by the node enforcer":           {[]option{disrupted("EvictionByNodeEnforcer", "memory is short")}, []string{"node enforcer", "Memory is short"}, 30},
		"by somebody new":                {[]option{disrupted("DeletionByFuture", "")}, []string{"Ended by DeletionByFuture"}, 30},
		"by the kubelet, not configured": {[]option{disrupted("TerminationByKubelet", short), failed("Evicted", short)}, []string{"Evicted by the kubelet", "configuration is not known"}, -1},
		"by a hard threshold alone":      {[]option{failed("Evicted", short), thresholds(map[string]string{"memory.available": "100Mi"}, nil, 0)}, []string{"hard thresholds alone"}, 1},
		"by a soft threshold alone":      {[]option{failed("Evicted", soft), thresholds(nil, map[string]string{"memory.available": "1Gi"}, 20)}, []string{"soft thresholds alone"}, 20},
		"by the soft of two":             {[]option{failed("Evicted", soft), thresholds(map[string]string{"memory.available": "100Mi"}, map[string]string{"memory.available": "1024Mi"}, 90)}, []string{"leaves at most evictionMaxPodGracePeriod"}, 30},
		"by the hard of two":             {[]option{failed("Evicted", short), thresholds(map[string]string{"memory.available": "100Mi"}, map[string]string{"memory.available": "1Gi"}, 90)}, []string{"by a hard threshold"}, 1},
		"by one of two, as a percentage": {[]option{failed("Evicted", short), thresholds(map[string]string{"memory.available": "5%"}, map[string]string{"memory.available": "10%"}, 90)}, []string{"does not say which"}, -1},
		"over a limit of its own":        {[]option{failed("Evicted", `Usage of EmptyDir volume "cache" exceeds the limit "1Gi". `)}, []string{"limit of its own"}, 1},
		"by a shutdown":                  {[]option{disrupted("TerminationByKubelet", ""), failed("Terminated", "Pod was terminated in response to imminent node shutdown.")}, []string{"shut down", "is not known"}, -1},
		"by a shutdown of 20 s": {[]option{failed("Terminated", ""), func(in *explain.Input) {
			in.Deadlines = []deadline.Deadline{{Of: "a shutdown of the node (the kubelet's x)", Seconds: 20}}
		}}, []string{"by a shutdown of the node"}, 20},
		"for a critical pod": {[]option{failed("Preempting", "Preempted in order to admit critical pod"), grace(50)}, []string{"to admit a critical pod"}, 50},
	} {
		t.Run(name, func(t *testing.T) {
			e := explain.Explain(web(test.options...))
			if e.Ended == nil || len(test.want) == 0 {
				if e.Ended != nil || len(test.want) > 0 {
					t.Errorf("%+v", e.Ended)
				}
				return
			}
			var printed bytes.Buffer
			if err := explain.Text(&printed, e, console.Style{Width: 1000}); err != nil {
				t.Fatal(err)
			}
			for _, want := range test.want {
				if !strings.Contains(printed.String(), want) {
					t.Errorf("%q is not in\n%s", want, printed.String())
				}
			}
			if got := e.Ended.GraceSeconds; (got == nil) != (test.grace < 0) || got != nil && *got != test.grace {
				t.Errorf("%+v", e.Ended)
			}
		})
	}
}

// Each deadline that leaves a pod less than its grace period is a pitfall, and those that leave it all of it are named.
func TestDeadlines(t *testing.T) {
	budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Name: "web", Generation: 2}, Status: policyv1.PodDisruptionBudgetStatus{ObservedGeneration: 2}}
	g := explain.Explain(web(func(in *explain.Input) {
		in.Deadlines = []deadline.Deadline{{Of: "a shutdown of the node", Seconds: 20, Remedy: "raise it"}, {Of: "a drain by Karpenter", Seconds: 300, Remedy: "raise that"}}
		in.Budgets = []*policyv1.PodDisruptionBudget{budget, {ObjectMeta: metav1.ObjectMeta{Name: "new", Generation: 1}}, {ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Status: policyv1.PodDisruptionBudgetStatus{DisruptionsAllowed: 1}}}
	})).Grace
	if len(g.Pitfalls) != 1 || !strings.Contains(g.Pitfalls[0], "a shutdown of the node leaves it 20 s at most, and not its grace period of 30 s; raise it") || len(g.Deadlines) != 2 {
		t.Errorf("%q", g.Pitfalls)
	}
	others := strings.Join(g.Others, "\n")
	for _, want := range []string{"within a drain by Karpenter: 300 s", "PodDisruptionBudget web allows no disruption"} {
		if !strings.Contains(others, want) {
			t.Errorf("%q is not in %q", want, others)
		}
	}
	for _, not := range []string{"new", "wide", "shutdown"} {
		if strings.Contains(others, not) {
			t.Errorf("%q is in %q", not, others)
		}
	}
}

package plan_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

func amounts(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for name, text := range map[corev1.ResourceName]string{corev1.ResourceCPU: cpu, corev1.ResourceMemory: memory} {
		if text != "" {
			list[name] = resource.MustParse(text)
		}
	}
	return list
}

func pending(reason string) corev1.PodCondition {
	return corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason}
}

// resized was made with 100m and 64Mi, limits of 200m and 128Mi, and asks for ten times as much; the kubelet tells that it has allocated and
// written this.
func resized(allocated, written corev1.ResourceList, conditions ...corev1.PodCondition) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a", UID: "u", Generation: 2},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Resources: corev1.ResourceRequirements{Requests: amounts("1", "640Mi"), Limits: amounts("2", "1280Mi")}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, QOSClass: corev1.PodQOSBurstable, ObservedGeneration: 2, Conditions: conditions, ContainerStatuses: []corev1.ContainerStatus{{
			Name: "c", ContainerID: "containerd://1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			AllocatedResources: allocated, Resources: &corev1.ResourceRequirements{Requests: allocated, Limits: written},
		}}},
	}
}

// The plan of a pod and its container is by what the kubelet has allocated, and never by what it has not: whether it put a resize off, refused it or has not
// seen it. What it has allocated is planned while it is still at it. The QoS level's weight is the kubelet's sum of what the specs say.
func TestPlanOfAResizedPod(t *testing.T) {
	old := map[string]string{"pod cpu.weight": "4", "pod cpu.max": "20000 100000", "pod memory.max": "134217728", "c cpu.weight": "17", "c cpu.max": "20000 100000", "c memory.max": "134217728"}
	accepted := map[string]string{"pod cpu.weight": "39", "pod cpu.max": "200000 100000", "pod memory.max": "1342177280", "c cpu.weight": "100", "c cpu.max": "200000 100000", "c memory.max": "1342177280"}
	had, hadLimits, has, limits := amounts("100m", "64Mi"), amounts("200m", "128Mi"), amounts("1", "640Mi"), amounts("2", "1280Mi")
	inProgress := corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue}
	unseen := resized(had, hadLimits)
	unseen.Status.ObservedGeneration = 1
	onlyLimits := resized(has, hadLimits, pending(corev1.PodReasonInfeasible))
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		want     map[string]string
		adj      int
		resizing bool
		note     string
	}{
		"deferred":              {resized(had, hadLimits, pending(corev1.PodReasonDeferred)), old, 993, true, "its resize is pending (Deferred)"},
		"infeasible":            {resized(had, hadLimits, pending(corev1.PodReasonInfeasible)), old, 993, false, "its resize is pending (Infeasible)"},
		"for another reason":    {resized(had, hadLimits, pending("")), old, 993, true, "its resize is pending (no reason given)"},
		"not seen yet":          {unseen, old, 993, true, ""},
		"in progress":           {resized(has, hadLimits, inProgress), accepted, 922, true, ""},
		"an error":              {resized(has, hadLimits, corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue, Reason: corev1.PodReasonError}), accepted, 922, true, ""},
		"done":                  {resized(has, limits), accepted, 922, false, ""},
		"no more in progress":   {resized(has, limits, corev1.PodCondition{Type: corev1.PodResizeInProgress, Status: corev1.ConditionFalse}), accepted, 922, false, ""},
		"limits are infeasible": {onlyLimits, map[string]string{"pod cpu.weight": "39", "pod cpu.max": "20000 100000", "pod memory.max": "134217728", "c cpu.weight": "100", "c cpu.max": "20000 100000", "c memory.max": "134217728"}, 922, false, "(Infeasible)"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := plan.Build(plan.Node{Version: cgroupfile.V2, Capacity: amounts("4", "8Gi")}, nil, []*corev1.Pod{test.pod})
			got, qos := map[string]string{}, ""
			for _, g := range tree.Groups {
				for _, file := range []string{"cpu.weight", "cpu.max", "memory.max"} {
					switch v := g.Files[file].Want; g.Level {
					case plan.LevelPod:
						got["pod "+file] = v
					case plan.LevelContainer:
						got["c "+file] = v
					case plan.LevelQOS:
						if g.QOS == corev1.PodQOSBurstable && file == "cpu.weight" {
							qos = v
						}
					}
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			if len(tree.Processes) != 1 || tree.Processes[0].OOMScoreAdj != test.adj || qos != "39" {
				t.Errorf("processes %+v, weight of the QoS level %s", tree.Processes, qos)
			}
			if is := plan.Resizing(test.pod); is != test.resizing {
				t.Errorf("resizing: %v", is)
			}
			notes := ""
			for _, n := range tree.Notes {
				if n.Pod.Name != "" {
					notes += n.Message
				}
			}
			if (notes == "") != (test.note == "") || !strings.Contains(notes, test.note) {
				t.Errorf("notes %q", notes)
			}
		})
	}
}

// The status has a limit of the pod as the container's own, since the runtime has it. The container has none.
func TestAllocatedWithoutTheLimitsOfThePod(t *testing.T) {
	p := resized(amounts("100m", "64Mi"), amounts("2", "128Mi"), pending(corev1.PodReasonDeferred))
	delete(p.Spec.Containers[0].Resources.Limits, corev1.ResourceCPU)
	got := plan.Allocated(p).Spec.Containers[0].Resources
	want := corev1.ResourceRequirements{Requests: amounts("100m", "64Mi"), Limits: amounts("", "128Mi")}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

package fidelity

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// resizeCase is a pod as the kubelet admitted it, and what its spec says now. A resize changes amounts.
type resizeCase struct {
	Old, New *corev1.Pod
	Pending  bool
}

func (c *resizeCase) GoString() string { return draw.Show(c) }

var resizeCases = draw.Of(func(s draw.Source) *resizeCase {
	c := &resizeCase{Old: drawNodePod(s, 0), Pending: s.Chance(10)}
	c.New = c.Old.DeepCopy()
	change := func(list corev1.ResourceList) {
		for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
			if q, ok := list[name]; ok && s.Chance(8) {
				q.Add(q)
				list[name] = q
			}
		}
	}
	for _, containers := range [][]corev1.Container{c.New.Spec.Containers, c.New.Spec.InitContainers} {
		for i := range containers {
			change(containers[i].Resources.Requests)
			change(containers[i].Resources.Limits)
		}
	}
	if r := c.New.Spec.Resources; r != nil {
		change(r.Requests)
		change(r.Limits)
	}
	return c
})

// told is the pod as the API has it, with the status that the kubelet makes of what it allocated (pkg/kubelet/kubelet_pods.go
// convertToAPIContainerStatuses and getEffectiveAllocatedResources, 1.36.3).
func (c *resizeCase) told(allocated *corev1.Pod) *corev1.Pod {
	p := c.New.DeepCopy()
	fill := func(statuses []corev1.ContainerStatus, containers []corev1.Container) {
		for i := range statuses {
			statuses[i].AllocatedResources, statuses[i].Resources = containers[i].Resources.Requests.DeepCopy(), containers[i].Resources.DeepCopy()
		}
	}
	fill(p.Status.ContainerStatuses, allocated.Spec.Containers)
	fill(p.Status.InitContainerStatuses, allocated.Spec.InitContainers)
	p.Status.AllocatedResources = resourcehelper.PodRequests(allocated, resourcehelper.PodResourcesOptions{})
	p.Status.Resources = &corev1.ResourceRequirements{Requests: p.Status.AllocatedResources, Limits: resourcehelper.PodLimits(allocated, resourcehelper.PodResourcesOptions{})}
	if c.Pending {
		p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonDeferred}}
	}
	return p
}

// TestFidelityNodeAllocation: what the plan takes as allocated, from the status, is what the kubelet's allocation manager has.
func TestFidelityNodeAllocation(t *testing.T) {
	t.Parallel()
	manager := allocation.NewInMemoryManager(nil, nil, nil, nil, nil, nil)
	draw.Check(t, draw.Shares{"replaced": 30, "accepted": 20}, func(t *rapid.T, counts *draw.Tally) {
		c := resizeCases.Draw(t, "case")
		allocated := c.Old
		if !c.Pending {
			allocated = c.New
		}
		if err := manager.SetAllocatedResources(allocated); err != nil {
			t.Fatal(err)
		}
		want, replaced := manager.UpdatePodFromAllocation(c.New)
		told := c.told(allocated)
		before := told.DeepCopy()
		got := plan.Allocated(told)
		if diff := cmp.Diff(before, told); diff != "" {
			t.Fatalf("the pod was changed: %s", diff)
		}
		if draw.Show(want.Spec) != draw.Show(got.Spec) {
			t.Fatalf("-kubelet +plan:\n%s\n%s", cmp.Diff(draw.Show(want.Spec), draw.Show(got.Spec)), draw.Show(c))
		}
		if replaced {
			counts.Add("replaced")
		} else {
			counts.Add("accepted")
		}
	})
}

package repair

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// ask is a resize of the bed's only pod, as the API has it before the kubelet has told anything: another request and limit of memory.
func ask(b *bed, memory string) *corev1.Pod {
	p := b.Pods[0].DeepCopy()
	r := &p.Spec.Containers[0].Resources
	s := &p.Status.ContainerStatuses[0]
	if s.Resources == nil {
		s.AllocatedResources, s.Resources = r.Requests.DeepCopy(), r.DeepCopy()
		p.Generation = 1
	}
	p.Status.ObservedGeneration, p.Generation, p.Status.QOSClass = p.Generation, p.Generation+1, corev1.PodQOSBurstable
	r.Requests[corev1.ResourceMemory], r.Limits[corev1.ResourceMemory] = resource.MustParse(memory), resource.MustParse(memory)
	b.Pods[0] = p
	return p
}

// tell is what the kubelet makes of it. What it has not allocated stays as it was.
func tell(b *bed, allocated bool, conditions ...corev1.PodCondition) {
	p := b.Pods[0].DeepCopy()
	p.Status.ObservedGeneration, p.Status.Conditions = p.Generation, conditions
	if allocated {
		s, r := &p.Status.ContainerStatuses[0], p.Spec.Containers[0].Resources
		s.AllocatedResources, s.Resources = r.Requests.DeepCopy(), r.DeepCopy()
	}
	b.Pods[0] = p
}

func condition(of corev1.PodConditionType, reason string) corev1.PodCondition {
	return corev1.PodCondition{Type: of, Status: corev1.ConditionTrue, Reason: reason}
}

// limit is what the memory limits of the pod and its container are: as the kubelet, or somebody, has written them.
func limit(b *bed, bytes string) {
	for _, c := range []string{"", "c"} {
		b.Cgroups.Set(b.Path("a", c), "memory.max", bytes)
	}
}

// calm does a full round each second, and fails for what it writes.
func calm(t *testing.T, b *bed, what string) {
	t.Helper()
	for range 100 {
		b.Clock.Step(time.Second)
		if r, writes := b.mustRound(true); len(writes)+len(r.Written) > 0 {
			t.Fatalf("%s: wrote %v", what, writes)
		}
	}
}

func resizeBed(t *testing.T) *bed {
	b := newBed(t, statetest.Pod("a", "cpu=100m", "memory<64Mi")).make(statetest.AsPlanned)
	b.enforcer.Settling = drift.NewSettling(drift.SettleTime)
	calm(t, b, "as made")
	return b
}

// A resize is not fought, whatever of it is known, and when: neither is a value put back that the kubelet has written and not told, nor one written before it.
func TestRoundOfAResize(t *testing.T) {
	const was, asked = "67108864", "134217728"
	inProgress, deferred := condition(corev1.PodResizeInProgress, ""), condition(corev1.PodResizePending, corev1.PodReasonDeferred)
	b := resizeBed(t)
	ask(b, "128Mi")
	calm(t, b, "asked, and not seen")
	limit(b, asked)
	calm(t, b, "written, and not told")
	tell(b, true, inProgress)
	calm(t, b, "in progress, and written")
	tell(b, true)
	calm(t, b, "done")

	ask(b, "64Mi")
	tell(b, true, condition(corev1.PodResizeInProgress, corev1.PodReasonError)) // more is used
	calm(t, b, "an error")
	limit(b, was)
	calm(t, b, "written after the error")
	tell(b, true)
	calm(t, b, "done after the error")

	ask(b, "128Mi")
	tell(b, false, deferred)
	calm(t, b, "deferred")
	limit(b, asked)
	calm(t, b, "accepted and written, told to be deferred")
	tell(b, true)
	calm(t, b, "accepted")

	ask(b, "256Mi")
	tell(b, false, condition(corev1.PodResizePending, corev1.PodReasonInfeasible))
	calm(t, b, "infeasible")
	limit(b, was)
	restored := 0
	for range 4 {
		b.Clock.Step(time.Second)
		_, writes := b.mustRound(true)
		restored += len(writes)
	}
	if got, _ := b.Cgroups.Get(b.Path("a", "c"), "memory.max"); restored != 2 || got != asked {
		t.Errorf("what somebody wrote to a pod whose resize is infeasible: %d writes, the limit is %s", restored, got)
	}
	calm(t, b, "restored")
}

// What nobody else owns waits for the resize, but not for ever: a write through systemd would put back what the kubelet is about to replace.
func TestRoundOfAResizeAndOurs(t *testing.T) {
	b := resizeBed(t)
	b.Policy.Memory = &v1alpha1.NodeMemory{Protection: v1alpha1.NodeMemoryProtectionTiered}
	for _, path := range append(b.Cgroups.Paths(), "") {
		if path != "" {
			b.Cgroups.Set(path, "memory.low", "0")
			b.Cgroups.Set(path, "memory.min", "0")
		}
	}
	a := b.Path("a", "")
	ask(b, "128Mi")
	tell(b, true, condition(corev1.PodResizeInProgress, ""))
	limit(b, "134217728")
	for second := range 15 {
		if _, err := b.enforcer.Round(t.Context(), b.Node, b.Policy, b.Mode, b.Pods, true); err != nil {
			t.Fatal(err)
		}
		if low, _ := b.Cgroups.Get(a, "memory.low"); (low != "0") != (second >= 10) {
			t.Errorf("second %d: memory.low is %s", second, low)
		}
		b.Clock.Step(time.Second)
	}
}

// The kubelet writes its own weight at each resize. That it does is no reason to give up ours.
func TestRoundAfterManyResizes(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "cpu=100m", "memory<64Mi"))
	b.Pods[0].Annotations = map[string]string{v1alpha1.AnnotationEnforcement: `{"cpu":{"weight":300}}`}
	b.make(statetest.AsPlanned)
	b.enforcer.Settling = drift.NewSettling(drift.SettleTime)
	a := b.Path("a", "")
	for i := range 2 * drift.RivalLimit {
		b.Clock.Step(time.Minute)
		memory := 65 + i
		ask(b, fmt.Sprintf("%dMi", memory))
		limit(b, fmt.Sprint(memory<<20))
		b.Cgroups.Set(a, "cpu.weight", "4")
		tell(b, true)
		for range 2 {
			if r, _ := b.mustRound(true); len(r.Reverts) > 0 {
				t.Fatalf("after resize %d it gave up %v", i+1, r.Reverts)
			}
			b.Clock.Step(20 * time.Second)
		}
		if got, _ := b.Cgroups.Get(a, "cpu.weight"); got != "300" {
			t.Errorf("after resize %d the weight is %s", i+1, got)
		}
	}
	told := 0
	for range drift.RivalLimit { // somebody who writes it without a resize
		b.Cgroups.Set(a, "cpu.weight", "4")
		r, _ := b.mustRound(true)
		told += len(r.Reverts)
		b.Clock.Step(time.Minute)
	}
	if told != 1 {
		t.Errorf("another writer was told %d times", told)
	}
}

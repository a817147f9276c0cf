package terminate

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// Request asks for the termination of a pod.
type Request struct {
	// Pod as last seen: its UID, its containers and their ids count.
	Pod *corev1.Pod
	// Path of the pod's cgroup, as package plan names it.
	Path string
	Kind eviction.Kind
	// GraceSeconds is what the kind promises: for Soft min(policy's maximum, pod's own), for Hard the policy's. Less than 1
	// counts as 1: 0 would be a force delete.
	GraceSeconds int64
	// Contain says that the node is short of memory, so that a hard eviction first stops the pod's growth. It has no effect with cgroup v1.
	Contain bool
	// Left in bytes is how much of the node's memory its hooks may be measured by (Slack); less than 0: not known.
	Left int64
	// Stale: the pod may have changed since it was seen, by somebody who stops it. It is not frozen then.
	Stale bool
	// Message for the pod's condition DisruptionTarget: what was short.
	Message string
}

// validate refuses a request whose cgroup can't be the pod's own. A mirror pod is among them: its cgroup has the UID of the
// static pod.
func (r *Request) validate() error {
	switch {
	case r.Pod == nil || r.Pod.UID == "":
		return fmt.Errorf("terminate a pod without a UID")
	case !strings.Contains(strings.ReplaceAll(r.Path, "_", "-"), "pod"+string(r.Pod.UID)):
		return fmt.Errorf("terminate %s/%s: cgroup %q is not that of UID %s", r.Pod.Namespace, r.Pod.Name, r.Path, r.Pod.UID)
	}
	return nil
}

// asked is the request as the state machine takes it.
func (r *Request) asked() Asked {
	grace := max(r.GraceSeconds, graceperiod.PodFloor)
	return Asked{Kind: r.Kind, GraceSeconds: grace, Kubelet: KubeletTime(r.Pod, grace), Contain: r.Contain, Slack: Slack(r.Pod, r.Left), Freeze: !r.Stale && freezable(r.Pod), Room: room(r.Left)}
}

// Ref identifies a pod by name and UID.
type Ref struct {
	types.NamespacedName
	UID types.UID
}

func refOf(pod *corev1.Pod) Ref {
	return Ref{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID}
}

// Limits are the times of the sequence that no policy sets.
type Limits struct {
	// Patience is how long a hard eviction waits for an API server that certainly accepted nothing.
	Patience time.Duration
	// Margin is what the kubelet gets beyond its own time, before the local sequence begins.
	Margin time.Duration
	// SoftPatience is how long a soft eviction is tried against an API server in trouble.
	SoftPatience time.Duration
	// SoftCall and HardCall bound one request.
	SoftCall, HardCall time.Duration
	// Mark bounds the condition that is written before the DELETE of a hard eviction, which it must not hold up.
	Mark time.Duration
	// Retry of a request after trouble.
	Retry Backoff
	// Budget is the wait after a budget forbade an eviction, where the answer asks for less.
	Budget Backoff
	// Restart is the wait before a container that the kubelet started again is stopped again.
	Restart Backoff
	// Again is the wait after a signal or a kill that failed or did not help.
	Again Backoff
	// Freezing is how long it is waited for the kernel to say that the pod is frozen, FreezeLate how long containment and deletion wait if not even that ends. Frozen bounds how long the
	// pod is frozen, and FrozenAccepted how long after its deletion was accepted.
	Freezing, FreezeLate, Frozen, FrozenAccepted time.Duration
	// Peek is how often it is looked for the stop signal of a frozen pod.
	Peek time.Duration
	// LookMin and LookMax are how often the victim's cgroups are read, from the first seconds on.
	LookMin, LookMax time.Duration
}

// DefaultLimits are those of the node enforcer.
func DefaultLimits() Limits {
	return Limits{
		Patience: time.Second, Margin: 2 * time.Second, SoftPatience: 30 * time.Second,
		SoftCall: 10 * time.Second, HardCall: 3 * time.Second, Mark: 300 * time.Millisecond,
		Retry:    Backoff{Min: 200 * time.Millisecond, Max: 10 * time.Second},
		Budget:   Backoff{Min: 5 * time.Second, Max: time.Minute},
		Restart:  Backoff{Min: time.Second, Max: 5 * time.Minute},
		Again:    Backoff{Min: time.Second, Max: time.Minute},
		Freezing: 50 * time.Millisecond, FreezeLate: 200 * time.Millisecond, Frozen: 2 * time.Second, FrozenAccepted: time.Second, Peek: 10 * time.Millisecond,
		LookMin: 100 * time.Millisecond, LookMax: time.Second,
	}
}

// lookEvery is a twentieth of the time that has passed, within the limits: quick at first, seldom for what lasts.
func (l *Limits) lookEvery(passed time.Duration) time.Duration {
	return min(max(passed/20, l.LookMin), l.LookMax)
}

// Backoff doubles from Min to Max.
type Backoff struct{ Min, Max time.Duration }

// after is the wait after the nth failure, counted from 1.
func (b Backoff) after(n int) time.Duration {
	wait := b.Min
	for ; n > 1 && wait < b.Max; n-- {
		wait *= 2
	}
	return min(wait, b.Max)
}

// KubeletTime is the longest that the kubelet takes from the moment it begins to stop a pod with a grace period until it has
// sent SIGKILL to each container (killContainer, pkg/kubelet/kuberuntime/kuberuntime_container.go, 1.36.3): hook, turn and
// the floor between SIGTERM and SIGKILL included.
func KubeletTime(pod *corev1.Pod, graceSeconds int64) time.Duration {
	longest := graceperiod.ContainerFloor
	for i := range pod.Spec.Containers {
		longest = max(longest, mainSeconds(pod, &pod.Spec.Containers[i], graceSeconds))
	}
	for i := range pod.Spec.InitContainers {
		c := &pod.Spec.InitContainers[i]
		longest = max(longest, mainSeconds(pod, c, graceSeconds))
		if graceperiod.IsSidecar(c) {
			longest = max(longest, sidecarSeconds(c, graceSeconds))
		}
	}
	return time.Duration(longest) * time.Second
}

// mainSeconds is for a container that waits for no other.
func mainSeconds(pod *corev1.Pod, c *corev1.Container, graceSeconds int64) int64 {
	s := graceperiod.Container(pod, c, graceperiod.Deleted, &graceSeconds)
	if s.PreStopUnknown {
		// It may take all of the grace period, and then the floor holds.
		return graceSeconds + graceperiod.ContainerFloor
	}
	return s.PreStop + s.AfterTerm
}

// sidecarSeconds is for one that waits for its turn with what its hook has left, and then still has the floor. The kubelet
// counts the hook's time in whole seconds, so that one more may be given.
func sidecarSeconds(c *corev1.Container, graceSeconds int64) int64 {
	seconds := graceSeconds + graceperiod.ContainerFloor
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil {
		seconds++
	}
	return seconds
}

// localGrace is what a container gets between the stop signal and SIGKILL where we stop it: no hook runs, so all of the grace
// period, and never less than the kubelet's own floor.
func localGrace(graceSeconds int64) time.Duration {
	return time.Duration(max(graceSeconds, graceperiod.ContainerFloor)) * time.Second
}

// Longest is how long a pod can take to end if all goes well: stopped by the kubelet or, if that does not work, by the local sequence. A pod
// that is still there after that is stuck.
func Longest(pod *corev1.Pod, graceSeconds int64) time.Duration {
	limits := DefaultLimits()
	return KubeletTime(pod, graceSeconds) + limits.Margin + localGrace(graceSeconds) + limits.Margin
}

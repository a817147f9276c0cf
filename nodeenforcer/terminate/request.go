package terminate

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/graceperiod"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// Request asks for the end of a pod.
type Request struct {
	// Pod as last seen: its UID, its containers and their ids count.
	Pod *corev1.Pod
	// Path of the pod's cgroup, as package plan names it.
	Path string
	Kind eviction.Kind
	// GraceSeconds is what the kind promises: for Soft min(policy's maximum, pod's own), for Hard the policy's. Less than 1
	// counts as 1: 0 would be a force delete.
	GraceSeconds int64
	// Contain says that memory is short, so that a hard eviction stops the pod's growth first. On v1 it has no effect.
	Contain bool
	// Left in bytes is how much of the node's memory its hooks may be measured by (Slack); less than 0: not known.
	Left int64
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
	return Asked{Kind: r.Kind, GraceSeconds: grace, Kubelet: KubeletTime(r.Pod, grace), Contain: r.Contain, Slack: Slack(r.Pod, r.Left)}
}

// Ref names a pod and its very life.
type Ref struct {
	types.NamespacedName
	UID types.UID
}

func refOf(pod *corev1.Pod) Ref {
	return Ref{NamespacedName: types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, UID: pod.UID}
}

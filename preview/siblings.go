package preview

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	labelsutil "k8s.io/kubernetes/pkg/util/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// siblings are the pods on nodes that the workload of a preview has already.
func (p *Previewer) siblings(v *Preview) []*corev1.Pod {
	return slices.DeleteFunc(p.owned(v), func(there *corev1.Pod) bool { return there.Spec.NodeName == "" || graceperiod.Finished(there) })
}

// owned are all pods of the workload of a preview: those of all revisions, of a Deployment.
func (p *Previewer) owned(v *Preview) []*corev1.Pod {
	owner := metav1.GetControllerOfNoCopy(v.Pod)
	if owner == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(p.cluster.Pods), func(there *corev1.Pod) bool {
		by := metav1.GetControllerOfNoCopy(there)
		if by == nil || there.Namespace != v.Pod.Namespace {
			return true
		}
		name := owner.Name
		if v.strategy != nil { // getNewReplicaSet names it after its Deployment and the hash of its template (pkg/controller/deployment/sync.go, 1.36.3)
			name = v.Resource.Name + "-" + there.Labels[hashLabel]
		}
		return by.Kind != owner.Kind || by.Name != name
	})
}

// there is what the cluster has of the pod, or of its workload, already.
func (p *Previewer) there(v *Preview) []string {
	pod := p.pods[client.ObjectKeyFromObject(v.Pod)]
	switch {
	case pod == nil || pod.Name == "":
		if n := len(p.siblings(v)); n > 0 {
			return []string{fmt.Sprintf("%s of it %s there already. This is about one more.", console.Plural(n, "pod", "pods"), console.Noun(n, "is", "are"))}
		}
	case pod.Spec.NodeName != "" && graceperiod.Finished(pod):
		return []string{fmt.Sprintf("It has ended on %s. This is what would be if it were made anew.", pod.Spec.NodeName)}
	case pod.Spec.NodeName != "":
		return []string{fmt.Sprintf("It is on %s. This is what would be if it were made anew, without the one that is there.", pod.Spec.NodeName)}
	case pod.DeletionTimestamp != nil:
		return []string{"It is being deleted: the scheduler does not look at it any more."}
	case pod.Status.NominatedNodeName != "":
		return []string{fmt.Sprintf("It was nominated for %s: the scheduler takes this node, whatever the scores, as soon as the pod fits there.", pod.Status.NominatedNodeName)}
	}
	return nil
}

// isDaemon reports whether a preview is about a pod that a DaemonSet has on each node.
func isDaemon(v *Preview) bool {
	owner := metav1.GetControllerOfNoCopy(v.Pod)
	return owner != nil && owner.Kind == "DaemonSet" && owner.APIVersion == appsv1.SchemeGroupVersion.String()
}

// elsewhere are the plugins by whose refusal of a node the DaemonSet's controller makes no pod for it (NodeShouldRunDaemonPod in pkg/controller/daemon/daemon_controller.go, 1.36.3). They
// come first of all that refuse nodes.
var elsewhere = []string{names.NodeUnschedulable, names.NodeName, names.TaintToleration, names.NodeAffinity}

// daemon is how the pods of a DaemonSet are not like others.
func daemon(v *Preview) string {
	says := "Its controller makes a pod for each node whose labels and taints admit it; no score decides."
	pending := 0
	for _, g := range v.Groups {
		if !g.Fits && !slices.Contains(elsewhere, g.Plugin) {
			pending += len(g.Nodes)
		}
	}
	if pending > 0 {
		says += fmt.Sprintf(" On %s that pod stays pending, or has to preempt.", console.Plural(pending, "node", "nodes"))
	}
	return says
}

// replicaSet is the one that a Deployment's controller makes for a pod: by its selector the scheduler spreads pods without constraints of their own (DefaultSelector in
// pkg/scheduler/framework/plugins/helper/spread.go, 1.36.3). There is none without a selector.
func replicaSet(selector *metav1.LabelSelector, pod *corev1.Pod) []client.Object {
	owner := metav1.GetControllerOfNoCopy(pod)
	if selector == nil || owner == nil {
		return nil
	}
	return []client.Object{&appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: owner.Name},
		Spec:       appsv1.ReplicaSetSpec{Selector: labelsutil.CloneSelectorAndAddLabel(selector, hashLabel, pod.Labels[hashLabel])},
	}}
}

package defaulting

import (
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podgrace/podgrace/defaulting/topology"
	"github.com/podgrace/podgrace/policy"
)

// Facts are what is known about the cluster when the decision is made. Those that Effective.Needs does not name may be
// empty.
type Facts struct {
	// PriorityClasses of the cluster by name. nil: unknown.
	PriorityClasses map[string]*schedulingv1.PriorityClass
	// Partial: a PriorityClass that is not among them is unknown, and not absent.
	Partial bool
	// GlobalDefault is the class that the API server gives to pods that name none; nil where there is none.
	GlobalDefault *schedulingv1.PriorityClass
	// ServiceSelectors are the selectors of the Services in the pod's namespace that have one.
	ServiceSelectors []map[string]string
	// OwnerSelector is the selector of the pod's controller, where that is a ReplicationController, ReplicaSet or
	// StatefulSet; nil where it is of another kind or was not found.
	OwnerSelector *metav1.LabelSelector
	// Nodes of the cluster, with labels and taints. None at all: feasibility is not judged.
	Nodes *topology.Nodes
	// Pods returns the pods of the pod's namespace that a selector selects and that are bound to a node and not terminating. It is asked only
	// where a constraint has fewer domains than minDomains, which is rare, and where hard constraints may contradict each other and somebody is told or
	// a policy acts; the pods of a namespace may be many. nil or false: unknown.
	Pods func(labels.Selector) (pods []Neighbour, known bool)
	// Told: somebody reads what is warned about, since a person creates the pod, or the workload that it would be one of. Nobody reads
	// the warnings to a controller.
	Told bool
	// Later: the pod is created at another time than now, as those of a CronJob, or is there already.
	Later bool
	// Claims gives the access modes of the pod's PersistentVolumeClaims by claim name. A claim that is missing is unknown.
	Claims policy.Claims
}

// Neighbour is a pod that counts for topology spread constraints.
type Neighbour struct {
	Node     string
	Priority int32
	// Controller is its ControllerName; empty: it has none.
	Controller string
}

// ControllerName is how a Neighbour names its controller.
func ControllerName(kind, name string) string { return kind + "/" + name }

// GlobalDefaultOf returns the class that counts as the global default: the one with the lowest value, as the in-tree
// Priority plugin has it (plugin/pkg/admission/priority/admission.go, 1.36.3); of equal values the first by name. It is
// nil where no class is marked.
func GlobalDefaultOf(classes map[string]*schedulingv1.PriorityClass) *schedulingv1.PriorityClass {
	var found *schedulingv1.PriorityClass
	for _, c := range classes {
		if !c.GlobalDefault {
			continue
		}
		if found == nil || c.Value < found.Value || c.Value == found.Value && c.Name < found.Name {
			found = c
		}
	}
	return found
}

// Needs names the facts that a decision depends on, so that the caller looks up no more.
type Needs struct {
	// Selectors: ServiceSelectors and OwnerSelector.
	Selectors bool
	// Nodes, and Pods, which are read only if the nodes alone do not decide.
	Nodes bool
	// Claims.
	Claims bool
}

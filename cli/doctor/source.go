package doctor

import "k8s.io/apimachinery/pkg/runtime/schema"

// Source is something that is read of a cluster, named as kubectl has it, or by its path.
type Source string

// The sources.
const (
	Version           Source = "/version"
	APIs              Source = "/apis"
	Metrics           Source = "/metrics"
	Nodes             Source = "nodes"
	Deployments       Source = "deployments"
	DaemonSets        Source = "daemonsets"
	Mutating          Source = "mutatingwebhookconfigurations"
	Validating        Source = "validatingwebhookconfigurations"
	AdmissionPolicies Source = "validatingadmissionpolicies"
	AdmissionBindings Source = "validatingadmissionpolicybindings"
	CRDs              Source = "customresourcedefinitions"
	PodPolicies       Source = "podpolicies"
	NodePolicies      Source = "nodepolicies"
	// NodePools are Karpenter's. A cluster without it has none.
	NodePools          Source = "nodepools"
	PriorityClasses    Source = "priorityclasses"
	VolumeLocks        Source = "volumelocks"
	CSIDrivers         Source = "csidrivers"
	VolumeAttachments  Source = "volumeattachments"
	Namespace          Source = "namespaces"
	Pods               Source = "pods"
	Budgets            Source = "poddisruptionbudgets"
	Quotas             Source = "resourcequotas"
	LimitRanges        Source = "limitranges"
	Leases             Source = "leases"
	Roles              Source = "roles"
	RoleBindings       Source = "rolebindings"
	ControllerManagers Source = "pods of kube-system"
	// Records are annotations of pods. Of the pods nothing but their metadata is read.
	Records Source = "pods of all namespaces"
	// Kubelets are the kubelets' configurations. Reading them through the API server takes nodes/proxy, by which one can also run commands in every pod:
	// they are read only if asked for, and the role that is documented does not have it.
	Kubelets Source = "nodes/proxy"
)

// Scope of a right.
type Scope int

// The scopes.
const (
	// InCluster: it is needed of the whole cluster.
	InCluster Scope = iota
	// InOwn: in Podgrace's namespace, and in the node enforcer's if that is installed.
	InOwn
	// InKubeSystem: in kube-system.
	InKubeSystem
)

// Right is what reading a source takes. Verb is get or list; Names are those that are read, where not all are.
type Right struct {
	schema.GroupResource

	Verb  string
	Scope Scope
	Names []string
	// Path where it is no resource.
	Path string
}

const podgraceGroup = "podgrace.dev"

// definitionNames are the CustomResourceDefinitions that this version has (package deploy).
var definitionNames = []string{
	"podpolicies.podgrace.dev", "nodepolicies.podgrace.dev", "policyexceptions.podgrace.dev",
	"fencepolicies.podgrace.dev", "fenceagents.podgrace.dev", "fences.podgrace.dev", "fencereceipts.podgrace.dev",
	"volumelocks.podgrace.dev",
}

// Rights of all sources but Kubelets, which nobody needs. Version and APIs are everybody's (ClusterRole system:discovery).
func Rights() map[Source]Right {
	resource := func(group, name, verb string, scope Scope, names ...string) Right {
		return Right{GroupResource: schema.GroupResource{Group: group, Resource: name}, Verb: verb, Scope: scope, Names: names}
	}
	const admission = "admissionregistration.k8s.io"
	return map[Source]Right{
		Version:            {Path: "/version", Verb: "get"},
		APIs:               {Path: "/apis", Verb: "get"},
		Metrics:            {Path: "/metrics", Verb: "get"},
		Nodes:              resource("", "nodes", "list", InCluster),
		Deployments:        resource("apps", "deployments", "list", InCluster),
		DaemonSets:         resource("apps", "daemonsets", "list", InCluster),
		Mutating:           resource(admission, "mutatingwebhookconfigurations", "list", InCluster),
		Validating:         resource(admission, "validatingwebhookconfigurations", "list", InCluster),
		AdmissionPolicies:  resource(admission, "validatingadmissionpolicies", "list", InCluster),
		AdmissionBindings:  resource(admission, "validatingadmissionpolicybindings", "list", InCluster),
		CRDs:               resource("apiextensions.k8s.io", "customresourcedefinitions", "get", InCluster, definitionNames...),
		PodPolicies:        resource(podgraceGroup, "podpolicies", "list", InCluster),
		NodePolicies:       resource(podgraceGroup, "nodepolicies", "list", InCluster),
		NodePools:          resource("karpenter.sh", "nodepools", "list", InCluster),
		PriorityClasses:    resource("scheduling.k8s.io", "priorityclasses", "list", InCluster),
		VolumeLocks:        resource(podgraceGroup, "volumelocks", "list", InCluster),
		CSIDrivers:         resource("storage.k8s.io", "csidrivers", "list", InCluster),
		VolumeAttachments:  resource("storage.k8s.io", "volumeattachments", "list", InCluster),
		Namespace:          resource("", "namespaces", "get", InCluster),
		Pods:               resource("", "pods", "list", InOwn),
		Budgets:            resource("policy", "poddisruptionbudgets", "list", InOwn),
		Quotas:             resource("", "resourcequotas", "list", InOwn),
		LimitRanges:        resource("", "limitranges", "list", InOwn),
		Leases:             resource("coordination.k8s.io", "leases", "get", InOwn, LeaseName),
		Roles:              resource("rbac.authorization.k8s.io", "roles", "get", InOwn, InForce),
		RoleBindings:       resource("rbac.authorization.k8s.io", "rolebindings", "get", InOwn, InForce),
		ControllerManagers: resource("", "pods", "list", InKubeSystem),
		Records:            resource("", "pods", "list", InCluster),
	}
}

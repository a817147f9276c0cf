package doctor

import (
	"cmp"
	"slices"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/pod/graceperiod/deadline"
	"github.com/podgrace/podgrace/policy"
)

// What Podgrace's objects are called.
const (
	DefaultNamespace = "podgrace-system"
	// LeaseName is the lease of the webhook's leader.
	LeaseName = "podgrace-webhook"
	// InForce is the Role by which the API server asks the webhook, and its RoleBinding. AnnotationGuard with GuardOff on the Role switches off what fails closed.
	InForce         = "podgrace-in-force"
	AnnotationGuard = "podgrace.dev/guard"
	GuardOff        = "off"

	webhookName       = "podgrace-webhook" // Deployment, Service, service account, PodDisruptionBudget
	enforcerName      = "podgrace-nodeenforcer"
	fencerName        = "podgrace-fencer"
	volumeLockName    = "podgrace-volumelock"
	configurationName = "podgrace" // both webhook configurations
	partOf            = "app.kubernetes.io/part-of"
	partOfPodgrace    = "podgrace"
)

// Snapshot is what was read of a cluster. A kind that is not in Unread was read as a whole: what is missing of it is not there.
type Snapshot struct {
	// Now is when it was read.
	Now time.Time
	// OwnNamespace is the one that Podgrace is, or is to be, installed in.
	OwnNamespace string
	// CLI is the version of the program that looks; empty or "unknown": it is not compared.
	CLI string

	// Server is the API server's version, as v1.36.3; Groups are the API groups that it serves.
	Server string
	Groups []string
	Calls  Calls

	Nodes             []corev1.Node
	Deployments       []appsv1.Deployment
	DaemonSets        []appsv1.DaemonSet
	Mutating          []admissionregistrationv1.MutatingWebhookConfiguration
	Validating        []admissionregistrationv1.ValidatingWebhookConfiguration
	AdmissionPolicies []admissionregistrationv1.ValidatingAdmissionPolicy
	AdmissionBindings []admissionregistrationv1.ValidatingAdmissionPolicyBinding
	CRDs              []apiextensionsv1.CustomResourceDefinition
	PodPolicies       []v1alpha1.PodPolicy
	NodePolicies      []v1alpha1.NodePolicy
	NodePools         []deadline.NodePool
	PriorityClasses   []schedulingv1.PriorityClass
	VolumeLocks       []v1alpha1.VolumeLock
	CSIDrivers        []storagev1.CSIDriver
	VolumeAttachments []storagev1.VolumeAttachment

	// Of Podgrace's own namespace; Namespace is nil if that does not exist. Quotas and LimitRanges are of the node enforcer's too, NodeNamespace.
	Namespace *corev1.Namespace
	// NodeNamespace is policy.NodeNamespace; nil: it does not exist.
	NodeNamespace *corev1.Namespace
	Pods          []corev1.Pod
	Budgets       []policyv1.PodDisruptionBudget
	Quotas        []corev1.ResourceQuota
	LimitRanges   []corev1.LimitRange
	Leases        []coordinationv1.Lease
	Roles         []rbacv1.Role
	RoleBindings  []rbacv1.RoleBinding

	// ControllerManagers are the pods of kube-controller-manager; none where the control plane is somebody else's.
	ControllerManagers []corev1.Pod
	// Records are those of the pods of all namespaces that have one.
	Records map[types.NamespacedName]Record
	// Kubelets are their configurations by node.
	Kubelets map[string]*kubeletconfigv1beta1.KubeletConfiguration

	// Unread are the sources that could not be read, and why.
	Unread map[Source]string
}

// Calls are what one API server has counted of Podgrace's webhooks since it started, in calls, by the webhook's name.
type Calls struct {
	// Answered are all calls that ended, Failed those that got no answer: refused or let through by the failurePolicy.
	Answered, Failed map[string]int
}

// Add takes an object that was read, and reports whether it is of a kind that is looked at.
func (s *Snapshot) Add(o runtime.Object) bool {
	switch o := o.(type) {
	case *corev1.Node:
		s.Nodes = append(s.Nodes, *o)
	case *appsv1.Deployment:
		s.Deployments = append(s.Deployments, *o)
	case *appsv1.DaemonSet:
		s.DaemonSets = append(s.DaemonSets, *o)
	case *v1alpha1.PodPolicy:
		s.PodPolicies = append(s.PodPolicies, *o)
	case *v1alpha1.NodePolicy:
		s.NodePolicies = append(s.NodePolicies, *o)
	case *unstructured.Unstructured:
		if !deadline.IsNodePool(o.GroupVersionKind().GroupKind()) {
			return false
		}
		s.NodePools = append(s.NodePools, *deadline.ReadNodePool(o))
	case *schedulingv1.PriorityClass:
		s.PriorityClasses = append(s.PriorityClasses, *o)
	default:
		return s.addStorage(o) || s.addAdmission(o) || s.addNamespaced(o)
	}
	return true
}

// addStorage takes what the volume lock is about.
func (s *Snapshot) addStorage(o runtime.Object) bool {
	switch o := o.(type) {
	case *v1alpha1.VolumeLock:
		s.VolumeLocks = append(s.VolumeLocks, *o)
	case *storagev1.CSIDriver:
		s.CSIDrivers = append(s.CSIDrivers, *o)
	case *storagev1.VolumeAttachment:
		s.VolumeAttachments = append(s.VolumeAttachments, *o)
	default:
		return false
	}
	return true
}

// addAdmission takes what the API server is told of admission, and the definitions.
func (s *Snapshot) addAdmission(o runtime.Object) bool {
	switch o := o.(type) {
	case *admissionregistrationv1.MutatingWebhookConfiguration:
		s.Mutating = append(s.Mutating, *o)
	case *admissionregistrationv1.ValidatingWebhookConfiguration:
		s.Validating = append(s.Validating, *o)
	case *admissionregistrationv1.ValidatingAdmissionPolicy:
		s.AdmissionPolicies = append(s.AdmissionPolicies, *o)
	case *admissionregistrationv1.ValidatingAdmissionPolicyBinding:
		s.AdmissionBindings = append(s.AdmissionBindings, *o)
	case *apiextensionsv1.CustomResourceDefinition:
		if o.Spec.Group == podgraceGroup {
			s.CRDs = append(s.CRDs, *o)
		}
	default:
		return false
	}
	return true
}

// addNamespaced takes what is looked at in Podgrace's own namespace alone, and the pods of kube-controller-manager.
func (s *Snapshot) addNamespaced(o runtime.Object) bool {
	switch o := o.(type) {
	case *corev1.Namespace:
		if o.Name == s.OwnNamespace {
			s.Namespace = o
		}
		if o.Name == policy.NodeNamespace {
			s.NodeNamespace = o
		}
	case *corev1.Pod:
		if o.Namespace == metav1.NamespaceSystem && o.Labels["component"] == "kube-controller-manager" {
			s.ControllerManagers = append(s.ControllerManagers, *o)
		}
		s.Pods = appendOwn(s.Pods, *o, o.Namespace, s)
		s.addRecord(o)
	case *metav1.PartialObjectMetadata: // of a pod: of no other kind is read so little
		s.addRecord(o)
	case *policyv1.PodDisruptionBudget:
		s.Budgets = appendOwn(s.Budgets, *o, o.Namespace, s)
	case *corev1.ResourceQuota:
		if o.Namespace == s.OwnNamespace || o.Namespace == policy.NodeNamespace {
			s.Quotas = append(s.Quotas, *o)
		}
	case *corev1.LimitRange:
		if o.Namespace == s.OwnNamespace || o.Namespace == policy.NodeNamespace {
			s.LimitRanges = append(s.LimitRanges, *o)
		}
	default:
		return s.addInForce(o)
	}
	return true
}

// addInForce takes who leads, and what the API server asks.
func (s *Snapshot) addInForce(o runtime.Object) bool {
	switch o := o.(type) {
	case *coordinationv1.Lease:
		s.Leases = appendOwn(s.Leases, *o, o.Namespace, s)
	case *rbacv1.Role:
		s.Roles = appendOwn(s.Roles, *o, o.Namespace, s)
	case *rbacv1.RoleBinding:
		s.RoleBindings = appendOwn(s.RoleBindings, *o, o.Namespace, s)
	default:
		return false
	}
	return true
}

func appendOwn[T any](all []T, o T, namespace string, s *Snapshot) []T {
	if namespace != s.OwnNamespace {
		return all
	}
	return append(all, o)
}

// NamespaceOf is the namespace that the webhook configurations call Podgrace in; empty: they are not there, or call it by a URL.
func (s *Snapshot) NamespaceOf() string {
	if all := s.namespacesOf(); len(all) > 0 {
		return all[0]
	}
	return ""
}

// namespacesOf are all of them, each once. What can't be the name of a namespace is none: commands that are to be copied have it, and the files may be somebody else's.
func (s *Snapshot) namespacesOf() (all []string) {
	for _, h := range s.ownHooks() {
		if h.Client.Service == nil {
			continue
		}
		if ns := h.Client.Service.Namespace; len(validation.IsDNS1123Label(ns)) == 0 && !slices.Contains(all, ns) {
			all = append(all, ns)
		}
	}
	return all
}

// firstUnread is the first of these sources that could not be read; empty: all were.
func (s *Snapshot) firstUnread(sources ...Source) Source {
	for _, source := range sources {
		if s.Unread[source] != "" {
			return source
		}
	}
	return ""
}

// webhook is Podgrace's Deployment; nil: it is not there.
func (s *Snapshot) webhook() *appsv1.Deployment { return s.deployment(webhookName) }

// deployment is one of Podgrace's own; nil: it is not there.
func (s *Snapshot) deployment(name string) *appsv1.Deployment {
	i := slices.IndexFunc(s.Deployments, func(d appsv1.Deployment) bool { return d.Namespace == s.OwnNamespace && d.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Deployments[i]
}

// enforcer is the node enforcer's DaemonSet; nil: it is not installed. An earlier version has it in Podgrace's own namespace.
func (s *Snapshot) enforcer() *appsv1.DaemonSet {
	return cmp.Or(s.enforcerIn(policy.NodeNamespace), s.enforcerIn(s.OwnNamespace))
}

func (s *Snapshot) enforcerIn(namespace string) *appsv1.DaemonSet {
	i := slices.IndexFunc(s.DaemonSets, func(d appsv1.DaemonSet) bool { return d.Namespace == namespace && d.Name == enforcerName })
	if i < 0 {
		return nil
	}
	return &s.DaemonSets[i]
}

// readOnly reports whether a node enforcer was started with --mode=Observe.
func readOnly(set *appsv1.DaemonSet) bool {
	return slices.ContainsFunc(set.Spec.Template.Spec.Containers, func(c corev1.Container) bool { return slices.Contains(c.Args, "--mode=Observe") })
}

// linux are the nodes on which a node enforcer could run: Linux, and a machine of their own.
func (s *Snapshot) linux() (nodes []*corev1.Node) {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; osOf(n) == "linux" && virtual(n) == "" {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

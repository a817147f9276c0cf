package policytest

import (
	"maps"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// OwnNamespace is where Podgrace runs in the tests.
const OwnNamespace = "podgrace-system"

// Exempt are the namespaces that no policy is for in the tests.
var Exempt = policy.ExemptIn(OwnNamespace)

// Namespaces of the tests. Pods are in shop, which Unknown is as well: where it could not be looked up.
var (
	Shop    = policy.Namespace{Name: "shop", Labels: map[string]string{"team": "shop"}}
	Till    = policy.Namespace{Name: "till", Labels: map[string]string{"team": "till"}}
	Unknown = policy.Namespace{Name: "shop", Unknown: true}
)

// Users of the tests.
var (
	Alice   = authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}}
	Kubelet = authenticationv1.UserInfo{Username: "system:node:node-1", Groups: []string{"system:nodes", "system:authenticated"}}
)

// PodOption is something about a pod.
type PodOption func(*corev1.Pod)

// Pod as it arrives at the webhook: the API server has filled in a grace period of 30 and, without a globalDefault class, priority 0 and PreemptLowerPriority.
func Pod(options ...PodOption) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(30)),
			Priority:                      new(int32(0)),
			PreemptionPolicy:              new(corev1.PreemptLowerPriority),
			Containers:                    []corev1.Container{{Name: "app", Image: "registry.example/app"}},
		},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

// OfClass gives the pod a class as the in-tree Priority plugin does.
func OfClass(c *schedulingv1.PriorityClass) PodOption {
	return func(p *corev1.Pod) {
		p.Spec.PriorityClassName, p.Spec.Priority, p.Spec.PreemptionPolicy = c.Name, new(c.Value), c.PreemptionPolicy
	}
}

// Grace period of the pod, in seconds.
func Grace(n int64) PodOption {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &n }
}

// Labelled with more labels, given in pairs.
func Labelled(pairs ...string) PodOption {
	return func(p *corev1.Pod) { maps.Copy(p.Labels, Pairs(pairs...)) }
}

// Annotated with annotations, given in pairs.
func Annotated(pairs ...string) PodOption {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		maps.Copy(p.Annotations, Pairs(pairs...))
	}
}

// Mirrored has the annotation by which a kubelet marks the mirror pod of a static one.
var Mirrored = Annotated(corev1.MirrorPodAnnotationKey, "hash")

// Recorded as created for this controller.
func Recorded(text string) PodOption { return Annotated(v1alpha1.AnnotationProtected, text) }

// OwnedBy a controller, and nobody else.
func OwnedBy(apiVersion, kind, name string) PodOption {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: "1", Controller: new(true)}}
	}
}

// Pods of controllers.
var (
	OfReplicaSet  = OwnedBy("apps/v1", "ReplicaSet", "web-abc")
	OfStatefulSet = OwnedBy("apps/v1", "StatefulSet", "db")
	OfPodSet      = OwnedBy("core.strimzi.io/v1beta2", "StrimziPodSet", "kafka")
	OfDaemonSet   = OwnedBy("apps/v1", "DaemonSet", "agent")
	OfJob         = OwnedBy("batch/v1", "Job", "report")
)

// OnNode1 is bound to a node.
func OnNode1(p *corev1.Pod) { p.Spec.NodeName = "node-1" }

// WithClaims has volumes of claims, named as these.
func WithClaims(names ...string) PodOption {
	return func(p *corev1.Pod) {
		for _, n := range names {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: n, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: n},
			}})
		}
	}
}

// Scratch has a generic ephemeral volume with these access modes.
func Scratch(modes ...corev1.PersistentVolumeAccessMode) PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{
			Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: corev1.PersistentVolumeClaimSpec{AccessModes: modes}}},
		}})
	}
}

// Known adds a claim to those that are known.
func Known(claims *policy.Claims, name string, claim policy.Claim) {
	if *claims == nil {
		*claims = policy.Claims{}
	}
	(*claims)[name] = claim
}

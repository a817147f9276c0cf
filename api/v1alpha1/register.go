package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every type in this package.
var GroupVersion = schema.GroupVersion{Group: "podgrace.dev", Version: "v1alpha1"}

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &PodPolicy{}, &PodPolicyList{}, &NodePolicy{}, &NodePolicyList{}, &PolicyException{}, &PolicyExceptionList{},
		&FencePolicy{}, &FencePolicyList{}, &FenceAgent{}, &FenceAgentList{}, &Fence{}, &FenceList{}, &FenceReceipt{}, &FenceReceiptList{}, &VolumeLock{}, &VolumeLockList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}

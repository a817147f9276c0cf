package state

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/kube"
)

// State is the state of a node at one moment.
type State struct {
	Node   *corev1.Node
	Policy *v1alpha1.NodePolicy // nil: none, so the node is only observed
	// PolicyUnknown: the policies are not synced yet; that Policy is nil means nothing.
	PolicyUnknown bool
	Pods          []*corev1.Pod
	// Config is the kubelet's; nil: unknown.
	Config *kubeletconfigv1beta1.KubeletConfiguration
	// Guessed: the kubelet never told its configuration. What is planned by its defaults is compared, and not written.
	Guessed bool
	// Old: it is from a checkpoint. What the kubelet has been told since, to resize a pod for instance, is not known.
	Old bool
	// From names the source, for people.
	From string
	// Live: it is from the API server, and not from a checkpoint or a file.
	Live bool
}

// PolicyName is empty where there is no policy.
func (s State) PolicyName() string {
	if s.Policy == nil {
		return ""
	}
	return s.Policy.Name
}

// Spec is what the policy asks for; nil: there is none.
func (s State) Spec() *v1alpha1.NodePolicySpec {
	if s.Policy == nil {
		return nil
	}
	return &s.Policy.Spec
}

// TooOld says why nothing at all is done on the node; empty: its kubelet is new enough.
func (s State) TooOld() string {
	return kube.TooOld("the kubelet", s.Node.Status.NodeInfo.KubeletVersion)
}

// Mode is the one that was set, else the policy's. A node without a policy is observed, and so is one as long as its policy or the kubelet's configuration is not
// known; what the kubelet wrote is not restored by a checkpoint.
func (s State) Mode(set v1alpha1.NodeMode) v1alpha1.NodeMode {
	mode := v1alpha1.NodeModeObserve
	if s.PolicyUnknown || s.Guessed {
		return mode
	}
	if s.Policy != nil {
		mode = s.Policy.Spec.Mode
	}
	mode = cmp.Or(set, mode)
	if s.Old && mode == v1alpha1.NodeModeRepair {
		return v1alpha1.NodeModeTune
	}
	return mode
}

// Source provides the state of a node.
type Source interface {
	// State is false until it is synced.
	State() (State, bool)
	// Changed receives a value after a change.
	Changed() <-chan struct{}
	// Start keeps the state in sync until the context ends.
	Start(ctx context.Context) error
}

// Fixed is a state that never changes: from files.
type Fixed State

// State is for Source.
func (f *Fixed) State() (State, bool) { return State(*f), true }

// Changed is for Source.
func (f *Fixed) Changed() <-chan struct{} { return nil }

// Start is for Source.
func (f *Fixed) Start(ctx context.Context) error { <-ctx.Done(); return nil }

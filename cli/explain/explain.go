package explain

import (
	"slices"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/pod/graceperiod/deadline"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/policy"
)

// Explain says why the pod is as it is.
func Explain(in Input) *Explanation {
	v := newView(in)
	e := &Explanation{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "Explanation",
		Pod:      subject(v),
		Policies: policies(v), PoliciesUnknown: in.PoliciesUnknown,
		Priority: priority(v),
		Spread:   spread(v), Scheduling: scheduled(in),
		Grace:    grace(v),
		QoS:      qos(v),
		Contract: contract(v),
		Cgroups:  cgroups(v),
		Eviction: evicted(v),
		Removal:  removal(v),
		Ended:    ended(v),
		Refused:  refused(v),
		Today:    today(v),
		Warnings: warnings(v),
	}
	e.Unknown = v.unknowns()
	fillEmpty(e)
	return e
}

func subject(v *view) Subject {
	p := v.pod
	s := Subject{
		Namespace: p.Namespace, Name: p.Name, UID: string(p.UID), Node: p.Spec.NodeName, Phase: string(p.Status.Phase),
		Created: v.in.Created, Deleting: p.DeletionTimestamp != nil,
	}
	if s.Name == "" {
		s.Name = p.GenerateName + "*" // the API server makes up the rest
	}
	if owner := metav1.GetControllerOfNoCopy(p); owner != nil {
		s.Controller = owner.Kind + " " + owner.Name
	}
	return s
}

// warnings of the review, or of the policies about the pod as it is.
func warnings(v *view) (out []string) {
	// What is said of an annotation that the user wrote is not meant for the one that admission wrote.
	pod := v.recreated()
	if v.created() {
		delete(pod.Annotations, v1alpha1.AnnotationEnforcement)
	}
	list := v.apply(pod).Warnings
	if v.in.Review != nil {
		list = append(slices.Clone(v.in.Review.Warnings), list...)
	}
	for _, w := range list {
		// That no selector can be derived is no warning where nobody looked for what it is derived from.
		unasked := v.in.SelectorsUnknown && w.Reason == defaulting.NoSelector
		if !unasked && !slices.Contains(out, w.Message) {
			out = append(out, w.Message)
		}
	}
	return out
}

// fillEmpty makes lists that are empty so in JSON too.
func fillEmpty(e *Explanation) {
	for _, list := range []*[]string{
		&e.Priority.Limits, &e.Grace.Limits, &e.Grace.Others, &e.Grace.Pitfalls, &e.QoS.Why, &e.Contract.Fields, &e.Cgroups.Notes,
		&e.Eviction.Means, &e.Removal.Policies, &e.Refused, &e.Today, &e.Warnings, &e.Unknown,
	} {
		notNil(list)
	}
	notNil(&e.Policies)
	notNil(&e.Spread.Constraints)
	notNil(&e.Grace.Containers)
	notNil(&e.Cgroups.Files)
	notNil(&e.Grace.Deadlines)
}

func notNil[S ~[]E, E any](list *S) {
	if *list == nil {
		*list = S{}
	}
}

// Input is what is known of one pod. Nothing of it is changed.
type Input struct {
	// Now is when the question is asked. It counts for what the guard says only.
	Now time.Time
	// Pod as the API server has it; or, where Created is false, as it would be stored after all policies.
	Pod *corev1.Pod
	// Created: the pod exists already.
	Created bool
	// Review is what the policies changed in a pod that is not created yet, and why. nil: nothing.
	Review *defaulting.Result
	// Invalid is why the API server's own validation refuses the manifest; empty: it does not.
	Invalid string
	// User who asks: a removal is judged for this user.
	User authenticationv1.UserInfo
	// Creator of the pod, for match conditions that ask for it. The zero value is nobody in particular.
	Creator authenticationv1.UserInfo

	// Namespace of the pod.
	Namespace policy.Namespace
	// Exempt are the namespaces that no policy is for.
	Exempt policy.Exempt
	// Policies of the cluster.
	Policies policy.Policies
	// PoliciesUnknown says that they could not be read.
	PoliciesUnknown bool
	// ExceptionsUnknown says that the namespace's exceptions could not be read.
	ExceptionsUnknown bool
	// Facts about the cluster, at least those that Needs names.
	Facts defaulting.Facts
	// SelectorsUnknown: Facts has neither the Services nor the controller's selector, because they could not be read.
	SelectorsUnknown bool

	// Preview is where the scheduler would put the pod, if it were made now. nil: nobody asked, or NotPreviewed says why it does not say.
	Preview      *scheduling.Preview
	NotPreviewed string

	Machine
	// Neighbours are the pods of the node; the pod itself may be among them. nil: unknown.
	Neighbours []*corev1.Pod
	// Usage is the working set of memory in bytes by the UID of the pod. One that is missing is unknown.
	Usage map[types.UID]int64

	// Deadlines are how long who stops its node waits for it, the shortest first; none that is known where there is none.
	Deadlines []deadline.Deadline
	// Budgets are the PodDisruptionBudgets that select it.
	Budgets []*policyv1.PodDisruptionBudget
	// Events of the pod.
	Events []corev1.Event

	// Ungated are the drivers of the pod's claims that are for one node at a time and that nobody attaches, by the claims' names.
	Ungated map[string]string

	// Removal is what the guard would know if the user removed the pod now. nil: only what is here already; the node's state and
	// the user's rights are then unknown.
	Removal *guard.Facts
}

// Machine is what is known of the pod's node.
type Machine struct {
	// Node object; nil: unknown, or the pod has none.
	Node *corev1.Node
	// Kubelet is its configuration; nil: unknown, then its defaults are assumed.
	Kubelet *kubeletconfigv1beta1.KubeletConfiguration
	// Version of its cgroups, and Driver; zero: unknown, then v2 and what the kubelet's configuration says, else systemd, are
	// assumed.
	Version cgroupfile.Version
	Driver  plan.Driver
	// CPUs is the state of its CPU manager; nil: unknown.
	CPUs *plan.CPUManagerState
	// NodePolicy of the node and its name; nil: none.
	NodePolicy     *v1alpha1.NodePolicySpec
	NodePolicyName string
	// NodePolicyUnknown says that it could not be read.
	NodePolicyUnknown bool
}

// Needs names the facts that an explanation depends on. They are more than those of the pod as it is: what today's policies would
// give to it if it were recreated is compared as well.
func Needs(in Input) defaulting.Needs {
	v := newView(in)
	needs := v.effective.Needs()
	again := defaulting.For(in.Policies, v.asking(v.unspread()), in.Exempt).Needs()
	return defaulting.Needs{
		Selectors: needs.Selectors || again.Selectors, Nodes: needs.Nodes || again.Nodes,
		Claims: true, // the guard asks for them
	}
}

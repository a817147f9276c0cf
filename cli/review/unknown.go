package review

import (
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy"
)

// Listed takes notice of typed lists, such as a PriorityClassList. Even an empty one has all objects of its kind: what is not in it is absent.
func (s *State) Listed(kinds []manifest.Listed) {
	for _, kind := range kinds {
		if o, err := s.empty(kind.APIVersion, kind.Kind); err == nil && o != nil {
			s.Complete(o)
		}
	}
}

// unknown is what was missed and matters: a namespace that no policy selects by does not, nor does anything where a removal is
// allowed, since what is unknown speaks against it.
func (s *step) unknown() []string {
	var matters []string
	if s.result.Operation != OperationCreate && s.result.Decision == Allowed {
		return nil
	}
	for _, what := range s.view.missed {
		switch {
		case strings.HasPrefix(what, "Namespace ") && !s.Policies.Policies().Undecided(policy.Namespace{Name: strings.TrimPrefix(what, "Namespace "), Unknown: true}):
		case what == "Node "+SomeNode:
			matters = append(matters, "the Node that it runs on")
		default:
			matters = append(matters, what)
		}
	}
	return append(matters, s.unknownForSpread()...)
}

// unknownForSpread is what constraints that a policy gives depend on: their selector on Services, and whether hard ones can be met on Nodes and,
// for minDomains, on what runs there.
func (s *step) unknownForSpread() []string {
	var matters []string
	if s.view.noneOf(&corev1.Service{}) && s.result.Decision == Allowed && s.servicesMatter() {
		matters = append(matters, "Services of Namespace "+s.result.Resource.Namespace)
	}
	hard := func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.DoNotSchedule }
	domains := func(c corev1.TopologySpreadConstraint) bool { return hard(c) && c.MinDomains != nil }
	switch {
	case s.view.noneOf(&corev1.Node{}) && slices.ContainsFunc(s.spread, hard):
		matters = append(matters, "Nodes")
	case s.view.noneOf(&corev1.Pod{}) && slices.ContainsFunc(s.spread, domains):
		matters = append(matters, "Pods of Namespace "+s.result.Resource.Namespace)
	}
	return matters
}

// PhraseScheduled begins the phrase of Result.Unknown that says why it could not be previewed where the pod would be scheduled.
const PhraseScheduled = "where it would be scheduled: "

// remedies say what to give so that what was missed is known, by how the phrase of Result.Unknown begins. The first that fits counts.
var remedies = []struct{ begins, give string }{
	{"Namespace default", "the Namespace, with its labels; or -n NAMESPACE, if what names none goes into another"},
	{"Namespace ", "the Namespace, with its labels"},
	{"PriorityClass ", "the PriorityClass"},
	{"Services of Namespace ", "the Services; where there are none: {apiVersion: v1, kind: ServiceList, items: []}"},
	{"heartbeat of Node ", "the node's Lease, of namespace kube-node-lease"},
	{"the Node that it runs on", "the Pod as it runs, with spec.nodeName and status, and its Node"},
	{"Nodes", "the Nodes, as kubectl get nodes -o yaml prints them"},
	{"Node ", "the Node, as kubectl get node -o yaml prints it"},
	{"Pods of ", "the Pods, as kubectl get pods -o yaml prints them"},
	{"whether ", ""},      // rights are in no file
	{PhraseScheduled, ""}, // another scheduler decides
}

// Remedy says what somebody can give with --state so that a phrase of Result.Unknown is known; empty: nothing helps.
func Remedy(phrase string) string {
	for _, r := range remedies {
		if strings.HasPrefix(phrase, r.begins) {
			return r.give
		}
	}
	return "the object itself"
}

// ofControllers are the labels by which no Service selects that tells anything new: they stand for one template, or for the pod's one
// controller, or are made up when the pods are.
var ofControllers = []string{
	appsv1.DefaultDeploymentUniqueLabelKey, defaulting.RolloutRevisionLabel, appsv1.ControllerRevisionHashLabelKey, batchv1.JobNameLabel, batchv1.ControllerUidLabel, "job-name", "controller-uid",
}

// servicesMatter reports whether Services could change the constraints that a policy gives. A Service that selects the pod adds labels of the
// pod's to their selector (defaulting, deriveSelector): where the selector has them all, or the pod has none, no Service changes anything.
// Both answers are looked at, since without any selector nothing is given at all.
func (s *step) servicesMatter() bool {
	if s.pod == nil {
		return true
	}
	selected := map[string]string{}
	for _, c := range s.pod.Spec.TopologySpreadConstraints {
		if c.LabelSelector != nil {
			selected = c.LabelSelector.MatchLabels
			break
		}
	}
	for key, value := range s.pod.Labels {
		if have, ok := selected[key]; (!ok || have != value) && !slices.Contains(ofControllers, key) {
			return true
		}
	}
	return false
}

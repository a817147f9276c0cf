package explain

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
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

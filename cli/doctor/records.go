package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// Record is what a pod's annotation podgrace.dev/enforcement asks of its node.
type Record struct {
	Created time.Time // when the pod was
	Text    string
}

// addRecord takes the record of a pod, if it has one.
func (s *Snapshot) addRecord(pod metav1.Object) {
	text, ok := pod.GetAnnotations()[v1alpha1.AnnotationEnforcement]
	if !ok {
		return
	}
	if s.Records == nil {
		s.Records = map[types.NamespacedName]Record{}
	}
	s.Records[types.NamespacedName{Namespace: pod.GetNamespace(), Name: pod.GetName()}] = Record{pod.GetCreationTimestamp().Time, text}
}

// records: each pod's record is one that a policy gives. Which policies are for which pod is not looked at.
func records(s *Snapshot) (found []Finding) {
	var unknown, earlier []types.NamespacedName
	changed := lastChange(s.PodPolicies)
	for _, pod := range slices.SortedFunc(maps.Keys(s.Records), func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) }) {
		switch r := s.Records[pod]; {
		case given(r.Text, s.PodPolicies):
		case r.Created.After(changed):
			unknown = append(unknown, pod)
		default:
			earlier = append(earlier, pod)
		}
	}
	const message = "the annotation " + v1alpha1.AnnotationEnforcement + " asks the node for what no PodPolicy gives"
	say := func(pods []types.NamespacedName, severity Severity, why string) {
		if len(pods) == 0 {
			return
		}
		f := Finding{Severity: severity, Message: message + why, Remedy: "podgrace explain shows a pod's record. Remove one that nobody decided: its node then treats the pod as if no policy had decided"}
		var names []string
		for _, pod := range pods {
			names = append(names, pod.String())
			if len(f.Commands) < mostCommands && len(validation.IsDNS1123Label(pod.Namespace)) == 0 && len(validation.IsDNS1123Subdomain(pod.Name)) == 0 {
				f.Commands = append(f.Commands, fmt.Sprintf("kubectl annotate pod -n %s %s %s-", pod.Namespace, pod.Name, v1alpha1.AnnotationEnforcement))
			}
		}
		f.About = console.Noun(len(pods), "pod ", "pods ") + console.Some(names, 3, ", ")
		found = append(found, f)
	}
	say(unknown, Warning, ", and none has changed since the pod was created: it was written past the webhook while that was away, or a policy was deleted since")
	say(earlier, Note, " today: a policy has changed since the pod was created, or it was written past the webhook while that was away")
	return found
}

// mostCommands is how many pods get a command.
const mostCommands = 5

// given reports whether a policy gives this record. One that can't be read no policy gives.
func given(text string, policies []v1alpha1.PodPolicy) bool {
	record, err := enforcement.Parse(text)
	return err == nil && slices.ContainsFunc(policies, func(p v1alpha1.PodPolicy) bool {
		return p.Spec.Node != nil && equality.Semantic.DeepEqual(record, p.Spec.Node)
	})
}

// lastChange is when a policy was last created or written, by the API server's clock.
func lastChange(policies []v1alpha1.PodPolicy) (last time.Time) {
	for i := range policies {
		p := &policies[i]
		times := []time.Time{p.CreationTimestamp.Time}
		for _, m := range p.ManagedFields {
			if m.Subresource == "" && m.Time != nil {
				times = append(times, m.Time.Time)
			}
		}
		if latest := slices.MaxFunc(times, time.Time.Compare); latest.After(last) {
			last = latest
		}
	}
	return last
}

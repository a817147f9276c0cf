package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// otherNamespace is the id of elsewhere, after which nothing else is looked at.
const otherNamespace = "namespace"

// elsewhere: Podgrace is where it is looked for, as far as its webhook configurations tell.
func elsewhere(s *Snapshot) []Finding {
	namespaces := s.namespacesOf()
	if len(namespaces) == 0 || slices.Contains(namespaces, s.OwnNamespace) || s.webhook() != nil {
		return nil
	}
	f := Finding{
		Severity: Error, About: "Namespace " + s.OwnNamespace, Message: fmt.Sprintf("Podgrace is not there: its webhook configurations call it in %s. Nothing else was looked at", strings.Join(namespaces, ", ")),
		Remedy: "look there",
	}
	for _, namespace := range namespaces {
		f.Commands = append(f.Commands, "podgrace doctor -n "+namespace)
	}
	return []Finding{f}
}

// leftovers: nothing of Podgrace is left that nobody serves.
func leftovers(s *Snapshot) (found []Finding) {
	if s.webhook() != nil {
		return nil
	}
	if hooks := s.ownHooks(); len(hooks) > 0 {
		where := "its Deployment " + webhookName + " is gone"
		if s.Namespace == nil {
			where = "the namespace " + s.OwnNamespace + " is gone"
		}
		found = append(found, Finding{
			Severity: Error, About: "webhook configurations", Message: fmt.Sprintf("the API server asks Podgrace, and nobody answers: %s. Each pod's creation waits in vain, and what fails closed may be refused", where),
			Remedy: "install again, or take them away", Commands: []string{"kubectl delete mutatingwebhookconfigurations,validatingwebhookconfigurations -l " + partOf + "=" + partOfPodgrace},
		})
	}
	var left []string
	for _, p := range s.AdmissionPolicies {
		if isOwnPolicy(p) {
			left = append(left, p.Name)
		}
	}
	if len(left) > 0 {
		found = append(found, Finding{
			Severity: Warning, About: "ValidatingAdmissionPolicies " + console.Some(left, 3, ", "), Message: "they are left of an installation, and the API server holds what they say, though nothing else of Podgrace is there",
			Remedy: "install again, or take them away", Commands: []string{"kubectl delete validatingadmissionpolicies,validatingadmissionpolicybindings -l " + partOf + "=" + partOfPodgrace},
		})
	}
	return found
}

// nodeLeftovers: no Node has what a node enforcer wrote into it and no enforcer will remove.
func nodeLeftovers(s *Snapshot) []Finding {
	var tainted, told []string
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == enforcement.TaintPressure }) {
			tainted = append(tainted, n.Name)
		}
		if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return slices.Contains(enforcement.NodeConditions, c.Type) }) {
			told = append(told, n.Name)
		}
	}
	set := s.enforcer()
	why := "no node enforcer is installed"
	switch {
	case set != nil && !readOnly(set):
		return nil
	case set != nil:
		why, told = "the node enforcer that is installed is read-only, and may not remove it", nil
	}
	var deleted []string
	for _, kind := range enforcement.NodeConditions {
		deleted = append(deleted, fmt.Sprintf(`{"type":%q,"$patch":"delete"}`, kind))
	}
	return slices.Concat(
		ofNodes(tainted, Finding{
			Severity: Warning, Message: "it has the taint " + enforcement.TaintPressure + ", by which no new pod is scheduled there, and " + why, Remedy: "remove the taint",
			Commands: []string{"kubectl taint node NODE " + enforcement.TaintPressure + "-"},
		}),
		ofNodes(told, Finding{
			Severity: Note, Message: "it has conditions of a node enforcer, which nobody updates, and " + why, Remedy: "remove the conditions",
			Commands: []string{fmt.Sprintf(`kubectl patch node NODE --subresource=status --type=strategic -p '{"status":{"conditions":[%s]}}'`, strings.Join(deleted, ","))},
		}),
	)
}

func isOwnPolicy(p admissionregistrationv1.ValidatingAdmissionPolicy) bool {
	return p.Labels[partOf] == partOfPodgrace && strings.HasSuffix(p.Name, "."+podgraceGroup)
}

// twoInstallations: there is one Podgrace, because its cluster-scoped objects have fixed names.
func twoInstallations(s *Snapshot) (found []Finding) {
	var deployments []string
	for _, d := range s.Deployments {
		if d.Name == webhookName {
			deployments = append(deployments, d.Namespace)
		}
	}
	slices.Sort(deployments)
	if len(deployments) > 1 {
		found = append(found, Finding{Severity: Error, About: "namespaces " + strings.Join(deployments, ", "), Message: "each has a webhook of Podgrace: they write the same webhook configurations by turns, and one of them answers nobody", Remedy: "uninstall all but one (docs/install.md)"})
	}
	configurations := map[string]bool{}
	for _, h := range s.ownHooks() {
		configurations[h.Configuration] = true
	}
	if names := slices.Sorted(maps.Keys(configurations)); len(names) > 1 {
		found = append(found, Finding{Severity: Warning, About: "configurations " + strings.Join(names, ", "), Message: "Podgrace's webhooks are in more than one: each pod's creation may ask it twice", Remedy: "delete those that are not called " + configurationName})
	}
	return found
}

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

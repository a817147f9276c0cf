package doctor

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/console"
	"github.com/podgrace/podgrace/deploy"
)

// shippedDefinitions are the CustomResourceDefinitions as this version has them. They are not to be changed.
var shippedDefinitions = sync.OnceValue(func() (all []apiextensionsv1.CustomResourceDefinition) {
	for _, text := range [][]byte{deploy.PodPolicyCRD, deploy.NodePolicyCRD, deploy.PolicyExceptionCRD, deploy.FencePolicyCRD, deploy.FenceAgentCRD, deploy.FenceCRD, deploy.FenceReceiptCRD} {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err == nil {
			all = append(all, crd)
		}
	}
	return all
})

// definitions: each kind is there, is served, and has the fields that this program knows.
func definitions(s *Snapshot) (found []Finding) {
	var missing []string
	for _, want := range shippedDefinitions() {
		i := slices.IndexFunc(s.CRDs, func(c apiextensionsv1.CustomResourceDefinition) bool { return c.Name == want.Name })
		if i < 0 {
			missing = append(missing, want.Name)
			continue
		}
		have := s.CRDs[i]
		about := "CustomResourceDefinition " + want.Name
		for _, c := range have.Status.Conditions {
			if c.Type == apiextensionsv1.Established && c.Status == apiextensionsv1.ConditionFalse {
				found = append(found, Finding{Severity: Error, About: about, Message: "it is not served: " + console.OneLine(c.Message), Remedy: again})
			}
		}
		ours, theirs := fieldsOf(want), fieldsOf(have)
		if lost := without(ours, theirs); len(lost) > 0 {
			found = append(found, Finding{Severity: Warning, About: about, Message: fmt.Sprintf("it is older than this program: %s would be dropped in silence from what is applied", console.Some(lost, 3, ", ")), Remedy: "apply the definitions of this version first (deploy/crds), or take podgrace of the version that is installed"})
		} else if more := without(theirs, ours); len(more) > 0 {
			found = append(found, Finding{Severity: Note, About: about, Message: fmt.Sprintf("it is newer than this program, which does not know %s", console.Some(more, 3, ", ")), Remedy: "take podgrace of the version that is installed"})
		}
	}
	if len(missing) > 0 {
		found = append(found, Finding{Severity: Error, About: "CustomResourceDefinitions", Message: console.Some(missing, 3, ", ") + " " + console.Noun(len(missing), "is", "are") + " not there: the webhook does not start without, and policies of these kinds went with them", Remedy: "kubectl apply --server-side -k deploy/crds, or crds.install=true of the chart"})
	}
	return found
}

// fieldsOf are the paths of all fields of a definition, in all its versions: version.path.
func fieldsOf(crd apiextensionsv1.CustomResourceDefinition) map[string]bool {
	paths := map[string]bool{}
	for _, v := range crd.Spec.Versions {
		if v.Schema != nil && v.Schema.OpenAPIV3Schema != nil && v.Served {
			walk(v.Name, v.Schema.OpenAPIV3Schema, paths)
		}
	}
	return paths
}

func walk(path string, s *apiextensionsv1.JSONSchemaProps, paths map[string]bool) {
	for name, field := range s.Properties {
		at := path + "." + name
		paths[at] = true
		walk(at, &field, paths)
	}
	if s.Items != nil && s.Items.Schema != nil {
		walk(path+"[]", s.Items.Schema, paths)
	}
}

func without(all, some map[string]bool) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(path string) bool { return some[path] })
}

// admissionPolicies: what the API server judges by itself is there, bound, and denies.
func admissionPolicies(s *Snapshot) (found []Finding) {
	var gone, unbound, changed []string
	for document := range bytes.SplitSeq(inNamespace(deploy.AdmissionPolicies, s.OwnNamespace), []byte("\n---\n")) {
		var want admissionregistrationv1.ValidatingAdmissionPolicy
		if err := yaml.Unmarshal(document, &want); err != nil || want.Kind != "ValidatingAdmissionPolicy" {
			continue
		}
		i := slices.IndexFunc(s.AdmissionPolicies, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool { return p.Name == want.Name })
		bound := slices.ContainsFunc(s.AdmissionBindings, func(b admissionregistrationv1.ValidatingAdmissionPolicyBinding) bool {
			return b.Spec.PolicyName == want.Name && slices.Contains(b.Spec.ValidationActions, admissionregistrationv1.Deny)
		})
		switch {
		case i < 0:
			gone = append(gone, want.Name)
		case !bound:
			unbound = append(unbound, want.Name)
		case expressionsOf(want) != expressionsOf(s.AdmissionPolicies[i]):
			changed = append(changed, want.Name)
		}
	}
	say := func(names []string, severity Severity, message string) {
		if len(names) > 0 {
			found = append(found, Finding{Severity: severity, About: "ValidatingAdmissionPolicy " + console.Some(names, 3, ", "), Message: message, Remedy: again})
		}
	}
	say(gone, Error, "not there: who may confirm, and what nobody may write, is not held by the API server")
	say(unbound, Error, "no binding with the action Deny: it holds nothing")
	say(changed, Warning, "not as this version of Podgrace ships it")
	return found
}

// expressionsOf are the expressions of a policy in one form.
func expressionsOf(p admissionregistrationv1.ValidatingAdmissionPolicy) string {
	var b strings.Builder
	for _, c := range p.Spec.MatchConditions {
		fmt.Fprintln(&b, c.Name, console.Fold(c.Expression))
	}
	for _, v := range p.Spec.Variables {
		fmt.Fprintln(&b, v.Name, console.Fold(v.Expression))
	}
	for _, v := range p.Spec.Validations {
		fmt.Fprintln(&b, console.Fold(v.Expression))
	}
	return b.String()
}

// policies: they are in force.
func policies(s *Snapshot) (found []Finding) {
	if len(s.PodPolicies) == 0 {
		return []Finding{{Severity: Note, About: "PodPolicies", Message: "there is none: nothing is changed, warned about or refused", Remedy: "begin with one that only warns", Commands: []string{"kubectl apply -f deploy/policies/first.yaml"}}}
	}
	said := map[remark][]string{}
	for _, p := range s.PodPolicies {
		note := func(severity Severity, message, remedy string) {
			r := remark{severity, message, remedy}
			said[r] = append(said[r], p.Name)
		}
		c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		switch {
		case c == nil:
			note(Warning, "no leader has looked at it yet: its status says nothing", "if it stays so, docs/operations.md, PodgraceNoLeader")
		case c.ObservedGeneration < p.Generation:
			note(Note, "its status is of an earlier generation", "if it stays so, docs/operations.md, PodgraceNoLeader")
		case c.Status != metav1.ConditionTrue:
			note(Warning, "not in force as it is written: "+c.Reason+": "+console.OneLine(c.Message), "kubectl describe podpolicies")
		}
		if len(p.Status.Warnings) > 0 {
			note(Note, console.OneLine(console.Some(p.Status.Warnings, 2, "; ")), "")
		}
	}
	for _, r := range sortedRemarks(said) {
		found = append(found, Finding{Severity: r.severity, About: "PodPolicy " + console.Some(said[r], 3, ", "), Message: r.message, Remedy: r.remedy})
	}
	return found
}

// priorityClasses: those that policies name are there.
func priorityClasses(s *Snapshot) (found []Finding) {
	for _, p := range s.PodPolicies {
		if p.Spec.Priority == nil {
			continue
		}
		var missing []string
		for _, name := range append([]string{p.Spec.Priority.ClassName}, p.Spec.Priority.AllowedClassNames...) {
			known := func() bool {
				for _, c := range s.PriorityClasses {
					if c.Name == name {
						return true
					}
				}
				return false
			}
			if name != "" && !known() && !slices.Contains(missing, name) {
				missing = append(missing, name)
			}
		}
		if len(missing) > 0 {
			found = append(found, Finding{Severity: Warning, About: "PodPolicy " + p.Name, Message: "it names priority classes that do not exist: " + strings.Join(missing, ", "), Remedy: "make them, or correct the policy"})
		}
	}
	return found
}

package doctor

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy/enforcement"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// shippedDefinitions are the CustomResourceDefinitions as this version has them. They are not to be changed.
var shippedDefinitions = sync.OnceValue(func() (all []apiextensionsv1.CustomResourceDefinition) {
	for _, text := range [][]byte{deploy.PodPolicyCRD, deploy.NodePolicyCRD, deploy.PolicyExceptionCRD, deploy.FencePolicyCRD, deploy.FenceAgentCRD, deploy.FenceCRD, deploy.FenceReceiptCRD, deploy.VolumeLockCRD} {
		var crd apiextensionsv1.CustomResourceDefinition
		if err := yaml.Unmarshal(text, &crd); err == nil {
			all = append(all, crd)
		}
	}
	return all
})

// definitions: each kind that an installed program needs is there, is served, and has the fields that this program knows.
func definitions(s *Snapshot) (found []Finding) {
	var missing []string
	installedFor := map[string]string{"fencepolicies.podgrace.dev": fencerName, "fenceagents.podgrace.dev": fencerName, "fences.podgrace.dev": fencerName, "volumelocks.podgrace.dev": volumeLockName}
	for _, want := range shippedDefinitions() {
		i := slices.IndexFunc(s.CRDs, func(c apiextensionsv1.CustomResourceDefinition) bool { return c.Name == want.Name })
		if i < 0 {
			if program := installedFor[want.Name]; program == "" || s.deployment(program) != nil {
				missing = append(missing, want.Name)
			}
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
		found = append(found, Finding{Severity: Error, About: "CustomResourceDefinitions", Message: console.Some(missing, 3, ", ") + " " + console.Noun(len(missing), "is", "are") + " not there: the program of a kind does not start without it, and what there was of these kinds went with them", Remedy: "install again: helm upgrade with crds.install=true, or kubectl apply --server-side -k deploy/crds (deploy/crds/fencer, deploy/crds/volumelock)"})
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
	var gone, unbound, narrowed []string
	changed := map[remark][]string{}
	for _, want := range shippedPolicies(s) {
		i := slices.IndexFunc(s.AdmissionPolicies, func(p admissionregistrationv1.ValidatingAdmissionPolicy) bool { return p.Name == want.policy.Name })
		switch bound := boundAs(want.binding, s.AdmissionBindings); {
		case i < 0:
			gone = append(gone, want.policy.Name)
		case bound == no:
			unbound = append(unbound, want.policy.Name)
		case bound == inPart:
			narrowed = append(narrowed, want.policy.Name)
		default:
			if what := policyDiffers(want.policy, s.AdmissionPolicies[i]); len(what) > 0 {
				r := remark{Warning, "not as this version of Podgrace ships it: " + strings.Join(what, "; "), again + "; if the installation is of another version, take podgrace of that one"}
				changed[r] = append(changed[r], want.policy.Name)
			}
		}
	}
	say := func(names []string, severity Severity, message, remedy string) {
		if len(names) > 0 {
			found = append(found, Finding{Severity: severity, About: "ValidatingAdmissionPolicy " + console.Some(names, 3, ", "), Message: message, Remedy: remedy})
		}
	}
	say(gone, Error, "not there: who may confirm, and what nobody may write, is not held by the API server", again)
	say(unbound, Error, "no binding with the action Deny: it holds nothing", again)
	say(narrowed, Error, "its binding is not as this version of Podgrace ships it, and leaves something out: it does not hold there", again)
	for _, r := range sortedRemarks(changed) {
		say(changed[r], r.severity, r.message, r.remedy)
	}
	return found
}

// boundPolicy is a policy with its binding.
type boundPolicy struct {
	policy  admissionregistrationv1.ValidatingAdmissionPolicy
	binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
}

// shippedPolicies are those that this installation should have.
func shippedPolicies(s *Snapshot) (all []boundPolicy) {
	bindings := map[string]admissionregistrationv1.ValidatingAdmissionPolicyBinding{}
	manifests := slices.Concat(documents(deploy.AdmissionPolicies, s.OwnNamespace), documents(deploy.FencingPolicies, s.OwnNamespace))
	lock := s.deployment(volumeLockName)
	if lock != nil {
		manifests = append(manifests, documents(deploy.VolumeLockPolicies, s.OwnNamespace)...)
	}
	for _, document := range manifests {
		var p admissionregistrationv1.ValidatingAdmissionPolicy
		var b admissionregistrationv1.ValidatingAdmissionPolicyBinding
		if err := yaml.Unmarshal(document, &p); err == nil && p.Kind == "ValidatingAdmissionPolicy" {
			controllers.RenderExempt(&p, s.exempt())
			if lock != nil {
				renderGated(&p, gatedDrivers(lock))
			}
			all = append(all, boundPolicy{policy: p})
		} else if err := yaml.Unmarshal(document, &b); err == nil {
			bindings[b.Spec.PolicyName] = b
		}
	}
	for i := range all {
		all[i].binding = bindings[all[i].policy.Name]
	}
	return all
}

// binds says how far a policy is bound.
type binds int

const (
	no binds = iota
	inPart
	wholly
)

// boundAs reports whether a policy is bound as it should be: a binding can leave out by its matchResources, and by the parameters that it has, what the policy would hold.
func boundAs(want admissionregistrationv1.ValidatingAdmissionPolicyBinding, all []admissionregistrationv1.ValidatingAdmissionPolicyBinding) binds {
	is := no
	for _, b := range all {
		if b.Spec.PolicyName != want.Spec.PolicyName || !slices.Contains(b.Spec.ValidationActions, admissionregistrationv1.Deny) {
			continue
		}
		if matchesAll(b.Spec.MatchResources) && equality.Semantic.DeepEqual(b.Spec.ParamRef, want.Spec.ParamRef) {
			return wholly
		}
		is = inPart
	}
	return is
}

func matchesAll(m *admissionregistrationv1.MatchResources) bool {
	return m == nil || len(m.ResourceRules) == 0 && len(m.ExcludeResourceRules) == 0 && selected(m.NamespaceSelector) == "" && selected(m.ObjectSelector) == ""
}

// policyDiffers says in what a policy is not as it should be.
func policyDiffers(want, have admissionregistrationv1.ValidatingAdmissionPolicy) []string {
	what := policyScope(want).differs(policyScope(have))
	if !equality.Semantic.DeepEqual(want.Spec.ParamKind, have.Spec.ParamKind) {
		what = append(what, "its paramKind is another")
	}
	if expressionsOf(want) != expressionsOf(have) {
		what = append(what, "its expressions are others")
	}
	return what
}

// policyScope is when a policy is judged by. Rules that exclude, of which none is shipped, count as rules.
func policyScope(p admissionregistrationv1.ValidatingAdmissionPolicy) scope {
	m := p.Spec.MatchConstraints
	if m == nil {
		m = &admissionregistrationv1.MatchResources{}
	}
	var rules []admissionregistrationv1.RuleWithOperations
	for _, r := range m.ResourceRules {
		rules = append(rules, r.RuleWithOperations)
	}
	s := newScope(p.Spec.FailurePolicy, m.MatchPolicy, rules, m.NamespaceSelector, m.ObjectSelector, p.Spec.MatchConditions)
	for i, r := range m.ResourceRules {
		if len(r.ResourceNames) > 0 {
			s.Rules[i] += fmt.Sprint(r.ResourceNames)
		}
	}
	for _, r := range m.ExcludeResourceRules {
		s.Rules = append(s.Rules, fmt.Sprint("not ", r))
	}
	return s
}

// expressionsOf are the variables and validations of a policy in one form.
func expressionsOf(p admissionregistrationv1.ValidatingAdmissionPolicy) string {
	var b strings.Builder
	for _, v := range p.Spec.Variables {
		fmt.Fprintln(&b, v.Name, console.Fold(v.Expression))
	}
	for _, v := range p.Spec.Validations {
		fmt.Fprintln(&b, console.Fold(v.Expression))
	}
	return b.String()
}

// waitsLong is for how long limits may wait to be compiled before it is told. After an installation they do until the first replica has answered, which the leader asks for
// each 2 s.
const waitsLong = 5 * time.Minute

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
		if c := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionCompiled); c != nil && c.Reason == v1alpha1.ReasonLimitsWaiting {
			if waits := s.Now.Sub(c.LastTransitionTime.Time); waits > waitsLong {
				note(Warning, fmt.Sprintf("its limits hold by the webhook alone, and have for %s: they are written for the API server once it gets an answer from a replica", duration.HumanDuration(waits)), "find out why the API server reaches none (docs/operations.md, PodgraceWebhookFailedOpen)")
			}
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

// nodePolicies: they can be read whole.
func nodePolicies(s *Snapshot) (found []Finding) {
	for i := range s.NodePolicies {
		p, about := &s.NodePolicies[i], "NodePolicy "+s.NodePolicies[i].Name
		if _, err := enforcement.Compile([]*v1alpha1.NodePolicy{p}); err != nil {
			found = append(found, Finding{Severity: Warning, About: about, Message: console.OneLine(strings.TrimPrefix(err.Error(), about+": ")), Remedy: "docs/versions.md, A field that is not read"})
		}
		for _, remark := range enforcement.ThresholdRemarks(&p.Spec, 0) {
			found = append(found, Finding{Severity: Warning, About: about, Message: remark, Remedy: "lower the threshold"})
		}
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

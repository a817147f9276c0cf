package doctor

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// scope is what decides when the API server asks a webhook, or judges by a ValidatingAdmissionPolicy, and what becomes of a request where that fails.
type scope struct {
	Policy              admissionregistrationv1.FailurePolicyType
	Match               admissionregistrationv1.MatchPolicyType
	Rules               []string
	Namespaces, Objects *metav1.LabelSelector
	Conditions          []admissionregistrationv1.MatchCondition
}

// newScope has the API server's defaults for what is left out (pkg/apis/admissionregistration/v1/defaults.go, 1.36.3), so that a manifest and an object compare.
func newScope(failure *admissionregistrationv1.FailurePolicyType, match *admissionregistrationv1.MatchPolicyType, rules []admissionregistrationv1.RuleWithOperations, namespaces, objects *metav1.LabelSelector, conditions []admissionregistrationv1.MatchCondition) scope {
	s := scope{Policy: admissionregistrationv1.Fail, Match: admissionregistrationv1.Equivalent, Namespaces: namespaces, Objects: objects, Conditions: conditions}
	if failure != nil {
		s.Policy = *failure
	}
	if match != nil {
		s.Match = *match
	}
	for _, r := range rules {
		of := admissionregistrationv1.AllScopes
		if r.Scope != nil {
			of = *r.Scope
		}
		s.Rules = append(s.Rules, fmt.Sprint(r.Operations, r.APIGroups, r.APIVersions, r.Resources, of))
	}
	return s
}

// differs says in what another scope is not this one.
func (s scope) differs(have scope) (what []string) {
	if s.Policy != have.Policy {
		what = append(what, fmt.Sprintf("failurePolicy is %s and not %s", have.Policy, s.Policy))
	}
	if s.Match != have.Match {
		what = append(what, fmt.Sprintf("matchPolicy is %s and not %s", have.Match, s.Match))
	}
	what = append(what, conditionsDiffer(s.Conditions, have.Conditions)...)
	if !slices.Equal(s.Rules, have.Rules) {
		what = append(what, "its rules are others")
	}
	what = append(what, namespacesDiffer(s.Namespaces, have.Namespaces)...)
	if selected(s.Objects) != selected(have.Objects) {
		what = append(what, "its objectSelector leaves objects out")
	}
	return what
}

// conditionsDiffer compares by name. One more that is always true, as kustomize writes it, leaves nothing out.
func conditionsDiffer(want, have []admissionregistrationv1.MatchCondition) (what []string) {
	byName := func(conditions []admissionregistrationv1.MatchCondition) map[string]string {
		all := map[string]string{}
		for _, c := range conditions {
			all[c.Name] = console.Fold(c.Expression)
		}
		return all
	}
	w, h := byName(want), byName(have)
	for _, c := range want {
		if h[c.Name] == "" {
			what = append(what, "match condition "+c.Name+" is gone")
		} else if h[c.Name] != w[c.Name] {
			what = append(what, "match condition "+c.Name+" is another")
		}
	}
	for _, c := range have {
		if w[c.Name] == "" && h[c.Name] != "true" {
			what = append(what, "match condition "+c.Name+" was added")
		}
	}
	return what
}

// namespacesDiffer compares what selectors leave out by name, in whatever order, and all else that they say.
func namespacesDiffer(want, have *metav1.LabelSelector) (what []string) {
	w, h := excludedBy(want), excludedBy(have)
	for _, ns := range w {
		if !slices.Contains(h, ns) {
			what = append(what, "namespace "+ns+" is not left out")
		}
	}
	for _, ns := range h {
		if !slices.Contains(w, ns) {
			what = append(what, "namespace "+ns+" is left out, and the webhook does not know")
		}
	}
	if selected(want, isExclusion) != selected(have, isExclusion) {
		what = append(what, "its namespaceSelector selects by "+cmp.Or(selected(have, isExclusion), "nothing"))
	}
	return what
}

// isExclusion reports whether a requirement leaves out namespaces by name.
func isExclusion(r metav1.LabelSelectorRequirement) bool {
	return r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpNotIn
}

// excludedBy are the namespaces that a selector leaves out by name.
func excludedBy(selector *metav1.LabelSelector) (names []string) {
	if selector == nil {
		return nil
	}
	for _, r := range selector.MatchExpressions {
		if isExclusion(r) {
			names = append(names, r.Values...)
		}
	}
	return names
}

// selected is what a selector asks for, in one form, without requirements that are none of it; empty: nothing.
func selected(selector *metav1.LabelSelector, not ...func(metav1.LabelSelectorRequirement) bool) string {
	if selector == nil {
		return ""
	}
	var all []string
	for key, value := range selector.MatchLabels {
		all = append(all, key+"="+value)
	}
	for _, r := range selector.MatchExpressions {
		if !slices.ContainsFunc(not, func(is func(metav1.LabelSelectorRequirement) bool) bool { return is(r) }) {
			all = append(all, strings.TrimSpace(fmt.Sprint(r.Key, " ", r.Operator, " ", strings.Join(slices.Sorted(slices.Values(r.Values)), ","))))
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// withoutLeaders takes the leader's condition away where the leader writes it, and as it does.
func withoutLeaders(name string, conditions []admissionregistrationv1.MatchCondition) []admissionregistrationv1.MatchCondition {
	return slices.DeleteFunc(slices.Clone(conditions), func(c admissionregistrationv1.MatchCondition) bool { return controllers.ByLeader(name, c) })
}

// closed is an entry of limits as it is where they fail closed.
func closed(name string, s scope, namespace string) scope {
	s.Policy = admissionregistrationv1.Fail
	instead := controllers.LimitsClosed(name, namespace)
	s.Conditions = slices.DeleteFunc(slices.Concat(s.Conditions, instead), func(c admissionregistrationv1.MatchCondition) bool {
		return len(instead) > 0 && c.Name == controllers.InForceCondition
	})
	return s
}

// isClosed reports whether somebody has chosen that limits fail closed, as far as an entry tells: it has one of the conditions that it has then.
func isClosed(h hook, namespace string) bool {
	return slices.ContainsFunc(controllers.LimitsClosed(h.Name, namespace), func(c admissionregistrationv1.MatchCondition) bool {
		return slices.ContainsFunc(h.Conditions, func(have admissionregistrationv1.MatchCondition) bool { return have.Name == c.Name })
	})
}

// documents are those of a manifest in another namespace, as the chart makes them (deploy/chart/podgrace/templates/_helpers.tpl). In JSON, where a namespace 123 stays a text.
func documents(manifest []byte, namespace string) (all [][]byte) {
	for document := range bytes.SplitSeq(manifest, []byte("\n---\n")) {
		if text, err := yaml.YAMLToJSON(document); err == nil {
			all = append(all, bytes.ReplaceAll(text, []byte(DefaultNamespace), []byte(namespace)))
		}
	}
	return all
}

const excludeFlag = "--exclude-namespaces="

// exempt are the namespaces that no policy is for: the webhook is told by its flag. Where its Deployment is not there, or was not read, the webhook configuration
// says which were left out.
func (s *Snapshot) exempt() policy.Exempt {
	own := policy.ExemptIn(s.OwnNamespace)
	if d := s.webhook(); d != nil && len(d.Spec.Template.Spec.Containers) > 0 {
		var patterns []string
		for _, arg := range d.Spec.Template.Spec.Containers[0].Args {
			if list, is := strings.CutPrefix(arg, excludeFlag); is && list != "" {
				patterns = append(patterns, strings.Split(list, ",")...)
			}
		}
		if e, err := own.Excluding(patterns...); err == nil {
			return e
		}
	}
	for i := range s.Validating {
		if s.Validating[i].Name == configurationName {
			if e, err := controllers.ReadExempt(&s.Validating[i], s.OwnNamespace); err == nil {
				return e
			}
		}
	}
	return own
}

// Source is something that is read of a cluster, named as kubectl has it, or by its path.
type Source string

// The sources.
const (
	Version           Source = "/version"
	APIs              Source = "/apis"
	Metrics           Source = "/metrics"
	Nodes             Source = "nodes"
	Deployments       Source = "deployments"
	DaemonSets        Source = "daemonsets"
	Mutating          Source = "mutatingwebhookconfigurations"
	Validating        Source = "validatingwebhookconfigurations"
	AdmissionPolicies Source = "validatingadmissionpolicies"
	AdmissionBindings Source = "validatingadmissionpolicybindings"
	CRDs              Source = "customresourcedefinitions"
	PodPolicies       Source = "podpolicies"
	NodePolicies      Source = "nodepolicies"
	// NodePools are Karpenter's. A cluster without it has none.
	NodePools          Source = "nodepools"
	PriorityClasses    Source = "priorityclasses"
	VolumeLocks        Source = "volumelocks"
	CSIDrivers         Source = "csidrivers"
	VolumeAttachments  Source = "volumeattachments"
	Namespace          Source = "namespaces"
	Pods               Source = "pods"
	Budgets            Source = "poddisruptionbudgets"
	Quotas             Source = "resourcequotas"
	LimitRanges        Source = "limitranges"
	Leases             Source = "leases"
	Roles              Source = "roles"
	RoleBindings       Source = "rolebindings"
	ControllerManagers Source = "pods of kube-system"
	// Records are annotations of pods. Of the pods nothing but their metadata is read.
	Records Source = "pods of all namespaces"
	// Kubelets are the kubelets' configurations. Reading them through the API server takes nodes/proxy, by which one can also run commands in every pod:
	// they are read only if asked for, and the role that is documented does not have it.
	Kubelets Source = "nodes/proxy"
)

// Scope of a right.
type Scope int

// The scopes.
const (
	// InCluster: it is needed of the whole cluster.
	InCluster Scope = iota
	// InOwn: in Podgrace's namespace, and in the node enforcer's if that is installed.
	InOwn
	// InKubeSystem: in kube-system.
	InKubeSystem
)

// Right is what reading a source takes. Verb is get or list; Names are those that are read, where not all are.
type Right struct {
	schema.GroupResource

	Verb  string
	Scope Scope
	Names []string
	// Path where it is no resource.
	Path string
}

const podgraceGroup = "podgrace.dev"

// definitionNames are the CustomResourceDefinitions that this version has (package deploy).
var definitionNames = []string{
	"podpolicies.podgrace.dev", "nodepolicies.podgrace.dev", "policyexceptions.podgrace.dev",
	"fencepolicies.podgrace.dev", "fenceagents.podgrace.dev", "fences.podgrace.dev", "fencereceipts.podgrace.dev",
	"volumelocks.podgrace.dev",
}

// Rights of all sources but Kubelets, which nobody needs. Version and APIs are everybody's (ClusterRole system:discovery).
func Rights() map[Source]Right {
	resource := func(group, name, verb string, scope Scope, names ...string) Right {
		return Right{GroupResource: schema.GroupResource{Group: group, Resource: name}, Verb: verb, Scope: scope, Names: names}
	}
	const admission = "admissionregistration.k8s.io"
	return map[Source]Right{
		Version:            {Path: "/version", Verb: "get"},
		APIs:               {Path: "/apis", Verb: "get"},
		Metrics:            {Path: "/metrics", Verb: "get"},
		Nodes:              resource("", "nodes", "list", InCluster),
		Deployments:        resource("apps", "deployments", "list", InCluster),
		DaemonSets:         resource("apps", "daemonsets", "list", InCluster),
		Mutating:           resource(admission, "mutatingwebhookconfigurations", "list", InCluster),
		Validating:         resource(admission, "validatingwebhookconfigurations", "list", InCluster),
		AdmissionPolicies:  resource(admission, "validatingadmissionpolicies", "list", InCluster),
		AdmissionBindings:  resource(admission, "validatingadmissionpolicybindings", "list", InCluster),
		CRDs:               resource("apiextensions.k8s.io", "customresourcedefinitions", "get", InCluster, definitionNames...),
		PodPolicies:        resource(podgraceGroup, "podpolicies", "list", InCluster),
		NodePolicies:       resource(podgraceGroup, "nodepolicies", "list", InCluster),
		NodePools:          resource("karpenter.sh", "nodepools", "list", InCluster),
		PriorityClasses:    resource("scheduling.k8s.io", "priorityclasses", "list", InCluster),
		VolumeLocks:        resource(podgraceGroup, "volumelocks", "list", InCluster),
		CSIDrivers:         resource("storage.k8s.io", "csidrivers", "list", InCluster),
		VolumeAttachments:  resource("storage.k8s.io", "volumeattachments", "list", InCluster),
		Namespace:          resource("", "namespaces", "get", InCluster),
		Pods:               resource("", "pods", "list", InOwn),
		Budgets:            resource("policy", "poddisruptionbudgets", "list", InOwn),
		Quotas:             resource("", "resourcequotas", "list", InOwn),
		LimitRanges:        resource("", "limitranges", "list", InOwn),
		Leases:             resource("coordination.k8s.io", "leases", "get", InOwn, LeaseName),
		Roles:              resource("rbac.authorization.k8s.io", "roles", "get", InOwn, InForce),
		RoleBindings:       resource("rbac.authorization.k8s.io", "rolebindings", "get", InOwn, InForce),
		ControllerManagers: resource("", "pods", "list", InKubeSystem),
		Records:            resource("", "pods", "list", InCluster),
	}
}

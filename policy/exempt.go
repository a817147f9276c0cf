package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
)

// kubeSystem is exempt from all policies, as Podgrace's own namespace is: the webhooks never select the two, so that a cluster can always start, and
// offline the answer must be the same.
const kubeSystem = metav1.NamespaceSystem

// NodeNamespace is the namespace of the node enforcer (deploy/nodeenforcer). It is exempt as Podgrace's own is.
const NodeNamespace = "podgrace-node"

// Exempt are the namespaces that no policy is for: kube-system, Podgrace's own, the node enforcer's, and those that were excluded when it was installed. What the API server asks and judges
// is selected by the same (Selector and Condition). The zero value is kube-system alone, as offline where nobody knows where Podgrace runs.
type Exempt struct {
	own string
	// names and prefixes of those that were excluded, sorted. A prefix ends with a dash.
	names, prefixes []string
}

// ExemptIn are those where Podgrace runs in a namespace, and nothing was excluded; empty: nowhere.
func ExemptIn(own string) Exempt { return Exempt{own: own} }

// Excluding has more of them: each pattern is a namespace's name, or the beginning of names up to a dash, with a star: openshift-*.
func (e Exempt) Excluding(patterns ...string) (Exempt, error) {
	names, prefixes := sets.New(e.names...), sets.New(e.prefixes...)
	var errs []error
	for _, pattern := range patterns {
		prefix, many := strings.CutSuffix(pattern, "*")
		family, dashed := strings.CutSuffix(prefix, "-")
		switch {
		case many && dashed && len(validation.IsDNS1123Label(family)) == 0:
			prefixes.Insert(prefix)
		case many || len(validation.IsDNS1123Label(pattern)) > 0:
			errs = append(errs, fmt.Errorf("%q is neither the name of a namespace nor the beginning of names up to a dash, such as openshift-*", pattern))
		case !e.always(pattern):
			names.Insert(pattern)
		}
	}
	e.names, e.prefixes = sets.List(names), sets.List(prefixes)
	return e, errors.Join(errs...)
}

// ExcludeUsage tells what the flag --exclude-namespaces of programs takes.
const ExcludeUsage = "namespaces that no policy is for, beside kube-system and Podgrace's own two: names, and beginnings up to a dash, such as openshift-*; " +
	"the same as the webhook configurations leave out (value excludedNamespaces of the chart)"

// Own is the namespace that Podgrace runs in; empty: nowhere.
func (e Exempt) Own() string { return e.own }

// Has reports whether a namespace is one of them. An empty name is nobody's namespace.
func (e Exempt) Has(namespace string) bool {
	return namespace != "" && e.always(namespace) || e.By(namespace) != ""
}

// always reports whether a namespace is exempt without being excluded.
func (e Exempt) always(namespace string) bool {
	return namespace == kubeSystem || namespace == e.own || e.own != "" && namespace == NodeNamespace
}

// By is the pattern by which a namespace was excluded; empty: it was not.
func (e Exempt) By(namespace string) string {
	if slices.Contains(e.names, namespace) {
		return namespace
	}
	for _, prefix := range e.prefixes {
		if strings.HasPrefix(namespace, prefix) {
			return prefix + "*"
		}
	}
	return ""
}

// Excluded are the patterns of those that were excluded.
func (e Exempt) Excluded() []string {
	patterns := slices.Clone(e.names)
	for _, prefix := range e.prefixes {
		patterns = append(patterns, prefix+"*")
	}
	return patterns
}

// ExemptCondition is the name of the match condition that Condition is the expression of.
const ExemptCondition = "not-excluded"

// Selector selects all namespaces but those that are exempt by their whole names: a selector knows no others. It costs the API server less than a match condition, which is
// evaluated for each request that the selector lets through.
func (e Exempt) Selector() *metav1.LabelSelector {
	values := []string{kubeSystem}
	for _, own := range []string{e.own, NodeNamespace} {
		if e.own != "" && !slices.Contains(values, own) {
			values = append(values, own)
		}
	}
	return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpNotIn, Values: append(values, e.names...)},
	}}
}

// Condition is the CEL expression that is false for what is in a namespace that is exempt by its beginning; empty: there are none.
func (e Exempt) Condition() string {
	if len(e.prefixes) == 0 {
		return ""
	}
	return "!['" + strings.Join(e.prefixes, "', '") + "'].exists(prefix, request.?namespace.orValue('').startsWith(prefix))"
}

// conditionPrefix is one of them in an expression by Condition.
var conditionPrefix = regexp.MustCompile(`'([a-z0-9-]+-)'`)

// ReadExempt reads back what Selector and Condition say, as a cluster has it.
func ReadExempt(own string, selector *metav1.LabelSelector, condition string) (Exempt, error) {
	var patterns []string
	if selector != nil {
		for _, r := range selector.MatchExpressions {
			if r.Key == corev1.LabelMetadataName && r.Operator == metav1.LabelSelectorOpNotIn {
				patterns = append(patterns, r.Values...)
			}
		}
	}
	for _, found := range conditionPrefix.FindAllStringSubmatch(condition, -1) {
		patterns = append(patterns, found[1]+"*")
	}
	e, err := ExemptIn(own).Excluding(patterns...)
	if err == nil && e.Condition() != condition && condition != "true" {
		err = fmt.Errorf("match condition %s is not as Podgrace writes it: %s", ExemptCondition, condition)
	}
	return e, err
}

// remarkExempt tells of namespaces that a policy names and that no policy is for.
func (p *Policy) remarkExempt(exempt Exempt) []string {
	if p.namespaces == nil {
		return nil
	}
	requirements, _ := p.namespaces.Requirements()
	for _, r := range requirements {
		if r.Key() != corev1.LabelMetadataName || r.Operator() != selection.In && r.Operator() != selection.Equals && r.Operator() != selection.DoubleEquals {
			continue
		}
		named := r.Values().List()
		left := slices.DeleteFunc(slices.Clone(named), func(name string) bool { return !exempt.Has(name) })
		if len(left) == 0 {
			continue
		}
		what := "no policy is for pods of " + atMost(left, 3)
		if len(left) == len(named) {
			what += ": this one is for no pod"
		}
		return []string{"match.namespaceSelector names an exempt namespace: " + what}
	}
	return nil
}

// atMost names some of a list, and how many there are besides.
func atMost(names []string, most int) string {
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

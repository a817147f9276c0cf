package limits

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// The pod's labels, and the variable that has them.
const (
	podLabels      = "object.metadata.?labels.orValue({})"
	labelsVariable = "variables.labels"
)

// translated are the fields of PodMatch that match knows.
var translated = []string{"namespaceSelector", "podSelector", "ownerKinds", "matchConditions"}

// match is Policy.match of package defaulting, for the i-th policy.
func (s *subject) match(i int) {
	m := s.Spec.Match
	if m == nil {
		return
	}
	if unknown := setBeside(reflect.ValueOf(*m), translated); len(unknown) > 0 {
		s.why = "it is not known here what match." + strings.Join(unknown, ", match.") + " means to the API server"
		return
	}
	var parts []string
	for _, of := range []struct {
		selector *v1alpha1.LabelSelector
		labels   string
	}{{m.NamespaceSelector, "variables.namespaceLabels"}, {m.PodSelector, labelsVariable}} {
		requirements, why := selectors(of.selector, of.labels)
		if s.why = why; why != "" {
			return
		}
		parts = append(parts, requirements...)
	}
	s.elsewhere = notFor(m)
	if len(m.OwnerKinds) > 0 {
		kinds := make([]string, len(m.OwnerKinds))
		for i, k := range m.OwnerKinds {
			kinds[i] = string(k)
		}
		parts = append(parts, "variables.ownerKind in "+texts(kinds))
	}
	// Each a variable: one that costs too much is then an error like any other, as it is to the webhook, and not the end of the whole policy.
	for j, c := range m.MatchConditions {
		if why := translatable(c.Expression); why != "" {
			s.why = fmt.Sprintf("match condition %s %s", c.Name, why)
			return
		}
		v := admissionregistrationv1.Variable{Name: fmt.Sprintf(conditionName+"%d_%d", i, j), Expression: c.Expression}
		s.variables = append(s.variables, v)
		parts = append(parts, "variables."+v.Name)
	}
	s.condition = len(m.MatchConditions) > 0
	if len(parts) > 0 {
		s.holds = fmt.Sprintf("variables.holds%d", i)
		if s.may = s.holds; len(m.OwnerKinds) > 0 {
			s.may = "(" + s.holds + " || variables.manyOwners)"
		}
		s.variables = append(s.variables, admissionregistrationv1.Variable{Name: fmt.Sprintf("holds%d", i), Expression: all(parts)})
	}
}

// conditionName begins the names of the variables that are users' conditions.
const conditionName = "condition"

func isCondition(v admissionregistrationv1.Variable) bool {
	return strings.HasPrefix(v.Name, conditionName)
}

// notFor are expressions of which one is true only for pods that a selector leaves out: by their labels, and by the name of the namespace, which each
// namespace has as a label (pkg/apis/core/v1/defaults.go SetDefaults_Namespace, 1.36.3).
func notFor(m *v1alpha1.PodMatch) (expressions []string) {
	required, _ := selectors(m.PodSelector, podLabels) // match has read both
	for _, r := range required {
		expressions = append(expressions, "!("+r+")")
	}
	selector, err := m.NamespaceSelector.AsSelector()
	if err != nil {
		return expressions
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		named := "request.namespace in " + texts(r.Values().List())
		switch {
		case r.Key() != corev1.LabelMetadataName:
		case r.Operator() == selection.In, r.Operator() == selection.Equals:
			expressions = append(expressions, "!("+named+")")
		case r.Operator() == selection.NotIn:
			expressions = append(expressions, named)
		}
	}
	return expressions
}

// setBeside names the fields of a struct, as JSON has them, that are set and not among the known.
func setBeside(of reflect.Value, known []string) (names []string) {
	for i := range of.NumField() {
		name, _, _ := strings.Cut(of.Type().Field(i).Tag.Get("json"), ",")
		if !of.Field(i).IsZero() && !slices.Contains(known, name) {
			names = append(names, name)
		}
	}
	return names
}

// selectors are the requirements of a selector, as k8s.io/apimachinery/pkg/labels has them.
func selectors(s *v1alpha1.LabelSelector, of string) (parts []string, why string) {
	selector, err := s.AsSelector()
	if err != nil {
		return nil, err.Error()
	}
	requirements, _ := selector.Requirements()
	for _, r := range requirements {
		key := text(r.Key())
		values := texts(r.Values().List())
		switch r.Operator() {
		case selection.In, selection.Equals:
			parts = append(parts, fmt.Sprintf("%[1]s in %[2]s && %[2]s[%[1]s] in %[3]s", key, of, values))
		case selection.NotIn:
			parts = append(parts, fmt.Sprintf("!(%[1]s in %[2]s && %[2]s[%[1]s] in %[3]s)", key, of, values))
		case selection.Exists:
			parts = append(parts, fmt.Sprintf("%s in %s", key, of))
		case selection.DoesNotExist:
			parts = append(parts, fmt.Sprintf("!(%s in %s)", key, of))
		default:
			return nil, fmt.Sprintf("it is not known here what operator %s means", r.Operator())
		}
	}
	return parts, ""
}

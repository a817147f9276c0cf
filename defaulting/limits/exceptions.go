package limits

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// CEL has no clock, and a leader that would take an exception out at its end may be away. But the API server writes the time into a pod that is
// created before it validates it, whatever its creator had put there (k8s.io/apiserver/pkg/registry/generic/registry/store.go Store.Create and Update,
// pkg/registry/rest/meta.go FillObjectMetaSystemFields, 0.36.3). So an exception ends by itself at its second, with nobody there. What is granted,
// voided or deleted while no leader is there has to wait for one, as an edit of a policy has.

// created is when the pod is: it is absent only where nobody creates it, as in a review of manifests.
var created = admissionregistrationv1.Variable{Name: "created", Expression: "timestamp(object.metadata.?creationTimestamp.orValue('0001-01-01T00:00:00Z'))"}

// What exceptions may add, in characters of CEL. A namespace with more of them for a policy, and the namespaces with most where all of them are too
// many, are left to the webhook as far as that policy goes: who is granted many costs himself the certainty, and nobody else.
const (
	// maxOfNamespace is for those of a namespace from one policy: the largest that there can be takes less.
	maxOfNamespace = 16 << 10
	// maxOfAll is for all. An object of Kubernetes has to stay below 1.5 MiB (etcd's --max-request-bytes).
	maxOfAll = 256 << 10
	// maxApart is for the names of the namespaces that are left to the webhook; a policy with which they would be more is left to it as a whole.
	maxApart = 64 << 10
	// maxExpression is where a list of conditions is cut: a variable of its own is judged only where it is read, and each has a budget.
	maxExpression = 16 << 10
)

// exceptName begins the names of the variables that are conditions of exceptions.
const exceptName = "except"

func isExcept(v admissionregistrationv1.Variable) bool { return strings.HasPrefix(v.Name, exceptName) }

// namespaceExceptions are the exceptions of one namespace from one policy.
type namespaceExceptions struct {
	of        *subject
	namespace string
	// conditions by the limits that they lift, each joined to one text.
	conditions map[string][]string
	size       int
}

// except makes the variables that say for which pods exceptions lift limits.
func (b *builder) except() {
	list := b.exceptionsByNamespace()
	// The shortest first, whoever's they are, so that who has most is left out.
	slices.SortStableFunc(list, func(x, y *namespaceExceptions) int { return cmp.Compare(x.size, y.size) })
	total, known := 0, map[*subject][]*namespaceExceptions{}
	for _, p := range list {
		if total+p.size > maxOfAll || p.size > maxOfNamespace {
			p.of.apart = append(p.of.apart, p.namespace)
			continue
		}
		total += p.size
		known[p.of] = append(known[p.of], p)
	}
	total = 0
	for _, s := range b.subjects {
		if len(s.apart) > 0 {
			slices.Sort(s.apart)
			v := admissionregistrationv1.Variable{Name: fmt.Sprintf("apart%d", s.index), Expression: "request.namespace in " + texts(s.apart)}
			if total+len(v.Expression) > maxApart {
				s.why = "the exceptions from it that are in force would cost the API server too much to judge"
				continue
			}
			total += len(v.Expression)
			s.variables = append(s.variables, v)
			s.perhaps = "variables." + v.Name
		}
		slices.SortFunc(known[s], func(x, y *namespaceExceptions) int { return cmp.Compare(x.namespace, y.namespace) })
		s.lift(known[s])
	}
}

// exceptionsByNamespace are those of the exceptions that lift a limit which is compiled.
func (b *builder) exceptionsByNamespace() (list []*namespaceExceptions) {
	of := map[string]*subject{}
	for _, s := range b.subjects {
		if s.why == "" {
			of[s.Name] = s
		}
	}
	type where struct {
		of        *subject
		namespace string
	}
	there := map[where]*namespaceExceptions{}
	for _, x := range b.cluster.Exceptions {
		s := of[x.Spec.Policy]
		if s == nil {
			continue
		}
		var limits []string
		for _, l := range lifted {
			if slices.Contains(x.Spec.Limits, l) && policy.HasLimit(s.Spec, l) {
				limits = append(limits, string(l))
			}
		}
		requirements, why := selectors(x.Spec.PodSelector, labelsVariable)
		if len(limits) == 0 || why != "" { // which CompileException does not let pass
			continue
		}
		condition := all(append(requirements, "variables.created < timestamp("+text(x.Until.UTC().Format(time.RFC3339))+")"))
		p := there[where{s, x.Namespace}]
		if p == nil {
			p = &namespaceExceptions{of: s, namespace: x.Namespace, conditions: map[string][]string{}, size: len(x.Namespace)}
			there[where{s, x.Namespace}] = p
			list = append(list, p)
		}
		key := strings.Join(limits, " ")
		p.conditions[key] = append(p.conditions[key], condition)
		p.size += len(condition)
	}
	return list
}

// lift makes the variables of a policy, from what is known of its exceptions in the order of their namespaces: for each set of limits that is lifted
// together as many as there have to be, and for each limit one that is true where one of them is.
func (s *subject) lift(known []*namespaceExceptions) {
	sets := map[string]bool{}
	for _, p := range known {
		for set := range p.conditions {
			sets[set] = true
		}
	}
	by := map[v1alpha1.LiftedLimit][]string{}
	n := 0
	for _, set := range slices.Sorted(maps.Keys(sets)) {
		var conditions, namespaces []string
		size := 0
		end := func() {
			if len(conditions) == 0 {
				return
			}
			v := admissionregistrationv1.Variable{Name: fmt.Sprintf(exceptName+"%d_%d", s.index, n), Expression: conditions[0]}
			if len(conditions) > 1 { // a list of literals is looked up at once, so that the pods of other namespaces cost nothing
				v.Expression = "request.namespace in " + texts(namespaces) + " && (" + either(conditions) + ")"
			}
			n++
			s.variables = append(s.variables, v)
			for l := range strings.FieldsSeq(set) {
				by[v1alpha1.LiftedLimit(l)] = append(by[v1alpha1.LiftedLimit(l)], "variables."+v.Name)
			}
			conditions, namespaces, size = nil, nil, 0
		}
		for _, p := range known {
			here := p.conditions[set]
			if len(here) == 0 {
				continue
			}
			if size+p.size > maxExpression {
				end()
			}
			conditions = append(conditions, "request.namespace == "+text(p.namespace)+" && ("+either(here)+")")
			namespaces = append(namespaces, p.namespace)
			size += p.size
		}
		end()
	}
	for j, limit := range lifted {
		if len(by[limit]) > 0 {
			v := admissionregistrationv1.Variable{Name: fmt.Sprintf("lifted%d_%d", s.index, j), Expression: strings.Join(by[limit], " || ")}
			s.variables = append(s.variables, v)
			s.lifted[limit] = "variables." + v.Name
		}
	}
}

// unknownTo names the pods of which CEL does not know for which exceptions lift limits of the policy.
func (s *subject) unknownTo() []string {
	if len(s.apart) == 0 {
		return nil
	}
	named := s.apart[:min(len(s.apart), 3)]
	others := ""
	if n := len(s.apart) - len(named); n > 0 {
		others = fmt.Sprintf(" and %d more", n)
	}
	return []string{"for pods of namespaces with too many exceptions from it (" + strings.Join(named, ", ") + others + ")"}
}

// words are the message of a refusal: which limits hold is not known for sure where a namespace's exceptions from any policy are not.
func (b *builder) words(message string) string {
	var unsure []string
	for _, s := range b.subjects {
		if s.why == "" && s.perhaps != "" {
			unsure = append(unsure, s.perhaps)
		}
	}
	if len(unsure) == 0 {
		return message
	}
	return strings.Join(unsure, " || ") + " ? " + text(otherwise) + " : " + message
}

// lifted are the limits of which an exception may lift any.
var lifted = []v1alpha1.LiftedLimit{v1alpha1.LiftAllowedClassNames, v1alpha1.LiftMinSeconds, v1alpha1.LiftMaxSeconds, v1alpha1.LiftPreStopMarginSeconds, v1alpha1.LiftZeroGrace}

package policy

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"

	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Policy is a PodPolicy made ready to decide with.
type Policy struct {
	// Name of the PodPolicy.
	Name string
	// Generation of the spec, 0 for a policy from a file.
	Generation int64
	// Spec is shared with the object it was compiled from: read only.
	Spec *v1alpha1.PodPolicySpec
	// Protect says which pods its removal section protects.
	Protect Protection

	namespaces labels.Selector // nil: every namespace
	pods       labels.Selector // nil: every pod
	conditions *conditions     // nil: none
	unread     unread
}

// unread says which parts of a policy can't be read. They are not in force; the other parts are, so that a policy with an invalid topologySpread still
// refuses what its removal section refuses.
type unread struct {
	// namespaces: match.namespaceSelector. The removal section then holds in all namespaces, to be on the safe side.
	namespaces bool
	// match: any part of match. Neither the policy's defaults nor its limits on pods are in force.
	match bool
	// spread: its topologySpread.
	spread bool
	// fields were written and are not read (written.Unread), such as spec.removal.newField.
	fields []string
	// removal: such a field is in its removal section, which is as strict as can be.
	removal bool
}

// InForce says in words which parts of the policy are in force: all, unless a part of it can't be read.
func (p *Policy) InForce() string {
	const noLimits = ": its defaults and limits on pods do not hold"
	strictly, strict := "", ""
	if p.unread.removal {
		strictly = "until that can be read its removal section protects all pods and lets nobody through by name, with action " + string(p.Spec.Removal.ForceDelete)
		strict = "; " + strings.Join(p.unread.fields, ", ") + ": " + strictly
	}
	switch {
	case p.unread.match && p.Spec.Removal == nil:
		return "not in force" + noLimits
	case p.unread.namespaces:
		return "not in force, but for removal, which holds in every namespace until the selector can be read" + noLimits + strict
	case p.unread.match:
		return "not in force, but for removal" + noLimits + strict
	case p.unread.spread:
		return "in force, but for topologySpread" + strict
	case p.unread.removal:
		return "in force, but for " + strings.Join(p.unread.fields, ", ") + ", and " + strictly
	case len(p.unread.fields) > 0:
		return "in force, but for " + strings.Join(p.unread.fields, ", ")
	}
	return "in force"
}

// Matchable reports whether the policy's match can be read. Where it can't, only its removal section is in force.
func (p *Policy) Matchable() bool { return !p.unread.match }

// Spread is the policy's section topologySpread; nil where it has none, or one that can't be read.
func (p *Policy) Spread() *v1alpha1.TopologySpreadSection {
	if p.unread.spread {
		return nil
	}
	return p.Spec.TopologySpread
}

// Policies are in the order in which they give defaults: the heaviest first, those of equal weight by name.
type Policies []*Policy

// Sort orders policies as Policies must be.
func Sort(policies []*Policy) Policies {
	slices.SortFunc(policies, func(a, b *Policy) int {
		return cmp.Or(cmp.Compare(b.Spec.Weight, a.Spec.Weight), strings.Compare(a.Name, b.Name))
	})
	return policies
}

// Compile makes a policy ready. The error lists all parts of it that can't be read. The other parts are in force all the same, so that the policy is
// returned beside the error, and InForce says which they are. The CRD's schema refuses such a policy, but for match conditions; one may have been
// stored before the schema did.
func Compile(p *v1alpha1.PodPolicy) (*Policy, error) {
	c := &Policy{Name: p.Name, Generation: p.Generation, Spec: &p.Spec}
	var errs field.ErrorList
	if m := p.Spec.Match; m != nil {
		path := field.NewPath("spec", "match")
		c.namespaces = compileSelector(m.NamespaceSelector, path.Child("namespaceSelector"), &errs)
		c.unread.namespaces = len(errs) > 0
		c.pods = compileSelector(m.PodSelector, path.Child("podSelector"), &errs)
		if len(m.MatchConditions) > 0 {
			var bad field.ErrorList
			c.conditions, bad = compileConditions(m.MatchConditions, path.Child("matchConditions"))
			errs = append(errs, bad...)
		}
		if c.SelectsByPriority() && p.Spec.Priority != nil {
			errs = append(errs, field.Forbidden(field.NewPath("spec", "priority"), "a policy that selects by priority cannot say which class pods get or may have: whether it matches would depend on itself"))
		}
		c.unread.match = len(errs) > 0
	}
	notRead := c.withhold(p.ManagedFields)
	if r := c.Spec.Removal; r != nil {
		c.Protect = protectionOf(r)
	}
	if s := p.Spec.TopologySpread; s != nil {
		bad := checkSpread(s, field.NewPath("spec", "topologySpread"))
		c.unread.spread = len(bad) > 0
		errs = append(errs, bad...)
	}
	if err := together(errs, notRead); err != nil {
		return c, fmt.Errorf("PodPolicy %s: %w", p.Name, err)
	}
	return c, nil
}

// CheckNodePolicy says what can't be read of a NodePolicy. Its schema refuses nearly all of that.
func CheckNodePolicy(p *v1alpha1.NodePolicy) error {
	var errs field.ErrorList
	compileSelector(p.Spec.NodeSelector, field.NewPath("spec", "nodeSelector"), &errs)
	if err := errs.ToAggregate(); err != nil {
		return fmt.Errorf("NodePolicy %s: %w", p.Name, err)
	}
	return nil
}

// together is one error of what can't be read; nil: there is nothing.
func together(errs field.ErrorList, notRead error) error {
	return utilerrors.Flatten(utilerrors.NewAggregate([]error{errs.ToAggregate(), notRead}))
}

// FieldErrors takes an error of Compile or CheckNodePolicy apart.
func FieldErrors(err error) field.ErrorList {
	var errs field.ErrorList
	if all, ok := errors.AsType[utilerrors.Aggregate](err); ok {
		for _, e := range all.Errors() {
			if of, ok := errors.AsType[*field.Error](e); ok {
				errs = append(errs, of)
			}
		}
	}
	return errs
}

func compileSelector(s *v1alpha1.LabelSelector, path *field.Path, errs *field.ErrorList) labels.Selector {
	if s == nil {
		return nil
	}
	selector, err := s.AsSelector()
	if err != nil {
		*errs = append(*errs, field.Invalid(path, s, err.Error()))
	}
	return selector
}

func checkSpread(s *v1alpha1.TopologySpreadSection, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, c := range s.Constraints {
		at := path.Child("constraints").Index(i)
		errs = append(errs, metav1validation.ValidateLabelName(c.TopologyKey, at.Child("topologyKey"))...)
		for j, key := range c.MatchLabelKeys {
			errs = append(errs, metav1validation.ValidateLabelName(key, at.Child("matchLabelKeys").Index(j))...)
		}
	}
	for i, o := range s.OwnerRules {
		for j, key := range o.LabelKeys {
			errs = append(errs, metav1validation.ValidateLabelName(key, path.Child("ownerRules").Index(i).Child("labelKeys").Index(j))...)
		}
	}
	return errs
}

// InForce compiles policies and orders them. Parts that can't be read are not in force, and the policy's status says so.
func InForce(policies []v1alpha1.PodPolicy) Policies {
	all := make([]*Policy, len(policies))
	for i := range policies {
		all[i], _ = Compile(&policies[i])
	}
	return Sort(all)
}

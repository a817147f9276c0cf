package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/api/written"
	"github.com/podgrace/podgrace/internal/console"
)

// UnreadFields are fields of a PodPolicy that were written and are not read: the CustomResourceDefinition that serves it is older than the policy, or this program
// is. What they say may be what the policy is for, so it is not decided as if they had never been there.
func UnreadFields(p *v1alpha1.PodPolicy) []string {
	return written.Unread(p.ManagedFields, v1alpha1.GroupVersion.String(), &p.Spec)
}

// HasRemoval reports whether a policy guards removals: it has a removal section, or had one that can't be read.
func HasRemoval(p *v1alpha1.PodPolicy) bool {
	return p.Spec.Removal != nil || slices.ContainsFunc(UnreadFields(p), within("removal"))
}

// withhold has what can't be read whole not be taken for something else: a match is not the wider one that is left of it, so that neither defaults nor limits hold (they might refuse
// pods that nobody meant), and a removal section is as strict as its action can be. Not all of that is stricter: limits that do not hold are weaker, and so is an action, Warn or Allow, that
// the field that is missing would have made stricter. The status says both.
func (p *Policy) withhold(managed []metav1.ManagedFieldsEntry) error {
	p.unread.fields = written.Unread(managed, v1alpha1.GroupVersion.String(), p.Spec)
	lost := func(section string) bool { return slices.ContainsFunc(p.unread.fields, within(section)) }
	p.unread.match = p.unread.match || lost("match")
	p.unread.namespaces = p.unread.namespaces || lost("match.namespaceSelector")
	if p.unread.removal = lost("removal"); p.unread.removal {
		spec := *p.Spec // shared: not to be changed
		spec.Removal = strictest(spec.Removal)
		p.Spec = &spec
	}
	if len(p.unread.fields) == 0 {
		return nil
	}
	return errors.New(written.Say(p.unread.fields, "policy"))
}

// strictBy says by which parts of it that can't be read the policy's removal section is as strict as it can be, and how: one sentence each.
func (p *Policy) strictBy() (all []string) {
	until := func(section, what string) {
		paths := slices.DeleteFunc(slices.Clone(p.unread.fields), func(path string) bool { return !within(section)(path) })
		if len(paths) == 0 {
			paths = []string{"spec." + section}
		}
		all = append(all, fmt.Sprintf("until %s of %s can be read, it %s", console.Some(paths, 3, ", "), p.Name, what))
	}
	if p.unread.removal {
		until("removal", "protects all pods and lets nobody through by name")
	}
	if p.unread.namespaces {
		until("match.namespaceSelector", "holds in every namespace")
	}
	return all
}

// within says of paths whether they are those of a section, or of what is in it, or of what it is in.
func within(section string) func(path string) bool {
	section = "spec." + section
	return func(path string) bool {
		return path == section || strings.HasPrefix(path, section+".") || strings.HasPrefix(section, path+".")
	}
}

// strictest is a removal section of which a part can't be read: it protects all pods and lets nobody through by name. Its action is the one that can be read;
// where that is gone, it denies. nil: all of it is gone.
func strictest(r *v1alpha1.RemovalSection) *v1alpha1.RemovalSection {
	s := &v1alpha1.RemovalSection{ZeroGrace: v1alpha1.ZeroGraceRaise}
	if r != nil {
		*s = *r
	}
	s.ForceDelete, s.Protect, s.BlockClaims = ActionOf(s), v1alpha1.ProtectAll, v1alpha1.BlockClaimsExclusive
	s.EvictionWithoutGrace, s.AllowedActors = v1alpha1.GraceDeny, nil
	return s
}

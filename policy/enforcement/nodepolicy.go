package enforcement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/api/written"
)

// NodePolicies are made ready to be asked which of them a node has.
type NodePolicies struct {
	heaviestFirst []nodePolicy
}

type nodePolicy struct {
	*v1alpha1.NodePolicy
	nodes labels.Selector
}

// Compile makes policies ready. One whose selector can't be read selects nothing: what is left of it may be wider, for nodes that nobody meant. Of one with other fields that were written and
// are not read the rest holds: a node that took all of it back would lose the protection of its pods' memory over a field that is newer. Both are named in the error; the others hold.
func Compile(policies []*v1alpha1.NodePolicy) (NodePolicies, error) {
	var ready NodePolicies
	var errs []error
	for _, p := range policies {
		unread := UnreadFields(p)
		if len(unread) > 0 {
			errs = append(errs, fmt.Errorf("NodePolicy %s: %s", p.Name, written.Say(unread, "policy")))
		}
		if slices.ContainsFunc(unread, ofSelector) {
			continue
		}
		nodes := labels.Everything()
		if s := p.Spec.NodeSelector; s != nil {
			var err error
			if nodes, err = s.AsSelector(); err != nil {
				errs = append(errs, fmt.Errorf("NodePolicy %s: nodeSelector: %w", p.Name, err))
				continue
			}
		}
		ready.heaviestFirst = append(ready.heaviestFirst, nodePolicy{p, nodes})
	}
	slices.SortFunc(ready.heaviestFirst, func(a, b nodePolicy) int {
		return cmp.Or(cmp.Compare(b.Spec.Weight, a.Spec.Weight), cmp.Compare(a.Name, b.Name))
	})
	return ready, errors.Join(errs...)
}

// UnreadFields are fields of a NodePolicy that were written and are not read (written.Unread).
func UnreadFields(p *v1alpha1.NodePolicy) []string {
	return written.Unread(p.ManagedFields, v1alpha1.GroupVersion.String(), &p.Spec)
}

// ofSelector reports whether a path is that of the selector, or of something in it.
func ofSelector(path string) bool {
	return path == "spec.nodeSelector" || strings.HasPrefix(path, "spec.nodeSelector.")
}

// For returns the policy of a node with these labels: the heaviest that selects it, ties by name; nil where none does.
func (ps NodePolicies) For(node map[string]string) *v1alpha1.NodePolicy {
	for _, p := range ps.heaviestFirst {
		if p.nodes.Matches(labels.Set(node)) {
			return p.NodePolicy
		}
	}
	return nil
}

// PolicyFor returns the policy of one node, as NodePolicies.For does, and the error of Compile.
func PolicyFor(node *corev1.Node, policies []*v1alpha1.NodePolicy) (*v1alpha1.NodePolicy, error) {
	ready, err := Compile(policies)
	return ready.For(node.Labels), err
}

// Writes reports whether a mode writes what nobody else owns, which all that pods ask for is (docs/nodeenforcer-files.md). A mode that is not known writes nothing.
func Writes(mode v1alpha1.NodeMode) bool {
	return mode == v1alpha1.NodeModeTune || mode == v1alpha1.NodeModeRepair
}

// Evicts reports whether a policy evicts pods. It does if it has a section eviction in mode Evict, or without a mode if the policy's mode writes.
func Evicts(p *v1alpha1.NodePolicySpec) bool {
	switch {
	case p.Eviction == nil:
		return false
	case p.Eviction.Mode != "":
		return p.Eviction.Mode == v1alpha1.EvictionModeEvict
	}
	return Writes(p.Mode)
}

// maxWeight is the kernel's bound on cpu.weight and io.weight (Documentation/admin-guide/cgroup-v2.rst).
const maxWeight = 10000

// Bounds are a NodePolicy's bounds on what pods ask for, with the CRD's defaults, which a policy from a file may lack.
type Bounds struct {
	// Protection is the strongest that a pod may have.
	Protection v1alpha1.MemoryProtection
	// ProtectedPercent of the node's allocatable memory is what all pods' protection may take together.
	ProtectedPercent int64
	// CPUWeight and IOWeight are the most that a pod may have.
	CPUWeight, IOWeight int32
}

// BoundsOf returns the bounds of a policy; nil: it gives none.
func BoundsOf(given *v1alpha1.EnforcementBounds) Bounds {
	b := Bounds{v1alpha1.MemoryProtectionMin, 80, maxWeight, maxWeight}
	if given == nil {
		return b
	}
	if given.MaxProtection != "" {
		b.Protection = given.MaxProtection
	}
	if p := given.MaxProtectedMemoryPercent; p != nil {
		b.ProtectedPercent = int64(min(max(*p, 0), 100))
	}
	if w := given.MaxCPUWeight; w != nil {
		b.CPUWeight = min(max(*w, 1), maxWeight)
	}
	if w := given.MaxIOWeight; w != nil {
		b.IOWeight = min(max(*w, 1), maxWeight)
	}
	return b
}

var weakestFirst = []v1alpha1.MemoryProtection{v1alpha1.MemoryProtectionNone, v1alpha1.MemoryProtectionLow, v1alpha1.MemoryProtectionMin}

// Lower returns the weaker of the protection that was asked for and the bound. A bound that is not known bounds nothing.
func (b Bounds) Lower(asked v1alpha1.MemoryProtection) v1alpha1.MemoryProtection {
	if most := slices.Index(weakestFirst, b.Protection); most >= 0 && slices.Index(weakestFirst, asked) > most {
		return b.Protection
	}
	return asked
}

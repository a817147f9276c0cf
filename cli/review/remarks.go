package review

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// Remark is about a policy that works, but perhaps not as meant, an exception that lifts nothing, or a claim whose volume two nodes can mount.
type Remark struct {
	Policy string `json:"policy,omitempty"`
	// Exception that it is about in place of a policy, as namespace/name.
	Exception string `json:"exception,omitempty"`
	// Claim that it is about in place of a policy, as namespace/name: a PersistentVolumeClaim.
	Claim string `json:"claim,omitempty"`
	// Rollout that it is about in place of a policy, as namespace/name.
	Rollout string `json:"rollout,omitempty"`
	// Deadline that it is about in place of a policy: what stops a node, and the setting that bounds it.
	Deadline string `json:"deadline,omitempty"`
	// NodePolicy that it is about in place of a policy.
	NodePolicy string `json:"nodePolicy,omitempty"`
	Message    string `json:"message"`
}

// idle is the remark on a policy without effect on what was reviewed.
const idle = "it is for none of what was reviewed"

// Remarks are what a cluster says in the status of the policies, and which of them are for none of the results. What only a cluster knows is
// said where all of it is known.
func (e *Engine) Remarks(results []Result) []Remark {
	policies, classes := e.Policies.Policies(), e.State.classes()
	var remarks []Remark
	for _, p := range policies {
		if !classes.Partial {
			for _, problem := range p.Problems(classes.PriorityClasses) {
				remarks = append(remarks, Remark{Policy: p.Name, Message: problem.Message})
			}
		}
		for _, message := range p.Remarks(nil, e.Exempt) {
			remarks = append(remarks, Remark{Policy: p.Name, Message: message})
		}
	}
	for i, p := range policies {
		for j, other := range policies {
			if i == j || !bothMatch(p, other, results) {
				continue
			}
			if tie := p.TieWith(other); tie != "" && i < j {
				remarks = append(remarks, Remark{Policy: p.Name, Message: tie})
			}
			if conflict := p.ConflictWith(other); conflict != "" {
				remarks = append(remarks, Remark{Policy: p.Name, Message: conflict})
			}
		}
	}
	for _, p := range policies {
		if isIdle(p, results) {
			remarks = append(remarks, Remark{Policy: p.Name, Message: idle})
		}
	}
	return slices.Concat(remarks, e.remarkTaints(), e.remarkNodes(), e.remarkExceptions())
}

// remarkTaints tells of policies whose hard constraints count nodes that most pods can't use. nodeTaintsPolicy is Ignore by default.
func (e *Engine) remarkTaints() (remarks []Remark) {
	var tainted []string
	for _, n := range Objects[*corev1.Node](e.State) {
		if slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }) {
			tainted = append(tainted, n.Name)
		}
	}
	if len(tainted) == 0 {
		return nil
	}
	for _, p := range e.Policies.Policies() {
		if s := p.Spec.TopologySpread; s != nil && slices.ContainsFunc(s.Constraints, func(c v1alpha1.TopologySpreadConstraint) bool {
			return c.WhenUnsatisfiable == corev1.DoNotSchedule && ptr.Deref(c.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyIgnore
		}) {
			remarks = append(remarks, Remark{Policy: p.Name, Message: "its hard topology spread constraints count nodes with taints (" + console.Some(tainted, maxLacking, ", ") + ") as empty domains, so pods may stay Pending; set nodeTaintsPolicy: Honor"})
		}
	}
	return remarks
}

// bothMatch reports whether two policies match one of the results.
func bothMatch(p, other *policy.Policy, results []Result) bool {
	return slices.ContainsFunc(results, func(r Result) bool {
		return slices.Contains(r.Policies, p.Name) && slices.Contains(r.Policies, other.Name)
	})
}

// isIdle: of a removal only what speaks against it is told, so that nothing follows from a policy that is not named; and nothing does where
// it can't be known whether the policy is for it.
func isIdle(p *policy.Policy, results []Result) bool {
	return len(results) > 0 && !slices.ContainsFunc(results, func(r Result) bool {
		undecided := func(what string) bool {
			name, ok := strings.CutPrefix(what, "Namespace ")
			return ok && p.Undecided(policy.Namespace{Name: name, Unknown: true})
		}
		return r.Operation != OperationCreate || slices.Contains(r.Policies, p.Name) || slices.ContainsFunc(r.Unknown, undecided)
	})
}

// maxLacking is how many NodePolicies a remark says what they lack.
const maxLacking = 3

// remarkNodes tells of policies whose node section no NodePolicy makes true. Of a cluster, whose Nodes are all known, it says what the policy's status does; of files what
// the NodePolicies among them do, wherever they are for. Without any NodePolicy among files nothing is known, and nothing said.
func (e *Engine) remarkNodes() []Remark {
	given := slices.Clone(e.NodePolicies)
	for _, p := range all[*v1alpha1.NodePolicy](e.State) {
		if !slices.ContainsFunc(given, func(have *v1alpha1.NodePolicy) bool { return have.Name == p.Name }) {
			given = append(given, p)
		}
	}
	live := e.State.IsComplete(&v1alpha1.NodePolicy{}) && e.State.IsComplete(&corev1.Node{})
	if len(given) == 0 && !live {
		return nil
	}
	slices.SortFunc(given, func(a, b *v1alpha1.NodePolicy) int { return strings.Compare(a.Name, b.Name) })
	policies, _ := enforcement.Compile(given) // the document of one that can't be read is in error
	remarks := e.remarkThresholds(given)
	for _, p := range e.Policies.Policies() {
		if p.Spec.Node == nil {
			continue
		}
		message := lackingIn(p, given)
		if live {
			message = lackingOn(p, enforcement.Group(nodesOf(e.State), policies))
		}
		if message != "" {
			remarks = append(remarks, Remark{Policy: p.Name, Message: message})
		}
	}
	return remarks
}

// remarkThresholds tells of eviction thresholds that are likely mistakes, by the nodes that are known.
func (e *Engine) remarkThresholds(given []*v1alpha1.NodePolicy) (remarks []Remark) {
	for _, p := range given {
		least := int64(0)
		one, _ := enforcement.Compile([]*v1alpha1.NodePolicy{p})
		for _, n := range all[*corev1.Node](e.State) {
			if memory := n.Status.Capacity.Memory().Value(); one.For(n.Labels) != nil && memory > 0 && (least == 0 || memory < least) {
				least = memory
			}
		}
		for _, message := range enforcement.ThresholdRemarks(&p.Spec, least) {
			remarks = append(remarks, Remark{NodePolicy: p.Name, Message: message})
		}
	}
	return remarks
}

// lackingOn is why a node section does not hold on all nodes of a cluster; empty: it does, or there are none.
func lackingOn(p *policy.Policy, cluster []enforcement.Alike) string {
	r := enforcement.ReachOf(p.Spec.Node, cluster)
	if r.Whole == r.Nodes {
		return ""
	}
	return r.String()
}

// lackingIn is why none of the NodePolicies makes all of a node section true; empty: one does.
func lackingIn(p *policy.Policy, given []*v1alpha1.NodePolicy) string {
	var lacking []string
	for _, n := range given {
		why, _ := enforcement.Alike{Policy: n, Enforcer: true}.Lacks(p.Spec.Node)
		if why == "" {
			return ""
		}
		if len(lacking) < maxLacking {
			lacking = append(lacking, why)
		}
	}
	return "no NodePolicy here lets all of its node section hold: " + strings.Join(lacking, "; ")
}

func nodesOf(s *State) []enforcement.Node {
	var nodes []enforcement.Node
	for _, n := range all[*corev1.Node](s) {
		nodes = append(nodes, enforcement.NodeOf(n))
	}
	return nodes
}

// exceptions are those beside the policies and those of the state that can be read. Of those that can't their documents' errors tell; where none is
// known there is none.
func (e *Engine) exceptions() policy.Exceptions {
	var compiled []*policy.Exception
	seen := sets.New[client.ObjectKey]()
	for _, x := range slices.Concat(e.Exceptions, all[*v1alpha1.PolicyException](e.State)) {
		if x.Namespace == "" { // beside the policies
			x = x.DeepCopy()
			x.Namespace = e.Namespace
		}
		key := client.ObjectKeyFromObject(x)
		if seen.Has(key) {
			continue
		}
		seen.Insert(key)
		if c, err := policy.CompileException(x); err == nil {
			compiled = append(compiled, c)
		}
	}
	return policy.SortExceptions(compiled)
}

// inForce returns the exceptions in force in a namespace.
func (e *Engine) inForce(namespace string) policy.Exceptions {
	return slices.DeleteFunc(e.exceptions().InForce(e.now()), func(x *policy.Exception) bool { return x.Namespace != namespace })
}

func (e *Engine) now() time.Time {
	if e.Clock != nil {
		return e.Clock.Now()
	}
	return time.Now()
}

// remarkExceptions tell of exceptions that lift nothing, and why.
func (e *Engine) remarkExceptions() []Remark {
	var remarks []Remark
	for _, x := range e.exceptions() {
		if reason, message := x.State(e.Policies.Policies(), e.now()); reason != v1alpha1.ReasonInForce {
			remarks = append(remarks, Remark{Exception: x.Key(), Message: message})
		}
	}
	return remarks
}

// RemarkGrants tells of exceptions that are in force by what the manifests, or files beside the policies, say of themselves: who writes such a file writes its
// grant as well, as in a pull request. To the API server the status of what is applied is nothing.
func (e *Engine) RemarkGrants(documents []*manifest.Document) []Remark {
	own := sets.New[string]()
	add := func(namespace, name string) { own.Insert(cmp.Or(namespace, e.Namespace) + "/" + name) }
	for _, x := range e.Exceptions {
		add(x.Namespace, x.Name)
	}
	for _, d := range documents {
		if d.Kind == "PolicyException" {
			add(d.Namespace, d.Name)
		}
	}
	var remarks []Remark
	for _, x := range e.exceptions() {
		if reason, _ := x.State(e.Policies.Policies(), e.now()); reason == v1alpha1.ReasonInForce && own.Has(x.Key()) {
			remarks = append(remarks, Remark{Exception: x.Key(), Message: fmt.Sprintf(
				"granted by %s according to the file itself, whose author may have written that: it counts here. In the cluster its own grant counts (kubectl get policyexceptions.podgrace.dev -n %s %s)", x.GrantedBy, x.Namespace, x.Name)})
		}
	}
	return remarks
}

// ExceptionsOf reads those in force in a namespace of a cluster. A cluster that does not know the kind has none.
func ExceptionsOf(ctx context.Context, reader client.Reader, namespace string, now time.Time) (policy.Exceptions, error) {
	var compiled []*policy.Exception
	err := pages(ctx, reader, &v1alpha1.PolicyExceptionList{}, "PolicyException", func(o runtime.Object) error {
		if x, ok := o.(*v1alpha1.PolicyException); ok && x.Namespace == namespace {
			if c, err := policy.CompileException(x); err == nil {
				compiled = append(compiled, c)
			}
		}
		return nil
	}, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	return policy.SortExceptions(compiled).InForce(now), err
}

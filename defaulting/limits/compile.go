package limits

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// Name of the ValidatingAdmissionPolicy, and of its binding.
const Name = "limits.podgrace.dev"

// The right that keeps the compiled limits in force: the verb on the resource of group podgrace.dev.
const (
	HoldVerb = "hold"
	Resource = "limits"
)

// Limit names a part of a policy that is compiled as a whole or not at all.
type Limit string

// The limits.
const (
	AllowedClasses Limit = "priority.allowedClassNames"
	GraceBounds    Limit = "gracePeriod"
	ZeroGrace      Limit = "removal.zeroGrace"
)

// Cluster has the values of the cluster that are baked in.
type Cluster struct {
	// Exempt are the namespaces that no policy is for, Podgrace's own among them.
	Exempt policy.Exempt
	// ServiceAccount in its own namespace, whose right keeps the limits in force, so that they end with the namespace.
	ServiceAccount string
	// GlobalDefault is the name of the cluster's globalDefault PriorityClass, for messages; empty: none.
	GlobalDefault string
	// Exceptions in force. Each ends by itself, at its time.
	Exceptions policy.Exceptions
}

// Left is a limit that is left to the webhook, and why.
type Left struct {
	Limit Limit
	// Of says for which pods the limit is left to the webhook; empty: for all.
	Of  string
	Why string
}

// Verdict says which limits of a policy were compiled.
type Verdict struct {
	Compiled []Limit
	Left     []Left
}

// Extent is Full, Partly or No; empty for a policy without limits on pods.
func (v Verdict) Extent() string {
	switch {
	case len(v.Left) == 0 && len(v.Compiled) == 0:
		return ""
	case len(v.Left) == 0:
		return v1alpha1.ReasonFull
	case len(v.Compiled) == 0:
		return v1alpha1.ReasonNo
	}
	return v1alpha1.ReasonPartly
}

// Message is the condition's message.
func (v Verdict) Message() string {
	var parts []string
	if len(v.Compiled) > 0 {
		parts = append(parts, "the API server judges "+join(v.Compiled)+" by itself")
	}
	for _, l := range v.Left {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("%s %s", l.Limit, l.Of))+" holds by the webhook alone: "+l.Why)
	}
	return strings.Join(parts, "; ")
}

func join(limits []Limit) string {
	names := make([]string, len(limits))
	for i, l := range limits {
		names[i] = string(l)
	}
	return strings.Join(names, ", ")
}

// Compiled is the outcome of Compile.
type Compiled struct {
	// Policy and Binding are nil where nothing was compiled.
	Policy  *admissionregistrationv1.ValidatingAdmissionPolicy
	Binding *admissionregistrationv1.ValidatingAdmissionPolicyBinding
	// Verdicts by the policies' names.
	Verdicts map[string]Verdict
}

// Compile compiles the limits of policies. If the result would exceed the API server's cost budget, the policies that cause it are left to the webhook.
func Compile(policies policy.Policies, cluster Cluster) Compiled {
	all := map[string]bool{}
	for _, p := range policies {
		all[p.Name] = true
	}
	compiled := newBuilder(policies, cluster, all).compile()
	if compiled.affordable() {
		return compiled
	}
	kept := map[string]bool{}
	fit(policies, func(some policy.Policies) bool {
		with := maps.Clone(kept)
		for _, p := range some {
			with[p.Name] = true
		}
		c := newBuilder(policies, cluster, with).compile()
		if !c.affordable() {
			return false
		}
		kept, compiled = with, c
		return true
	})
	if len(kept) == 0 {
		return newBuilder(policies, cluster, kept).compile()
	}
	return compiled
}

// fit passes a list to take, which accepts it as a whole or not at all. A list that is not accepted is split in halves, the first half first, so that few
// calls find the few elements that do not fit.
func fit(list policy.Policies, take func(policy.Policies) bool) {
	if len(list) == 0 || take(list) || len(list) == 1 {
		return
	}
	half := len(list) / 2
	fit(list[:half], take)
	fit(list[half:], take)
}

// subject is a policy with limits on pods.
type subject struct {
	*policy.Policy
	index int // among all policies
	// holds is the CEL expression that is true for the pods that the policy is for; empty: for all.
	holds string
	// may is the one that is true for the pods that it may be for, since not all owners of a pod are looked at; empty: for all.
	may string
	// elsewhere are expressions of which one is true only for pods that the policy is not for, by what a match condition can see.
	elsewhere []string
	// condition: holds may fail to evaluate.
	condition bool
	// variables that say so: those of its conditions, and one for all.
	variables []admissionregistrationv1.Variable
	// why CEL can't say which pods the policy is for; empty: it can.
	why  string
	left map[Limit]string
	// lifted are expressions by limit, true for the pods for which an exception lifts it; a limit that is missing is lifted for none.
	lifted map[v1alpha1.LiftedLimit]string
	// apart are the namespaces whose exceptions are not compiled, so that the policy's limits are left to the webhook there; perhaps is the expression that is true
	// for them. Empty: there are none.
	apart   []string
	perhaps string
}

type builder struct {
	cluster  Cluster
	subjects []*subject
}

// newBuilder compiles the policies of these names.
func newBuilder(policies policy.Policies, cluster Cluster, of map[string]bool) *builder {
	b := &builder{cluster: cluster}
	for i, p := range policies {
		s := &subject{Policy: p, left: map[Limit]string{}, lifted: map[v1alpha1.LiftedLimit]string{}}
		if len(s.limits()) == 0 {
			continue
		}
		switch {
		case !p.Matchable():
			s.why = "its match can't be read"
		case !of[p.Name]:
			s.why = "together with those of other policies it would cost the API server too much to judge"
		default:
			s.match(i)
		}
		s.index = i
		b.subjects = append(b.subjects, s)
	}
	b.except()
	b.leaveOut()
	return b
}

// limits that the policy has.
func (s *subject) limits() (all []Limit) {
	if p := s.Spec.Priority; p != nil && len(p.AllowedClassNames) > 0 {
		all = append(all, AllowedClasses)
	}
	if g := s.Spec.GracePeriod; g != nil && (g.MinSeconds != nil || g.MaxSeconds != nil || g.PreStopMarginSeconds != nil) {
		all = append(all, GraceBounds)
	}
	if r := s.Spec.Removal; r != nil && policy.ZeroGraceOf(r) != v1alpha1.ZeroGraceWarn {
		all = append(all, ZeroGrace)
	}
	return all
}

// has reports whether the limit is compiled.
func (s *subject) has(l Limit) bool {
	_, left := s.left[l]
	return !left && slices.Contains(s.limits(), l)
}

// leaveOut says which limits can't be compiled exactly.
func (b *builder) leaveOut() {
	for _, s := range b.subjects {
		for _, l := range s.limits() {
			why := s.why
			switch {
			case why != "":
			case l == GraceBounds:
				why = b.unsettled(s)
			case l == ZeroGrace && s.Spec.Removal.Protect != v1alpha1.ProtectAll:
				why = "which pods are protected depends on their claims, which the API server does not look at (protect: All does not)"
			}
			if why != "" {
				s.left[l] = why
			}
		}
	}
}

// having returns the policies that have the limit compiled.
func (b *builder) having(l Limit) (all []*subject) {
	for _, s := range b.subjects {
		if s.has(l) {
			all = append(all, s)
		}
	}
	return all
}

func (b *builder) compile() Compiled {
	out := Compiled{Verdicts: map[string]Verdict{}}
	for _, s := range b.subjects {
		var v Verdict
		for _, l := range s.limits() {
			if why, left := s.left[l]; left {
				v.Left = append(v.Left, Left{l, "", why})
				continue
			}
			v.Compiled = append(v.Compiled, l)
			for _, of := range append(s.beyond(l), s.unknownTo()...) {
				v.Left = append(v.Left, Left{l, of, "to look at more would cost the API server too much"})
			}
		}
		out.Verdicts[s.Name] = v
	}
	var validations []admissionregistrationv1.Validation
	for _, judge := range []func() []admissionregistrationv1.Validation{b.classes, b.zeroGrace, b.graceBounds} {
		validations = append(validations, judge()...)
	}
	if len(validations) > 0 {
		out.Policy, out.Binding = b.policy(validations), binding()
	}
	return out
}

// labels of both objects.
func labels() map[string]string {
	return map[string]string{"app.kubernetes.io/part-of": "podgrace", "app.kubernetes.io/managed-by": "podgrace-webhook"}
}

// policy has all defaults of the API server filled in, so that it can be compared with what is stored.
func (b *builder) policy(validations []admissionregistrationv1.Validation) *admissionregistrationv1.ValidatingAdmissionPolicy {
	// The API server makes the messages of all validations of a pod, those that it passes as well.
	vars := b.variables()
	for i := range validations {
		v, within := &validations[i], fmt.Sprintf("within%d", i)
		vars = append(vars, admissionregistrationv1.Variable{Name: within, Expression: v.Expression})
		v.Expression = "variables." + within
		v.MessageExpression = v.Expression + " ? '' : " + b.words(v.MessageExpression)
	}
	p := &admissionregistrationv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: labels()},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: new(admissionregistrationv1.Fail),
			MatchConstraints: &admissionregistrationv1.MatchResources{
				MatchPolicy:       new(admissionregistrationv1.Equivalent),
				ObjectSelector:    &metav1.LabelSelector{},
				NamespaceSelector: b.cluster.Exempt.Selector(),
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: admissionregistrationv1.RuleWithOperations{
					Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
					Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: new(admissionregistrationv1.NamespacedScope)},
				}}},
			},
			MatchConditions: []admissionregistrationv1.MatchCondition{
				{Name: "beyond", Expression: b.beyond()},
			},
			Variables:   onlyRead(vars, validations),
			Validations: validations,
		},
	}
	if condition := b.cluster.Exempt.Condition(); condition != "" {
		p.Spec.MatchConditions = append(p.Spec.MatchConditions, admissionregistrationv1.MatchCondition{Name: policy.ExemptCondition, Expression: condition})
	}
	return p
}

// variableRead finds the variables that an expression reads.
var variableRead = regexp.MustCompile(`\bvariables\.(\w+)`)

// onlyRead are the variables that validations and their messages read, each of which may read those before it. The others would cost the API server an entry in
// a map, each time that it evaluates anything of the policy.
func onlyRead(vars []admissionregistrationv1.Variable, by []admissionregistrationv1.Validation) []admissionregistrationv1.Variable {
	names := sets.New[string]()
	readBy := func(expression string) {
		for _, found := range variableRead.FindAllStringSubmatch(expression, -1) {
			names.Insert(found[1])
		}
	}
	for _, v := range by {
		readBy(v.Expression)
		readBy(v.MessageExpression)
	}
	for _, v := range slices.Backward(vars) {
		if names.Has(v.Name) {
			readBy(v.Expression)
		}
	}
	return slices.DeleteFunc(vars, func(v admissionregistrationv1.Variable) bool { return !names.Has(v.Name) })
}

func binding() *admissionregistrationv1.ValidatingAdmissionPolicyBinding {
	return &admissionregistrationv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionregistrationv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: metav1.ObjectMeta{Name: Name, Labels: labels()},
		Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: Name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		},
	}
}

// otherwise is said where the words themselves can't be made: they are too long, or a condition fails.
const otherwise = "a limit of a PodPolicy does not let this pod be created: kubectl get podpolicies lists them"

func validation(expression, message string) admissionregistrationv1.Validation {
	return admissionregistrationv1.Validation{
		Expression: expression, MessageExpression: message, Message: otherwise, Reason: new(metav1.StatusReasonForbidden),
	}
}

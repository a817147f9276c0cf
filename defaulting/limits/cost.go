package limits

import (
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	apiservercel "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/library"
)

// What is read of a request is no longer than this.
const (
	// ofOurs is what our own expressions look at.
	ofOurs = sizes(max(MaxItems, MaxCommand))
	// ofUsers is what a condition may read: all of a request (k8s.io/apiserver/pkg/server/config.go MaxRequestBodyBytes, 0.36.3).
	ofUsers = sizes(3 << 20)
)

// maxSize of the object in bytes: etcd takes 1.5 MiB (--max-request-bytes), and JSON is longer than what Size counts, by its escapes.
const maxSize = 640 << 10

// untyped is where the API server, too, knows nothing of what it reads.
var untyped = sync.OnceValues(func() (*cel.Env, error) {
	return expressions().NewExpressionsEnv().Extend(
		cel.Variable("object", cel.DynType), cel.Variable("namespaceObject", cel.DynType), cel.Variable("request", cel.DynType), cel.Variable("variables", cel.DynType),
		cel.Variable("authorizer", library.AuthorizerType))
})

// affordable says that what the API server grants a policy is at least twice of what judging a pod can cost: each expression of ours within the
// limit of one, all within that of a binding. A user's condition costs no more than the limit of one, at which it fails by itself.
func (c Compiled) affordable() bool {
	if c.Policy == nil {
		return true
	}
	p := c.Policy
	env, err := untyped()
	if err != nil {
		return false
	}
	if size := p.Size(); size > maxSize {
		return false
	}
	var ours []string
	total := uint64(0)
	for _, v := range p.Spec.Variables {
		switch {
		case isCondition(v):
			total += min(costOf(env, v.Expression, ofUsers), apiservercel.PerCallLimit)
		case isExcept(v):
			cost := costOfExcept(v.Expression)
			if cost > apiservercel.PerCallLimit/2 {
				return false
			}
			total += cost
		default:
			ours = append(ours, v.Expression)
		}
	}
	for _, v := range p.Spec.Validations {
		ours = append(ours, v.Expression, v.MessageExpression)
	}
	for _, expression := range ours {
		cost := costOf(env, expression, ofOurs)
		if cost > apiservercel.PerCallLimit/2 {
			return false
		}
		total += cost
	}
	return total <= apiservercel.RuntimeCELCostBudget/2
}

// costOfExcept is more than costOf says of the conditions of exceptions, which are all made alike: there may be a thousand, and each grant would have
// all of them read again.
func costOfExcept(expression string) uint64 {
	const ofLookup = MaxItems + 44                                                                     // a label is looked for in as many as there may be, and compared
	return ofLookup*uint64(strings.Count(expression, " in "+labelsVariable)) + uint64(len(expression)) //nolint:gosec // neither is negative
}

// costOf an expression at most; one that can't be compiled costs more than anybody grants.
func costOf(env *cel.Env, expression string, read sizes) uint64 {
	compiled, issues := env.Compile(expression)
	if issues.Err() != nil {
		return apiservercel.RuntimeCELCostBudget
	}
	cost, err := env.EstimateCost(compiled, &library.CostEstimator{SizeEstimator: read})
	if err != nil {
		return apiservercel.RuntimeCELCostBudget
	}
	return cost.Max
}

// sizes is how long what is read can be.
type sizes uint64

// EstimateSize is for the estimator.
func (s sizes) EstimateSize(checker.AstNode) *checker.SizeEstimate {
	return &checker.SizeEstimate{Min: 0, Max: uint64(s)}
}

// EstimateCallCost is for the estimator.
func (sizes) EstimateCallCost(string, string, *checker.AstNode, []checker.AstNode) *checker.CallEstimate {
	return nil
}

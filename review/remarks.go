package review

import (
	"slices"
	"strings"

	"github.com/podgrace/podgrace/policy"
)

// Remark is about a policy that works, but perhaps not as meant, or an exception that lifts nothing.
type Remark struct {
	Policy string `json:"policy,omitempty"`
	// Exception that it is about in place of a policy, as namespace/name.
	Exception string `json:"exception,omitempty"`
	Message   string `json:"message"`
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
		for _, message := range p.Remarks(policies) {
			remarks = append(remarks, Remark{Policy: p.Name, Message: message})
		}
	}
	for _, p := range policies {
		if isIdle(p, results) {
			remarks = append(remarks, Remark{Policy: p.Name, Message: idle})
		}
	}
	return slices.Concat(remarks, e.remarkNodes(), e.remarkExceptions())
}

// isIdle: of a removal only what speaks against it is told, so that nothing follows from a policy that is not named; and nothing does where
// it can't be known whether the policy is for it.
func isIdle(p *policy.Policy, results []Result) bool {
	return len(results) > 0 && !slices.ContainsFunc(results, func(r Result) bool {
		undecided := func(what string) bool {
			name, is := strings.CutPrefix(what, "Namespace ")
			return is && p.Undecided(policy.Namespace{Name: name, Unknown: true})
		}
		return r.Operation != OperationCreate || slices.Contains(r.Policies, p.Name) || slices.ContainsFunc(r.Unknown, undecided)
	})
}

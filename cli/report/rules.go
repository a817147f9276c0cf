package report

import (
	"cmp"
	"slices"

	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

// The rules of what is no refusal and has no reason of its own.
const (
	ruleWarning = "Warning"
	ruleUnknown = "Unknown"
	// ruleChanged is no alert, and has a word in annotations only.
	ruleChanged = "Changed"
	// ruleDenied is a refusal without a reason.
	ruleDenied = "Denied"
)

// rules are what findings are instances of: the reasons of refusals, and those of the review itself. By their codes.
var rules = func() map[string]policy.Reason {
	all := slices.Concat(defaulting.Refusals(), guard.Refusals(), scheduling.Reasons(), []policy.Reason{
		{Code: ruleWarning, Short: "The policies warn about this", Help: "The request is allowed. The API server passes the warning on to the user."},
		{Code: ruleUnknown, Short: "The decision depends on what is not known", Help: "The cluster's state that was given lacks something that the policies look at, so that the request was judged on the safe side. Give it with --state, or --kubeconfig."},
		{Code: ruleDenied, Short: "The request is refused", Help: "The message says what to do."},
		defaulting.PriorityRefused,
	})
	byCode := map[string]policy.Reason{}
	for _, r := range all {
		byCode[r.Code] = r
	}
	return byCode
}()

// ruleNamed has a word for every reason, also one that came later.
func ruleNamed(id string) policy.Reason {
	r := rules[id]
	r.Short = cmp.Or(r.Short, id)
	r.Help = cmp.Or(r.Help, "The message says what to do.")
	return r
}

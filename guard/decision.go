package guard

import (
	"strings"

	"github.com/podgrace/podgrace/policy"
)

// Verdict is what becomes of the request.
type Verdict string

// The verdicts.
const (
	Allow Verdict = "Allow"
	Warn  Verdict = "Warn"
	Deny  Verdict = "Deny"
)

// Decision is the answer to a Request.
type Decision struct {
	Verdict Verdict
	// Reason is the rule that decided.
	Reason policy.Reason
	// By is the policy that it follows from, the heaviest of its level; empty: none.
	By string
	// What may happen, for the person, for Warn and Deny: what may run twice and where, and why that matters here.
	What string
	// Ways on, of a refusal that there is a way round.
	Ways string
	// Why is the cause in the message, without times: refusals of one object with the same Why are repetitions.
	Why string
}

// Message is all of it in one line.
func (d Decision) Message() string { return strings.TrimSpace(d.What + " " + d.Ways) }

// weight orders decisions by severity: of two warnings the one with the reason Unsafe is the more severe.
func (d Decision) weight() int {
	switch {
	case d.Verdict == Deny:
		return 3
	case d.Verdict == Warn && d.Reason == Unsafe:
		return 2
	case d.Verdict == Warn:
		return 1
	}
	return 0
}

func allow(reason policy.Reason) *Decision { return &Decision{Verdict: Allow, Reason: reason} }

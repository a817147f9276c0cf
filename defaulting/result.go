package defaulting

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/policy"
)

// Result is what was decided about one pod. It is carried as it is to whoever tells it: the webhook's answer, its metrics, the offline review.
type Result struct {
	Changes  []Change
	Warnings []Warning
	Denials  []Denial
	// Unspread is why a policy's topology spread constraints were not added, if no selector can be derived for the pod; empty: they were, or there are none.
	Unspread string
	// Unjudged is why it was not checked whether hard constraints are feasible; empty: it was, or there are none.
	Unjudged Unjudged
	// Policies that hold for the pod, the heaviest first.
	Policies []string
	// Exceptions that made a difference: without them the pod would be refused, or changed otherwise.
	Exceptions []Lifted
}

// Operation is what a Change does, in the words of JSON patch (RFC 6902).
type Operation string

// The operations of a Change. OperationAdd also replaces a field that is there.
const (
	OperationAdd    Operation = "add"
	OperationRemove Operation = "remove"
)

// Change is one field of the object that is to be changed.
type Change struct {
	// Section of the policy that the change follows from: priority, topologySpread, gracePeriod, node or removal.
	Section string
	// Policy that it follows from, the one that has the last word of several; empty: none gives what is taken away.
	Policy string
	// Operation to do at Path.
	Operation Operation
	// Path is the JSON pointer (RFC 6901) of the field.
	Path string
	// Before is what is there; nil: nothing.
	Before any
	// Value to put there, as encoding/json marshals it; nil for OperationRemove.
	Value any
	// Why, for a person: the policy and the reason.
	Why string
}

// Name of the field, that of an annotation, whatever level of it is written, or that of a probe whose grace period it is.
func (c Change) Name() string {
	if probe, ok := ProbeOf(c.Path); ok {
		return probe
	}
	switch c.Section {
	case sectionNode:
		return "enforcement"
	case sectionRemoval:
		return "protected"
	}
	return c.Path[strings.LastIndex(c.Path, "/")+1:]
}

// Text is the value for a person: a text as it is, all else as JSON.
func (c Change) Text() string {
	switch value := c.Value.(type) {
	case nil:
		return "removed"
	case string:
		return value
	}
	text, err := json.Marshal(c.Value)
	if err != nil {
		panic(err) // core types, strings and numbers can be marshalled
	}
	return string(text)
}

// Warning is a remark for the person who creates the pod.
type Warning struct {
	// Reason is the rule that warns.
	Reason policy.Reason
	// Policy that it follows from, the heaviest of several; empty: none.
	Policy string
	// Message by the rules of the API server's warnings: one line, at most 256 bytes.
	Message string
}

// Denial says why a pod is refused.
type Denial struct {
	// Reason is the rule that decided.
	Reason policy.Reason
	// Policy that it follows from, the heaviest of several; empty: none.
	Policy string
	// Message for the person: what is wrong, by which policy, and what to do instead.
	Message string
}

// change notes a change: one without a value takes the field away.
func (r *Result) change(c Change) {
	c.Operation = OperationAdd
	if c.Value == nil {
		c.Operation = OperationRemove
	}
	r.Changes = append(r.Changes, c)
}

func (r *Result) warn(reason policy.Reason, by, format string, args ...any) {
	w := Warning{Reason: reason, Policy: by, Message: Shorten(fmt.Sprintf(format, args...))}
	if !slices.ContainsFunc(r.Warnings, func(said Warning) bool { return said.Message == w.Message }) {
		r.Warnings = append(r.Warnings, w)
	}
}

func (r *Result) deny(reason policy.Reason, by, format string, args ...any) {
	r.Denials = append(r.Denials, Denial{Reason: reason, Policy: by, Message: fmt.Sprintf(format, args...)})
}

// MaxWarning is the length in bytes over which the API server truncates a warning
// (apiserver/pkg/admission/plugin/webhook: AdmissionResponse.warnings).
const MaxWarning = 256

// Shorten makes a warning that the API server neither truncates nor drops: it drops one that has a control character or is
// not UTF-8 (apimachinery/pkg/util/net/http.go NewWarningHeader, 0.36.3). Characters that reverse or hide text are
// replaced.
func Shorten(s string) string { return console.Bounded(s, MaxWarning) }

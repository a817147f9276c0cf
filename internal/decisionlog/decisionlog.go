// Package decisionlog writes what Podgrace decided, one line each, with the same fields in all programs (docs/logs.md): what becomes of a request, of a pod
// on a node under pressure, of a node that is silent.
//
// Names and messages are others' in part: a user, an owner, a BMC. So each is one line without what a terminal would obey, and no longer than its bound.
package decisionlog

import (
	"cmp"
	"slices"

	"github.com/go-logr/logr"

	"github.com/podgrace/podgrace/internal/console"
)

// Decision is what was decided.
type Decision string

// The decisions: the webhook's about a request, the node enforcer's about a pod or a cgroup file, the fencer's about a silent node.
const (
	Allow Decision = "Allow"
	Warn  Decision = "Warn"
	Deny  Decision = "Deny"

	Evict  Decision = "Evict"
	Write  Decision = "Write"
	GiveUp Decision = "GiveUp"

	// Fence is one of fencing.Do, which are decisions too.
	Fence Decision = "Fence"
	// Power is an order to power off, or a reading of the power; Receipt says that a node is off.
	Power   Decision = "Power"
	Receipt Decision = "Receipt"
)

// The programs.
const (
	Webhook      = "webhook"
	NodeEnforcer = "nodeenforcer"
	Fencer       = "fencer"
)

// Entry is one line. A field that is empty is left out, but for Component, Decision and Reason.
type Entry struct {
	// Event is the log's msg; empty: "decided".
	Event string
	// Component is the program that decided.
	Component string
	Decision  Decision
	// Reason is the code of the rule that decided, or several, with commas.
	Reason string
	// Message is what the user was told, or why.
	Message string
	// Policy that it follows from, or several, with commas; Policies are all that hold.
	Policy, Policies string
	// User who asked. Neither token nor groups nor extra fields: the API server's audit log has what is known of them.
	User string
	// UID of the AdmissionReview, Path of the webhook that it was sent to.
	UID, Path string
	// Operation (CREATE, UPDATE, DELETE) on Resource (pods, pods/eviction), which is named by Namespace and Name.
	Operation, Resource, Namespace, Name string
	// Owner is the controller of the pod: kind/name.
	Owner string
	// Node that it is about.
	Node string
	// Fence that it belongs to.
	Fence string
	// DryRun: nothing is stored.
	DryRun bool
	// Defaults that the pod got: name=value, with commas.
	Defaults string
	// Seconds that it took to decide; 0: not measured.
	Seconds float64
	// Suppressed is how many lines of the kind were left out before this one.
	Suppressed int64
}

// Bounds in bytes of what others choose. Names of Kubernetes have at most 253 (k8s.io/apimachinery/pkg/util/validation DNS1123SubdomainMaxLength, 0.36.3).
const (
	maxName    = 256
	maxMessage = 1024
)

// Name of the logger, by which the lines are found among the others.
const Name = "decision"

// text is a field of an entry that others choose in part.
type text struct {
	key   string
	value *string
	bound int
}

func (e *Entry) texts() []text {
	return []text{
		{"message", &e.Message, maxMessage},
		{"policy", &e.Policy, maxName}, {"policies", &e.Policies, maxName},
		{"user", &e.User, maxName}, {"uid", &e.UID, maxName}, {"path", &e.Path, maxName},
		{"operation", &e.Operation, maxName}, {"resource", &e.Resource, maxName}, {"namespace", &e.Namespace, maxName}, {"name", &e.Name, maxName},
		{"owner", &e.Owner, maxName}, {"node", &e.Node, maxName}, {"fence", &e.Fence, maxName}, {"defaults", &e.Defaults, maxName},
	}
}

// Bounded is the entry with its texts as they are logged, for who keeps it for a while: it takes at most 5 KiB.
func (e Entry) Bounded() Entry {
	e.Reason = console.Bounded(e.Reason, maxName)
	for _, t := range e.texts() {
		*t.value = console.Bounded(*t.value, t.bound)
	}
	return e
}

// Log writes an entry, and after it what only this kind of decision has, in pairs.
func Log(log logr.Logger, e Entry, more ...any) {
	e = e.Bounded()
	pairs := make([]any, 0, 40)
	for _, t := range e.texts() {
		if *t.value != "" {
			pairs = append(pairs, t.key, *t.value)
		}
	}
	if e.DryRun {
		pairs = append(pairs, "dryRun", true)
	}
	if e.Seconds > 0 {
		pairs = append(pairs, "seconds", e.Seconds)
	}
	if e.Suppressed > 0 {
		pairs = append(pairs, "suppressed", e.Suppressed)
	}
	for i := 1; i < len(more); i += 2 {
		if text, ok := more[i].(string); ok {
			more[i] = console.Bounded(text, maxMessage)
		}
	}
	head := []any{"component", e.Component, "decision", string(e.Decision), "reason", e.Reason}
	log.WithName(Name).WithCallDepth(1).Info(cmp.Or(e.Event, "decided"), slices.Concat(head, pairs, more)...)
}

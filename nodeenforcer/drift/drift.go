package drift

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// Where identifies a group: its path, and the pod and container that it belongs to.
type Where struct {
	Path  string
	Level plan.Level
	// Pod and Container are set at their levels.
	Pod       types.NamespacedName
	Container string
}

// String is for logs and messages: container c of pod ns/name, or the path.
func (w Where) String() string {
	switch {
	case w.Container != "":
		return fmt.Sprintf("container %s of pod %s", w.Container, w.Pod)
	case w.Pod.Name != "":
		return "pod " + w.Pod.String()
	default:
		return w.Path
	}
}

// whereOf identifies a group.
func whereOf(g *plan.Group) Where {
	return Where{Path: g.Path, Level: g.Level, Pod: g.Pod, Container: g.Container}
}

// Drift is a value that differs from its plan.
type Drift struct {
	Where
	// File of the group; oom_score_adj for a process.
	File       string
	Have, Want string
	Owner      plan.Owner
	// Every is how often the owner brings the file up to date by itself (plan.Value).
	Every time.Duration
	// Why it is not written; empty if there is an operation for it.
	Why Why
	// Detail of the reason, for people: the usage, or the other group.
	Detail string
}

// Why is the reason why a difference is not written.
type Why string

// The reasons.
const (
	// WhyObserve: the mode writes nothing.
	WhyObserve Why = "Observe"
	// WhyOwned: the mode is Tune, and the kubelet or the runtime writes this file.
	WhyOwned Why = "Owned"
	// WhyRival: another writer reverted it again and again.
	WhyRival Why = "Rival"
	// WhyFresh: it was found a short time ago, and its owner may be about to write it.
	WhyFresh Why = "Fresh"
	// WhyUsage: the limit would be below the current usage. It is written once usage is low enough.
	WhyUsage Why = "BelowUsage"
	// WhyUsageUnknown: the current usage could not be read.
	WhyUsageUnknown Why = "UsageUnknown"
	// WhyPromise: a group below would have more than the one above it, because one of the two is not written.
	WhyPromise Why = "Promise"
	// WhyFormula: the runtime's version decides which of two values is right, and it is not known.
	WhyFormula Why = "Formula"
	// WhyUnreadable: the actual or the planned value can't be parsed.
	WhyUnreadable Why = "Unreadable"
)

// explanations are the reasons as people read them.
var explanations = map[Why]string{
	WhyObserve:      "mode Observe writes nothing",
	WhyOwned:        "mode Tune writes only what nobody else owns",
	WhyRival:        "somebody else keeps reverting it",
	WhyFresh:        "found only now, its owner may be about to write it",
	WhyUsage:        "the limit would fall under what is used now",
	WhyUsageUnknown: "what is used now is not known, and the limit could fall under it",
	WhyPromise:      "a group would have more than the one above it",
	WhyFormula:      "which of two formulas the runtime has is not known",
	WhyUnreadable:   "it can't be understood",
}

// String is one line for a person.
func (d Drift) String() string {
	text := fmt.Sprintf("%s of %s is %q and should be %q (owner: %s)", d.File, d.Where, d.Have, d.Want, d.Owner)
	if d.Why == "" {
		return text
	}
	text += "; not written: " + explanations[d.Why]
	if d.Detail != "" {
		text += ": " + d.Detail
	}
	return text
}

// Writes reports whether a mode writes files of this owner: Observe writes none, Tune those that nobody else writes, Repair all. An unknown mode
// writes none.
func Writes(mode v1alpha1.NodeMode, owner plan.Owner) bool {
	switch mode {
	case v1alpha1.NodeModeRepair:
		return true
	case v1alpha1.NodeModeTune:
		return owner == plan.Nobody
	default:
		return false
	}
}

// withholds is the reason why a mode does not write files of this owner; empty if it does.
func withholds(mode v1alpha1.NodeMode, owner plan.Owner) Why {
	switch {
	case Writes(mode, owner):
		return ""
	case mode == v1alpha1.NodeModeTune:
		return WhyOwned
	default:
		return WhyObserve
	}
}

// Have is what was read of a node, by path. A path that is absent does not exist.
type Have map[string]Observed

// Observed is one cgroup as it was read.
type Observed struct {
	// Files by the kernel's name, contents trimmed. A file that is absent could not be read or does not exist (its controller is not
	// enabled).
	Files map[string]string
	// MemoryUsage is memory.current or memory.usage_in_bytes, in bytes; -1: unknown.
	MemoryUsage int64
}

package diff

import (
	"fmt"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
)

// Kind is a kind of change.
type Kind string

// The kinds. What a removal becomes is named by its new verdict: Change.From has the old one.
const (
	// Refused was allowed; Admitted was refused; RefusedOtherwise was and is refused, and the message is another.
	Refused          Kind = "Refused"
	Admitted         Kind = "Admitted"
	RefusedOtherwise Kind = "RefusedOtherwise"
	// Changed: fields of the pod that is created differ.
	Changed Kind = "Changed"
	// Warned: a new warning; Unwarned: one is gone; WarnedOtherwise: one differs in its numbers only.
	Warned          Kind = "Warned"
	Unwarned        Kind = "Unwarned"
	WarnedOtherwise Kind = "WarnedOtherwise"

	ForceDeleteForbidden Kind = "ForceDeleteForbidden"
	ForceDeleteWarned    Kind = "ForceDeleteWarned"
	ForceDeleteAllowed   Kind = "ForceDeleteAllowed"

	// EvictionForbidden and its like are about an eviction with a grace period of 0; EvictionRaised gives the pod its own.
	EvictionForbidden Kind = "EvictionForbidden"
	EvictionRaised    Kind = "EvictionRaised"
	EvictionWarned    Kind = "EvictionWarned"
	EvictionAllowed   Kind = "EvictionAllowed"

	// DeleteForbidden and its like are about a Node or a VolumeAttachment.
	DeleteForbidden Kind = "DeleteForbidden"
	DeleteWarned    Kind = "DeleteWarned"
	DeleteAllowed   Kind = "DeleteAllowed"
)

// kinds in the order in which a summary has them, the most urgent first, with what each says of its workloads.
var kinds = []struct {
	kind Kind
	says string
	tone tone
}{
	{Refused, "refused", bad},
	{ForceDeleteForbidden, "force delete forbidden", bad},
	{EvictionForbidden, "eviction without grace forbidden", bad},
	{DeleteForbidden, "deletion forbidden", bad},
	{Admitted, "admitted, refused before", good},
	{Warned, "warned about", remark},
	{ForceDeleteWarned, "force delete with a warning", remark},
	{EvictionWarned, "eviction without grace with a warning", remark},
	{DeleteWarned, "deletion with a warning", remark},
	{ForceDeleteAllowed, "force delete allowed", good},
	{EvictionAllowed, "eviction without grace allowed", good},
	{DeleteAllowed, "deletion allowed", good},
	{EvictionRaised, "eviction without grace gets the pod's own", neutral},
	{Changed, "created with other fields", neutral},
	{RefusedOtherwise, "refused for another reason", neutral},
	{WarnedOtherwise, "warned about with other words", neutral},
	{Unwarned, "warned about no more", good},
}

// tone is what a change is to its reader.
type tone int

const (
	neutral tone = iota
	good
	remark
	bad
)

// rank of a kind: its place in kinds. One that is unknown comes last.
func (k Kind) rank() int {
	for i := range kinds {
		if kinds[i].kind == k {
			return i
		}
	}
	return len(kinds)
}

// Denies reports whether the change forbids what was allowed or warned about.
func (k Kind) Denies() bool {
	rank := k.rank()
	return rank < len(kinds) && kinds[rank].tone == bad
}

// Verdict is what becomes of a removal.
type Verdict string

// The verdicts. Raised: an eviction without a grace period gets the pod's own.
const (
	Allowed   Verdict = "Allowed"
	Raised    Verdict = "Raised"
	WithAWord Verdict = "Warned"
	Denied    Verdict = "Denied"
)

// Change is one change of one workload.
type Change struct {
	Kind Kind `json:"kind"`
	// From and To are verdicts of a removal; warnings of Warned, Unwarned and WarnedOtherwise; messages of a refusal. An empty one: none.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Fields of Changed, by path.
	Fields []delta.Field `json:"fields,omitempty"`
	// Reason in one word and Message of what refuses or warns, the new one where there is one, else the old one. Of a refusal the message is in
	// From or To.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
}

// Workload is a workload, a pod or a request of which something changes.
type Workload struct {
	Resource manifest.Resource `json:"resource"`
	Source   manifest.Source   `json:"source"`
	// Request is what an AdmissionReview is about, such as DELETE or CREATE eviction; empty for manifests.
	Request string   `json:"request,omitempty"`
	User    string   `json:"user,omitempty"`
	Changes []Change `json:"changes"`
	// Unknown is what the answers depend on and the state does not say, a phrase each.
	Unknown []string `json:"unknown,omitempty"`
}

// Running are pods of one owner that run and would be created otherwise under the new policies: with other fields, or not at all.
type Running struct {
	// Owner is the workload, or the pod where it has none.
	Owner manifest.Resource `json:"owner"`
	// Pods that differ alike, by name; Of is how many of the owner run.
	Pods []string `json:"pods"`
	Of   int      `json:"of"`
	// Fields: From is what the pods have, To what they would get.
	Fields []delta.Field `json:"fields,omitempty"`
	// Refused is why they would not be created at all.
	Refused string `json:"refused,omitempty"`
}

// Threshold is an eviction threshold that a change of NodePolicies brings to nodes, and by which their enforcers evict pods.
type Threshold struct {
	NodePolicy string `json:"nodePolicy"`
	// Threshold is such as "hard memory.available of 10%".
	Threshold string `json:"threshold"`
	// Nodes meet it now, by name. Of is how many nodes get it, and Unknown how many of them did not tell what they have left.
	Nodes   []string `json:"nodes,omitempty"`
	Of      int      `json:"of"`
	Unknown int      `json:"unknown,omitempty"`
	// Why is the first reason why one of them did not.
	Why string `json:"why,omitempty"`
}

// text is such as "hard memory.available of 90% is met now by 2 of 3 nodes (n1, n2); 1 did not tell what is left". It names the first nodes.
func (t *Threshold) text(names int) string {
	text := fmt.Sprintf("%s is met now by %d of %s", t.Threshold, len(t.Nodes), console.Plural(t.Of, "node", "nodes"))
	if len(t.Nodes) > 0 {
		shown := strings.Join(t.Nodes[:names], ", ")
		if more := len(t.Nodes) - names; more > 0 {
			shown += fmt.Sprintf(" and %d more", more)
		}
		text += " (" + shown + ")"
	}
	if t.Unknown > 0 {
		text += fmt.Sprintf("; %d did not tell what is left", t.Unknown)
		if t.Why != "" {
			text += " (" + console.OneLine(t.Why) + ")"
		}
	}
	return text
}

// Unknown is something that answers depend on and the state does not say, and for how many documents.
type Unknown struct {
	What  string `json:"what"`
	Count int    `json:"count"`
}

// Summary counts.
type Summary struct {
	// Files that were read.
	Files int `json:"files"`
	// Workloads that were judged: whatever makes pods, pods that are only manifests, Nodes, VolumeAttachments, recorded requests.
	Workloads int `json:"workloads"`
	// Running pods that were judged for their removal, and those of them that would be created otherwise.
	Running          int `json:"running"`
	RunningDifferent int `json:"runningDifferent"`
	// Affected are those of Workloads and Running of which something changes; Kinds has how many by kind, and one may be in several.
	Affected int          `json:"affected"`
	Kinds    map[Kind]int `json:"kinds"`
	// Denying are those that are refused or whose removal is forbidden, and were not before.
	Denying int `json:"denying"`
	// Other are objects that are no pods and make none, or are made by others that were judged.
	Other int `json:"other"`
	// NotKnown are objects that were not judged since it is not known whether they make pods, by kind and group.
	NotKnown review.NotKnown `json:"notKnown,omitempty"`
	// Errors are what could not be read.
	Errors int `json:"errors"`
	// Thresholds is how many eviction thresholds are new to nodes, and Evicting how many of them are met now.
	Thresholds int `json:"thresholds,omitempty"`
	Evicting   int `json:"evicting,omitempty"`
	// NoPolicies: neither side has a PodPolicy.
	NoPolicies bool `json:"noPolicies,omitempty"`
	// Unknown over all that was judged, changed or not, the most frequent first.
	Unknown []Unknown `json:"unknown,omitempty"`
}

// Diff is the impact of a change of policies.
type Diff struct {
	APIVersion string  `json:"apiVersion"`
	Kind       string  `json:"kind"`
	Summary    Summary `json:"summary"`
	// Workloads of which something changes, in input order.
	Workloads []Workload `json:"workloads"`
	Running   []Running  `json:"running"`
	// Thresholds that nodes get and did not have.
	Thresholds []Threshold       `json:"thresholds,omitempty"`
	Errors     []*manifest.Error `json:"errors,omitempty"`
}

func newDiff() *Diff {
	return &Diff{
		APIVersion: v1alpha1.GroupVersion.String(), Kind: "PolicyDiff", Workloads: []Workload{}, Running: []Running{},
		Summary: Summary{Kinds: map[Kind]int{}},
	}
}

// AddErrors adds what else could not be read.
func (d *Diff) AddErrors(errs ...*manifest.Error) {
	d.Errors = manifest.Locate(append(errs, d.Errors...))
	d.Summary.Errors = len(d.Errors)
}

// AddThresholds adds what a change of NodePolicies brings to nodes.
func (d *Diff) AddThresholds(all []Threshold) {
	d.Thresholds, d.Summary.Thresholds = all, len(all)
	for _, t := range all {
		if len(t.Nodes) > 0 {
			d.Summary.Evicting++
		}
	}
}

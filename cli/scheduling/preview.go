package scheduling

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// kind is that of a report of previews.
const kind = "SchedulingPreview"

// Outcome is what would become of a pod, in the preview's words.
type Outcome string

// The outcomes.
const (
	Fits     Outcome = "Fits"
	Preempts Outcome = "Preempts"
	Nowhere  Outcome = "Nowhere"
	// Gated: the scheduler does not look at it yet. Refused: the policies do not let it be created. NotKnown: it is not the scheduler who decides.
	Gated    Outcome = "Gated"
	Refused  Outcome = "Refused"
	NotKnown Outcome = "NotKnown"
)

// Report is what is read of a SchedulingPreview. The fields are those of package preview, of the module of that name, and mean the same: they are a reader's, and
// those that no sentence needs are left out. A test there holds them against what it prints.
type Report struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Scheduler is who was asked.
	Scheduler string    `json:"scheduler"`
	Previews  []Preview `json:"previews"`
}

// Resource is the object that a preview is about, and Source where it was read.
type Resource struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name,omitempty"`
	Template   string `json:"template,omitempty"`
}

// Source is a file, and the line of it.
type Source struct {
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
}

// Preview is what would become of one pod.
type Preview struct {
	Resource Resource `json:"resource"`
	Source   Source   `json:"source"`
	Outcome  Outcome  `json:"outcome"`
	// Why is said of the pod as a whole.
	Why string `json:"why,omitempty"`
	// Fit is how many of all Nodes would take it.
	Fit   int `json:"fit"`
	Nodes int `json:"nodes"`
	// Groups are nodes of which the same is said: those that fit first.
	Groups []Group `json:"groups,omitempty"`
	// Spread has an element for each of the pod's topology spread constraints.
	Spread         []Spread        `json:"spread,omitempty"`
	Contradictions []Contradiction `json:"contradictions,omitempty"`
	Preemption     *Preemption     `json:"preemption,omitempty"`
	// Notes are what may be otherwise, a sentence each.
	Notes []string `json:"notes,omitempty"`
}

// Group is nodes of which the same is said.
type Group struct {
	Fits bool `json:"fits"`
	// Reasons are the scheduler's words.
	Reasons []string `json:"reasons,omitempty"`
	Nodes   []string `json:"nodes"`
}

// Spread is one constraint.
type Spread struct {
	TopologyKey string `json:"topologyKey"`
}

// Contradiction is two constraints or more that can't be met together, or one that can't be met at all, by their indices.
type Contradiction struct {
	Constraints []int `json:"constraints"`
	// Allows are the nodes that each of them allows.
	Allows [][]string `json:"allows"`
	Ways   []Way      `json:"ways,omitempty"`
}

// Way is a change of one constraint by which the pod gets a node.
type Way struct {
	Constraint int `json:"constraint"`
	// NodeTaintsPolicy and NodeAffinityPolicy are Honor if these are changed.
	NodeTaintsPolicy   string `json:"nodeTaintsPolicy,omitempty"`
	NodeAffinityPolicy string `json:"nodeAffinityPolicy,omitempty"`
	// MaxSkew that is enough; 0 without a policy of nodes: ScheduleAnyway.
	MaxSkew int32    `json:"maxSkew,omitempty"`
	Nodes   []string `json:"nodes"`
}

// Preemption is who would have to go.
type Preemption struct {
	// Refused is why the pod may not preempt others.
	Refused string `json:"refused,omitempty"`
	// Candidates are nodes, the scheduler's pick first.
	Candidates []Candidate `json:"candidates,omitempty"`
}

// Candidate is a node, and who would have to go there.
type Candidate struct {
	Node    string   `json:"node"`
	Victims []Victim `json:"victims"`
	// GoneWithin is the longest grace period of the victims, in seconds.
	GoneWithin int64 `json:"goneWithinSeconds"`
}

// Victim is a pod that would have to go.
type Victim struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Guard is why the removal guard would refuse the scheduler.
	Guard string `json:"guard,omitempty"`
}

// Changes is what a way out changes in its constraint, such as maxSkew 2.
func (w Way) Changes() string {
	var changes []string
	if w.NodeTaintsPolicy != "" {
		changes = append(changes, "nodeTaintsPolicy "+w.NodeTaintsPolicy)
	}
	if w.NodeAffinityPolicy != "" {
		changes = append(changes, "nodeAffinityPolicy "+w.NodeAffinityPolicy)
	}
	if w.MaxSkew > 0 {
		changes = append(changes, fmt.Sprintf("maxSkew %d", w.MaxSkew))
	}
	if len(changes) == 0 {
		return "ScheduleAnyway"
	}
	return strings.Join(changes, " and ")
}

// Read reads what podgrace-preview printed. One of another version may say more than is known here, and nothing that means something else.
func Read(text []byte) (*Report, error) {
	var r Report
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, fmt.Errorf("read the preview: %w", err)
	}
	if r.Kind != kind || r.APIVersion != v1alpha1.GroupVersion.String() {
		return nil, fmt.Errorf("read the preview: it is %q of %q, and no %s of %s", r.Kind, r.APIVersion, kind, v1alpha1.GroupVersion)
	}
	return &r, nil
}

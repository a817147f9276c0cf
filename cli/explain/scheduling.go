package explain

import (
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/internal/console"
)

// Scheduling is what Kubernetes' scheduler says of the pod: where it may go, or why it is pending. Of one that has a node it is what would become of it if it were recreated.
type Scheduling struct {
	// Outcome as a SchedulingPreview has it; empty where there is none.
	Outcome scheduling.Outcome `json:"outcome,omitempty"`
	// Fit is how many of all Nodes would take it.
	Fit   int `json:"fit"`
	Nodes int `json:"nodes"`
	// Says is why, a sentence each.
	Says []string `json:"says"`
	// Unknown is why nothing is said.
	Unknown string `json:"unknown,omitempty"`
}

// scheduled is nil where nobody asked.
func scheduled(in Input) *Scheduling {
	switch v := in.Preview; {
	case v != nil:
		return &Scheduling{Outcome: v.Outcome, Fit: v.Fit, Nodes: v.Nodes, Says: v.Sentences()}
	case in.NotPreviewed != "":
		return &Scheduling{Says: []string{}, Unknown: in.NotPreviewed}
	}
	return nil
}

var outcomeColors = map[scheduling.Outcome]string{scheduling.Fits: console.Bold, scheduling.Nowhere: console.Red, scheduling.Refused: console.Red}

func (t *text) scheduling() {
	s := t.e.Scheduling
	if s == nil {
		return
	}
	t.Gap()
	if s.Outcome == "" {
		t.Marked(console.Yellow, "Scheduling", sentence("not previewed: "+s.Unknown))
		return
	}
	var sentences []string
	for _, says := range s.Says {
		sentences = append(sentences, sentence(says))
	}
	if t.e.Pod.Node != "" {
		sentences[0] = sentence("if it were made anew: " + s.Says[0])
	}
	t.Marked(or(outcomeColors[s.Outcome], console.Yellow), "Scheduling", sentences...)
}

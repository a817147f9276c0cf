package node

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// hogGoals are for the enforcer's median. The API's least grace is 1 s, and the kubelet gives 2 s at least
// (pkg/kubelet/kuberuntime/kuberuntime_container.go minimumGracePeriodInSeconds, 1.36.3).
const (
	actGoal      = 200 * time.Millisecond
	kubeletLeast = 2 * time.Second
	goneGoal     = kubeletLeast + 500*time.Millisecond
)

// hogRows are what is compared.
var hogRows = []struct {
	name string
	of   func(turn) *float64
	goal goal
}{
	{"crossing to decision, ms", func(t turn) *float64 { return t.decision }, new(milliseconds(actGoal))},
	{"crossing to containment, ms", func(t turn) *float64 { return t.containment }, new(milliseconds(actGoal))},
	{"crossing to process gone, ms", func(t turn) *float64 { return &t.gone }, new(milliseconds(goneGoal))},
	{"decision to process gone, ms", turn.sinceDecision, nil},
	{"MiB beyond the threshold", func(t turn) *float64 { return &t.beyond }, nil},
}

// hogReport is the closing table.
func hogReport(o options, enforcer, kubelet *side) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\nHog: BestEffort, of low priority, takes %d MiB a second up to %d; hard threshold memory.available < %d MiB; %d turns of each side.\n", o.rate, hogMiB, o.threshold, o.rounds)
	fmt.Fprint(&text, "The guest (2 CPUs, 2048 MiB) is EMULATED IN SOFTWARE (TCG), a tenth of a real machine's speed: the ratios and the order of the\n"+
		"times mean something, single milliseconds do not. Both sides take turns on one boot; who is first alternates; before every turn the\n"+
		"kubelet is restarted with the turn's threshold, and the hog comes after a random delay of up to 10 s, alike for both.\n\n")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tenforcer min\tmedian\tmax\tkubelet min\tmedian\tmax\tratio of medians\tgoal\t\t")
	for _, row := range hogRows {
		ours, theirs := collect(enforcer.turns, row.of), collect(kubelet.turns, row.of)
		bound, met, quotient := "", "NOT met", "-"
		if row.goal == nil {
			met = ""
		} else {
			bound = fmt.Sprintf("<= %.0f", *row.goal)
		}
		if len(ours) > 0 {
			met = verdict(row.goal, spreadOf(ours).median)
		}
		if len(ours) > 0 && len(theirs) > 0 {
			quotient = fmt.Sprintf("%.3f", spreadOf(ours).median/spreadOf(theirs).median)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t\n", row.name, cells(ours), cells(theirs), quotient, bound, met)
	}
	_ = table.Flush() // into memory
	for _, s := range []*side{enforcer, kubelet} {
		if missing := len(s.turns) - len(collect(s.turns, hogRows[0].of)); missing > 0 {
			fmt.Fprintf(&text, "In %d of %d turns of the %s the hog was gone without a decision of its: ask the kernel's OOM killer.\n", missing, len(s.turns), s.name)
		}
	}
	fmt.Fprintf(&text, "Neighbours (one Guaranteed of low priority, one BestEffort of high priority) that died: enforcer's turns %d, kubelet's turns %d.  goal 0  %s\n",
		enforcer.died, kubelet.died, verdict(new(0.0), float64(enforcer.died)))
	return text.String()
}

// collect leaves out what did not happen.
func collect(turns []turn, of func(turn) *float64) []float64 {
	var values []float64
	for _, t := range turns {
		if v := of(t); v != nil {
			values = append(values, *v)
		}
	}
	return values
}

func cells(values []float64) string {
	if len(values) == 0 {
		return "-\t-\t-"
	}
	return spreadOf(values).render("%.0f")
}

package webhook

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/podgrace/podgrace/e2e/measure"
)

// goal is a bound; the zero goal is none.
type goal struct {
	atLeast, atMost float64
	unit            string
}

func (g goal) String() string {
	switch {
	case g.atLeast > 0:
		return fmt.Sprintf(">= %.2f%s", g.atLeast, g.unit)
	case g.atMost > 0:
		return fmt.Sprintf("<= %.2f%s", g.atMost, g.unit)
	}
	return ""
}

func (g goal) verdict(value float64) string {
	switch {
	case g == goal{}:
		return ""
	case value >= g.atLeast && (g.atMost == 0 || value <= g.atMost):
		return "met"
	}
	return "NOT MET"
}

// rates are what is compared round by round; the goal is for the ratio's median.
var rates = []struct {
	name   string
	of     func(round) float64
	format string
	goal   goal
}{
	{"requests per second", func(r round) float64 { return r.perSecond }, "%.0f", goal{atLeast: 0.8}},
	{"p50, ms", func(r round) float64 { return r.p50 }, "%.2f", goal{atMost: 1.25}},
	{"p99, ms", func(r round) float64 { return r.p99 }, "%.2f", goal{atMost: 1.5}},
	{"CPU per 1,000 requests, ms", func(r round) float64 { return r.cpuPer1000 }, "%.0f", goal{}},
	{"allocated per request, KiB", func(r round) float64 { return r.bytes / 1024 }, "%.1f", goal{}},
	{"allocations per request", func(r round) float64 { return r.objects }, "%.0f", goal{}},
}

// sizes are read once, after the rounds; the goal is for Podgrace's own value.
var sizes = []struct {
	name string
	of   func(measure.Memory) float64
	goal goal
}{
	{"RSS, MiB", func(m measure.Memory) float64 { return m.Resident }, goal{atMost: 40, unit: " MiB"}},
	{"  of it anonymous", func(m measure.Memory) float64 { return m.Anonymous }, goal{}},
	{"  highest", func(m measure.Memory) float64 { return m.Peak }, goal{}},
}

const mib = 1 << 20

// report is the closing table.
func report(o options, reviews int, result outcome) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\n%d recorded reviews, %d in flight, %d rounds of %s a side; the first is not counted.\n", reviews, o.concurrency, o.rounds, o.duration)
	fmt.Fprint(&text, "Values are medians of the rounds; ratios are podgrace/bare in the same round: median (lowest..highest).\n\n")
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "\tpodgrace\tbare\tratio\t\tgoal\t")
	for _, m := range rates {
		ours, theirs := each(result.podgrace, m.of), each(result.bare, m.of)
		r := measure.Compare(ours, theirs)
		fmt.Fprintf(table, "%s\t"+m.format+"\t"+m.format+"\t%.2f\t(%.2f..%.2f)\t%s\t%s\n",
			m.name, measure.Median(ours), measure.Median(theirs), r.Median, r.Min, r.Max, m.goal, m.goal.verdict(r.Median))
	}
	for _, m := range sizes {
		ours, theirs := m.of(result.podgraceMemory), m.of(result.bareMemory)
		fmt.Fprintf(table, "%s\t%.1f\t%.1f\t%.2f\t\t%s\t%s\n", m.name, ours/mib, theirs/mib, ours/theirs, m.goal, m.goal.verdict(ours/mib))
	}
	_ = table.Flush() // into memory
	return text.String()
}

package peers

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/podgrace/podgrace/e2e/measure"
)

// goal is for what Podgrace as installed adds to a create, in times of what the API server's own policies add.
const goal = 1.3

// report is the closing text.
func report(o options, server string, result outcome) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\nKubernetes %s; %d rounds of %s a side for each measurement, of which the first is not counted.\n", server, o.rounds, o.duration)
	for _, s := range result.sides {
		fmt.Fprintf(&text, "  %s%s: %s\n", s.name, strings.TrimRight(" "+s.version, " "), s.how)
	}
	fmt.Fprint(&text, "\nPer pod that is created. \"Adds\" is the median of the rounds: a side's median latency less that of the side without admission in the same round.\n\n")
	for _, c := range result.creates {
		text.WriteString(c.table(result.sides))
	}
	text.WriteString(result.replayTable())
	text.WriteString(result.ratios())
	return text.String()
}

// table has a row for each side.
func (c creates) table(sides []*side) string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d at once:\n", c.concurrency)
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tcreate, ms\tadds, ms\tadmission plugins, ms\tcalls of webhooks, ms\tvalidating policies, ms\tCPU of API server and webhook, s per 1,000\t")
	for _, s := range sides {
		rounds := c.rounds[s.name]
		added := "-"
		if !s.without {
			added = fmt.Sprintf("%.2f", measure.Median(c.added(s.name)))
		}
		fmt.Fprintf(table, "%s\t%.2f\t%s\t%.2f\t%.2f\t%.2f\t%.2f\t\n", s.name, median(rounds, func(r round) float64 { return r.latency }), added,
			median(rounds, func(r round) float64 { return r.told.plugins }), median(rounds, func(r round) float64 { return r.told.calls }),
			median(rounds, func(r round) float64 { return r.told.policies }), cpuPer1000(rounds))
	}
	_ = table.Flush() // into memory
	fmt.Fprintln(&text)
	return text.String()
}

// added is by round how much longer a side's create took than one without admission, in milliseconds.
func (c creates) added(name string) []float64 {
	return c.above(name, func(r round) float64 { return r.latency })
}

// above is by round how much more something is than without admission.
func (c creates) above(name string, of func(round) float64) []float64 {
	var more []float64
	for i, r := range c.rounds[name] {
		more = append(more, of(r)-of(c.rounds[nothing][i]))
	}
	return more
}

func each(rounds []round, of func(round) float64) (values []float64) {
	for _, r := range rounds {
		values = append(values, of(r))
	}
	return values
}

func median(rounds []round, of func(round) float64) float64 { return measure.Median(each(rounds, of)) }

// cpuPer1000 is of all rounds together: the kernel counts in hundredths of a second, and a turn has few of them.
func cpuPer1000(rounds []round) float64 {
	var cpu, done float64
	for _, r := range rounds {
		cpu, done = cpu+r.cpu, done+r.done
	}
	return cpu / done * 1000
}

// replayTable has a row for each side with webhooks.
func (result outcome) replayTable() string {
	var text strings.Builder
	fmt.Fprintf(&text, "What the API server asked about a pod, asked again of the webhooks alone, %d at once:\n", replayers)
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "\tcalls a pod\tpods per second\tCPU, s per 1,000\tRSS, MiB\t")
	for _, s := range result.sides {
		rounds := result.replays[s.name]
		if len(rounds) == 0 {
			continue
		}
		fmt.Fprintf(table, "%s\t%d\t%.0f\t%.2f\t%.0f\t\n", s.name, len(s.hooks), median(rounds, func(r round) float64 { return r.done / r.elapsed }), cpuPer1000(rounds), result.memory[s.name]/(1<<20))
	}
	_ = table.Flush() // into memory
	fmt.Fprintln(&text)
	return text.String()
}

// verdict on the goal. Beside enough other load the policies add less in some round than what the load changes from turn to turn, and a ratio to that says nothing.
func verdict(r measure.Ratio, added []float64) string {
	switch {
	case slices.Min(added) <= 0:
		return "not measurable beside this load"
	case r.Median > goal:
		return "NOT MET"
	}
	return "met"
}

// ratios compare what the sides add with what the API server's own policies add, round by round.
func (result outcome) ratios() string {
	var text strings.Builder
	fmt.Fprintf(&text, "What each adds, in times of what %s adds in the same round: median (lowest..highest).\n", inProcess)
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	fmt.Fprint(table, "\t")
	for _, c := range result.creates {
		fmt.Fprintf(table, "latency, %d at once\tplugins, %d at once\t", c.concurrency, c.concurrency)
	}
	fmt.Fprintln(table)
	for _, s := range result.sides {
		if s.without || s.name == inProcess {
			continue
		}
		fmt.Fprintf(table, "%s\t", s.name)
		for _, c := range result.creates {
			for _, of := range []func(round) float64{func(r round) float64 { return r.latency }, func(r round) float64 { return r.told.plugins }} {
				r := measure.Compare(c.above(s.name, of), c.above(inProcess, of))
				fmt.Fprintf(table, "%.2f (%.2f..%.2f)\t", r.Median, r.Min, r.Max)
			}
		}
		fmt.Fprintln(table)
	}
	_ = table.Flush() // into memory
	for _, c := range result.creates {
		r := measure.Compare(c.added(podgrace), c.added(inProcess))
		fmt.Fprintf(&text, "podgrace as installed / %s, latency added, %d at once: %.2f (goal <= %.1f: %s)\n", inProcess, c.concurrency, r.Median, goal, verdict(r, c.added(inProcess)))
	}
	for _, c := range result.creates {
		policies := func(r round) float64 { return r.told.policies }
		r := measure.Compare(each(c.rounds[podgrace], policies), each(c.rounds[inProcess], policies))
		fmt.Fprintf(&text, "compiled limits / the validating policy of %s, %d at once: %.2f (%.2f..%.2f)\n", inProcess, c.concurrency, r.Median, r.Min, r.Max)
	}
	return text.String()
}

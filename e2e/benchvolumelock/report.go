package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/podgrace/podgrace/e2e/measure"
)

// goal is how many times as long as beside an attacher that looks at nothing it may take.
const goal = 2.0

// result is what was measured.
type result struct {
	ours, theirs       []time.Duration // one by one
	oursAll, theirsAll time.Duration   // many at once
	rest               atRest
}

func report(out io.Writer, o options, r result) error {
	slices.Sort(r.ours)
	slices.Sort(r.theirs)
	fmt.Fprintf(out, "The volume lock beside an attacher that looks at nothing:\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "from made to attached\tvolume lock\ttrivial\tratio\tgoal\t\t")
	for _, row := range []struct {
		what         string
		ours, theirs time.Duration
	}{
		{fmt.Sprintf("one of %d, median", o.each), measure.Percentile(r.ours, 50), measure.Percentile(r.theirs, 50)},
		{fmt.Sprintf("one of %d, p99", o.each), measure.Percentile(r.ours, 99), measure.Percentile(r.theirs, 99)},
		{fmt.Sprintf("all of %d at once", o.many), r.oursAll, r.theirsAll},
	} {
		ratio, verdict := row.ours.Seconds()/row.theirs.Seconds(), "met"
		if ratio > goal {
			verdict = "NOT met"
		}
		fmt.Fprintf(table, "%s\t%.1f ms\t%.1f ms\t%.2f\t%.1f\t%s\t\n", row.what, milliseconds(row.ours), milliseconds(row.theirs), ratio, goal, verdict)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	const mib = 1 << 20
	_, err := fmt.Fprintf(out, "\nAt rest with %d volumes of %d nodes held, of which %.1f a second report: %.1f%% of a core, %.0f MiB of memory (RSS; highest %.0f MiB)\n", o.each+o.many+o.held, r.rest.nodes,
		float64(r.rest.beats)/r.rest.span.Seconds(), 100*r.rest.cpu.Seconds()/r.rest.span.Seconds(), r.rest.memory.Resident/mib, r.rest.memory.Peak/mib)
	return err
}

func milliseconds(d time.Duration) float64 { return 1000 * d.Seconds() }

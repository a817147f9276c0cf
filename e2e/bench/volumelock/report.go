package volumelock

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/podgrace/podgrace/e2e/measure"
)

// goal is how many times as long as beside an attacher that looks at nothing it may take.
const goal = 3.0

// memoryGoal is what the volume lock may use with the volumes held: the limit of its container (deploy/components/volumelock/deployment.yaml), in bytes.
const memoryGoal = 384 << 20

// result is what was measured.
type result struct {
	ours, theirs       []time.Duration // one by one
	oursAll, theirsAll []time.Duration // many at once, by rounds
	rest               atRest
}

func report(out io.Writer, o options, r result) error {
	for _, times := range [][]time.Duration{r.ours, r.theirs, r.oursAll, r.theirsAll} {
		slices.Sort(times)
	}
	fmt.Fprintf(out, "The volume lock beside an attacher that looks at nothing:\n\n")
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "from made to attached\tvolume lock\ttrivial\tratio\tgoal\t\t")
	for _, row := range []struct {
		what         string
		ours, theirs time.Duration
	}{
		{fmt.Sprintf("one of %d, median", o.each), measure.Percentile(r.ours, 50), measure.Percentile(r.theirs, 50)},
		{fmt.Sprintf("one of %d, p99", o.each), measure.Percentile(r.ours, 99), measure.Percentile(r.theirs, 99)},
		{fmt.Sprintf("all of %d at once, median of %d", o.many, o.rounds), measure.Percentile(r.oursAll, 50), measure.Percentile(r.theirsAll, 50)},
	} {
		ratio := row.ours.Seconds() / row.theirs.Seconds()
		fmt.Fprintf(table, "%s\t%.1f ms\t%.1f ms\t%.2f\t%.1f\t%s\t\n", row.what, milliseconds(row.ours), milliseconds(row.theirs), ratio, goal, verdict(ratio <= goal))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	const mib = 1 << 20
	_, err := fmt.Fprintf(out, "\nAt rest with %d volumes of %d nodes held, of which %.1f a second report: %.1f%% of a core, %.0f MiB of memory (RSS); the highest was %.0f MiB (goal: %d MiB, the container's limit: %s)\n",
		o.each+o.rounds*o.many+o.held, r.rest.nodes, float64(r.rest.beats)/r.rest.span.Seconds(), 100*r.rest.cpu.Seconds()/r.rest.span.Seconds(), r.rest.memory.Resident/mib, r.rest.memory.Peak/mib,
		memoryGoal/mib, verdict(r.rest.memory.Peak <= memoryGoal))
	return err
}

func verdict(met bool) string {
	if met {
		return "met"
	}
	return "NOT met"
}

func milliseconds(d time.Duration) float64 { return 1000 * d.Seconds() }

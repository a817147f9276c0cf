package review

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/program"
)

type options struct {
	sizes  []int
	rounds int
}

// Main measures, by the flags of the command line.
func Main() {
	var o options
	var sizes string
	flags := func(f *flag.FlagSet) {
		f.StringVar(&sizes, "sizes", "100,1000,10000,100000", "how many manifests")
		f.IntVar(&o.rounds, "rounds", 3, "runs of each size; the fastest counts")
	}
	program.Main("bench review", flags, func(ctx context.Context) error {
		for s := range strings.SplitSeq(sizes, ",") {
			n, err := strconv.Atoi(s)
			if err != nil || n < 1 {
				return fmt.Errorf("-sizes: %q is no number above 0", s)
			}
			o.sizes = append(o.sizes, n)
		}
		if err := program.Positive("rounds", o.rounds); err != nil {
			return err
		}
		return run(ctx, o, os.Stdout)
	})
}

func run(ctx context.Context, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "podgrace-benchreview-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	podgrace := filepath.Join(dir, "podgrace")
	if err := cluster.GoBuild(ctx, podgrace, "cmd/podgrace"); err != nil {
		return err
	}
	var rows []row
	for _, size := range o.sizes {
		r, err := measureOne(ctx, podgrace, filepath.Join(dir, strconv.Itoa(size)), size, o.rounds)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return print(out, rows)
}

// row is what a size takes.
type row struct {
	manifests int
	bytes     int64
	took      time.Duration // of the fastest round
	processor time.Duration // of all processors, in that round
	rss       int64         // largest, in bytes
}

// measureOne reviews so many manifests, round after round.
func measureOne(ctx context.Context, podgrace, dir string, size, rounds int) (row, error) {
	r := row{manifests: size}
	var err error
	if r.bytes, err = write(dir, size); err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	for range rounds {
		cmd := exec.CommandContext(ctx, podgrace, "review", "-f", dir, "-o", "json", "--fail-on", "never")
		var complaint strings.Builder
		cmd.Stderr = &complaint
		var printed counter
		cmd.Stdout = &printed
		used, err := measure.Run(cmd)
		if err != nil {
			return r, fmt.Errorf("review %d manifests: %w\n%s", size, err, complaint.String())
		}
		if printed.results != size {
			return r, fmt.Errorf("%d manifests gave %d results", size, printed.results)
		}
		r.rss = max(r.rss, used.Peak)
		if r.took == 0 || used.Took < r.took {
			r.took, r.processor = used.Took, used.Processor
		}
	}
	return r, nil
}

// counter counts results in a report, so that a run that reviewed nothing is not taken for a fast one.
type counter struct {
	results int
	rest    []byte
}

func (c *counter) Write(p []byte) (int, error) {
	const each = `"decision":`
	text := append(c.rest, p...)
	c.results += strings.Count(string(text), each)
	c.rest = slices.Clone(text[max(0, len(text)-len(each)+1):])
	return len(p), nil
}

func print(out io.Writer, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MANIFESTS\tINPUT\tTIME\tPROCESSOR\tA MANIFEST\tBEYOND THE FIRST SIZE\tRSS")
	for i, r := range rows {
		beyond := "-"
		if i > 0 { // without what the program takes for itself
			beyond = ((r.took - rows[0].took) / time.Duration(r.manifests-rows[0].manifests)).Round(time.Microsecond).String()
		}
		fmt.Fprintf(w, "%d\t%.1f MiB\t%s\t%s\t%s\t%s\t%d MiB\n", r.manifests, float64(r.bytes)/(1<<20), r.took.Round(time.Millisecond),
			r.processor.Round(time.Millisecond), (r.took / time.Duration(r.manifests)).Round(time.Microsecond), beyond, r.rss>>20)
	}
	return w.Flush()
}

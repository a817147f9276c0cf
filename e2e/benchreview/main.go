package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "benchreview:", err)
		os.Exit(1)
	}
}

type options struct {
	sizes  []int
	rounds int
}

func command(ctx context.Context, args []string, out io.Writer) error {
	o, err := parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "podgrace-benchreview-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "podgrace")
	if err := cluster.GoBuild(ctx, program, "cmd/podgrace"); err != nil {
		return err
	}
	var rows []row
	for _, size := range o.sizes {
		r, err := measure(ctx, program, filepath.Join(dir, strconv.Itoa(size)), size, o.rounds)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return print(out, rows)
}

func parse(args []string) (o options, err error) {
	flags := flag.NewFlagSet("benchreview", flag.ContinueOnError)
	sizes := flags.String("sizes", "100,1000,10000,100000", "how many manifests")
	flags.IntVar(&o.rounds, "rounds", 3, "runs of each size; the fastest counts")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	for s := range strings.SplitSeq(*sizes, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return o, fmt.Errorf("-sizes: %q is no number above 0", s)
		}
		o.sizes = append(o.sizes, n)
	}
	if o.rounds < 1 {
		return o, errors.New("-rounds: 1 at least")
	}
	return o, nil
}

// row is what a size takes.
type row struct {
	manifests int
	bytes     int64
	took      time.Duration // of the fastest round
	processor time.Duration // of all processors, in that round
	rss       int64         // largest, in bytes
}

// measure reviews so many manifests, round after round.
func measure(ctx context.Context, program, dir string, size, rounds int) (row, error) {
	r := row{manifests: size}
	var err error
	if r.bytes, err = write(dir, size); err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	for range rounds {
		cmd := exec.CommandContext(ctx, program, "review", "-f", dir, "-o", "json", "--fail-on", "never")
		var complaint strings.Builder
		cmd.Stderr = &complaint
		var printed counter
		cmd.Stdout = &printed
		began := time.Now()
		if err := cmd.Run(); err != nil {
			return r, fmt.Errorf("review %d manifests: %w\n%s", size, err, complaint.String())
		}
		took := time.Since(began)
		if printed.results != size {
			return r, fmt.Errorf("%d manifests gave %d results", size, printed.results)
		}
		if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
			r.rss = max(r.rss, usage.Maxrss<<10)
		}
		if r.took == 0 || took < r.took {
			r.took, r.processor = took, cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()
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

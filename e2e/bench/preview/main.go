package preview

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/measure"
	"github.com/podgrace/podgrace/e2e/program"
)

type options struct {
	nodes, pods, rounds, processors int
}

// Main measures, by the flags of the command line.
func Main() {
	var o options
	flags := func(f *flag.FlagSet) {
		f.IntVar(&o.nodes, "nodes", 5000, "how many nodes")
		f.IntVar(&o.pods, "pods", 150_000, "how many pods on them")
		f.IntVar(&o.rounds, "rounds", 3, "runs of each question; the fastest counts")
		f.IntVar(&o.processors, "processors", 1, "how many processors the program may use (GOMAXPROCS)")
	}
	program.Main("bench preview", flags, func(ctx context.Context) error {
		err := errors.Join(program.Positive("nodes", o.nodes), program.Positive("pods", o.pods), program.Positive("rounds", o.rounds), program.Positive("processors", o.processors))
		if err != nil {
			return err
		}
		return run(ctx, o, os.Stdout)
	})
}

func run(ctx context.Context, o options, out io.Writer) error {
	dir, err := os.MkdirTemp("", "podgrace-benchpreview-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, state := filepath.Join(dir, "podgrace-preview"), filepath.Join(dir, "state.json")
	if err := cluster.GoBuild(ctx, binary, "preview/cmd/podgrace-preview"); err != nil {
		return err
	}
	built, err := os.Stat(binary)
	if err != nil {
		return err
	}
	bytes, err := writeState(state, o.nodes, o.pods)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "podgrace-preview, stripped: %d MiB\nstate of %d nodes and %d pods: %d MiB of JSON\n\n", built.Size()>>20, o.nodes, o.pods, bytes>>20)
	var rows []row
	for _, q := range questions {
		r, err := measureOne(ctx, o, binary, state, filepath.Join(dir, "pod.yaml"), q)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	return print(out, rows)
}

// row is what a question takes.
type row struct {
	question string
	fit      int
	measure.Usage
	// read, cache and pass are parts of the time: files become objects, these the scheduler's cache, and the pod is judged.
	read, cache, pass time.Duration
}

// measureOne asks a question, round after round. The fastest round counts, and the largest memory.
func measureOne(ctx context.Context, o options, binary, state, manifest string, q question) (row, error) {
	best := row{question: q.name}
	if err := os.WriteFile(manifest, []byte(q.manifest), 0o600); err != nil {
		return best, err
	}
	for range o.rounds {
		r, err := ask(ctx, o, binary, state, manifest, q)
		if err != nil {
			return best, fmt.Errorf("%s: %w", q.name, err)
		}
		r.Peak = max(r.Peak, best.Peak)
		if best.Took == 0 || r.Took < best.Took {
			best = r
		} else {
			best.Peak = r.Peak
		}
	}
	return best, nil
}

func ask(ctx context.Context, o options, binary, state, manifest string, q question) (row, error) {
	r := row{question: q.name}
	cmd := exec.CommandContext(ctx, binary, "-f", manifest, "--state", state, "-o", "json", "--timing")
	cmd.Env = append(os.Environ(), "GOMAXPROCS="+strconv.Itoa(o.processors))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	var err error
	if r.Usage, err = measure.Run(cmd); err != nil && cmd.ProcessState.ExitCode() != q.exitCode() {
		return r, fmt.Errorf("%w\n%s", err, cluster.Tail(said.Bytes(), 30))
	}
	if r.fit, err = answer(out.Bytes(), q.outcome, o.nodes); err != nil {
		return r, err
	}
	return r, r.parts(said.String())
}

// answer is on how many nodes the pod fits. A run that judged something else is no fast one.
func answer(printed []byte, outcome string, nodes int) (fit int, err error) {
	var report struct {
		Previews []struct {
			Outcome    string
			Fit, Nodes int
		}
	}
	if err := json.Unmarshal(printed, &report); err != nil {
		return 0, fmt.Errorf("read the report: %w", err)
	}
	if len(report.Previews) != 1 {
		return 0, fmt.Errorf("%d previews, want 1", len(report.Previews))
	}
	p := report.Previews[0]
	if p.Outcome != outcome || p.Nodes != nodes {
		return 0, fmt.Errorf("outcome %s of %d nodes, want %s of %d", p.Outcome, p.Nodes, outcome, nodes)
	}
	return p.Fit, nil
}

var part = regexp.MustCompile(`(?m)^(\w+): (\d+) ms$`)

// parts reads what --timing says.
func (r *row) parts(said string) error {
	into := map[string]*time.Duration{"read": &r.read, "cache": &r.cache, "pass": &r.pass}
	for _, m := range part.FindAllStringSubmatch(said, -1) {
		ms, err := strconv.Atoi(m[2])
		if d := into[m[1]]; d != nil && err == nil {
			*d = time.Duration(ms) * time.Millisecond
			delete(into, m[1])
		}
	}
	if len(into) > 0 {
		return fmt.Errorf("not all parts were timed: %q", strings.TrimSpace(said))
	}
	return nil
}

func print(out io.Writer, rows []row) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "QUESTION\tFITS ON\tTIME\tPROCESSOR\tREAD\tCACHE\tPASS\tRSS")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%d MiB\n", r.question, r.fit, r.Took.Round(10*time.Millisecond), r.Processor.Round(10*time.Millisecond), r.read, r.cache, r.pass, r.Peak>>20)
	}
	return w.Flush()
}

// Command fuzz runs every fuzz test of the repository for a while, one after the other, and ends with a table: what was tried, and what was found. The inputs that
// reach new code are kept in Go's cache (go env GOCACHE), so that the next run begins where this one ends; one that fails is written to the package's
// testdata/fuzz, from where each go test runs it again.
//
//	go run -C e2e ./fuzz [-time 1h] [-only REGEXP] [-part 2/9]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/program"
)

type options struct {
	each time.Duration
	only string
	part string
}

func main() {
	var o options
	program.Main("fuzz", func(f *flag.FlagSet) {
		f.DurationVar(&o.each, "time", time.Hour, "how long each test has")
		f.StringVar(&o.only, "only", "", "only tests whose package and name, such as ./certs FuzzParse, this regular expression finds")
		f.StringVar(&o.part, "part", "1/1", "I/N: of those the I-th of N parts, as many machines share the tests")
	}, func(ctx context.Context) error {
		only, err := regexp.Compile(o.only)
		if err != nil {
			return fmt.Errorf("-only: %w", err)
		}
		if err := program.Positive("time", o.each); err != nil {
			return err
		}
		root, err := cluster.ModuleRoot()
		if err != nil {
			return err
		}
		all, err := targets(ctx, root)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(t target) bool { return !only.MatchString(t.String()) })
		all, err = part(all, o.part)
		if err != nil {
			return fmt.Errorf("-part: %w", err)
		}
		if len(all) == 0 {
			return errors.New("no fuzz test is to be run")
		}
		return run(ctx, root, o, all, os.Stdout)
	})
}

// target is a fuzz test.
type target struct {
	// module is the folder of its module, and pkg the package's below it.
	module, pkg, name string
}

func (t target) String() string {
	return "./" + filepath.ToSlash(filepath.Join(t.module, t.pkg)) + " " + t.name
}

// modules are those that may have fuzz tests.
var modules = []string{".", "preview", "e2e"}

// targets asks Go which fuzz tests there are.
func targets(ctx context.Context, root string) ([]target, error) {
	var all []target
	for _, module := range modules {
		list := exec.CommandContext(ctx, "go", "list", "-f", "{{range $f := .TestGoFiles}}{{$.Dir}}/{{$f}}\n{{end}}{{range $f := .XTestGoFiles}}{{$.Dir}}/{{$f}}\n{{end}}", "./...")
		list.Dir = filepath.Join(root, module)
		list.Stderr = os.Stderr
		files, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("list the packages of %s: %w", list.Dir, err)
		}
		for file := range strings.FieldsSeq(string(files)) {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			pkg, err := filepath.Rel(list.Dir, filepath.Dir(file))
			if err != nil {
				return nil, err
			}
			for _, m := range declared.FindAllSubmatch(text, -1) {
				all = append(all, target{module, pkg, string(m[1])})
			}
		}
	}
	return all, nil
}

var declared = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(\w+ \*testing\.F\)`)

// part is the I-th of N parts of all, for "I/N". Each of all is in one of them.
func part(all []target, of string) ([]target, error) {
	i, n, cut := strings.Cut(of, "/")
	index, err := strconv.Atoi(i)
	parts, err2 := strconv.Atoi(n)
	if !cut || err != nil || err2 != nil || index < 1 || index > parts {
		return nil, fmt.Errorf("%q is not I/N with I from 1 to N", of)
	}
	var some []target
	for j, t := range all {
		if j%parts == index-1 {
			some = append(some, t)
		}
	}
	return some, nil
}

// outcome is what a test's output says last.
type outcome struct {
	target
	// execs are the inputs tried, found those among them that reached new code, and known all that do.
	execs, found, known string
	failed              bool
}

var progress = regexp.MustCompile(`^fuzz: elapsed: .*, execs: (\d+) .*new interesting: (\d+) \(total: (\d+)\)`)

// run fuzzes one test after the other: each keeps all cores busy.
func run(ctx context.Context, root string, o options, all []target, out io.Writer) error {
	var outcomes []outcome
	for i, t := range all {
		fmt.Fprintf(out, "%d of %d: %s\n", i+1, len(all), t)
		// An input that reaches new code is made smaller for as long as it takes otherwise, up to a minute each, and nothing is tried meanwhile.
		cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+o.each.String(), "-fuzzminimizetime=1s", "./"+t.pkg)
		cmd.Dir = filepath.Join(root, t.module)
		cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // it ends its workers
		cmd.WaitDelay = time.Minute
		text, err := cmd.CombinedOutput()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		got := read(t, string(text))
		got.failed = err != nil
		if err != nil {
			fmt.Fprintf(out, "%s\n", text)
		}
		outcomes = append(outcomes, got)
	}
	if err := table(out, outcomes); err != nil {
		return err
	}
	if failed := slices.DeleteFunc(outcomes, func(o outcome) bool { return !o.failed }); len(failed) > 0 {
		return fmt.Errorf("%d of %d tests failed", len(failed), len(all))
	}
	return nil
}

// read finds the last progress in what a test printed.
func read(t target, text string) outcome {
	o := outcome{target: t, execs: "0", found: "0", known: "0"}
	for line := range strings.Lines(text) {
		if m := progress.FindStringSubmatch(line); m != nil {
			o.execs, o.found, o.known = m[1], m[2], m[3]
		}
	}
	return o
}

func table(out io.Writer, outcomes []outcome) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nPACKAGE\tTEST\tINPUTS TRIED\tOF NEW USE\tKEPT\tRESULT")
	for _, o := range outcomes {
		result := "ok"
		if o.failed {
			result = "FAILED"
		}
		pkg, name, _ := strings.Cut(o.String(), " ")
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", pkg, name, o.execs, o.found, o.known, result)
	}
	return w.Flush()
}

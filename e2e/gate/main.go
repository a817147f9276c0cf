package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// options are the command line and the environment.
type options struct {
	root                                  string
	everything, requireAll, race, shuffle bool
	cores                                 float64
	started                               time.Time
}

func main() {
	o := options{requireAll: os.Getenv("REQUIRE_ALL") == "1", everything: os.Getenv("PODGRACE_ALL") != "", started: time.Now()}
	flag.BoolVar(&o.race, "race", false, "run with the race detector, also the programs that the tests start; needs a C compiler")
	flag.BoolVar(&o.shuffle, "shuffle", false, "run the tests of a package in a random order")
	flag.Float64Var(&o.cores, "cores", float64(runtime.NumCPU()), "how many cores the parts that run at the same time may keep busy")
	list := flag.Bool("list", false, "list the parts, what they cost, and what runs only in the set all; run nothing")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if *list {
		printParts(os.Stdout, parts)
		return
	}
	err := run(ctx, o, flag.Args(), os.Stdout)
	if err != nil && !errors.Is(err, errFailed) { // the table is printed already
		fmt.Fprintln(os.Stderr, "gate:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

// errFailed is returned if the table shows a failed part.
var errFailed = errors.New("not all tests passed")

func run(ctx context.Context, o options, names []string, out io.Writer) (err error) {
	if o.root, err = repositoryRoot(); err != nil {
		return err
	}
	quarantined, err := readQuarantine(filepath.Join(o.root, "e2e", "quarantine.txt"), time.Now())
	if err != nil {
		return err
	}
	o.everything = o.everything || slices.Contains(names, "all")
	chosen, err := choose(parts, names)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, o.seed())
	rows := schedule{cores: o.cores, out: out, run: func(ctx context.Context, p part, print func(string)) row {
		r := o.run(ctx, p, print)
		r.judge(quarantined, o.requireAll)
		return r
	}}.all(ctx, chosen)
	fmt.Fprint(out, report(rows, o))
	if slices.ContainsFunc(rows, func(r row) bool { return r.result == failed }) {
		return errFailed
	}
	return nil
}

// seedVariable is read by rapid and by policy/policytest/draw.Seed: one seed for all random tests.
const seedVariable = "RAPID_SEED"

// seed sets the seed of all random tests and returns a line about it. It is fixed unless everything runs.
func (o options) seed() string {
	seed := os.Getenv(seedVariable)
	if seed == "" {
		seed = "1"
		if o.everything {
			seed = fmt.Sprint(rand.Int32())
		}
		_ = os.Setenv(seedVariable, seed) // fails only for a name that is not a variable's
	}
	return fmt.Sprintf("random tests use %s=%s", seedVariable, seed)
}

// repositoryRoot returns the folder above the working directory, which must be e2e: go run -C e2e sets it.
func repositoryRoot() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(wd, "go.mod"))
	if err != nil || !strings.HasPrefix(string(text), "module "+modulePath+"/e2e\n") {
		return "", fmt.Errorf("%s is not the folder e2e of the repository: use go run -C e2e ./gate", wd)
	}
	return filepath.Dir(wd), nil
}

// Command tiers runs the tests, from those that need nothing to those that need a real node, and ends with one table: what passed,
// what failed, what could not run here and why, how long it took and beside what.
//
//	go run -C e2e ./tiers [-race] [-cores N] [TIER...]
//
// Tiers run beside each other as far as the cores go (schedule.go); each line that one prints begins with its name.
//
// Under REQUIRE_ALL=1 a tier that cannot run and a test that is skipped are failures.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// options are the command line and the environment.
type options struct {
	race, requireAll bool
	cores            float64
	only             []string
}

func main() {
	var o options
	flag.BoolVar(&o.race, "race", false, "run with the race detector (slow on few cores)")
	flag.Float64Var(&o.cores, "cores", float64(runtime.NumCPU()), "how many cores the tiers that run at once may keep busy, by what they keep busy alone")
	flag.Parse()
	o.only, o.requireAll = flag.Args(), os.Getenv("REQUIRE_ALL") == "1"
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	err := run(ctx, o, os.Stdout)
	if err != nil && !errors.Is(err, errFailed) { // the closing line stays the last one
		fmt.Fprintln(os.Stderr, "tiers:", err)
	}
	if err != nil {
		os.Exit(1)
	}
}

// errFailed means that the table says the rest.
var errFailed = errors.New("not all tests passed")

func run(ctx context.Context, o options, out io.Writer) error {
	chosen, err := choose(tiers, o.only)
	if err != nil {
		return err
	}
	root, err := cluster.ModuleRoot()
	if err != nil {
		return err
	}
	for i := range chosen {
		chosen[i].root = root
	}
	rows := schedule{requireAll: o.requireAll, cores: o.cores, run: o.run, out: out}.all(ctx, chosen)
	fmt.Fprintf(out, "\n%s\n%s\n%s%s\n", table(rows), slowest(rows, 10), failures(rows), closing(rows))
	return verdict(rows)
}

// verdict is errFailed unless every tier is ok or skipped.
func verdict(rows []row) error {
	if slices.ContainsFunc(rows, func(r row) bool { return r.result == failed }) {
		return errFailed
	}
	return nil
}

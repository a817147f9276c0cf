// Command chaos breaks a cluster with Podgrace for as long as it is told to, while users work in it, and looks from outside that what is promised holds.
//
// The control plane is a real one, the webhook two real processes behind a Service of ours, the volume lock and the fencer two more each; kubelets are scripted, and know which containers run and which
// volumes are mounted, as machines know whether they have power. One node more has a real kubelet on this machine, and a node enforcer. package plan has what happens, by a seed that is
// printed first, so that any run, and any round of it, can be had again:
//
//	go run -C e2e ./chaos [-time 1h] [-seed N [-round N [-rounds N]]] [-only kill-replica,cut-node] [-drills outage] [-node=false]
//
// What is looked at, and where: that no protected pod runs twice (copies.go), that what users may do is done within a bound and what they may not is refused whatever is away (operations.go), that
// all is well again after each storm, refusals are counted and nothing leaks (calm.go), that no two machines can write to a volume at once and each pod gets its volume (volumes.go), that what a
// FenceReceipt says is so and nobody is powered off for nothing (fences.go, machines.go), that a clock which is wrong leaves no replica without a certificate or two with the lead (clocks.go), that
// the kernel holds of pods what it is to, and no container ends by itself (kept.go, enforced.go, enforcedcalm.go), and that alerts fire when they have to, and not else (alerts.go). Replicas are
// of this version of the program and of another one (versions.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/program"
)

func main() {
	o := defaults()
	program.Main("chaos", o.AddFlags, func(ctx context.Context) error {
		if err := o.Validate(); err != nil {
			return err
		}
		return run(ctx, o, os.Stdout, os.Stderr)
	})
}

type options struct {
	time, storm time.Duration
	seed        uint64
	round       int
	rounds      int // 0: as many as begin within the time
	only        string
	drills      string
	node        bool
}

// defaults are those of the command.
func defaults() options {
	return options{time: time.Hour, storm: time.Minute, seed: rand.Uint64N(1 << 32), drills: strings.Join(drillNames(), ","), node: true} //nolint:gosec // any one will do
}

// AddFlags declares the flags with their defaults.
func (o *options) AddFlags(f *flag.FlagSet) {
	f.DurationVar(&o.time, "time", o.time, "after how long no other round begins")
	f.DurationVar(&o.storm, "storm", o.storm, "how long the faults of a round go on")
	f.Uint64Var(&o.seed, "seed", o.seed, "what the plan is drawn by; another one each time, by default")
	f.IntVar(&o.round, "round", o.round, "the round to begin with")
	f.IntVar(&o.rounds, "rounds", o.rounds, "how many rounds there are, however long they take; 0: as many as begin within -time")
	f.StringVar(&o.only, "only", o.only, fmt.Sprintf("only these faults, separated by commas, of %v", plan.Faults()))
	f.StringVar(&o.drills, "drills", o.drills, "only these drills of alerts, separated by commas, one after each round")
	f.BoolVar(&o.node, "node", o.node, "with a node that has a real kubelet, and the node enforcer, where this machine can have one (root, containerd); with REQUIRE_ALL=1 it must")
}

// Validate says all that is wrong with the options.
func (o *options) Validate() error {
	var errs []error
	for _, f := range o.faults() {
		if !slices.Contains(plan.Faults(), f) {
			errs = append(errs, fmt.Errorf("-only: there is no fault %q", f))
		}
	}
	for _, d := range list(o.drills) {
		if !slices.Contains(drillNames(), d) {
			errs = append(errs, fmt.Errorf("-drills: there is no drill %q", d))
		}
	}
	if o.round < 0 {
		errs = append(errs, fmt.Errorf("-round: %d is below 0", o.round))
	}
	if o.rounds < 0 {
		errs = append(errs, fmt.Errorf("-rounds: %d is below 0", o.rounds))
	}
	return errors.Join(append(errs, program.Positive("time", o.time), program.Positive("storm", o.storm))...)
}

func (o *options) faults() (all []plan.Fault) {
	for _, name := range list(o.only) {
		all = append(all, plan.Fault(name))
	}
	return all
}

// drillNames are those of all that there are.
func drillNames() (names []string) {
	for _, d := range plan.Drills() {
		names = append(names, d.Name)
	}
	return names
}

// list are the names that commas separate.
func list(names string) []string {
	return strings.FieldsFunc(names, func(c rune) bool { return c == ',' })
}

// roundsOfLevels is how many rounds a run has that is not brief: at its end files are looked at for which calms are too short.
const roundsOfLevels = plan.EraRounds

// another reports whether another round begins after so many, which have taken a time.
func (o *options) another(rounds int, took time.Duration) bool {
	if o.rounds > 0 {
		return rounds < o.rounds
	}
	return took < o.time
}

// withNode reports whether there is to be a real node, and why not if the machine can't have one. Where all is required that is an error.
func (o *options) withNode(unmet func() error, requireAll bool, out io.Writer) (bool, error) {
	if !o.node {
		return false, nil
	}
	why := unmet()
	if why != nil && requireAll {
		return false, fmt.Errorf("REQUIRE_ALL=1, but this machine can't have the real node: %w", why)
	}
	if why != nil {
		fmt.Fprintf(out, "there is no real node, and no node enforcer: %v\n", why)
	}
	return why == nil, nil
}

func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	fmt.Fprintf(out, "chaos -seed=%d -round=%d -storm=%s -only=%s -drills=%s -node=%t\n", o.seed, o.round, o.storm, o.only, o.drills, o.node)
	withNode, err := o.withNode(nodeUnmet, os.Getenv("REQUIRE_ALL") == "1", out)
	if err != nil {
		return err
	}
	l, err := newLab(ctx, progress, withNode)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()
	began := time.Now()
	rounds, err := l.playAll(ctx, o)
	if err != nil {
		return err
	}
	started, twice := l.copies.counts()
	fmt.Fprintf(out, "\n%d rounds in %s; pods started %d times, %d of them beside a copy of which somebody had confirmed that it may run twice\n\n", rounds, time.Since(began).Round(time.Second), started, twice)
	if l.enforced != nil {
		l.counts.add("containers of the real node that ended", l.enforced.lives.count())
	}
	if err := l.counts.report(out); err != nil {
		return err
	}
	alerts, err := l.judgeAlerts(ctx)
	if err != nil {
		return err
	}
	fmt.Fprintln(out, alerts)
	if found := l.found(); len(found) > 0 {
		fmt.Fprintf(out, "\nVIOLATED, by -seed=%d:\n%s\n", o.seed, strings.Join(found, "\n"))
		return fmt.Errorf("%d violations", len(found))
	}
	fmt.Fprintln(out, "nothing was violated")
	return nil
}

// playAll is all rounds, with the drills between them, and how many there were.
func (l *lab) playAll(ctx context.Context, o options) (rounds int, err error) {
	for began := time.Now(); o.another(rounds, time.Since(began)) && ctx.Err() == nil; rounds++ {
		number := o.round + rounds
		if rounds == 0 || number%plan.EraRounds == 0 {
			l.still(ctx)
		}
		if err := l.play(ctx, o.seed, plan.Draw(o.seed, number, plan.Options{Storm: o.storm, Only: o.faults()})); err != nil {
			return rounds, fmt.Errorf("round %d: %w", number, err)
		}
		if d, is := plan.DrillAfter(number, list(o.drills)); is {
			if err := l.drill(ctx, d, number); err != nil {
				return rounds, fmt.Errorf("round %d: %w", number, err)
			}
		}
	}
	if rounds < roundsOfLevels {
		return rounds, nil
	}
	return rounds, l.lookAtLevels(ctx, repairedWithin)
}

// play is one round. What fails in it is the laboratory's fault: violations are noted.
func (l *lab) play(ctx context.Context, seed uint64, r plan.Round) error {
	began, well := l.begin(r), l.recorded.disturbed()
	l.say("round %d of seed %d: %d faults, %d operations", r.Number, seed, len(r.Steps), len(r.Operations))
	faults, users := errgroup.Group{}, errgroup.Group{}
	for _, s := range r.Steps {
		faults.Go(func() error { return l.happen(ctx, began, s) })
	}
	for i, o := range r.Operations {
		users.Go(func() error {
			l.operate(ctx, began, fmt.Sprintf("%d-%d", r.Number, i), o)
			return nil
		})
	}
	// All faults are mended before users are waited for, whatever became of the faults.
	if err := errors.Join(faults.Wait(), users.Wait()); err != nil {
		return err
	}
	l.say("the storm is over")
	defer well()
	return l.calm(ctx)
}

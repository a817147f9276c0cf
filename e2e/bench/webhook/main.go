package webhook

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/program"
)

// Main measures, by the flags of the command line.
func Main() {
	var o options
	program.Main("bench webhook", o.AddFlags, func(ctx context.Context) error {
		if err := o.Validate(); err != nil {
			return err
		}
		return run(ctx, o, promised, os.Stdout, os.Stderr)
	})
}

type options struct {
	rounds      int
	duration    time.Duration
	concurrency int
	sizes       bool
}

// AddFlags declares the flags with their defaults.
func (o *options) AddFlags(f *flag.FlagSet) {
	f.IntVar(&o.rounds, "rounds", 12, "rounds of each side; the first is not counted")
	f.DurationVar(&o.duration, "duration", 3*time.Second, "how long one side has in one round")
	f.IntVar(&o.concurrency, "concurrency", 8, "requests in flight")
	f.BoolVar(&o.sizes, "sizes", false, "compare a small cluster with a large one, instead of Podgrace with a bare webhook")
}

// Validate says all that is wrong with the options.
func (o *options) Validate() error {
	errs := []error{program.Positive("duration", o.duration), program.Positive("concurrency", o.concurrency)}
	if o.rounds < 2 {
		errs = append(errs, fmt.Errorf("-rounds: %d: the first is not counted, so that it takes 2 at least", o.rounds))
	}
	return errors.Join(errs...)
}

// run compares and prints. Goals that are not met are no error; a run that proves nothing is.
func run(ctx context.Context, o options, of comparison, out, progress io.Writer) (err error) {
	reviews, err := recorded()
	if err != nil {
		return err
	}
	if o.sizes {
		return compareSizes(ctx, o, of, reviews, out, progress)
	}
	c, err := cluster.Start(ctx, cluster.Options{Log: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Stop()) }()
	podgrace, err := startPodgrace(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, podgrace.stop()) }()
	bare, err := startBare(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, bare.stop()) }()
	for _, s := range []*side{podgrace, bare} {
		if err := s.waitAnswers(ctx, reviews); err != nil {
			return err
		}
	}
	result, err := takeTurns(ctx, o, turn{podgrace, reviews}, turn{bare, reviews}, progress)
	if err != nil {
		return fmt.Errorf("this run is void: %w", err)
	}
	fmt.Fprint(out, report(o, len(reviews), result))
	return nil
}

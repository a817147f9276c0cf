package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := command(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
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
func (o *options) Validate(args []string) error {
	var errs []error
	if len(args) > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", args[0]))
	}
	if o.rounds < 2 {
		errs = append(errs, fmt.Errorf("-rounds: %d: the first is not counted, so that it takes 2 at least", o.rounds))
	}
	if o.duration <= 0 {
		errs = append(errs, fmt.Errorf("-duration: %s is not above 0", o.duration))
	}
	if o.concurrency < 1 {
		errs = append(errs, fmt.Errorf("-concurrency: %d is not above 0", o.concurrency))
	}
	return errors.Join(errs...)
}

func command(ctx context.Context, args []string) error {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	o.AddFlags(flags)
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return nil
	} else if err != nil {
		return err
	}
	if err := o.Validate(flags.Args()); err != nil {
		return err
	}
	return run(ctx, o, os.Stdout, os.Stderr)
}

// run compares and prints. Goals that are not met are no error; a run that proves nothing is.
func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	reviews, err := recorded()
	if err != nil {
		return err
	}
	if o.sizes {
		return compareSizes(ctx, o, reviews, out, progress)
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
	result, err := takeTurns(ctx, o, podgrace, bare, reviews, progress)
	if err != nil {
		return fmt.Errorf("this run is void: %w", err)
	}
	fmt.Fprint(out, report(o, len(reviews), result))
	return nil
}

package node

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/podgrace/podgrace/e2e/program"
)

// Main measures, by the flags of the command line.
func Main() {
	var o options
	program.Main("bench node", o.AddFlags, func(ctx context.Context) error {
		o.Complete()
		if err := o.Validate(); err != nil {
			return err
		}
		return run(ctx, o, os.Stdout, os.Stderr)
	})
}

type options struct {
	hog, plan, steady bool
	rounds            int
	threshold, rate   int // MiB, MiB per second
	minute            time.Duration
}

// AddFlags declares the flags with their defaults.
func (o *options) AddFlags(f *flag.FlagSet) {
	f.BoolVar(&o.hog, "hog", false, "eviction of a hog, beside the kubelet's; without one of -hog, -plan and -steady: all three")
	f.BoolVar(&o.plan, "plan", false, "plan, diff and apply for 110, 250 and 500 pods")
	f.BoolVar(&o.steady, "steady", false, "what the program costs where nothing happens")
	f.IntVar(&o.rounds, "rounds", 5, "turns of each side with the hog")
	f.IntVar(&o.threshold, "threshold", 700, "MiB of memory.available that the hog crosses; the guest has 2048")
	f.IntVar(&o.rate, "rate", 50, "MiB that the hog takes each second")
	f.DurationVar(&o.minute, "for", time.Minute, "how long the steady state is watched")
}

// Complete chooses all parts where none is.
func (o *options) Complete() {
	if !o.hog && !o.plan && !o.steady {
		o.hog, o.plan, o.steady = true, true, true
	}
}

// Validate says all that is wrong with the options.
func (o *options) Validate() error {
	errs := []error{program.Positive("rounds", o.rounds), program.Positive("rate", o.rate), program.Positive("for", o.minute)}
	if o.threshold < 1 || o.threshold >= hogMiB {
		errs = append(errs, fmt.Errorf("-threshold: %d MiB are not in 1..%d", o.threshold, hogMiB-1))
	}
	return errors.Join(errs...)
}

// run does the parts one after the other, never two at a time: they would slow each other.
func run(ctx context.Context, o options, out, progress io.Writer) error {
	for _, part := range []struct {
		wanted bool
		run    func(context.Context, options, io.Writer) (string, error)
	}{{o.plan, benchPlan}, {o.steady, benchSteady}, {o.hog, benchHog}} {
		if !part.wanted {
			continue
		}
		text, err := part.run(ctx, o, progress)
		fmt.Fprint(out, text)
		if err != nil {
			return err
		}
	}
	return nil
}

package partition

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
	program.Main("bench partition", o.AddFlags, func(ctx context.Context) error {
		if err := o.Validate(); err != nil {
			return err
		}
		return run(ctx, o, os.Stdout, os.Stderr)
	})
}

type options struct{ alone time.Duration }

// AddFlags declares the flags with their defaults.
func (o *options) AddFlags(f *flag.FlagSet) {
	f.DurationVar(&o.alone, "alone", 8*time.Minute, "how long Kubernetes is watched alone, before Podgrace is installed")
}

// Validate says all that is wrong with the options.
func (o *options) Validate() error { return program.Positive("alone", o.alone) }

func run(ctx context.Context, o options, out, progress io.Writer) (err error) {
	l, err := newLab(ctx, progress)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.stop()) }()

	alone, err := l.side(ctx, "Kubernetes alone")
	if err != nil {
		return err
	}
	if err := l.cutOff(ctx, alone); err != nil {
		return err
	}
	if err := l.stays(ctx, alone, o.alone); err != nil {
		return err
	}
	if err := l.install(ctx); err != nil {
		return err
	}
	// One after the other: of nodes that fall silent together, the node lifecycle controller taints one in ten seconds (--node-eviction-rate).
	person, err := l.side(ctx, "a person")
	if err != nil {
		return err
	}
	if err := l.confirmed(ctx, person); err != nil {
		return err
	}
	fenced, err := l.side(ctx, "the fencer")
	if err != nil {
		return err
	}
	if err := l.fenced(ctx, fenced); err != nil {
		return err
	}
	// And still nothing, after as long as the others took together.
	if err := l.stays(ctx, alone, max(time.Since(alone.cut), person.runs+fenced.runs)); err != nil {
		return err
	}
	return report(out, alone, person, fenced)
}

// report prints what each side took, in seconds from when its node was cut off.
func report(out io.Writer, alone, person, fenced *side) error {
	seconds := func(d time.Duration) string {
		if d == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f", d.Seconds())
	}
	fmt.Fprintf(out, "A StatefulSet of one with a ReadWriteOnce volume, whose node is cut off; seconds from then:\n\n")
	table := newTable(out)
	fmt.Fprintln(table, "with\tnot ready\tTerminating\torder\tevidence\told pod gone\tpod runs elsewhere\torder to running\t")
	for _, s := range []*side{alone, person, fenced} {
		runs, since := seconds(s.runs), "-"
		if s == alone {
			runs = fmt.Sprintf("never: not in %.0f", s.watched.Seconds())
		}
		if s.order > 0 {
			since = seconds(s.runs - s.order)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s.name, seconds(s.notReady), seconds(s.terminating), seconds(s.order), seconds(s.evidence), seconds(s.gone), runs, since)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprint(out, `
Order: the person types kubectl podgrace confirm node/NAME, at once when it is let through, and then the taint that it says to type; the fencer orders the power off (FencePolicy of
examples/fencing: silentFor 90s, patience 2m). Evidence: that the node is confirmed, or its FenceReceipt. Kubernetes' flags are its defaults. No image is pulled and nothing is mounted.
`)
	return err
}

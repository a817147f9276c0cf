package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"
)

// schedule runs tiers in their order. One that is beside starts at its turn and runs along with those that follow; the
// others run one at a time, and only they write to out while they run.
type schedule struct {
	requireAll bool
	out        io.Writer
	// prepare does what a tier needs once on a machine. No tier begins meanwhile: it may take all cores for minutes.
	prepare func(ctx context.Context, t tier, out io.Writer) error
	// test runs the tests of a tier and returns when they have ended: soon after ctx, if that ends.
	test func(ctx context.Context, t tier, out io.Writer) (*tally, error)
}

// run returns a row for each tier, in the order of the tiers. When ctx ends, what runs is ended, what has not begun does
// not begin, and whatever was written is printed all the same.
func (s schedule) run(ctx context.Context, tiers []tier) []row {
	rows := make([]row, len(tiers))
	var running []*besideRun
	for i, t := range tiers {
		s.header(t)
		start := time.Now()
		last := i == len(tiers)-1 // has no one to run beside, and is better seen while it runs
		if r, ended := s.begin(ctx, t, start); ended {
			rows[i] = r
		} else if t.beside && !last {
			fmt.Fprintf(s.out, "--- %s runs beside the next tiers; its output comes once it has ended\n", t.name)
			running = append(running, s.startBeside(ctx, t, start, &rows[i]))
		} else {
			rows[i] = s.finish(ctx, t, start, s.out)
		}
		running = s.printEnded(running)
	}
	for _, b := range running {
		fmt.Fprintf(s.out, "--- %s still runs\n", b.tier.name)
		<-b.ended
		s.print(b)
	}
	return rows
}

func (s schedule) header(t tier) { fmt.Fprintf(s.out, "=== %s: %s\n", t.name, t.what) }

// begin prepares a tier. If nothing of it can run it has ended, with that row.
func (s schedule) begin(ctx context.Context, t tier, start time.Time) (_ row, ended bool) {
	if ctx.Err() != nil {
		return s.judge(t, newTally(), fmt.Errorf("not run: %w", context.Cause(ctx)), start), true
	}
	if t.unmet != nil {
		if reason := t.unmet(); reason != nil {
			return judgeUnmet(t.name, reason, s.requireAll), true
		}
	}
	if err := s.prepare(ctx, t, s.out); err != nil {
		return s.judge(t, newTally(), err, start), true
	}
	return row{}, false
}

// finish runs the tests of a tier that has begun.
func (s schedule) finish(ctx context.Context, t tier, start time.Time, out io.Writer) row {
	counted, err := s.test(ctx, t, out)
	return s.judge(t, counted, err, start)
}

func (s schedule) judge(t tier, counted *tally, err error, start time.Time) row {
	return judge(t.name, counted, err, s.requireAll, time.Since(start))
}

// besideRun is a tier that runs beside others.
type besideRun struct {
	tier   tier
	output *os.File      // what it writes; nil: it could not begin
	ended  chan struct{} // closed after the last write, to its row too
}

// startBeside starts a tier that has begun, and sets its row when it ends. What it writes goes to a file, which may be long,
// and which has no name any more: nothing is left of it however we end.
func (s schedule) startBeside(ctx context.Context, t tier, start time.Time, r *row) *besideRun {
	b := &besideRun{tier: t, ended: make(chan struct{})}
	var err error
	if b.output, err = unnamedFile(); err != nil {
		*r = s.judge(t, newTally(), fmt.Errorf("keeping its output: %w", err), start)
		close(b.ended)
		return b
	}
	go func() {
		defer close(b.ended)
		*r = s.finish(ctx, t, start, b.output)
	}()
	return b
}

func unnamedFile() (*os.File, error) {
	file, err := os.CreateTemp("", "podgrace-tiers-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(file.Name()); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}

// printEnded prints those that have ended and returns the others.
func (s schedule) printEnded(running []*besideRun) (still []*besideRun) {
	for _, b := range running {
		select {
		case <-b.ended:
			s.print(b)
		default:
			still = append(still, b)
		}
	}
	return still
}

// print prints in one piece what a tier wrote that has ended.
func (s schedule) print(b *besideRun) {
	s.header(b.tier)
	if b.output == nil {
		return
	}
	defer b.output.Close()
	if _, err := io.Copy(s.out, io.NewSectionReader(b.output, 0, 1<<62)); err != nil {
		fmt.Fprintf(s.out, "--- the rest of the output of %s is lost: %v\n", b.tier.name, err)
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// schedule runs tiers beside each other, as many as the machine's cores have room for: what waits runs beside what computes.
type schedule struct {
	requireAll bool
	// cores are how many the tiers that run at once may keep busy together. One that wants more than all runs alone.
	cores float64
	out   io.Writer
	// run does what a tier is there for, and returns when it has ended: soon after ctx, if that ends.
	run func(ctx context.Context, t tier, out io.Writer) (*tally, error)
}

// all runs the tiers and returns a row for each, in their order. One begins as soon as those that it comes after have ended and
// there is room for it; of several the first. When ctx ends, what runs is ended, and what has not begun does not begin.
func (s schedule) all(ctx context.Context, tiers []tier) []row {
	rows := make([]row, len(tiers))
	out := &lineWriter{out: s.out}
	ended := make(chan int)
	begin := time.Now()
	var waiting, running []int
	for i := range tiers {
		waiting = append(waiting, i)
	}
	for len(waiting)+len(running) > 0 {
		for {
			n := slices.IndexFunc(waiting, func(i int) bool { return s.mayBegin(tiers, i, waiting, running) })
			if n < 0 {
				break
			}
			i := waiting[n]
			waiting = slices.Delete(waiting, n, n+1)
			rows[i] = row{tier: tiers[i].name, began: time.Since(begin)}
			if r, over := s.never(ctx, tiers, rows, i); over {
				rows[i] = r
				continue
			}
			fmt.Fprintf(out, "=== %s: %s%s\n", tiers[i].name, tiers[i].what, beside(tiers, running))
			running = append(running, i)
			go func() {
				rows[i] = s.one(ctx, tiers[i], rows[i], out.of(tiers[i].name))
				ended <- i
			}()
		}
		if len(running) == 0 {
			continue // all that waited for those is over without having begun
		}
		i := <-ended
		running = slices.DeleteFunc(running, func(other int) bool { return other == i })
		fmt.Fprintf(out, "=== %s: %s after %s%s\n", rows[i].tier, rows[i].result, rows[i].took.Round(time.Second), beside(tiers, running))
	}
	return rows
}

// beside lists the tiers that run.
func beside(tiers []tier, running []int) string {
	if len(running) == 0 {
		return ""
	}
	names := make([]string, 0, len(running))
	for _, i := range running {
		names = append(names, tiers[i].name)
	}
	return " (beside it: " + strings.Join(names, ", ") + ")"
}

// mayBegin says if those that tier i comes after have ended, and if there is room for it and what it shares is free.
func (s schedule) mayBegin(tiers []tier, i int, waiting, running []int) bool {
	busy := 0.0
	for _, other := range running {
		busy += tiers[other].cores
		if tiers[i].shares != "" && tiers[i].shares == tiers[other].shares {
			return false
		}
	}
	if len(running) > 0 && busy+tiers[i].cores > s.cores {
		return false
	}
	for _, other := range slices.Concat(waiting, running) {
		if slices.Contains(tiers[i].after, tiers[other].name) {
			return false
		}
	}
	return true
}

// never returns the row of a tier that can't run, if that is so: its machine, or what it comes after, is not there, or ctx has
// ended.
func (s schedule) never(ctx context.Context, tiers []tier, rows []row, i int) (row, bool) {
	t := tiers[i]
	if ctx.Err() != nil {
		return s.judge(rows[i], newTally(), fmt.Errorf("not run: %w", context.Cause(ctx))), true
	}
	if t.unmet != nil {
		if reason := t.unmet(); reason != nil {
			return judgeUnmet(rows[i], reason, s.requireAll), true
		}
	}
	for j, other := range tiers {
		if slices.Contains(t.after, other.name) && rows[j].result != ok {
			return s.judge(rows[i], newTally(), fmt.Errorf("not run: %s is not there", other.name)), true
		}
	}
	return row{}, false
}

// one runs a tier within its time.
func (s schedule) one(ctx context.Context, t tier, r row, out *tierWriter) row {
	ctx, cancel := context.WithTimeoutCause(ctx, t.limit, fmt.Errorf("did not end within its %s", t.limit))
	defer cancel()
	start := time.Now()
	counted, err := s.run(ctx, t, out)
	r.took = time.Since(start)
	out.end()
	return s.judge(r, counted, err)
}

func (s schedule) judge(r row, counted *tally, err error) row {
	return judge(r, counted, err, s.requireAll)
}

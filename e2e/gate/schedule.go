package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// schedule runs parts beside each other, as many as the cores allow.
type schedule struct {
	// cores are how many the parts that run at the same time may keep busy. A part that wants more runs alone.
	cores float64
	out   io.Writer
	// run returns soon after its context ends. It prints whole lines.
	run func(ctx context.Context, p part, print func(lines string)) row
}

// all runs the parts and returns a row for each, in their order. The first part that may start does: its cores are free, what it
// shares is not in use, and the parts before it have passed: those of its after, and all of check for a part that is not of check.
func (s schedule) all(ctx context.Context, parts []part) []row {
	rows := make([]row, len(parts))
	start := time.Now()
	ended, printed := make(chan row), make(chan string)
	var waiting, running []int
	for i := range parts {
		waiting = append(waiting, i)
	}
	for len(waiting)+len(running) > 0 {
		for {
			n := slices.IndexFunc(waiting, func(i int) bool { return s.mayStart(parts, i, waiting, running) })
			if n < 0 {
				break
			}
			i := waiting[n]
			waiting = slices.Delete(waiting, n, n+1)
			if reason := whyNot(ctx, parts, rows, i); reason != "" {
				rows[i] = row{part: parts[i], result: notRun, note: reason}
				continue
			}
			fmt.Fprintf(s.out, "=== %s: %s%s\n", parts[i].name, parts[i].what, beside(parts, running))
			running = append(running, i)
			began := time.Since(start)
			go func() {
				r := s.run(ctx, parts[i], func(lines string) { printed <- prefixed(parts[i].name, lines) })
				r.began, r.took = began, time.Since(start)-began
				ended <- r
			}()
		}
		if len(running) == 0 {
			continue // the parts that waited for others are over without a start
		}
		select {
		case lines := <-printed:
			fmt.Fprint(s.out, lines)
		case r := <-ended:
			i := slices.IndexFunc(parts, func(p part) bool { return p.name == r.part.name })
			rows[i] = r
			running = slices.DeleteFunc(running, func(other int) bool { return other == i })
			fmt.Fprintf(s.out, "=== %s: %s after %s\n", r.part.name, r.result, minutes(r.took))
		}
	}
	return rows
}

// prefixed puts a part's name before each line.
func prefixed(name, lines string) string {
	var text strings.Builder
	for line := range strings.Lines(lines) {
		text.WriteString("[" + name + "] " + strings.TrimSuffix(line, "\n") + "\n")
	}
	return text.String()
}

func beside(parts []part, running []int) string {
	if len(running) == 0 {
		return ""
	}
	names := make([]string, 0, len(running))
	for _, i := range running {
		names = append(names, parts[i].name)
	}
	return " (beside it: " + strings.Join(names, ", ") + ")"
}

// mayStart reports whether the parts that come before part i are over, its cores are free and what it shares is not in use.
func (s schedule) mayStart(parts []part, i int, waiting, running []int) bool {
	busy := 0.0
	for _, other := range running {
		busy += parts[other].cores
		if parts[i].shares != "" && parts[i].shares == parts[other].shares {
			return false
		}
	}
	if len(running) > 0 && busy+parts[i].cores > s.cores+1e-9 {
		return false
	}
	return !slices.ContainsFunc(slices.Concat(waiting, running), func(other int) bool { return parts[i].follows(parts[other]) })
}

// follows reports whether p starts only after the other part has passed.
func (p part) follows(other part) bool {
	return slices.Contains(p.after, other.name) || other.set.inCheck() && !p.set.inCheck()
}

// whyNot returns the reason why part i can't start any more, or "".
func whyNot(ctx context.Context, parts []part, rows []row, i int) string {
	if ctx.Err() != nil {
		return "interrupted"
	}
	for j, other := range parts {
		if parts[i].follows(other) && rows[j].result != ok {
			return other.name + " did not pass"
		}
	}
	return ""
}

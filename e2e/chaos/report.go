package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
)

// result is what came of an operation.
type result int

const (
	done       result = iota
	doneLater         // after it was tried more than once
	refused           // somebody answered, and refused
	unanswered        // nobody answered, or nobody could judge it
	moot              // what it was about was gone
	untried           // there was nothing that it could be about: nobody asked
	failed            // a violation
	results           // how many there are
)

// counts are what happened.
type counts struct {
	mu         sync.Mutex
	faults     map[plan.Fault]int
	lasted     map[plan.Fault]time.Duration
	operations map[plan.Verb]*[results]int
	others     map[string]int
	calms      []time.Duration     // how long each took to begin
	longest    map[string][]sample // of the process of each program that was looked at most often
}

func newCounts() *counts {
	return &counts{faults: map[plan.Fault]int{}, lasted: map[plan.Fault]time.Duration{}, operations: map[plan.Verb]*[results]int{}, others: map[string]int{}, longest: map[string][]sample{}}
}

func (c *counts) fault(f plan.Fault, lasted time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.faults[f]++
	c.lasted[f] += lasted
}

func (c *counts) operation(v plan.Verb, r result) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.operations[v] == nil {
		c.operations[v] = &[results]int{}
	}
	c.operations[v][r]++
}

func (c *counts) add(what string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.others[what] += n
}

func (c *counts) well(after time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calms = append(c.calms, after)
}

// looked is how many calms there have been.
func (c *counts) looked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.calms)
}

// sampled is told of each program's process what was looked at.
func (c *counts) sampled(program string, of []sample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(of) >= len(c.longest[program]) {
		c.longest[program] = slices.Clone(of)
	}
}

// report prints them.
func (c *counts) report(out io.Writer) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "FAULT\tTIMES\tSECONDS")
	sum := 0
	for _, f := range plan.Faults() {
		fmt.Fprintf(w, "%s\t%d\t%.0f\n", f, c.faults[f], c.lasted[f].Seconds())
		sum += c.faults[f]
	}
	fmt.Fprintf(w, "all\t%d\t\n", sum)
	fmt.Fprintln(w, "\nOPERATION\tASKED\tDONE\tDONE LATER\tREFUSED\tNOT ANSWERED\tNOTHING TO DO\tFAILED\tNOT TRIED")
	var all [results]int
	line := func(what string, of [results]int) {
		asked := -of[untried]
		for _, n := range of {
			asked += n
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\n", what, asked, of[done], of[doneLater], of[refused], of[unanswered], of[moot], of[failed], of[untried])
	}
	for _, v := range plan.Verbs() {
		var of [results]int
		if c.operations[v] != nil {
			of = *c.operations[v]
		}
		for i, n := range of {
			all[i] += n
		}
		line(string(v), of)
	}
	line("all", all)
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, what := range slices.Sorted(maps.Keys(c.others)) {
		fmt.Fprintf(out, "%s: %d\n", what, c.others[what])
	}
	if len(c.calms) > 0 {
		fmt.Fprintf(out, "calms: %d; all was well again after %.0f s at most\n", len(c.calms), slices.Max(c.calms).Seconds())
	}
	for _, program := range slices.Sorted(maps.Keys(c.longest)) {
		of := c.longest[program]
		first, last := of[0], of[len(of)-1]
		fmt.Fprintf(out, "the process of the %s that was looked at most often, in %d calms of %.0f s: %.0f MiB, then %.0f; %.0f goroutines, then %.0f; %.0f open files, then %.0f\n",
			program, len(of), (last.at - first.at).Seconds(), first.resident/(1<<20), last.resident/(1<<20), first.goroutines, last.goroutines, first.files, last.files)
	}
	return nil
}

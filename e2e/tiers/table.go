package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The results of a tier.
const (
	ok      = "ok"
	failed  = "FAILED"
	skipped = "skipped"
)

// row is a line of the closing table.
type row struct {
	tier, result            string
	passed, failed, skipped int
	began                   time.Duration // after the first tier
	took                    time.Duration
	cpu                     time.Duration // of the processes that ended; 0: not known
	note                    string
	tests                   []timed
	failures                []failure
}

// timed is a test and its own time, without its subtests'.
type timed struct {
	name string // the package's last folder and the test's name
	took time.Duration
}

// judge turns counts into a result. A failed tier has at least one failure: go test can fail without a test.
func judge(r row, counted *tally, err error, requireAll bool) row {
	r.result, r.passed, r.failed, r.skipped, r.cpu, r.tests, r.failures = ok, counted.passed, counted.failed, counted.skipped, counted.cpu, counted.times(), counted.blamed()
	switch {
	case err != nil && r.failed == 0:
		r.failed, r.note = 1, firstLine(err.Error())
	case err == nil && r.passed+r.failed+r.skipped == 0:
		r.failed, r.note = 1, "no test ran"
	}
	if requireAll && r.skipped > 0 {
		r.note = strings.TrimPrefix(fmt.Sprintf("%s; %d skipped, which REQUIRE_ALL=1 forbids", r.note, r.skipped), "; ")
		r.failed, r.skipped = r.failed+r.skipped, 0
	}
	if r.failed > 0 {
		r.result = failed
	}
	return r
}

// judgeUnmet is the row of a tier that cannot run on this machine; it counts as one test.
func judgeUnmet(r row, reason error, requireAll bool) row {
	r.note = firstLine(reason.Error())
	if requireAll {
		r.result, r.failed = failed, 1
		return r
	}
	r.result, r.skipped = skipped, 1
	return r
}

// chartWidth is how many columns the time of the whole run takes in the table.
const chartWidth = 40

// table aligns the rows. CORES is how many a tier kept busy on average; RAN shows from left to right what ran beside what.
func table(rows []row) string {
	var whole time.Duration
	for _, r := range rows {
		whole = max(whole, r.began+r.took)
	}
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "TIER\tRESULT\tPASSED\tFAILED\tSKIPPED\tTIME\tCORES\tRAN, OF %s\tNOTE\n", whole.Round(time.Second))
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%s\t%s\n", r.tier, r.result, r.passed, r.failed, r.skipped, r.took.Round(100*time.Millisecond), r.cores(), r.chart(whole), r.note)
	}
	_ = w.Flush() // a strings.Builder does not fail
	return text.String()
}

func (r row) cores() string {
	if r.cpu == 0 || r.took == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", r.cpu.Seconds()/r.took.Seconds())
}

// chart draws when it ran.
func (r row) chart(whole time.Duration) string {
	if whole == 0 || r.took == 0 {
		return strings.Repeat(".", chartWidth)
	}
	column := func(at time.Duration) int { return int(at * chartWidth / whole) }
	from := min(column(r.began), chartWidth-1)
	to := min(max(column(r.began+r.took), from+1), chartWidth)
	return strings.Repeat(".", from) + strings.Repeat("#", to-from) + strings.Repeat(".", chartWidth-to)
}

// slowest lists the n tests that took longest.
func slowest(rows []row, n int) string {
	type test struct {
		timed
		tier string
	}
	var all []test
	for _, r := range rows {
		for _, t := range r.tests {
			all = append(all, test{t, r.tier})
		}
	}
	slices.SortStableFunc(all, func(a, b test) int { return cmp.Compare(b.took, a.took) })
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SLOWEST TESTS\tTIME\tTIER")
	for _, t := range all[:min(n, len(all))] {
		fmt.Fprintf(w, "%s\t%s\t%s\n", t.name, t.took.Round(100*time.Millisecond), t.tier)
	}
	_ = w.Flush() // a strings.Builder does not fail
	return text.String()
}

// failures lists what failed, each with what it said; it is empty where nothing did. It stands near the end, where
// somebody sees it who has only the last lines of a log.
func failures(rows []row) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		for i, f := range r.failures {
			if i == maxFailures {
				fmt.Fprintf(w, "%d more\t%s\t\n", len(r.failures)-i, r.tier)
				break
			}
			fmt.Fprintf(w, "%s\t%s\t%s\n", f.key, r.tier, f.said)
		}
	}
	_ = w.Flush() // a strings.Builder does not fail
	if text.Len() == 0 {
		return ""
	}
	return "FAILED TESTS\n" + text.String() + "\n"
}

// maxFailures is how many of a tier are listed.
const maxFailures = 10

// closing is the line that other programs read.
func closing(rows []row) string {
	var sum row
	for _, r := range rows {
		sum.passed, sum.failed, sum.skipped = sum.passed+r.passed, sum.failed+r.failed, sum.skipped+r.skipped
	}
	return fmt.Sprintf("%d passed, %d failed, %d skipped", sum.passed, sum.failed, sum.skipped)
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

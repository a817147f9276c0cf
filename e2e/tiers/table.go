package main

import (
	"fmt"
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
	took                    time.Duration
	note                    string
}

// judge turns counts into a result. A failed tier has at least one failure: go test can fail without a test.
func judge(name string, counted *tally, err error, requireAll bool, took time.Duration) row {
	r := row{tier: name, result: ok, passed: counted.passed, failed: counted.failed, skipped: counted.skipped, took: took}
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
func judgeUnmet(name string, reason error, requireAll bool) row {
	if requireAll {
		return row{tier: name, result: failed, failed: 1, note: firstLine(reason.Error())}
	}
	return row{tier: name, result: skipped, skipped: 1, note: firstLine(reason.Error())}
}

// table aligns the rows.
func table(rows []row) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIER\tRESULT\tPASSED\tFAILED\tSKIPPED\tTIME\tNOTE")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\n", r.tier, r.result, r.passed, r.failed, r.skipped, r.took.Round(100*time.Millisecond), r.note)
	}
	_ = w.Flush() // a strings.Builder does not fail
	return text.String()
}

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

package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The results of a part.
const (
	ok      = "ok"
	skipped = "skipped" // all of its tests
	failed  = "FAILED"
	notRun  = "not run"
)

// row is what came of a part.
type row struct {
	part part
	*tally
	result, note string
	began, took  time.Duration
	cpu          time.Duration // of the processes that ended; containers' are not in it
	err          error
	quarantined  []testKey // failed, and in the quarantine
}

// judge decides the result from the counts. Tests in quarantine do not count as failed.
func (r *row) judge(quarantine map[testKey]string, requireAll bool) {
	r.failed = slices.DeleteFunc(r.failed, func(k testKey) bool {
		_, is := quarantine[k.top()]
		if is {
			r.quarantined = append(r.quarantined, k)
		}
		return is
	})
	switch {
	case r.err != nil && len(r.failed)+len(r.quarantined) == 0:
		r.failed, r.note = []testKey{{}}, r.err.Error()
	case r.err == nil && r.passed+len(r.failed)+len(r.skipped) == 0:
		r.failed, r.note = []testKey{{}}, "no test ran"
	}
	r.result = ok
	switch {
	case len(r.failed) > 0:
		r.result = failed
	case requireAll && len(r.skipped) > 0:
		r.result, r.note = failed, fmt.Sprintf("%d tests skipped, which REQUIRE_ALL=1 forbids", len(r.skipped))
	case r.passed == 0 && len(r.quarantined) == 0:
		r.result = skipped
	}
}

// failures is how many tests failed, as the closing line counts them.
func (r row) failures(requireAll bool) int {
	switch {
	case r.result == notRun:
		return 0
	case requireAll:
		return len(r.failed) + len(r.skipped)
	}
	return len(r.failed)
}

// report is everything that is printed at the end.
func report(rows []row, o options) string {
	return "\n" + table(rows) + "\n" + slowest(rows, 10) + quarantines(rows) + skips(rows) + failures(rows) + closing(rows, o)
}

func table(rows []row) string {
	var text strings.Builder
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "PART\tRESULT\tPASSED\tFAILED\tSKIPPED\tSTART\tTIME\tCORE-MIN\tDECLARED\t")
	measured, declared := 0.0, 0.0
	for _, r := range rows {
		if r.result == notRun {
			fmt.Fprintf(w, "%s\t%s\t\t\t\t\t\t\t\t %s\n", r.part.name, r.result, r.note)
			continue
		}
		measured, declared = measured+r.cpu.Minutes(), declared+r.part.coreMinutes()
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%s\t%s\t%.1f\t%.1f\t %s\n", r.part.name, r.result, r.passed, len(r.failed), len(r.skipped),
			minutes(r.began), minutes(r.took), r.cpu.Minutes(), r.part.coreMinutes(), r.note)
	}
	fmt.Fprintf(w, "sum\t\t\t\t\t\t\t%.1f\t%.1f\t\n", measured, declared)
	_ = w.Flush() // a strings.Builder does not fail
	return text.String()
}

// minutes formats a time as 1:05.
func minutes(d time.Duration) string {
	d = d.Round(time.Second)
	return fmt.Sprintf("%d:%02d", int(d.Minutes()), int(d.Seconds())%60)
}

// slowest lists the n top-level tests that took longest.
func slowest(rows []row, n int) string {
	type test struct {
		key  testKey
		took time.Duration
	}
	var all []test
	for _, r := range rows {
		if r.tally == nil {
			continue
		}
		for key, took := range r.times {
			if key.test != "" && !strings.Contains(key.test, "/") && took >= time.Second {
				all = append(all, test{key, took})
			}
		}
	}
	slices.SortFunc(all, func(a, b test) int {
		return cmp.Or(cmp.Compare(b.took, a.took), strings.Compare(a.key.String(), b.key.String()))
	})
	var text strings.Builder
	for i, t := range all[:min(n, len(all))] {
		if i == 0 {
			text.WriteString("SLOWEST TESTS\n")
		}
		fmt.Fprintf(&text, "  %5.0fs  %s\n", t.took.Seconds(), t.key)
	}
	return text.String()
}

func quarantines(rows []row) string {
	var text strings.Builder
	for _, r := range rows {
		for _, key := range r.quarantined {
			fmt.Fprintf(&text, "QUARANTINED TEST FAILED: %s\n", key)
		}
	}
	return text.String()
}

// skips lists why tests were skipped, each reason once.
func skips(rows []row) string {
	var text strings.Builder
	for _, r := range rows {
		if r.tally == nil {
			continue
		}
		count := map[string]int{}
		for _, reason := range r.skipped {
			count[reason]++
		}
		for _, reason := range slices.Sorted(maps.Keys(count)) {
			fmt.Fprintf(&text, "SKIPPED: %d tests of %s: %s\n", count[reason], r.part.name, reason)
		}
	}
	return text.String()
}

// failures lists the failed tests with the command that repeats each and what it printed: some readers see only the end of a log. A test that failed because of its subtest is left out.
func failures(rows []row) string {
	var text strings.Builder
	for _, r := range rows {
		if r.result != failed {
			continue
		}
		for i, key := range r.failed {
			if slices.ContainsFunc(r.failed[:i], func(sub testKey) bool { return sub.pkg == key.pkg && strings.HasPrefix(sub.test, key.test+"/") }) {
				continue
			}
			fmt.Fprintf(&text, "  %s: %s\n      %s\n%s", r.part.name, cmp.Or(key.String(), r.note), r.part.repeat(key), excerpt(r.said[key]))
		}
	}
	if text.Len() == 0 {
		return ""
	}
	return "FAILED, AND HOW TO REPEAT IT\n" + text.String()
}

// excerpt is the first and the last lines of a text, each cut and indented.
func excerpt(printed string) string {
	const half, width = 12, 300
	lines := slices.Collect(strings.Lines(printed))
	if left := len(lines) - 2*half; left > 1 {
		lines = slices.Replace(lines, half, half+left, fmt.Sprintf("(%d lines left out)\n", left))
	}
	var text strings.Builder
	for _, line := range lines {
		fmt.Fprintf(&text, "      | %.*s\n", width, strings.TrimRight(line, "\n"))
	}
	return text.String()
}

// repeat is the shell command that runs one test alone, compiled as here.
func (p part) repeat(key testKey) string {
	var words []string
	for _, name := range []string{"GOFLAGS", "CGO_ENABLED", seedVariable, "REQUIRE_ALL", "PODGRACE_ALL"} {
		if value := os.Getenv(name); value != "" {
			words = append(words, name+"="+quote(value))
		}
	}
	if p.command != nil {
		return strings.Join(append(words, p.command...), " ")
	}
	pkg := "."
	if below, found := strings.CutPrefix(key.pkg, strings.TrimSuffix(modulePath+"/"+p.dir, "/.")); found && key.pkg != "" {
		pkg = "." + below
	}
	words = append(words, "go", "test", "-C", p.dir, pkg)
	if key.test != "" {
		words = append(words, "-run", quote(exactly(key.test)))
	}
	return strings.Join(append(words, p.flags...), " ")
}

// quote quotes a word for the shell.
func quote(word string) string {
	if !strings.ContainsAny(word, " $|*?()'\"\\") {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// closing is the line that continuous integration reads.
func closing(rows []row, o options) string {
	passed, bad, left := 0, 0, 0
	for _, r := range rows {
		bad += r.failures(o.requireAll)
		if r.tally != nil {
			passed += r.passed
			if !o.requireAll {
				left += len(r.skipped)
			}
		}
	}
	return fmt.Sprintf("\n%s in all\n%d passed, %d failed, %d skipped\n", minutes(time.Since(o.started)), passed, bad, left)
}

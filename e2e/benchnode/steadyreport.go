package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// steadyReport is the table.
func steadyReport(o options, s steady) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\nSteady state: the real program, a real API server with %d pods (%d containers, %.0f planned cgroups) on its node, mode Repair, thresholds\n"+
		"that are far, for %s: %.0f full rounds, %.0f others, %.0f that failed, %.0f files in drift.\n\n",
		steadyPods, containers(steadyPods), s.cgroups, o.minute, s.full, s.partial, s.failures, s.drift)
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tvalue\tgoal\t")
	percent := s.cpu.Seconds() / s.elapsed.Seconds() * 100
	for _, row := range []struct {
		name  string
		value float64
		show  string
		goal  goal
	}{
		{"writes", s.writes, "%.0f", new(0.0)},
		{"CPU, seconds", s.cpu.Seconds(), "%.2f", nil},
		{"CPU, % of a core", percent, "%.2f", new(1.0)},
		{"RSS, MiB", s.memory.Resident / mib, "%.1f", new(40.0)},
		{"  RssAnon", s.memory.Anonymous / mib, "%.1f", nil},
		{"  RssFile", s.memory.File / mib, "%.1f", nil},
		{"  highest RSS", s.memory.Peak / mib, "%.1f", nil},
		{"Go heap in use, MiB", s.heap / mib, "%.1f", nil},
	} {
		bound := ""
		if row.goal != nil {
			bound = fmt.Sprintf("<= %.0f", *row.goal)
		}
		fmt.Fprintf(table, "%s\t"+row.show+"\t%s\t%s\n", row.name, row.value, bound, verdict(row.goal, row.value))
	}
	_ = table.Flush() // into memory
	return text.String()
}

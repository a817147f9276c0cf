package nodeplan

import (
	"fmt"
	"strings"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// counted tells of pods what the kernel did to them; of those to which it did nothing, nothing.
func (t *table) counted() {
	var lines []string
	for _, g := range t.in.Tree.Groups {
		if s, ok := t.in.Counted[g.Path]; ok && g.Level == plan.LevelPod {
			if what := happened(s); what != "" {
				lines = append(lines, fmt.Sprintf("  pod %s: %s", g.Pod, what))
			}
		}
	}
	if len(lines) > 0 {
		fmt.Fprintf(t.out, "\nCounted by the kernel since the pod started:\n%s\n", strings.Join(lines, "\n"))
	}
}

func happened(s cgroup.Statistics) string {
	var what []string
	add := func(n int64, one, many string) {
		switch {
		case n == 1:
			what = append(what, one)
		case n > 1:
			what = append(what, fmt.Sprintf(many, n))
		}
	}
	if m := s.Memory; m != nil {
		add(m.Events.OOMKills, "1 process killed for memory", "%d processes killed for memory")
		add(m.Events.Max, "once at its limit of memory", "%d times at its limit of memory")
		add(m.Events.High, "throttled once at memory.high", "throttled %d times at memory.high")
		add(m.Events.Low, "reclaimed once below its protection", "reclaimed %d times below its protection")
	}
	if c := s.CPU; c != nil && c.ThrottledPeriods > 0 {
		what = append(what, fmt.Sprintf("at its CPU limit in %d%% of the periods", max(1, c.ThrottledPeriods*100/max(c.Periods, 1))))
	}
	if p := s.MemoryPressure; p != nil && p.Some.Avg60 >= 1 {
		what = append(what, fmt.Sprintf("waiting for memory %.0f%% of the last minute", p.Some.Avg60))
	}
	return strings.Join(what, ", ")
}

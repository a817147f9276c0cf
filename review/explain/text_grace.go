package explain

import (
	"fmt"

	"github.com/podgrace/podgrace/console"
)

func (t *text) grace() {
	g := t.e.Grace
	t.Gap()
	t.section("Grace", fmt.Sprintf("%s: %s", seconds(g.Seconds), g.Why))
	if len(g.Limits) > 0 {
		t.Row("", sentence("limits: "+some(g.Limits)))
	}
	rows := [][]string{{"CONTAINER", "PRESTOP", "SIGTERM AFTER", "LEFT TO STOP", "SIGKILL BY"}}
	for i, s := range g.Containers {
		if i == maxContainers {
			rows = append(rows, []string{fmt.Sprintf("and %d more", len(g.Containers)-i)})
			break
		}
		rows = append(rows, stopRow(s))
	}
	t.Columns("", "", rows)
	last := fmt.Sprintf("The last SIGKILL comes at most %s after its kubelet learns of it", seconds(g.LongestSeconds))
	t.Row("", sentence(append([]string{g.Delete, last}, g.Others...)...))
	if len(g.Pitfalls) > 0 {
		t.bullets(console.Red, "  Pitfall", g.Pitfalls)
	}
}

func stopRow(s Stop) []string {
	name, term, left := s.Container, "not known", "not known"
	if s.TermAfterSeconds != nil {
		term, left = seconds(*s.TermAfterSeconds), seconds(*s.LeftSeconds)
	}
	if s.Turn > 0 {
		name += fmt.Sprintf(" (sidecar %d)", s.Turn)
		if s.TermAfterSeconds != nil {
			term, left = "its turn, "+term+" or more", left+" or less"
		}
	}
	return []string{name, or(s.PreStop, "-"), term, left, seconds(s.KillAfterSeconds)}
}

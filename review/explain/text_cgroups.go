package explain

import (
	"fmt"
	"strings"

	"github.com/podgrace/podgrace/console"
)

func (t *text) cgroups() {
	c := t.e.Cgroups
	t.Gap()
	if c.None != "" {
		t.section("Cgroups", sentence(append([]string{c.None}, c.Notes...)...))
		return
	}
	t.section("Cgroups", fmt.Sprintf("v%d, %s driver: %s", c.Version, c.Driver, or(c.Path, "path not known")))
	rows, more := cgroupRows(c.Files)
	if more > 0 {
		rows = append(rows, []string{fmt.Sprintf("and %d more containers", more)})
	}
	t.Columns("", "", rows)
	t.bullets(console.Yellow, "", c.Notes)
}

// cgroupRows have the files of one cgroup that one writer writes; more is how many containers are left out.
func cgroupRows(files []File) (rows [][]string, more int) {
	at, containers, last := map[[2]string]int{}, 0, ""
	for _, f := range files {
		if minor(f) {
			continue
		}
		whose := or(f.Container, "(pod)")
		if whose != last && f.Container != "" {
			containers++
		}
		value := f.Name + " " + or(f.Value, "unknown")
		if f.Note != "" {
			value += " (" + f.Note + ")"
		}
		i, there := at[[2]string{f.Container, f.Writer}]
		switch {
		case containers > maxContainers:
		case there:
			rows[i][2] += ", " + value
		default:
			at[[2]string{f.Container, f.Writer}] = len(rows)
			row := []string{whose, "by " + f.Writer, value}
			if whose == last {
				row[0] = ""
			}
			rows = append(rows, row)
		}
		last = whose
	}
	return rows, max(containers-maxContainers, 0)
}

// minor are files that say nothing to a person, unless they do.
func minor(f File) bool {
	switch {
	case f.Name == "memory.oom.group" || strings.HasPrefix(f.Name, "hugetlb."):
		return true
	case f.Name == "cpu.weight" && f.Container != "":
		return true // within the pod
	case f.Name == "memory.min" || f.Name == "memory.low" || f.Name == "memory.swap.max":
		return f.Value == "0"
	case f.Name == "cpu.max":
		return strings.HasPrefix(f.Value, "max ")
	}
	return false
}

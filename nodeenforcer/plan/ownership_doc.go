package plan

import (
	"fmt"
	"strings"
)

// OwnershipMarkdown renders the table as the page docs/nodeenforcer-files.md.
func OwnershipMarkdown() string {
	var b strings.Builder
	b.WriteString(`# Who writes which file

This page is made from the table in ` + "`nodeenforcer/plan/ownership.go`" + ` (` + "`go test ./nodeenforcer/plan -run Markdown -update`" + ` writes it).

` + "`Observe`" + ` writes nothing. ` + "`Tune`" + ` writes what *nobody* else owns. ` + "`Repair`" + ` also restores what the kubelet or the container runtime
wrote and somebody changed. The contract is a pod's annotation ` + "`podgrace.dev/enforcement`" + `. A value that is not planned is listed so that you
know whose it is. Formulas are those of Kubernetes 1.36.
`)
	for _, level := range []struct {
		level Level
		title string
	}{
		{LevelKubepods, "All pods: kubepods"},
		{LevelQOS, "QoS classes: burstable, besteffort"},
		{LevelPod, "Pods"},
		{LevelContainer, "Containers, init containers and sidecars"},
	} {
		fmt.Fprintf(&b, "\n## %s\n\n| file | cgroup | owner | written | if | value | source |\n|---|---|---|---|---|---|---|\n", level.title)
		for _, r := range Ownership {
			if r.Level == level.level {
				b.WriteString(r.row())
			}
		}
	}
	return b.String()
}

func (r Rule) row() string {
	where := "v1, v2"
	if r.Version != 0 {
		where = fmt.Sprintf("v%d", r.Version)
	}
	if r.Driver != "" {
		where += " " + string(r.Driver)
	}
	value := r.Value
	if !r.Planned {
		value = "not planned: " + value
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s | %s | %s | %s |\n", r.File, where, r.Owner, r.When, r.Condition, value, r.Source)
}

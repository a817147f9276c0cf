package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/cli/delta"
)

// group is workloads that change alike. Workloads is in input order.
type group struct {
	changes   []Change
	workloads []*Workload
}

// groups of workloads that change alike, the most urgent last, next to the summary.
func groups(workloads []Workload) []*group {
	var all []*group
	index := map[string]*group{}
	for i := range workloads {
		w := &workloads[i]
		var name strings.Builder
		for _, c := range w.Changes {
			fmt.Fprintf(&name, "%s\x00%s\x00", c.Kind, c.likeness())
		}
		fmt.Fprintf(&name, "%s\x00%s", w.Request, w.User)
		g := index[name.String()]
		if g == nil {
			g = &group{changes: w.Changes}
			index[name.String()] = g
			all = append(all, g)
		}
		g.workloads = append(g.workloads, w)
	}
	slices.SortStableFunc(all, func(a, b *group) int {
		return cmp.Or(cmp.Compare(b.kind().rank(), a.kind().rank()), cmp.Compare(len(a.workloads), len(b.workloads)))
	})
	return all
}

// likeness is what two changes of one kind must share to be told as one. Messages of removals name the pod, and the reason says enough.
func (c *Change) likeness() string {
	return strings.Join([]string{c.Reason, c.From, c.To, delta.Likeness(c.Fields)}, "\x00")
}

// kind is the most urgent one.
func (g *group) kind() Kind {
	most := g.changes[0].Kind
	for _, c := range g.changes {
		if c.Kind.rank() < most.rank() {
			most = c.Kind
		}
	}
	return most
}

// runningGroup is owners whose pods differ alike.
type runningGroup struct {
	running []*Running
	pods    int
}

// runningGroups, the largest last.
func runningGroups(running []Running) []*runningGroup {
	var all []*runningGroup
	index := map[string]*runningGroup{}
	for i := range running {
		r := &running[i]
		name := delta.Likeness(r.Fields) + "\x00" + r.Refused
		g := index[name]
		if g == nil {
			g = &runningGroup{}
			index[name] = g
			all = append(all, g)
		}
		g.running = append(g.running, r)
		g.pods += len(r.Pods)
	}
	slices.SortStableFunc(all, func(a, b *runningGroup) int { return cmp.Compare(a.pods, b.pods) })
	return all
}

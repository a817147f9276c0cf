package diff

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/internal/manifest"
)

// diff puts together what was found.
func (j *judge) diff() *Diff {
	d := newDiff()
	unknown := map[string]int{}
	var strange []*manifest.Document
	for _, i := range j.items.list {
		if i.wrong != nil {
			d.Errors = append(d.Errors, i.wrong)
			continue
		}
		if !i.judged && !i.runs {
			strange = append(strange, i.document)
		}
		d.Summary.count(i)
		for _, what := range i.unknown {
			unknown[what]++
		}
		if i.affected() {
			d.Workloads = append(d.Workloads, Workload{
				Resource: i.resource, Source: manifest.Source{File: i.document.File, Line: i.document.Line},
				Request: i.request, User: i.user, Changes: i.changes, Unknown: i.unknown,
			})
		}
	}
	d.Summary.NotKnown = j.To.State.Count(strange)
	for _, n := range d.Summary.NotKnown {
		d.Summary.Other -= n
	}
	d.Running = j.items.differing()
	d.Summary.Errors = len(d.Errors)
	for what, n := range unknown {
		d.Summary.Unknown = append(d.Summary.Unknown, Unknown{what, n})
	}
	slices.SortFunc(d.Summary.Unknown, func(a, b Unknown) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), strings.Compare(a.What, b.What))
	})
	return d
}

func (s *Summary) count(i *item) {
	switch {
	case i.runs:
		s.Running++
	case i.judged:
		s.Workloads++
	default:
		s.Other++
	}
	if i.differs != nil {
		s.RunningDifferent++
	}
	if !i.affected() {
		return
	}
	s.Affected++
	var seen []Kind
	for _, c := range i.changes {
		if !slices.Contains(seen, c.Kind) { // three new warnings are one workload
			seen = append(seen, c.Kind)
			s.Kinds[c.Kind]++
		}
	}
	if slices.ContainsFunc(seen, Kind.Denies) {
		s.Denying++
	}
}

// differing are the pods that run and differ, by owner and by how, in input order.
func (all *items) differing() []Running {
	found := []Running{}
	index := map[string]int{}
	for _, i := range all.list {
		if i.differs == nil {
			continue
		}
		owner := all.owner(i)
		name := fmt.Sprintf("%s\x00%s\x00%s", owner, delta.Likeness(i.differs.fields), i.differs.refused)
		at, ok := index[name]
		if !ok {
			at = len(found)
			index[name] = at
			found = append(found, Running{Owner: owner, Of: all.pods[owner], Fields: i.differs.fields, Refused: i.differs.refused})
		}
		found[at].Pods = append(found[at].Pods, i.document.Name)
	}
	return found
}

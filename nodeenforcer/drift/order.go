package drift

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// DependsOn reports whether an operation must not be performed because an earlier one failed: otherwise a group would have more than one of its
// ancestors, although it had not before and is not planned to. A limit or protection that was not raised holds back the same file of all
// descendants; one that was not lowered, that of all ancestors. Within the same group it holds back all other limits and protections of the
// controller: memory.min must not exceed memory.max. Weights depend on nothing.
func (o Operation) DependsOn(failed Operation) bool {
	same := keyOf(o.File) == keyOf(failed.File)
	switch {
	case o.Path == failed.Path && same:
		return true
	case !promises(o.File) || !promises(failed.File):
		return false
	case o.Path == failed.Path:
		return controllerOf(o.File) == controllerOf(failed.File)
	case failed.Step == Narrow:
		return same && o.Step == Narrow && strings.HasPrefix(failed.Path, o.Path+"/")
	}
	return same && strings.HasPrefix(o.Path, failed.Path+"/")
}

func promises(file string) bool { return cgroupfile.KindOf(file, 1).Role != cgroupfile.RoleNone }

func controllerOf(file string) string {
	controller, _, _ := strings.Cut(file, ".")
	return controller
}

// promise is a value of a group that changes, with the files that it is made of: one, or v1's quota and period.
type promise struct {
	Where
	key      string
	rank     int
	from, to cgroupfile.Value
	changes  []*change
}

// write is one step of an operation's way.
type write struct {
	*change
	to string
}

// scheduler lays operations out.
type scheduler struct {
	*model
	out []Operation
}

// schedule returns the operations for all changes that are to be written, and sets the reason of those that can't be.
//
// First all values are widened, ancestors first, then all are narrowed, descendants first. Between the two each value is the larger of its
// old and its new one. So at no time a group has more than its ancestors, and its memory.min more than its memory.max, if that holds before
// and after.
func schedule(all []*change, m *model) []Operation {
	s := &scheduler{model: m}
	var widen, narrow []*promise
	for _, p := range m.promises(all) {
		if p.to.Kind.Role != cgroupfile.RoleNone && p.to.Within(p.from) {
			narrow = append(narrow, p)
		} else {
			widen = append(widen, p)
		}
	}
	slices.SortFunc(widen, (*promise).compare)
	for _, p := range widen {
		if s.try(p, Widen, p.ways()...) {
			continue
		}
		// Two sets of which none holds the other: first both, so that those below can move, then the one.
		if p.to.Kind.Form == cgroupfile.FormSet && p.from.Kind.Form == cgroupfile.FormSet && s.try(p, Widen, []write{{p.changes[0], p.from.Set.Union(p.to.Set).String()}}) {
			narrow = append(narrow, p)
		}
	}
	slices.SortFunc(narrow, func(p, q *promise) int { return q.compare(p) })
	for _, p := range narrow {
		s.try(p, Narrow, p.ways()...)
	}
	return s.out
}

// promises groups the changes that are to be written.
func (m *model) promises(all []*change) []*promise {
	var out []*promise
	for _, c := range all {
		if c.Why != "" {
			continue
		}
		key := keyOf(c.File)
		if n := len(out); n > 0 && out[n-1].Path == c.Path && out[n-1].key == key {
			out[n-1].changes = append(out[n-1].changes, c)
			continue
		}
		out = append(out, &promise{Where: c.Where, key: key, rank: cgroupfile.KindOf(c.File, m.page).Rank, changes: []*change{c}})
	}
	for _, p := range out {
		p.from, _ = m.value(m.before, p.Path, p.key)
		p.to, _ = m.value(p.as(m), p.Path, p.key)
	}
	return out
}

// as is a look at the tree in which this promise only is as it should be.
func (p *promise) as(m *model) look {
	return func(group, file string) (string, bool) {
		for _, c := range p.changes {
			if c.Path == group && c.File == file {
				return c.Want, true
			}
		}
		return m.before(group, file)
	}
}

// compare orders promises for widening.
func (p *promise) compare(q *promise) int {
	return cmp.Or(
		cmp.Compare(strings.Count(p.Path, "/"), strings.Count(q.Path, "/")),
		cmp.Compare(p.Path, q.Path),
		cmp.Compare(p.rank, q.rank),
		cmp.Compare(p.key, q.key),
	)
}

// ways are the orders in which the files may be written, the first that breaks no promise is taken. The kernel checks v1's
// rates at each of the two writes (kernel/sched/core.c tg_cfs_schedulable_down): a group without a quota has the one above.
func (p *promise) ways() [][]write {
	first := write{p.changes[0], p.changes[0].Want}
	if len(p.changes) == 1 {
		return [][]write{{first}}
	}
	quota := write{p.changes[1], p.changes[1].Want} // files come by name: the period first
	return [][]write{{first, quota}, {quota, first}, {{p.changes[1], "-1"}, first, quota}}
}

// try lays out the first way that meets no obstacle.
func (s *scheduler) try(p *promise, step Step, ways ...[]write) bool {
	why := ""
	for _, way := range ways {
		obstacle := s.walk(p, step, way)
		if obstacle == "" {
			for _, c := range p.changes {
				c.Why, c.Detail = "", ""
			}
			return true
		}
		if why == "" {
			why = obstacle
		}
	}
	for _, c := range p.changes {
		c.Why, c.Detail = WhyPromise, why
	}
	return false
}

// walk writes a way into the model and returns the obstacle that it met, if any; then nothing is written.
func (s *scheduler) walk(p *promise, step Step, way []write) string {
	var steps []Operation
	for _, w := range way {
		from, _ := s.now(p.Path, w.File)
		s.write(p.Path, w.File, w.to)
		steps = append(steps, Operation{Where: p.Where, File: w.File, From: from, To: w.to, Owner: w.Owner, Step: step})
		if obstacle := s.obstacle(p.Path, p.key); obstacle != "" {
			for _, done := range slices.Backward(steps) {
				s.write(p.Path, done.File, done.From)
			}
			return obstacle
		}
	}
	s.out = append(s.out, steps...)
	return ""
}

// model is the tree as it becomes while operations are laid out: what was read, and over it what is written so far.
type model struct {
	have    Have
	page    int64
	planned map[string]*plan.Group
	below   map[string][]string          // planned groups that are there, by the path above
	written map[string]map[string]string // by path and file
}

func newModel(want *plan.Tree, have Have, options Options) *model {
	m := &model{have: have, page: options.page(), planned: map[string]*plan.Group{}, below: map[string][]string{}, written: map[string]map[string]string{}}
	for i := range want.Groups {
		g := &want.Groups[i]
		if _, ok := have[g.Path]; ok {
			m.planned[g.Path] = g
			m.below[path.Dir(g.Path)] = append(m.below[path.Dir(g.Path)], g.Path)
		}
	}
	return m
}

// look returns a file's content at some time.
type look func(group, file string) (string, bool)

// before is what was read.
func (m *model) before(group, file string) (string, bool) {
	content, ok := m.have[group].Files[file]
	return content, ok
}

// now is what was read or has been written since.
func (m *model) now(group, file string) (string, bool) {
	if content, ok := m.written[group][file]; ok {
		return content, true
	}
	return m.before(group, file)
}

// after is what was read, or what the plan wants in its place.
func (m *model) after(group, file string) (string, bool) {
	content, ok := m.before(group, file)
	if g := m.planned[group]; ok && g != nil {
		if v, ok := g.Files[file]; ok {
			return v.Want, true
		}
	}
	return content, ok
}

func (m *model) write(group, file, content string) {
	if m.written[group] == nil {
		m.written[group] = map[string]string{}
	}
	m.written[group][file] = content
}

// keyOf names the value that a file is part of: v1's quota and period are one rate.
func keyOf(file string) string {
	if file == cgroupfile.CFSPeriod {
		return cgroupfile.CFSQuota
	}
	return file
}

// value of a group. What is not there or can't be understood binds nobody.
func (m *model) value(at look, group, key string) (cgroupfile.Value, bool) {
	content, ok := at(group, key)
	if !ok {
		return cgroupfile.Value{}, false
	}
	if key == cgroupfile.CFSQuota {
		if period, ok := at(group, cgroupfile.CFSPeriod); ok {
			content += " " + period
		}
		key = "cpu.max"
	}
	v, err := cgroupfile.Read(key, content, m.page)
	return v, err == nil
}

// obstacle returns the group with which this one, as it is now, breaks a promise that neither was broken before nor is by the
// plan itself; empty where there is none.
func (m *model) obstacle(group, key string) string {
	v, ok := m.value(m.now, group, key)
	if !ok || v.Kind.Role == cgroupfile.RoleNone {
		return ""
	}
	above, bound, bounded := m.bound(group, key)
	if bounded && v.Exceeds(bound) && !m.excused(group, above, key) {
		return above
	}
	if !v.Inherits() {
		above, bound, bounded = group, v, true
	}
	if !bounded {
		return ""
	}
	return m.tooLarge(group, above, key, bound)
}

// bound returns the group above whose value binds this one: the nearest that has a limit of its own.
func (m *model) bound(group, key string) (string, cgroupfile.Value, bool) {
	for above := path.Dir(group); ; above = path.Dir(above) {
		v, ok := m.value(m.now, above, key)
		if !ok || !v.Inherits() {
			return above, v, ok
		}
	}
}

// tooLarge returns the first group below a group, in the plan's order, that has more than the bound of a group above it.
func (m *model) tooLarge(group, above, key string, bound cgroupfile.Value) string {
	for _, child := range m.below[group] {
		v, ok := m.value(m.now, child, key)
		switch {
		case !ok:
		case v.Inherits():
			if found := m.tooLarge(child, above, key, bound); found != "" {
				return found
			}
		case v.Exceeds(bound) && !m.excused(child, above, key):
			return child
		}
	}
	return ""
}

// excused reports whether a group had more than one above it before, or has by the plan.
func (m *model) excused(group, above, key string) bool {
	for _, at := range []look{m.before, m.after} {
		v, ok := m.value(at, group, key)
		w, known := m.value(at, above, key)
		if ok && known && v.Exceeds(w) {
			return true
		}
	}
	return false
}

package drift

import (
	"path"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

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
		if _, there := have[g.Path]; there {
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

// excused says whether a group had more than one above it before, or has by the plan.
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

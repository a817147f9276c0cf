package cgrouptest

import (
	"errors"
	"path"
	"testing"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// escapes are paths and names that are not as the kernel spells them. A pod's or container's id that holds one must not lead
// anywhere, so it is not even looked for.
func (s *suite) escapes(t *testing.T) {
	victim := s.child(t, "victim")
	sample := s.Files[0]
	s.Put(t, victim, sample.File, sample.Two)
	file := func(name string) []cgroup.File { return []cgroup.File{{Name: name, Value: sample.One}} }
	base := path.Base(victim)
	for _, at := range []string{
		"", ".", "..", base, "/..", "/../" + base, s.Root + "/../../..", victim + "/../" + base, victim + "/.", victim + "/", "/" + victim,
		s.Root + "//" + base, victim + "\x00",
	} {
		if at == victim {
			continue
		}
		for name, operation := range s.operations(t) {
			if err := operation(at); err == nil || errors.Is(err, cgroup.ErrGone) {
				t.Errorf("%s %q: got %v", name, at, err)
			}
		}
	}
	for _, name := range []string{"", ".", "..", "../" + base + "/" + sample.File, "/" + sample.File, "./" + sample.File, sample.File + "\x00"} {
		if _, err := s.Tree.Read(victim, name); err == nil {
			t.Errorf("file %q was read", name)
		}
		if n, err := s.Tree.Write(t.Context(), victim, file(name)); err == nil || n != 0 {
			t.Errorf("file %q was written", name)
		}
	}
	if got := s.Get(t, victim, sample.File); !cgroupfile.Holds(got, sample.Two) {
		t.Errorf("%s was changed to %q", sample.File, got)
	}
	if err := s.Tree.Kill(t.Context(), "/"); err == nil {
		t.Error("the root was killed")
	}
}

func (s *suite) links(t *testing.T) {
	target, link := s.child(t, "target"), path.Join(s.Root, "link")
	sample := s.Files[0]
	s.Put(t, target, sample.File, sample.Two)
	s.Link(t, link, target)
	for name, operation := range s.operations(t) {
		if err := operation(link); err == nil || errors.Is(err, cgroup.ErrGone) {
			t.Errorf("%s of a link: got %v", name, err)
		}
	}
	if got := s.Get(t, target, sample.File); !cgroupfile.Holds(got, sample.Two) {
		t.Errorf("%s was changed to %q", sample.File, got)
	}
}

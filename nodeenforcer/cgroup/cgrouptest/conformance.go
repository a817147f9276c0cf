package cgrouptest

import (
	"context"
	"errors"
	"path"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// Conformance says what every Tree does.
func Conformance(t *testing.T, fresh func(t *testing.T) *Harness) {
	h := fresh(t)
	suite := &suite{h}
	for _, part := range []struct {
		name string
		test func(t *testing.T)
	}{
		{"Read", suite.read},
		{"Write", suite.write},
		{"WriteFails", suite.writeFails},
		{"Rival", suite.rival},
		{"Children", suite.children},
		{"GoneIsNotIdle", suite.goneIsNotIdle},
		{"Escapes", suite.escapes},
		{"Removal", suite.removal},
		{"Stat", suite.stat},
	} {
		t.Run(part.name, part.test)
	}
	if h.Link != nil {
		t.Run("Links", suite.links)
	}
	if h.Processes != nil {
		t.Run("Processes", suite.processes)
		t.Run("Kill", suite.kill)
		t.Run("KillForking", suite.killForking)
	}
	if h.Stopped == nil {
		t.Run("CanNotFreeze", suite.canNotFreeze)
	} else if h.Processes != nil {
		t.Run("Freeze", suite.freeze)
		t.Run("FreezeForking", suite.freezeForking)
	}
}

type suite struct{ *Harness }

// child makes a cgroup directly below the suite's own and removes it at the end.
func (s *suite) child(t *testing.T, word string) string { return s.below(t, s.Root, word) }

func (s *suite) below(t *testing.T, parent, word string) string {
	t.Helper()
	at := s.name(parent, word)
	s.Make(t, at)
	t.Cleanup(func() { s.Remove(t, at) })
	return at
}

func (s *suite) name(parent, word string) string {
	if s.Unit != nil {
		word = s.Unit(parent, word)
	}
	return path.Join(parent, word)
}

func (s *suite) read(t *testing.T) {
	at := s.child(t, "read")
	want := map[string]string{}
	names := []string{s.Absent}
	for _, sample := range s.Files {
		s.Put(t, at, sample.File, sample.One+"\n")
		want[sample.File] = sample.One
		names = append(names, sample.File)
	}
	got, err := s.Tree.Read(at, names...)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what exists, trimmed, without %s (-want +got):\n%s", s.Absent, diff)
	}
}

func (s *suite) write(t *testing.T) {
	at := s.child(t, "write")
	var one, mixed []cgroup.File
	for i, sample := range s.Files {
		s.Put(t, at, sample.File, sample.Two)
		one = append(one, cgroup.File{Name: sample.File, Value: sample.One})
		mixed = append(mixed, cgroup.File{Name: sample.File, Value: sample.One + "\n"})
		if i == 1 {
			mixed[i].Value = sample.Two
		}
	}
	for _, step := range []struct {
		name  string
		files []cgroup.File
		want  int
	}{
		{"all differ", one, len(one)},
		{"none differs", one, 0},
		{"one differs, and newlines don't count", mixed, 1},
		{"nothing asked for", nil, 0},
	} {
		if n, err := s.Tree.Write(t.Context(), at, step.files); err != nil || n != step.want {
			t.Fatalf("%s: wrote %d, want %d: %v", step.name, n, step.want, err)
		}
	}
	for i, sample := range s.Files {
		want := sample.One
		if i == 1 {
			want = sample.Two
		}
		if got := s.Get(t, at, sample.File); !cgroupfile.Holds(got, want) {
			t.Errorf("%s holds %q, want %q", sample.File, got, want)
		}
	}
}

// Where one file can't be written, those before it are, and those after it are not.
func (s *suite) writeFails(t *testing.T) {
	t.Run("no such file", func(t *testing.T) {
		absent := cgroup.File{Name: s.Absent, Value: "1"}
		s.failsFirst(t, "nofile", absent, func(err error) bool { return errors.Is(err, cgroup.ErrNoFile) })
		s.failsSecond(t, "nofileafter", absent, cgroup.ErrNoFile)
	})
	if s.Refused.Name != "" {
		t.Run("a value that is refused", func(t *testing.T) {
			s.failsFirst(t, "refused", s.Refused, func(err error) bool { return !errors.Is(err, cgroup.ErrGone) && !errors.Is(err, cgroup.ErrNoFile) })
		})
	}
	t.Run("the context has ended", func(t *testing.T) {
		at, first := s.child(t, "ended"), s.Files[0]
		s.Put(t, at, first.File, first.Two)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		n, err := s.Tree.Write(ctx, at, []cgroup.File{{Name: first.File, Value: first.One}})
		if n != 0 || !errors.Is(err, context.Canceled) || !cgroupfile.Holds(s.Get(t, at, first.File), first.Two) {
			t.Errorf("wrote %d: %v", n, err)
		}
	})
}

func (s *suite) failsFirst(t *testing.T, word string, failing cgroup.File, right func(error) bool) {
	t.Helper()
	at, last := s.child(t, word), s.Files[len(s.Files)-1]
	s.Put(t, at, last.File, last.Two)
	n, err := s.Tree.Write(t.Context(), at, []cgroup.File{failing, {Name: last.File, Value: last.One}})
	if err == nil || n != 0 || !right(err) {
		t.Errorf("failing first: wrote %d: %v", n, err)
	}
	if got := s.Get(t, at, last.File); !cgroupfile.Holds(got, last.Two) {
		t.Errorf("failing first: the file after it became %q", got)
	}
}

func (s *suite) failsSecond(t *testing.T, word string, failing cgroup.File, is error) {
	t.Helper()
	at, first := s.child(t, word), s.Files[0]
	s.Put(t, at, first.File, first.Two)
	n, err := s.Tree.Write(t.Context(), at, []cgroup.File{{Name: first.File, Value: first.One}, failing})
	if n != 1 || !errors.Is(err, is) {
		t.Errorf("failing second: wrote %d: %v", n, err)
	}
	if got := s.Get(t, at, first.File); !cgroupfile.Holds(got, first.One) {
		t.Errorf("failing second: the file before it has %q", got)
	}
}

// What somebody else changes is seen and written again; what nobody asked us to write stays as it is.
func (s *suite) rival(t *testing.T) {
	at := s.child(t, "rival")
	ours, others := s.Files[0], s.Files[1:]
	for _, other := range others {
		s.Put(t, at, other.File, other.Two)
	}
	files := []cgroup.File{{Name: ours.File, Value: ours.One}}
	for range 3 {
		s.Put(t, at, ours.File, ours.Two)
		if n, err := s.Tree.Write(t.Context(), at, files); n != 1 || err != nil {
			t.Errorf("wrote %d: %v", n, err)
		}
	}
	for _, other := range others {
		if got := s.Get(t, at, other.File); !cgroupfile.Holds(got, other.Two) {
			t.Errorf("%s was %q, now %q", other.File, other.Two, got)
		}
	}
}

func (s *suite) children(t *testing.T) {
	at := s.child(t, "children")
	var want []string
	for _, word := range []string{"b", "c", "a10", "a9"} {
		want = append(want, path.Base(s.below(t, at, word)))
	}
	s.below(t, s.name(at, "b"), "deeper")
	slices.Sort(want)
	got, err := s.Tree.Children(at)
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	if got, err := s.Tree.Children(path.Join(at, want[0])); len(got) != 0 || err != nil {
		t.Errorf("a leaf has %q: %v", got, err)
	}
}

// operations are all that a Tree does, each as a function of the path.
func (s *suite) operations(t *testing.T) map[string]func(at string) error {
	var files []cgroup.File
	var names []string
	for i, sample := range s.Files {
		files = append(files, cgroup.File{Name: sample.File, Value: []string{sample.One, sample.Two}[i%2]})
		names = append(names, sample.File)
	}
	all := map[string]func(at string) error{
		"Read":      func(at string) error { _, err := s.Tree.Read(at, names...); return err },
		"ReadNone":  func(at string) error { _, err := s.Tree.Read(at); return err },
		"Write":     func(at string) error { _, err := s.Tree.Write(t.Context(), at, files); return err },
		"WriteNone": func(at string) error { _, err := s.Tree.Write(t.Context(), at, nil); return err },
		"Children":  func(at string) error { _, err := s.Tree.Children(at); return err },
		"Processes": func(at string) error { _, err := s.Tree.Processes(at); return err },
		"Stat":      func(at string) error { _, err := s.Tree.Stat(at); return err },
		"Kill":      func(at string) error { return s.Tree.Kill(t.Context(), at) },
	}
	if s.Stopped != nil {
		all["Freeze"] = func(at string) error { return s.Tree.Freeze(t.Context(), at) }
		all["Thaw"] = func(at string) error { return s.Tree.Thaw(t.Context(), at) }
	}
	return all
}

func (s *suite) goneIsNotIdle(t *testing.T) {
	idle, gone := s.child(t, "idle"), s.name(s.Root, "gone")
	s.Make(t, gone)
	s.Remove(t, gone)
	for name, operation := range s.operations(t) {
		t.Run(name, func(t *testing.T) {
			if err := operation(idle); err != nil {
				t.Errorf("idle: %v", err)
			}
			for _, at := range []string{gone, s.name(gone, "child")} {
				if err := operation(at); !errors.Is(err, cgroup.ErrGone) {
					t.Errorf("%s is gone: got %v", at, err)
				}
			}
		})
	}
}

// removal is a cgroup that comes and goes under each operation: it works or says ErrGone.
func (s *suite) removal(t *testing.T) {
	for name, operation := range s.operations(t) {
		t.Run(name, func(t *testing.T) {
			at, done := s.name(s.Root, "comesandgoes"), make(chan struct{})
			go func() {
				defer close(done)
				for range s.Rounds {
					s.Make(t, at)
					s.Remove(t, at)
				}
			}()
			for ended := false; !ended; {
				select {
				case <-done:
					ended = true
				default:
				}
				err := operation(at)
				if err != nil && !errors.Is(err, cgroup.ErrGone) && (!s.Partial || !errors.Is(err, cgroup.ErrNoFile)) {
					t.Error(err)
				}
			}
		})
	}
}

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
	if err := s.Tree.Freeze(t.Context(), "/"); err == nil {
		t.Error("the root was frozen")
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

package cgrouptest

import (
	"testing"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// Harness lets the suite make what a Tree then reads and writes. Each call of Conformance gets a fresh one.
type Harness struct {
	Tree cgroup.Tree
	// Root is an empty cgroup that exists and is the suite's own. All others are below it.
	Root string
	// Unit makes the name of a cgroup below parent, from a short word: plain, or as systemd wants it. nil: plain.
	Unit func(parent, word string) string
	// Files that each cgroup has, with two values that each can hold: at least three.
	Files []Sample
	// Absent is a file that no cgroup has.
	Absent string
	// Refused is a value, of another file than the first and the last, that the file's writer or the kernel does not take; none where each is taken, as by ordinary files.
	Refused cgroup.File
	// Make makes a cgroup below an existing one, and Remove removes it while it has no processes.
	Make, Remove func(t testing.TB, path string)
	// Put writes as somebody else would, and Get reads past the Tree.
	Put func(t testing.TB, path, file, value string)
	Get func(t testing.TB, path, file string) string
	// Link makes a symbolic link to a folder; nil where the file system has none, as cgroupfs.
	Link func(t testing.TB, path, target string)
	// Processes is nil where there are none, as in a tree of ordinary files.
	Processes *Processes
	// Stopped tells whether a process that was started in a cgroup is stopped there; nil where nothing can be frozen.
	Stopped func(t testing.TB, path string, pid int) bool
	// Partial says that a cgroup can be there by half: v1 removes it hierarchy by hierarchy, and systemd makes it before it gives it
	// its controllers.
	Partial bool
	// Rounds of the tests of races; fewer where making a cgroup is slow.
	Rounds int
}

// Sample is a file and two values.
type Sample struct{ File, One, Two string }

// Processes makes them.
type Processes struct {
	// Start starts n in a cgroup.
	Start func(t testing.TB, path string, n int) []int
	// StartForking starts one that starts others all the time, and whose children do.
	StartForking func(t testing.TB, path string)
	// Ended waits until a process that was started is gone, and fails the test where it takes too long.
	Ended func(t testing.TB, pid int)
	// Alive tells of one that was started.
	Alive func(pid int) bool
}

// Benchmark measures what a Tree's operations cost, per file where there are several.
func Benchmark(b *testing.B, h *Harness) {
	at := h.Root
	for _, word := range []string{"one", "two", "three"} { // as deep as a container
		made := (&suite{h}).name(at, word)
		h.Make(b, made)
		b.Cleanup(func() { h.Remove(b, made) })
		at = made
	}
	var names []string
	var one, two []cgroup.File
	for _, sample := range h.Files {
		names = append(names, sample.File)
		one = append(one, cgroup.File{Name: sample.File, Value: sample.One})
		two = append(two, cgroup.File{Name: sample.File, Value: sample.Two})
	}
	perFile := func(b *testing.B, operation func(i int) error) {
		for i := 0; b.Loop(); i++ {
			if err := operation(i); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(names)), "us/file")
	}
	b.Run("Read", func(b *testing.B) {
		perFile(b, func(int) error { _, err := h.Tree.Read(at, names...); return err })
	})
	b.Run("WriteSame", func(b *testing.B) {
		_, _ = h.Tree.Write(b.Context(), at, one)
		perFile(b, func(int) error { _, err := h.Tree.Write(b.Context(), at, one); return err })
	})
	for i, name := range names { // some are much slower than others: cpu.max where it is the machine's first quota, or was the last
		b.Run("WriteDiffers/"+name, func(b *testing.B) {
			for n := 0; b.Loop(); n++ {
				if _, err := h.Tree.Write(b.Context(), at, [][]cgroup.File{one, two}[n%2][i:i+1]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	for name, read := range map[string]func() error{ // what a decision reads, and all statistics
		"ReadMemory": func() error { _, err := cgroup.ReadMemory(h.Tree, at); return err },
		"Stat":       func() error { _, err := h.Tree.Stat(at); return err },
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := read(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("Processes", func(b *testing.B) {
		perFile(b, func(int) error { _, err := h.Tree.Processes(at); return err })
	})
}

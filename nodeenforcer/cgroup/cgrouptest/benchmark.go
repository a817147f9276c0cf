package cgrouptest

import (
	"testing"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

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
	b.Run("Processes", func(b *testing.B) {
		perFile(b, func(int) error { _, err := h.Tree.Processes(at); return err })
	})
}

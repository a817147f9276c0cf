package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// nest makes a chain of cgroups, so deep that no path names the last, with these processes in the last.
func nest(t *testing.T, at string, depth int, last string) {
	t.Helper()
	fd, err := unix.Open(at, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range depth {
		if err := unix.Mkdirat(fd, "a", 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "a", unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_ = unix.Close(fd)
		fd = next
		file, err := unix.Openat(fd, procsFile, unix.O_CREAT|unix.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		if i == depth-1 {
			_, _ = unix.Write(file, []byte(last))
		}
		_ = unix.Close(file)
	}
	_ = unix.Close(fd)
}

// Whoever may make cgroups below his own must not keep the enforcer busy: it looks at some. What it finds there it returns; that there is nobody it
// says only of all.
func TestProcessesOfDeepAndWide(t *testing.T) {
	for name, test := range map[string]struct {
		depth, width int
		own, last    string // processes of the group itself, and of the last one below
		want         []int
		err          error
	}{
		"a few":                {depth: 10, width: 300, last: "7\n", want: []int{7}},
		"as deep as it goes":   {depth: maxDepth, last: "7\n", want: []int{7}},
		"deeper, somebody":     {depth: 100, own: "5\n", last: "7\n", want: []int{5}},
		"deeper, nobody found": {depth: 100, last: "7\n", err: ErrTooMany},
		"wider, somebody":      {width: maxGroups + 1, own: "5\n", want: []int{5}},
		"wider, nobody found":  {width: maxGroups + 1, err: ErrTooMany},
		"nobody at all":        {depth: 3, width: 3},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			pod := filepath.Join(root, "pod")
			if err := os.Mkdir(pod, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(pod, procsFile), []byte(test.own), 0o600); err != nil {
				t.Fatal(err)
			}
			nest(t, pod, test.depth, test.last)
			for i := range test.width {
				wide := filepath.Join(pod, fmt.Sprint("w", i))
				if err := os.Mkdir(wide, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(wide, procsFile), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := NewV2(root).Processes("/pod")
			if !slices.Equal(got, test.want) || !errors.Is(err, test.err) {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
}

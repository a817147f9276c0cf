package main

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// What is asked for comes, no more, and SIGTERM is the end.
func TestGrow(t *testing.T) {
	for _, tc := range []struct {
		name string
		args []string
		size func(dir string) int
		want int
	}{
		{"fill", []string{"fill", "0.5", "2.5"}, func(dir string) int {
			info, err := os.Stat(filepath.Join(dir, "filled"))
			if err != nil {
				return 0
			}
			return int(info.Size())
		}, 1 << 19},
		{"files", []string{"files", "17", "59"}, func(dir string) int {
			entries, _ := os.ReadDir(dir)
			return len(entries)
		}, 17},
	} {
		t.Run(tc.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "new")
			ended := make(chan error, 1)
			go func() { ended <- run(append(tc.args, dir)) }()
			err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 20*time.Second, true, func(context.Context) (bool, error) { return tc.size(dir) >= tc.want, nil })
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(os.Getpid(), syscall.SIGTERM); err != nil { // it listens before it takes anything
				t.Fatal(err)
			}
			if err := <-ended; err != nil || tc.size(dir) != tc.want {
				t.Errorf("%d, want %d: %v", tc.size(dir), tc.want, err)
			}
		})
	}
}

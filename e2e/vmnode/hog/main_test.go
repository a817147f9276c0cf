package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCommands(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	for _, tc := range []struct {
		name string
		args []string
		ok   bool
	}{
		{"touch", []string{"touch", file}, true},
		{"touch in no folder", []string{"touch", file + "/x"}, false},
		{"sleep", []string{"sleep", "0.01"}, true},
		{"sleep for no number", []string{"sleep", "x"}, false},
		{"no command", []string{"drink", "1"}, false},
		{"no arguments", []string{"eat"}, false},
		{"no rate", []string{"eat", "1"}, false},
		{"an unknown flag", []string{"eat", "-no", "1", "1"}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if err := run(tc.args); (err == nil) != tc.ok {
				t.Errorf("got %v", err)
			}
		})
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What is published is a commit with its tag, once. gh is scripted.
func TestReady(t *testing.T) {
	root := t.TempDir()
	git := func(args ...string) {
		t.Helper()
		c := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=somebody", "-c", "user.email=somebody@example.com", "-C", root}, args...)...)
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatal(err, string(out))
		}
	}
	git("init", "--quiet")
	git("commit", "--quiet", "--allow-empty", "--message=first")
	git("tag", "v1.2.3")
	git("tag", "v1.2.2")
	for name, test := range map[string]struct {
		version, gh, change string
		draft               bool
		refused             string // nothing: it is ready
	}{
		"no page":            {version: "v1.2.3", gh: "echo release not found >&2; exit 1"},
		"two tags":           {version: "v1.2.2", gh: "echo release not found >&2; exit 1"},
		"draft":              {version: "v1.2.3", gh: "echo true", draft: true},
		"released":           {version: "v1.2.3", gh: "echo false", refused: "released already"},
		"page unknown":       {version: "v1.2.3", gh: "echo HTTP 502 >&2; exit 1", refused: "HTTP 502"},
		"another tag":        {version: "v1.2.4", gh: "echo release not found >&2; exit 1", refused: "does not have the tag"},
		"part of a tag":      {version: "v1.2", gh: "echo release not found >&2; exit 1", refused: "does not have the tag"},
		"changes, and a tag": {version: "v1.2.3", gh: "echo release not found >&2; exit 1", change: "new", refused: "has changes"},
	} {
		t.Run(name, func(t *testing.T) {
			programs := t.TempDir()
			if err := os.WriteFile(filepath.Join(programs, "gh"), []byte("#!/bin/sh\n"+test.gh+"\n"), 0o700); err != nil {
				t.Fatal(err)
			}
			t.Setenv("PATH", programs+":"+os.Getenv("PATH"))
			if test.change != "" {
				file := filepath.Join(root, test.change)
				if err := os.WriteFile(file, nil, 0o600); err != nil {
					t.Fatal(err)
				}
				defer os.Remove(file)
			}
			w := &workshop{release: release{Version: test.version}, root: root}
			err := w.ready(t.Context())
			if test.refused == "" && err != nil || test.refused != "" && (err == nil || !strings.Contains(err.Error(), test.refused)) {
				t.Errorf("got %v, want %q", err, test.refused)
			}
			if w.draft != test.draft {
				t.Errorf("draft: %v", w.draft)
			}
		})
	}
}

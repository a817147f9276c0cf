package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever pushes a tag chooses its name: neither make nor its shell runs what stands in it.
func TestMakefile(t *testing.T) {
	dir := t.TempDir()
	said, run := filepath.Join(dir, "said"), filepath.Join(dir, "run")
	if err := os.WriteFile(filepath.Join(dir, "go"), []byte("#!/bin/sh\nfor arg; do echo \"$arg\"; done >'"+said+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"v1.2.3", "v1.2.3';touch${IFS}" + run + ";'", "v1.2.3$(shell touch " + run + ")", "v1.2.3\";touch${IFS}" + run + ";\"", "v1.2.3`touch${IFS}" + run + "`"} {
		for _, target := range []string{"release", "publish"} {
			// A make that runs this test would hand its own variables on.
			c := exec.CommandContext(t.Context(), "make", "-C", "..", target)
			c.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH"), "VERSION=" + version, "REGISTRY=registry.example.com/" + version}
			if out, err := c.CombinedOutput(); err != nil {
				t.Fatal(err, string(out))
			}
			got, err := os.ReadFile(said)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"-version=" + version, "-registry=registry.example.com/" + version} {
				if !strings.Contains("\n"+string(got), "\n"+want+"\n") {
					t.Errorf("make %s: no %s in\n%s", target, want, got)
				}
			}
			if _, err := os.Stat(run); err == nil {
				t.Fatalf("make %s ran what stands in %s", target, version)
			}
		}
	}
}

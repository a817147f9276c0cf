package main

import (
	"os/exec"
	"strings"
	"testing"
)

// What evaluates CEL takes 9 MiB of each node's memory (make bench-node), and the node enforcer evaluates none.
func TestNodeEnforcerHasNoCEL(t *testing.T) {
	packages, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("list the packages: %v", err)
	}
	for path := range strings.Lines(string(packages)) {
		for _, heavy := range []string{"github.com/google/cel-go", "k8s.io/apiserver", "k8s.io/apiextensions-apiserver"} {
			if strings.HasPrefix(path, heavy) {
				t.Errorf("it has %s", strings.TrimSpace(path))
			}
		}
	}
}

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The copies in the repository are fresh.
func TestCopiesAreFresh(t *testing.T) {
	if err := run("..", true); err != nil {
		t.Error(err)
	}
}

func TestRun(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) {
		t.Helper()
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, folder := range folders {
		put(folder+"/kustomization.yaml", "resources: []")
	}
	put("webhook/kustomization.yaml", "resources: [rbac.yaml]")
	put("webhook/rbac.yaml", "a")
	put("webhook/patch.yaml", "is no resource")
	put("components/selfmanaged/kustomization.yaml", "resources: [rbac.yaml]")
	put("components/selfmanaged/rbac.yaml", "b")
	put(copied+"/webhook/rbac.yaml", "old")
	put(copied+"/webhook/gone.yaml", "no longer there")

	stale := run(dir, true)
	if stale == nil || !strings.Contains(stale.Error(), `["selfmanaged/rbac.yaml" "webhook/gone.yaml" "webhook/rbac.yaml"]`) {
		t.Errorf("stale copies: got %v", stale)
	}
	for range 2 { // the second time there is nothing to do
		if err := run(dir, false); err != nil {
			t.Fatal(err)
		}
	}
	if err := run(dir, true); err != nil {
		t.Error(err)
	}
	got, err := read(os.DirFS(dir), copied)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string][]byte{"webhook/rbac.yaml": []byte("a"), "selfmanaged/rbac.yaml": []byte("b")}, got); d != "" {
		t.Error(d)
	}
	put("policies/kustomization.yaml", "resources: [gone.yaml]")
	if err := run(dir, false); err == nil || !strings.Contains(err.Error(), "a resource of policies") {
		t.Errorf("a resource that is not there: got %v", err)
	}
}

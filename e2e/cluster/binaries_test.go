package cluster

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestBinariesFromAssets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(assetsVariable, dir)
	needed := Options{Scheduler: true}.Programs()
	_, err := Binaries(t.Context(), io.Discard, needed...)
	if err == nil || !strings.Contains(err.Error(), "etcd, kube-apiserver, kubectl, kube-scheduler") {
		t.Errorf("an empty folder: got %v", err)
	}
	for _, name := range needed {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Binaries(t.Context(), io.Discard, needed...)
	if err != nil || got != dir {
		t.Errorf("got %q, %v, want %q", got, err, dir)
	}
	if _, err := Binaries(t.Context(), io.Discard, "kubelet"); err == nil {
		t.Error("a folder without a kubelet was accepted for one")
	}
}

// fakeGo puts a command go before the real one. It notes what it is to build, makes a file of that, and once, if a file named
// broken is beside it, fails. It "downloads" a module with a short go.mod. What it returns reads the notes.
func fakeGo(t *testing.T) (built func() []string) {
	t.Helper()
	bin := t.TempDir()
	const script = `#!/bin/sh
case $1 in
mod) echo "{\"Dir\": \"$0.module\"}"; exit ;;
list) exit ;;
esac
for package; do :; done # the last argument
while [ "$1" != -o ]; do shift; done
[ -e "$2" ] && exit 3 # somebody builds the same
echo "$package" >>"$0.log"
echo half >"$2"
if rm "$0.broken" 2>/dev/null; then echo "out of paper"; exit 1; fi
echo "$package" >"$2"
`
	program := filepath.Join(bin, "go")
	if err := os.WriteFile(program, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(program+".module", 0o755),
		os.WriteFile(filepath.Join(program+".module", "go.mod"), []byte(theirGoMod), 0o600), os.WriteFile(filepath.Join(program+".module", "go.sum"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	t.Setenv(assetsVariable, "")
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	return func() []string {
		text, err := os.ReadFile(program + ".log")
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		return strings.Fields(string(text))
	}
}

func programNames() []string {
	var names []string
	for _, p := range programs {
		names = append(names, p.name)
	}
	return names
}

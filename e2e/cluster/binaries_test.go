package cluster

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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

func TestOnlyTheNamedProgramsAreBuilt(t *testing.T) {
	built := fakeGo(t)
	dir, err := Binaries(t.Context(), io.Discard, "kube-scheduler", "kubectl")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"k8s.io/kubernetes/cmd/kubectl", "k8s.io/kubernetes/cmd/kube-scheduler"}
	if got := built(); !slices.Equal(got, want) {
		t.Errorf("built %q", got)
	}
	if got := missing(dir, "kubectl", "kube-scheduler", "kubelet"); !slices.Equal(got, []string{"kubelet"}) {
		t.Errorf("%s lacks %q", dir, got)
	}
	// What is there is not built again.
	if _, err := Binaries(t.Context(), io.Discard, "kube-scheduler", "etcd"); err != nil {
		t.Fatal(err)
	}
	if got := built(); !slices.Equal(got, append(want, "go.etcd.io/etcd/server/v3")) {
		t.Errorf("built %q", got)
	}
}

// Nobody finds half a program, neither after a build that failed nor after one that was killed and left its file.
func TestFailedBuildLeavesNothing(t *testing.T) {
	fakeGo(t)
	program, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(program+".broken", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var told strings.Builder
	_, err = Binaries(t.Context(), &told, "etcd")
	if err == nil || !strings.Contains(err.Error(), "out of paper") || !strings.HasSuffix(told.String(), " ... failed\n") {
		t.Errorf("got %v and told %q", err, told.String())
	}
	dirs, err := filepath.Glob(os.Getenv("XDG_CACHE_HOME") + "/podgrace/kubernetes-*")
	if err != nil || len(dirs) != 1 || len(missing(dirs[0], "etcd")) != 1 {
		t.Fatalf("after a failure: %q, %v", dirs, err)
	}
	if err := os.WriteFile(filepath.Join(dirs[0], ".build-etcd"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir, err := Binaries(t.Context(), io.Discard, "etcd")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "etcd")); string(text) != "go.etcd.io/etcd/server/v3\n" {
		t.Errorf("etcd is %q, %v", text, err)
	}
}

// Callers at once with different sets: each finds its own, and each program is built once.
func TestBinariesAtOnce(t *testing.T) {
	built := fakeGo(t)
	sets := [][]string{{"kubelet", "etcd"}, {"etcd", "kubectl"}, {"kubectl", "kubelet"}, programNames()}
	var all sync.WaitGroup
	for _, names := range sets {
		all.Go(func() {
			dir, err := Binaries(t.Context(), io.Discard, names...)
			if err != nil || len(missing(dir, names...)) > 0 {
				t.Errorf("%q: %v, without %q", names, err, missing(dir, names...))
			}
		})
	}
	all.Wait()
	got := built()
	slices.Sort(got)
	var want []string
	for _, p := range programs {
		want = append(want, p.pkg)
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("built %q", got)
	}
}

func programNames() []string {
	var names []string
	for _, p := range programs {
		names = append(names, p.name)
	}
	return names
}

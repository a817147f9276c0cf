package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/program/version"
)

// TestMain lets the test program stand for podgrace-preview itself, where podgrace starts it.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == version.Preview {
		main()
	}
	os.Exit(m.Run())
}

// beside returns podgrace, with podgrace-preview in its folder.
func beside(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-C", "../../..", "-o", filepath.Join(dir, version.CommandLine), "./cmd/podgrace")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Link(self, filepath.Join(dir, version.Preview)); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, version.CommandLine)
}

// unpacked are the files of an archive, in a new folder.
func unpacked(t *testing.T, archive string) string {
	t.Helper()
	parsed, err := txtar.ParseFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, f := range parsed.Files {
		if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// podgrace starts podgrace-preview by itself for what it tells beside its own.
func TestStartedByPodgrace(t *testing.T) {
	podgrace, dir := beside(t), unpacked(t, "testdata/contradiction.txtar")
	started := func(stdin, args string) (string, int) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), podgrace, strings.Fields(args)...)
		cmd.Dir, cmd.Stdin = dir, strings.NewReader(stdin)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if cmd.ProcessState == nil || errs.Len() > 0 {
			t.Fatalf("%s: %v: %s", args, err, &errs)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	deployment, err := os.ReadFile(filepath.Join(dir, "new.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	const pending = "would be pending: 0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints; " +
		"the constraints on topology.kubernetes.io/zone and kubernetes.io/hostname contradict each other (the first allows n3, the second n2)"
	for args, stdin := range map[string]string{
		"review -o json --preview --fail-on warn -f new.yaml --state cluster.yaml":    "",
		"review -o json --preview --fail-on warn -f - --state cluster.yaml":           string(deployment),
		"review -o json --preview --fail-on warn -f cluster.yaml -f - --exclude none": string(deployment),
	} {
		out, code := started(stdin, args)
		var r review.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		var got []string
		for _, result := range r.Results {
			if result.Pending != nil {
				got = append(got, result.Resource.Name+": "+result.Pending.Message)
			}
		}
		if want := "web: " + pending; code != 1 || len(got) != 1 || got[0] != want {
			t.Errorf("%s: exit %d, %q, want %q", args, code, got, want)
		}
	}
	out, code := started("", "explain web -f new.yaml --state cluster.yaml")
	if want := "\nScheduling 0/3 nodes are available: 3 node(s) didn't match pod topology spread constraints.\n"; code != 0 || !strings.Contains(out, want) {
		t.Errorf("explain: exit %d, want %q: %s", code, want, out)
	}
	if out, code = started("", "explain w1 -f cluster.yaml"); code != 0 || !strings.Contains(out, "\nScheduling If it were made anew: fits on 3 of 3 nodes") {
		t.Errorf("explain of one that runs: exit %d: %s", code, out)
	}
}

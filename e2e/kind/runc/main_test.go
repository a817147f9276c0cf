package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestSpecification(t *testing.T) {
	for _, tc := range []struct {
		args      []string
		file      string
		container bool
	}{
		{[]string{"--root", "/r", "create", "--bundle", "/b", "id"}, "/b/config.json", true},
		{[]string{"run", "-b=/b", "id"}, "/b/config.json", true},
		{[]string{"run", "id"}, "config.json", true},
		{[]string{"--log", "/l", "exec", "--process", "/p.json", "--detach", "id"}, "/p.json", false},
		{[]string{"exec", "id", "true"}, "", false},
		{[]string{"state", "id"}, "", false},
	} {
		file, container := specification(tc.args)
		if file != tc.file || container != tc.container {
			t.Errorf("%q: got %q, %v", tc.args, file, container)
		}
	}
}

func TestStrip(t *testing.T) {
	var process map[string]any
	given := `{"args": ["sh"], "oomScoreAdj": -999, "rlimits": [{"type": "RLIMIT_NOFILE"}],
		"capabilities": {"bounding": ["CAP_KILL", "CAP_SYS_RESOURCE"], "ambient": null}}`
	if err := json.Unmarshal([]byte(given), &process); err != nil {
		t.Fatal(err)
	}
	strip(process, []string{"CAP_SYS_RESOURCE"})
	got, err := json.Marshal(process)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"args":["sh"],"capabilities":{"ambient":null,"bounding":["CAP_KILL"]}}`
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("want (-), got (+):\n%s", d)
	}
}

// A container that asks for nothing special keeps its specification, but for its limits.
func TestStripLeavesTheRest(t *testing.T) {
	process := map[string]any{"oomScoreAdj": 100.0, "args": []any{"sh"}}
	strip(process, []string{"CAP_SYS_RESOURCE"})
	if d := cmp.Diff(map[string]any{"oomScoreAdj": 100.0, "args": []any{"sh"}}, process); d != "" {
		t.Errorf("want (-), got (+):\n%s", d)
	}
}

func TestRewriteSaysWhatIsWrong(t *testing.T) {
	lacks, err := lacking()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "config.json")
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(file, true); (err != nil) != (len(lacks) > 0) {
		t.Errorf("with %v lacking: got %v", lacks, err)
	}
}

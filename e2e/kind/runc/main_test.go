package main

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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

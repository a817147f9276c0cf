package policyfile_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podgrace/podgrace/policy/policyfile"
)

const nodeHead = "apiVersion: podgrace.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: workers}\n"

func loadNode(t *testing.T, text string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "n.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	policies, err := policyfile.LoadNodePolicies(nil, file)
	if err == nil && len(policies) == 1 && policies[0].Spec.Mode != "Observe" {
		t.Errorf("the default mode is %q", policies[0].Spec.Mode)
	}
	if err == nil && len(policies) == 1 && policies[0].Spec.Eviction != nil {
		if got := policies[0].Spec.Eviction.PressureTransitionPeriod.Duration; got != 5*time.Minute {
			t.Errorf("the default transition period is %s", got)
		}
	}
	return file, err
}

func TestNodePolicyRules(t *testing.T) {
	for name, tc := range map[string]struct{ spec, want string }{
		"empty":               {"spec: {}\n", ""},
		"all of eviction":     {"spec:\n  eviction:\n    hard: [{signal: memory.available, value: 500Mi, minimumReclaim: 5%}]\n    soft: [{signal: nodefs.available, value: 12.5%, gracePeriod: 1m}]\n    memoryStall: {stall: 150ms, window: 1s}\n", ""},
		"unknown signal":      {"spec:\n  eviction:\n    hard: [{signal: memory.free, value: 1Gi}]\n", `:6: spec.eviction.hard[0].signal: Unsupported value`},
		"the stall's signal":  {"spec:\n  eviction:\n    hard: [{signal: memory.stall, value: 1Gi}]\n", `Unsupported value`},
		"no quantity":         {"spec:\n  eviction:\n    hard: [{signal: memory.available, value: much}]\n", `must be a quantity of at least 0`},
		"negative":            {"spec:\n  eviction:\n    hard: [{signal: memory.available, value: '-1'}]\n", `must be a quantity of at least 0`},
		"over 100%":           {"spec:\n  eviction:\n    hard: [{signal: memory.available, value: 101%}]\n", `must be a quantity of at least 0`},
		"signal twice":        {"spec:\n  eviction:\n    hard: [{signal: memory.available, value: 1Gi}, {signal: memory.available, value: 2Gi}]\n", `Duplicate value`},
		"soft without grace":  {"spec:\n  eviction:\n    soft: [{signal: memory.available, value: 1Gi}]\n", `gracePeriod: Required value`},
		"stall over window":   {"spec:\n  eviction:\n    memoryStall: {stall: 2s, window: 1s}\n", `stall must be shorter than window`},
		"window too long":     {"spec:\n  eviction:\n    memoryStall: {stall: 2s, window: 11s}\n", `must be from 500ms to 10s`},
		"stall of nothing":    {"spec:\n  eviction:\n    memoryStall: {stall: 0s, window: 1s}\n", `must be longer than 0`},
		"reserved over 100%":  {"spec:\n  qosReserved: {memoryPercent: 101}\n", `spec.qosReserved.memoryPercent`},
		"a selector's values": {"spec:\n  nodeSelector: {matchLabels: {'a b': c}}\n", `n.yaml:`},
		"typo":                {"spec:\n  modus: Tune\n", `:5: unknown field "spec.modus"`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := loadNode(t, nodeHead+tc.spec)
			if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}

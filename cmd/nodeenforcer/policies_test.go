package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/policy/policyfile"
)

// Files of NodePolicies are refused if the CustomResourceDefinition's own code refuses them.
func TestNodePoliciesAreRefusedAsByTheDefinition(t *testing.T) {
	for spec, wrong := range map[string]bool{
		"": false, "mode: Tune": false, "mode: Force": true, "modus: Tune": true, "mode: 1": true, "weight: a": true, "weight: 5": false, "weight: 1.5": true,
		"qosReserved: {memoryPercent: 100}": false, "qosReserved: {memoryPercent: 101}": true, "qosReserved: {memoryPercent: -1}": true, "qosReserved: {}": true,
		"memory: {protection: Tiered, throttlePercent: 1}": false, "memory: {protection: Some}": true, "memory: {throttlePercent: 0}": true, "memory: {throttlePercent: 101}": true,
		"oom: {order: Priority}": false, "oom: {order: Age}": true,
		"bounds: {maxProtection: Low, maxProtectedMemoryPercent: 0, maxCPUWeight: 1, maxIOWeight: 10000}": false,
		"bounds: {maxProtection: Max}": true, "bounds: {maxProtectedMemoryPercent: 101}": true, "bounds: {maxCPUWeight: 0}": true, "bounds: {maxIOWeight: 10001}": true,
		"eviction: {mode: Observe, maxEvictionsPerMinute: 1000, maxPodGracePeriodSeconds: 1, hardGracePeriodSeconds: 60}": false,
		"eviction: {mode: Off}": true, "eviction: {maxEvictionsPerMinute: 0}": true, "eviction: {maxEvictionsPerMinute: 1001}": true, "eviction: {maxPodGracePeriodSeconds: 0}": true,
		"eviction: {hardGracePeriodSeconds: 0}": true, "eviction: {hardGracePeriodSeconds: 61}": true,
		"eviction: {hard: [{signal: memory.available, value: 10%}], soft: [{signal: memory.available, value: 1Gi, gracePeriod: 30s}]}": false,
		"eviction: {hard: [{signal: memory.available, value: 110%}]}":                                                                  true, "eviction: {hard: [{signal: memory, value: 10%}]}": true, "eviction: {hard: [{signal: pid.available, value: much}]}": true,
		"eviction: {hard: [{signal: pid.available, value: '-1'}]}": true, "eviction: {hard: [{signal: pid.available, value: 1}, {signal: pid.available, value: '2'}]}": true,
		"eviction: {memoryStall: {stall: 100ms, window: 1s}}": false, "eviction: {memoryStall: {stall: 2s, window: 1s}}": true, "eviction: {memoryStall: {stall: 100ms, window: 1m}}": true, "eviction: {memoryStall: {kind: Any, stall: 100ms, window: 1s}}": true,
		"eviction: {soft: [{signal: memory.available, value: 1Gi}]}": true, "eviction: {memoryStall: {window: 1s}}": true, "eviction: {hard: [{signal: memory.available}]}": true,
		"nodeSelector: {matchLabels: {pool: a}}": false, "nodeSelector: {matchExpressions: [{key: a, operator: Near}]}": true, "nodeSelector: {matchLabels: {'a b': c}}": true,
		"reservations: {kube: {memory: 1Gi}}": false, "reservations: {kube: {memory: much}}": true,
	} {
		file := filepath.Join(t.TempDir(), "policy.yaml")
		text := "apiVersion: podgrace.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: a}\nspec:\n  " + spec + "\n"
		if spec == "" {
			text = "apiVersion: v1\nkind: Pod\nmetadata: {name: other}\n---\napiVersion: podgrace.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: a}\nspec: {}\n"
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readNodePolicies(file)
		want, wantErr := policyfile.LoadNodePolicies(nil, file)
		if (err != nil) != wrong || (wantErr != nil) != wrong {
			t.Errorf("%q: %v; the definition's code: %v", spec, err, wantErr)
			continue
		}
		if wrong {
			continue
		}
		if len(got) != 1 || len(want) != 1 || got[0].Name != want[0].Name || !cmp.Equal(got[0].Spec.NodeSelector, want[0].Spec.NodeSelector) || got[0].Spec.Mode != want[0].Spec.Mode {
			t.Errorf("%q: %v, want %v", spec, got, want)
		}
	}
}

func TestFilesOfNodePolicies(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"a.yaml": "apiVersion: podgrace.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: a}\nspec: {mode: Tune}\n", "sub/b.yml": "apiVersion: podgrace.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: b}\nspec: {}\n",
		"twice/a.yaml": "apiVersion: podgrace.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: a}\nspec: {}\n", "old.yaml": "apiVersion: podgrace.dev/v1\nkind: NodePolicy\nmetadata: {name: c}\n",
		"half.yaml": "kind: NodePolicy\nspec: {", "none/readme.txt": "no policies",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		paths  []string
		found  int
		errors bool
	}{
		{[]string{"a.yaml"}, 1, false}, {[]string{"a.yaml", "sub"}, 2, false}, {[]string{"a.yaml", "twice"}, 1, true}, {[]string{"old.yaml"}, 0, true}, {[]string{"half.yaml"}, 0, true},
		{[]string{"none"}, 0, true}, {[]string{"nowhere"}, 0, true},
	} {
		var paths []string
		for _, p := range test.paths {
			paths = append(paths, filepath.Join(dir, p))
		}
		got, err := readNodePolicies(paths...)
		if len(got) != test.found || (err != nil) != test.errors {
			t.Errorf("%s: %d policies, %v", fmt.Sprint(test.paths), len(got), err)
		}
	}
}

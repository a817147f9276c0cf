package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const farms = `{apiVersion: example.com/v1, kind: Farm, metadata: {name: f, namespace: shop}, spec: {pods: {spec: {terminationGracePeriodSeconds: 10, containers: [{name: c}]}}}}
---
{apiVersion: example.com/v1, kind: Barn, metadata: {name: b, namespace: shop}}
---
{apiVersion: example.com/v1, kind: Barn, metadata: {name: c, namespace: shop}}
`

// Every command takes the flag, and says what it still does not know.
func TestTemplateFlag(t *testing.T) {
	inTree(t)
	write(t, map[string]string{
		"misspelt/ns.yaml": "{apiVersion: v1, kind: Namspace, metadata: {name: shop}}",
		"patch/web.yaml":   "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 3}}",
		"suites/suite.yml": suiteOfFarms,
		"typos/suite.yml":  strings.Replace(suiteOfFarms, "state: [../cluster]", "state: [../cluster, ../misspelt]", 1),
	})
	for name, test := range map[string]struct {
		args string
		code int
		says []string
	}{
		"review, not told":       {"review -f -" + whole, 0, []string{"Reviewed 0", "not known: 2 Barn.example.com, 1 Farm.example.com"}},
		"review":                 {"review -f - --template Farm.example.com=spec.pods" + whole, 0, []string{"Farm shop/f", "is now 20, not 10", "not known: 2 Barn.example.com:"}},
		"review, json":           {"review -f - -o json" + whole, 0, []string{`"Barn.example.com": 2`, `"Farm.example.com": 1`, `"other": 0`}},
		"review, markdown":       {"review -f - -o markdown" + whole, 0, []string{"not known: 2 Barn"}},
		"review, html":           {"review -f - -o html" + whole, 0, []string{"not known: 2 Barn"}},
		"review, github":         {"review -f - -o github" + whole, 0, []string{"not known: 2 Barn"}},
		"explain":                {"explain f -f - --template Farm.example.com=spec.pods" + whole, 0, []string{"20 s"}},
		"explain, not told":      {"explain f -f -" + whole, 2, []string{"nothing that makes pods"}},
		"diff":                   {"diff -f - --from none --to policies --state cluster --template Farm.example.com=spec.pods", 1, []string{"1 workload in 1 file", "not known: 2 Barn.example.com:"}},
		"diff, not told":         {"diff -f - --from none --to policies --state cluster", 0, []string{"0 workloads in 1 file", "not known: 2 Barn.example.com, 1 Farm.example.com:"}},
		"no path":                {"review -f - --template Farm.example.com" + whole, 2, []string{"--template Farm.example.com:", "no path of a field"}},
		"no group":               {"diff -f - --from none --to policies --template Farm=spec.pods", 2, []string{"no kind with its group"}},
		"a kind of Kubernetes":   {"test suites --template Deployment.apps=spec", 2, []string{"Kubernetes' own"}},
		"test":                   {"test suites --template Farm.example.com=spec.pods", 0, []string{"1 passed"}},
		"test, not told":         {"test suites", 2, []string{"whether it makes pods is not known (Farm.example.com)"}},
		"a kind that is a typo":  {"review -f deploy --state misspelt" + whole, 2, []string{"v1 has no kind Namspace; is it Namespace of v1?", "Reviewed 2"}},
		"the typo, compared":     {"diff -f deploy --state misspelt --from none --to none", 2, []string{"v1 has no kind Namspace; is it Namespace of v1?"}},
		"the typo, explained":    {"explain calm -f deploy --state misspelt" + whole, 2, []string{"v1 has no kind Namspace; is it Namespace of v1?"}},
		"the typo, in a suite":   {"test typos", 2, []string{"v1 has no kind Namspace; is it Namespace of v1?"}},
		"a patch that kustomize": {"review -f patch" + whole, 2, []string{"patch/web.yaml:1", "Deployment web: spec.selector is missing", "Reviewed 0"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, complaints := typed(t, farms, test.args)
			if code != test.code {
				t.Errorf("exit %d, want %d", code, test.code)
			}
			for _, words := range test.says {
				if !strings.Contains(out+complaints, words) {
					t.Errorf("does not say %q", words)
				}
			}
			if t.Failed() {
				t.Logf("%s\n%s", out, complaints)
			}
		})
	}
}

// write puts files into the folder that the test is in.
func write(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

const suiteOfFarms = `
apiVersion: podgrace.dev/v1alpha1
kind: PolicySuite
policies: [../policies]
state: [../cluster]
manifests: []
objects:
- {apiVersion: example.com/v1, kind: Farm, metadata: {name: f, namespace: shop}, spec: {pods: {spec: {terminationGracePeriodSeconds: 10, containers: [{name: c}]}}}}
cases:
- name: a farm
  when: {object: Farm shop/f}
  then: {fields: {spec.terminationGracePeriodSeconds: 20}}
`

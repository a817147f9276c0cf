package suite

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"gotest.tools/v3/golden"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/internal/console"
)

const (
	policy = `apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: web}
spec:
  priority: {className: high, allowedClassNames: [high]}
  gracePeriod: {minSeconds: 20, maxSeconds: 300}
  node: {oom: {rank: 20}}
  removal: {forceDelete: Deny, protect: All, evictionWithoutGrace: Raise}
`
	cluster = `{apiVersion: v1, kind: Namespace, metadata: {name: shop}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: 1}
`
	workloads = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      terminationGracePeriodSeconds: 10
      containers: [{name: c, image: web}]
---
apiVersion: v1
kind: Pod
metadata: {name: cheap, namespace: shop}
spec:
  priorityClassName: low
  containers: [{name: c, image: cheap}]
`
	head = "apiVersion: podgrace.dev/v1alpha1\nkind: PolicySuite\nmetadata: {name: web}\n"
)

// folder has a policy, a cluster, workloads and what a test adds.
func folder(t testing.TB, more map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	files := map[string]string{"policy.yaml": policy, "cluster.yaml": cluster, "workloads.yaml": workloads}
	maps.Copy(files, more)
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// tested is the report of all suites of paths.
func tested(t testing.TB, r Runner, paths ...string) *Report {
	t.Helper()
	suites, wrong := Load(paths...)
	report, err := r.Run(context.Background(), suites)
	if err != nil {
		t.Fatal(err)
	}
	report.AddErrors(wrong...)
	return report
}

func printed(t interface {
	Helper()
	Fatal(...any)
}, format string, r *Report, o Options) string {
	t.Helper()
	var out bytes.Buffer
	if err := Write(&out, format, r, o); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// Each golden file has a suite, then what is printed of it.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := folder(t, map[string]string{"suite.yaml": string(archive.Files[0].Data)})
			got := &txtar.Archive{Comment: archive.Comment, Files: archive.Files[:1:1]}
			add := func(name, text string) {
				text = strings.ReplaceAll(strings.ReplaceAll(text, dir+"/", ""), "\x1b", "␛")
				got.Files = append(got.Files, txtar.File{Name: name, Data: []byte(text)})
			}
			report := tested(t, Runner{}, dir)
			add("table", printed(t, "table", report, Options{}))
			add("table, verbose, in colours", printed(t, "table", report, Options{Verbose: true, Style: console.Style{Color: true}}))
			add("table, verbose, at 60 columns", printed(t, "table", report, Options{Verbose: true, Style: console.Style{Width: 60}}))
			add("junit", printed(t, "junit", report, Options{}))
			add("json", printed(t, "json", report, Options{}))
			golden.Assert(t, string(txtar.Format(got)), filepath.Base(file))
		})
	}
}

// A case that failed or expects nothing passes with the block that is printed for it.
func TestBlocksPass(t *testing.T) {
	files := map[string]string{"suite.yaml": head + `cases:
- {name: nothing, when: {object: Deployment shop/web}}
- {name: of a removal, when: {object: Deployment shop/web, operation: delete, gracePeriodSeconds: 0}}
- name: another decision
  when: {object: Deployment shop/web}
  then: {decision: Denied, fields: {spec.priority: 3, 'spec.containers[c].image': other}, warnings: [none]}
- name: another message
  when: {object: Deployment shop/web, operation: delete, gracePeriodSeconds: 0}
  then: {reason: Other, message: other, fields: {spec.priority: 3}}
- {name: passes, when: {object: Deployment shop/web}, then: {decision: Allowed}}
`}
	var whole map[string]any
	if err := yaml.Unmarshal([]byte(files["suite.yaml"]), &whole); err != nil {
		t.Fatal(err)
	}
	cases := whole["cases"].([]any)
	for i, o := range tested(t, Runner{}, folder(t, files)).Cases {
		var block map[string]any
		if err := yaml.Unmarshal([]byte(o.block()), &block); err != nil {
			t.Fatal(err)
		}
		if (block == nil) != (o.Case == "passes") {
			t.Fatalf("%s: %q", o.Case, o.block())
		}
		if block != nil {
			cases[i].(map[string]any)["then"] = block["then"]
		}
	}
	text, err := yaml.Marshal(whole)
	if err != nil {
		t.Fatal(err)
	}
	files["suite.yaml"] = string(text)
	if report := tested(t, Runner{}, folder(t, files)); report.Summary.Passed != len(cases) {
		t.Errorf("%s\n%s", text, printed(t, "table", report, Options{}))
	}
}

// What is wrong is said with the line that is to blame, and nothing passes.
func TestBadSuites(t *testing.T) {
	const ok = "- name: a\n  when: {object: Deployment shop/web}\n  then: {decision: Allowed}\n"
	for name, tc := range map[string]struct{ suite, want string }{
		"typo":                       {"cases:\n- name: a\n  when: {object: Deployment shop/web}\n  tehn: {decision: Allowed}\n", `suite.yaml:7: unknown field "tehn"`},
		"typo in when":               {"cases:\n- name: a\n  when:\n    object: Deployment shop/web\n    usr: jane\n  then: {decision: Allowed}\n", `suite.yaml:8: unknown field "when.usr"`},
		"typo at the top":            {"polices: [a]\ncases:\n" + ok, `suite.yaml:4: unknown field "polices"`},
		"typo in the reference":      {"cases:\n- name: a\n  when:\n    object: {kind: Pod, nam: x}\n  then: {decision: Allowed}\n", `suite.yaml:7: unknown field "nam"`},
		"wrong type":                 {"cases:\n- name: a\n  when:\n    object: Deployment shop/web\n    operation: delete\n    gracePeriodSeconds: none\n  then: {decision: Allowed}\n", "suite.yaml:9: when.gracePeriodSeconds is a text, not a whole number"},
		"cases in words":             {"cases: none\n", "suite.yaml:4: cases is a text, not a list"},
		"now as a list":              {"now: [a]\ncases:\n" + ok, "suite.yaml:4: now is a list, not a text"},
		"a case in words":            {"cases:\n" + ok + "- b\n", "suite.yaml:8: it is a text, not an object"},
		"key twice":                  {"cases:\n" + ok + "  then: {}\n", `suite.yaml:8: key "then" is in this object twice`},
		"no cases":                   {"", "suite.yaml:1: a suite without cases"},
		"no time":                    {"now: yesterday\ncases:\n" + ok, `suite.yaml:4: now is "yesterday", not a time`},
		"empty cases":                {"cases: []\n", "suite.yaml:4: a suite without cases"},
		"no then":                    {"cases:\n- name: a\n  when: {object: Deployment shop/web}\n", "suite.yaml:5: it expects nothing"},
		"empty then":                 {"cases:\n- name: a\n  when: {object: Deployment shop/web}\n  then: {fields: {}}\n", "suite.yaml:5: it expects nothing"},
		"no name":                    {"cases:\n- when: {object: Deployment shop/web}\n  then: {decision: Allowed}\n", "suite.yaml:5: a case without a name"},
		"one name twice":             {"cases:\n" + ok + ok, `suite.yaml:8: two cases are named "a"`},
		"object and manifest":        {"cases:\n- name: a\n  when: {object: Deployment shop/web, review: a.json}\n  then: {decision: Allowed}\n", "suite.yaml:6: when has one of"},
		"nothing":                    {"cases:\n- name: a\n  when: {}\n  then: {decision: Allowed}\n", "suite.yaml:6: when has one of"},
		"object in words":            {"cases:\n- name: a\n  when: {object: web}\n  then: {decision: Allowed}\n", "suite.yaml:6: object is KIND"},
		"no such object":             {"cases:\n- name: a\n  when: {object: Deployment shop/wbe}\n  then: {decision: Allowed}\n", "suite.yaml:5: Deployment shop/wbe is nowhere"},
		"no business":                {"cases:\n- name: a\n  when: {object: Namespace shop}\n  then: {decision: Allowed}\n", "suite.yaml:5: Namespace shop: to create it is no business"},
		"ambiguous":                  {"objects:\n- {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: a}}\n- {apiVersion: v1, kind: Pod, metadata: {name: x, namespace: b}}\ncases:\n- name: a\n  when: {object: Pod x}\n  then: {decision: Allowed}\n", "Pod x may be that of"},
		"operation":                  {"cases:\n- name: a\n  when: {object: Deployment shop/web, operation: update}\n  then: {decision: Allowed}\n", `suite.yaml:6: operation "update"`},
		"grace of a create":          {"cases:\n- name: a\n  when: {object: Deployment shop/web, gracePeriodSeconds: 0}\n  then: {decision: Allowed}\n", "suite.yaml:6: gracePeriodSeconds go with"},
		"groups of nobody":           {"cases:\n- name: a\n  when: {object: Deployment shop/web, groups: [a]}\n  then: {decision: Allowed}\n", "suite.yaml:6: groups go with a user"},
		"user of a review":           {"cases:\n- name: a\n  when: {review: a.json, user: jane}\n  then: {decision: Allowed}\n", "suite.yaml:6: an AdmissionReview says itself"},
		"no such review":             {"cases:\n- name: a\n  when: {review: a.json}\n  then: {decision: Allowed}\n", "a.json: no such file"},
		"no review":                  {"cases:\n- name: a\n  when: {review: cluster.yaml}\n  then: {decision: Allowed}\n", "cluster.yaml has no AdmissionReview"},
		"decision":                   {"cases:\n- name: a\n  when: {object: Deployment shop/web}\n  then:\n    decision: Deny\n", `suite.yaml:8: decision "Deny": it is Allowed or Denied`},
		"field that can't be":        {"cases:\n- name: a\n  when: {object: Deployment shop/web}\n  then:\n    fields:\n      spec.terminationGracePeriod: null\n", "suite.yaml:9: field spec.terminationGracePeriod: a pod has no field"},
		"path":                       {"cases:\n- name: a\n  when: {object: Deployment shop/web}\n  then: {fields: {'spec.containers[0': x}}\n", "suite.yaml:7: field spec.containers[0: a [ without a ]"},
		"empty warning":              {"cases:\n- name: a\n  when: {object: Deployment shop/web}\n  then: {warnings: ['']}\n", "suite.yaml:7: \"\" is in every one"},
		"message of a gap":           {"cases:\n- name: a\n  when: {object: Deployment shop/web}\n  then: {message: '...'}\n", "suite.yaml:7: \"...\" is in every message"},
		"wrong version":              {"apiVersion: podgrace.dev/v2\nkind: PolicySuite\ncases:\n" + ok, "apiVersion podgrace.dev/v2 of a PolicySuite"},
		"wrong inline policy":        {"objects:\n- apiVersion: podgrace.dev/v1alpha1\n  kind: PodPolicy\n  metadata: {name: own}\n  spec: {wieght: 1}\ncases:\n" + ok, `suite.yaml:8: unknown field "spec.wieght"`},
		"field of an inline policy":  {"objects:\n- apiVersion: podgrace.dev/v1alpha1\n  kind: PodPolicy\n  metadata: {name: own}\n  spec:\n    gracePeriod:\n      minSeconds: a\ncases:\n" + ok, "suite.yaml:10: spec.gracePeriod.minSeconds"},
		"second of an inline policy": {"objects:\n- apiVersion: podgrace.dev/v1alpha1\n  kind: PodPolicy\n  metadata: {name: own}\n  spec:\n    wieght: 1\n    allowSkip: 5\ncases:\n" + ok, "suite.yaml:10: spec.allowSkip"},
		"field of an inline object":  {"objects:\n- apiVersion: apps/v1\n  kind: Deployment\n  metadata: {name: own, namespace: shop}\n  spec:\n    replicas: three\ncases:\n- name: a\n  when: {object: Deployment shop/own}\n  then: {decision: Allowed}\n", "suite.yaml:9: decode the Deployment: spec.replicas is a text"},
		"field of inline state":      {"objects:\n- apiVersion: v1\n  kind: Namespace\n  metadata:\n    name: own\n    labels: [a]\ncases:\n" + ok, "suite.yaml:9: decode the Namespace: metadata.labels is a list"},
		"field of a case's manifest": {"cases:\n- name: a\n  when:\n    manifest:\n      apiVersion: v1\n      kind: Pod\n      metadata: {name: own}\n      spec:\n        priority: high\n  then: {decision: Allowed}\n", "suite.yaml:12: decode the Pod: spec.priority is a text"},
		"field of a case's state":    {"cases:\n- name: a\n  when: {object: Deployment shop/web}\n  state:\n  - apiVersion: v1\n    kind: Node\n    metadata: {name: node-1}\n    status: 5\n  then: {decision: Allowed}\n", "suite.yaml:11: decode the Node: status is a number"},
		"field of an inline alias":   {"objects:\n- &pod\n  apiVersion: v1\n  kind: Pod\n  metadata: {name: own}\n  spec:\n    priority: high\ncases:\n- name: a\n  when:\n    manifest: *pod\n  then: {decision: Allowed}\n", "suite.yaml:10: decode the Pod: spec.priority is a text"},
		"policy in a case":           {"cases:\n" + ok + "  state:\n  - {apiVersion: podgrace.dev/v1alpha1, kind: PodPolicy, metadata: {name: web}}\n", "suite.yaml:9: a PodPolicy is no state"},
		"inline list":                {"objects:\n- {apiVersion: v1, kind: List, items: []}\ncases:\n" + ok, "suite.yaml:5: List: a list"},
		"no such policies":           {"policies: [nowhere.yaml]\ncases:\n" + ok, "nowhere.yaml: no such file"},
		"no policies":                {"policies: [cluster.yaml]\ncases:\n" + ok, "cluster.yaml: no PodPolicy in it"},
		"no such manifests":          {"manifests: [nowhere]\ncases:\n" + ok, "nowhere: no such file"},
		"half a document":            {"cases:\n- name: 'a\n", "suite.yaml:5: "},
		"empty inline object":        {"objects:\n- {kind: Pod}\ncases:\n" + ok, "suite.yaml:5: not an object of Kubernetes"},
		"state of another shape":     {"cases:\n" + ok + "  state:\n  - {apiVersion: v1, kind: Node, metadata: {name: node-1}, status: 5}\n", "decode the Node"},
	} {
		t.Run(name, func(t *testing.T) {
			text := head + tc.suite
			if strings.HasPrefix(tc.suite, "apiVersion") {
				text = tc.suite
			}
			report := tested(t, Runner{}, folder(t, map[string]string{"suite.yaml": text}))
			var out strings.Builder
			for _, e := range report.Errors {
				fmt.Fprintln(&out, e)
			}
			for _, o := range report.Cases {
				fmt.Fprintf(&out, "%s:%d: %s\n", o.Source.File, o.Source.Line, o.Error)
			}
			if !strings.Contains(out.String(), tc.want) {
				t.Errorf("want %s in:\n%s", tc.want, out.String())
			}
			if report.Summary.Errors == 0 || report.Summary.Passed > 0 {
				t.Errorf("%+v", report.Summary)
			}
		})
	}
}

// What is wrong is said in the same order each time.
func TestBadSuiteInOrder(t *testing.T) {
	dir := folder(t, map[string]string{"suite.yaml": head + "cases:\n- name: a\n  when: {object: Deployment shop/web}\n  then:\n    fields: {a: 1, b: 1, c: 1, d: 1}\n    warnings: ['']\n    unknown: ['']\n"})
	var first string
	for range 20 { // a map has no order
		var out strings.Builder
		for _, e := range tested(t, Runner{}, dir).Errors {
			fmt.Fprintln(&out, e)
		}
		first = cmp.Or(first, out.String())
		if out.String() != first || strings.Count(first, "\n") != 6 {
			t.Fatalf("once it says\n%sand then\n%s", first, out.String())
		}
	}
}

func TestPaths(t *testing.T) {
	const one = head + "cases:\n- name: a\n  when: {object: Deployment shop/web}\n  then: {decision: Allowed}\n"
	dir := folder(t, map[string]string{
		"suite.yaml": one, "chart/templates/broken.yaml": "{{ if }}", "deep/suite.yaml": strings.Replace(one, "cases:", "policies: [../policy.yaml]\nmanifests: [../workloads.yaml]\nstate: [../cluster.yaml]\ncases:", 1),
		"bad/suite.yaml": "kind: PolicySuite\n{{", "none/pod.yaml": "kind: Pod\napiVersion: v1\n", "two.yaml": one + "---\n" + strings.Replace(one, "name: web", "name: second", 1),
	})
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, tc := range map[string]struct {
		paths          []string
		passed, errors int
		says           string
	}{
		"file":             {[]string{at("suite.yaml")}, 1, 0, ""},
		"twice":            {[]string{at("suite.yaml"), at(".") + "/./suite.yaml"}, 1, 0, ""},
		"paths of its own": {[]string{at("deep")}, 1, 0, ""},
		"two in a file":    {[]string{at("two.yaml")}, 2, 0, ""},
		"no suite":         {[]string{at("policy.yaml")}, 0, 1, "no document of kind PolicySuite"},
		"none in a folder": {[]string{at("none")}, 0, 1, "no file of kind PolicySuite"},
		"broken suite":     {[]string{at("bad")}, 0, 1, "bad/suite.yaml"},
		"all":              {[]string{dir}, 4, 1, "bad/suite.yaml"},
		"nowhere":          {[]string{at("nowhere")}, 0, 1, "no such file"},
		"stdin":            {[]string{"-"}, 0, 1, "a suite is a file"},
	} {
		t.Run(name, func(t *testing.T) {
			report := tested(t, Runner{}, tc.paths...)
			out := printed(t, "table", report, Options{})
			if report.Summary.Passed != tc.passed || report.Summary.Errors != tc.errors || !strings.Contains(out, tc.says) {
				t.Errorf("want %d passed, %d errors, %q:\n%s", tc.passed, tc.errors, tc.says, out)
			}
		})
	}
}

// A recorded request is judged as it is, and one of several goes by its line.
func TestRecorded(t *testing.T) {
	review := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"1","kind":{"version":"v1","kind":"Pod"},"resource":{"version":"v1","resource":"pods"},"name":"db-0","namespace":"shop","operation":"DELETE","userInfo":{"username":"jane"},"oldObject":{"apiVersion":"v1","kind":"Pod","metadata":{"name":"db-0","namespace":"shop","uid":"u"},"spec":{"nodeName":"n","containers":[{"name":"c"}]},"status":{"phase":"Running"}},"options":{"apiVersion":"meta.k8s.io/v1","kind":"DeleteOptions","gracePeriodSeconds":0}}}` + "\n"
	dir := folder(t, map[string]string{"one.json": review, "two.jsonl": review + review, "suite.yaml": head + `cases:
- {name: one, when: {review: one.json}, then: {decision: Denied, reason: Unsafe}}
- {name: second, when: {review: "two.jsonl:2"}, then: {decision: Denied}}
- {name: two, when: {review: two.jsonl}, then: {decision: Denied}}
- {name: third, when: {review: "two.jsonl:3"}, then: {decision: Denied}}
`})
	report := tested(t, Runner{}, dir)
	if s := report.Summary; s.Passed != 2 || s.Errors != 2 {
		t.Error(printed(t, "table", report, Options{}))
	}
	for i, want := range map[int]string{2: "name one by its line, as in two.jsonl:1", 3: "begins at line 3"} {
		if !strings.Contains(report.Cases[i].Error, want) {
			t.Errorf("want %s: %s", want, report.Cases[i].Error)
		}
	}
}

// An override is merged into the object, for its case only, and the object that is judged has it, too.
func TestOverrides(t *testing.T) {
	dir := folder(t, map[string]string{"suite.yaml": head + `cases:
- name: the class is worth more
  when: {object: Deployment shop/web}
  state: [{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 5000}]
  then: {fields: {spec.priority: 5000}}
- name: the next case knows nothing of it
  when: {object: Deployment shop/web}
  then: {fields: {spec.priority: 1000}}
- name: the object itself
  when: {object: Pod shop/cheap}
  state: [{apiVersion: v1, kind: Pod, metadata: {name: cheap, namespace: shop}, spec: {priorityClassName: null}}]
  then: {decision: Allowed, fields: {spec.priorityClassName: high, "spec.containers[c].image": cheap}}
- name: an object of its own
  when: {object: Pod shop/new}
  state: [{apiVersion: v1, kind: Pod, metadata: {name: new, namespace: shop}, spec: {containers: [{name: c}]}}]
  then: {decision: Allowed}
`})
	if report := tested(t, Runner{}, dir); report.Summary.Passed != 4 {
		t.Error(printed(t, "table", report, Options{}))
	}
}

// The policies of the examples do what their suites say.
func TestExamples(t *testing.T) {
	report := tested(t, Runner{}, "../../examples")
	if s := report.Summary; s.Suites < 4 || s.Cases < 30 || s.Passed != s.Cases || s.Errors > 0 {
		t.Error(printed(t, "table", report, Options{}))
	}
}

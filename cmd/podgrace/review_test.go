package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/cli/diff"
	"github.com/podgrace/podgrace/cli/report"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/terminal"
)

// tree is what the commands of these tests are run over.
const tree = `
-- policies/web.yaml --
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: web}
spec:
  match: {namespaceSelector: {matchLabels: {profile: web}}}
  priority: {className: high, allowedClassNames: [high]}
  gracePeriod: {minSeconds: 20}
  removal: {protect: All}
-- odd/policy.yaml --
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: odd}
spec:
  weight: -1
  match: {ownerKinds: [Deployment]}
-- typo/policy.yaml --
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: typo}
spec:
  gracePeriod:
    minSecond: 20
-- cluster/cluster.yaml --
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {profile: web}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
-- deploy/web.yaml --
# Source: chart/templates/web.yaml
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: c, image: web}], terminationGracePeriodSeconds: 10}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: web, namespace: shop}
-- deploy/calm.yaml --
apiVersion: v1
kind: Pod
metadata: {name: calm, namespace: other}
spec: {containers: [{name: c, image: web}]}
-- denied/pod.yaml --
apiVersion: v1
kind: Pod
metadata: {name: system, namespace: shop}
spec: {priorityClassName: system-node-critical, containers: [{name: c, image: web}]}
-- empty/none.yaml --
# Nothing is enabled.
---
-- nodes/nodes.yaml --
apiVersion: podgrace.dev/v1alpha1
kind: NodePolicy
metadata: {name: workers}
spec: {mod: Tune}
-- both/nodes.yaml --
apiVersion: podgrace.dev/v1alpha1
kind: NodePolicy
metadata: {name: workers}
spec:
  mode: Tone
-- both/pods.yaml --
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: all}
spec: {}
-- mistyped/all.yaml --
# Each of another type.
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  replicas: many
  selector: {matchLabels: {app: web}}
---
apiVersion: v1
kind: Service
metadata: {name: web, namespace: shop}
spec:
  ports:
  - port: http
---
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: other}
spec:
  weight: heavy
---
apiVersion: v1
kind: Pod
metadata: {name: p, namespace: shop}
spec:
  containers:
  - name: c
    imagge: web
-- broken/half.json --
{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "half"
-- broken/cyclic.yaml --
apiVersion: v1
kind: ConfigMap
data: &a [*a]
-- broken/good.yaml --
apiVersion: v1
kind: Pod
metadata: {name: good, namespace: other}
spec: {containers: [{name: c, image: web}]}
`

// inTree makes the tree, and it the working directory.
func inTree(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(tree)).Files {
		name := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// typed runs a command line, and returns its exit code, and what it prints.
func typed(t *testing.T, stdin, args string) (code int, out, complaints string) {
	t.Helper()
	var o, e bytes.Buffer
	code = command(t.Context(), terminal.Terminal{In: strings.NewReader(stdin), Out: &o, Err: &e}, append([]string{"podgrace"}, strings.Fields(args)...))
	return code, o.String(), e.String()
}

const whole = " --policy policies --state cluster"

func TestReview(t *testing.T) {
	kubeconfig(t) // is there, and is not to be used
	inTree(t)
	for name, test := range map[string]struct {
		stdin, args string
		code        int
		says        []string
	}{
		"warned":                   {"", "review -f deploy" + whole, 0, []string{"WARNED", "Deployment shop/web", "deploy/web.yaml:2", "is now 20, not 10", "terminationGracePeriodSeconds  10 → 20", "Reviewed 2 in 2 files", "1 other object"}},
		"in detail":                {"", "review -f deploy -v" + whole, 0, []string{"WARNED", "+   terminationGracePeriodSeconds: 20", "# PodPolicy web: minimum 20 s"}},
		"as a table":               {"", "review -f deploy -o table" + whole, 0, []string{"RESULT", "WARNED  Deployment shop/web  deploy/web.yaml:2   terminationGracePeriodSeconds is now 20"}},
		"warnings count":           {"", "review -f deploy --fail-on warn" + whole, 1, []string{"WARNED"}},
		"a policy for none":        {"{apiVersion: v1, kind: Namespace, metadata: {name: other}}", "review -f deploy/calm.yaml -f - --policy policies", 0, []string{"PodPolicy web: it is for none of what was reviewed"}},
		"policies for none":        {"{apiVersion: v1, kind: Namespace, metadata: {name: other}}", "review -f deploy/calm.yaml -f - --policy policies --policy odd -o markdown", 0, []string{"PodPolicy web, odd: it is for none of what was reviewed", "PodPolicy odd: match.ownerKinds names Deployment, which matches no pod: the pods of a Deployment are a ReplicaSet's"}},
		"denied":                   {"", "review -f denied" + whole, 1, []string{"DENIED", "PriorityClassNotAllowed"}},
		"denied, never mind":       {"", "review -f denied --fail-on never" + whole, 0, []string{"DENIED"}},
		"policies beside":          {"", "review -f denied -f policies -f cluster", 1, []string{"DENIED"}},
		"the same policy twice":    {"", "review -f denied -f policies" + whole, 1, []string{"DENIED"}},
		"no policies":              {"", "review -f deploy", 0, []string{"Reviewed 2 in 2 files: 2 judged by none.", "No PodPolicy is known"}},
		"empty stdin":              {"", "review -f -", 2, []string{"ERROR    stdin", "has the command before it failed?"}},
		"empty stdin and a policy": {"", "review -f -" + whole, 2, []string{"ERROR    stdin", "has the command before it failed?"}},
		"empty stdin beside files": {"", "review -f - -f deploy" + whole, 2, []string{"ERROR    stdin", "Reviewed 2"}},
		"empty stdin as state":     {"", "review -f deploy --state -" + whole, 2, []string{"ERROR    stdin", "Reviewed 2"}},
		"comments on stdin":        {"# Source: a\n---\n", "review -f -" + whole, 2, []string{"has the command before it failed?"}},
		"an empty list on stdin":   {`{"apiVersion": "v1", "kind": "List", "items": []}`, "review -f -" + whole, 0, []string{"Reviewed 0"}},
		"an empty YAML list":       {"apiVersion: v1\nkind: PodList\nitems: []\n", "review -f -" + whole, 0, []string{"Reviewed 0"}},
		"comments only":            {"", "review -f empty/none.yaml" + whole, 2, []string{"ERROR    empty/none.yaml", "there is no document in it"}},
		"a folder of comments":     {"", "review -f empty" + whole, 2, []string{"ERROR    empty", "there is no document in it"}},
		"comments among others":    {"", "review -f empty/none.yaml -f deploy" + whole, 0, []string{"Reviewed 2 in 3 files"}},
		"a typo in a NodePolicy":   {"", "review -f nodes -f deploy" + whole, 2, []string{"nodes/nodes.yaml:4", `unknown field "spec.mod"`, "Reviewed 2"}},
		"NodePolicy on stdin":      {"{apiVersion: podgrace.dev/v1alpha1, kind: NodePolicy, metadata: {name: a}, spec: {mode: Tune, mod: x}}", "review -f -" + whole, 2, []string{"stdin:1", `unknown field "spec.mod"`}},
		"NodePolicy of --policy":   {"", "review -f deploy --policy both", 2, []string{"both/nodes.yaml:5", "spec.mode: Unsupported value"}},
		"all":                      {"", "review -f deploy --all" + whole, 0, []string{"Pod other/calm"}},
		"policies on stdin":        {"{apiVersion: podgrace.dev/v1alpha1, kind: List, items: [{apiVersion: podgrace.dev/v1alpha1, kind: PodPolicy, metadata: {name: piped}, spec: {gracePeriod: {minSeconds: 50}}}]}", "review -f deploy --policy -", 0, []string{"PodPolicy piped: minimum 50 s"}},
		"stdin":                    {"{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {priorityClassName: system-node-critical}}", "review -f -" + whole, 1, []string{"DENIED", "Pod shop/p"}},
		"namespace":                {"{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {priorityClassName: system-node-critical}}", "review -n shop -f -" + whole, 1, []string{"Pod shop/p"}},
		"unknown namespace":        {"", "review -f deploy --policy policies", 0, []string{"not known: Namespace other, Namespace shop", "to be given with --state: the Namespace"}},
		"what if":                  {"", "review -f deploy/web.yaml --operation delete --grace-period 0 --as jane" + whole, 1, []string{"delete Deployment shop/web as jane", "may still run"}},
		"what if, with grace":      {"", "review -f deploy/web.yaml --operation delete --all" + whole, 0, []string{"OK"}},
		"what if evicted":          {"", "review -f deploy/web.yaml --operation evict --grace-period 0" + whole, 1, []string{"may still run"}},
		"broken input":             {"", "review -f broken --all" + whole, 2, []string{"broken/half.json:1", "broken/cyclic.yaml:3", "Pod other/good", "2 errors"}},
		"a typo in a policy":       {"", "review -f deploy --policy typo --state cluster", 2, []string{"typo/policy.yaml:6", "minSecond", "Reviewed 2"}},
		"a typo in a manifest":     {"{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: other}, spec: {terminationGracePeriod: 1}}", "review -f - --all" + whole, 2, []string{`unknown field "spec.terminationGracePeriod"`, "Pod other/p"}},
		"nothing of that name":     {"", "review -f nowhere" + whole, 2, []string{"nowhere"}},
		"what?":                    {"", "review", 2, []string{"what is to be reviewed?"}},
		"without a flag":           {"", "review deploy", 2, []string{`"deploy" stands alone: files go with -f`}},
		"no such format":           {"", "review -f deploy -o yaml", 2, []string{"unknown format"}},
		"no such operation":        {"", "review -f deploy --operation drop", 2, []string{"create, delete or evict"}},
		"grace of a creation":      {"", "review -f deploy --grace-period 0", 2, []string{"--grace-period goes with"}},
		"group of nobody":          {"", "review -f deploy --as-group g", 2, []string{"--as-group goes with --as"}},
		"no such --fail-on":        {"", "review -f deploy --fail-on maybe", 2, []string{"deny, warn, unknown or never"}},
		"a cluster that is away":   {"", "review -f deploy --context c", 1, []string{"the cluster's can't be read"}},
		"all of a cluster, away":   {"", "review --context c", 1, []string{"the cluster's can't be read"}},
		"preview of a cluster":     {"", "review --preview --context c", 2, []string{"--preview goes with -f"}},
		"an empty path, a cluster": {"", "review --context c --filename=", 2, []string{"-f has an empty path"}},
		"no such kubeconfig":       {"", "review -f deploy --kubeconfig nowhere", 2, []string{"read the kubeconfig"}},
		"explained":                {"", "explain web -f deploy" + whole, 0, []string{"of ReplicaSet web-revision", "high, 1000", "20 s"}},
		"explained by kind":        {"", "explain pod/calm -f deploy" + whole, 0, []string{"other/calm"}},
		"explained, which?":        {"", "explain -f deploy" + whole, 2, []string{"which one? There are", "Deployment/web", "Pod/calm"}},
		"explained, no such thing": {"", "explain nothing -f deploy" + whole, 2, []string{`of the name "nothing"`}},
		"explained, broken input":  {"", "explain good -f broken" + whole, 2, []string{"broken/half.json:1"}},
		"explained, none there":    {"", "explain -f cluster" + whole, 2, []string{"no pod, and nothing that makes pods, is among the manifests"}},
		"explained, of nothing":    {"", "explain", 2, []string{"which pod?"}},
		"explained, no pod":        {"", "explain node/n", 2, []string{"is no pod"}},
		"explained by what?":       {"", "explain p --policy nowhere", 2, []string{"--policy nowhere: no such file or directory"}},
		"explained by no policy":   {"", "explain web -f deploy --policy cluster", 2, []string{"--policy cluster: no PodPolicy in it"}},
		"explained by no nodes'":   {"", "explain web -f deploy --node-policy cluster" + whole, 2, []string{"--node-policy cluster: no NodePolicy in it"}},
		"explained, nobody there":  {"", "explain p", 1, []string{"read pod default/p"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, complaints := typed(t, test.stdin, test.args)
			if code != test.code {
				t.Errorf("exit %d, want %d", code, test.code)
			}
			for _, words := range test.says {
				if !strings.Contains(out+complaints, words) {
					t.Errorf("does not say %q", words)
				}
			}
			if strings.Contains(out, "\x1b") {
				t.Error("coloured, and it is no terminal")
			}
			if t.Failed() {
				t.Logf("%s\n%s", out, complaints)
			}
		})
	}
}

// What is wrong with a field is said once, at its line.
func TestErrorsNameTheLineOfTheField(t *testing.T) {
	inTree(t)
	want := []string{
		`mistyped/all.yaml:20: spec.weight: Invalid value: "string": spec.weight in body must be of type integer: "string"`,
		"mistyped/all.yaml:14: decode the Service: spec.ports[0].port is a text, not a whole number",
		`mistyped/all.yaml:28: Pod p: unknown field "spec.containers[0].imagge"`,
		"mistyped/all.yaml:6: decode the Deployment: spec.replicas is a text, not a whole number",
	}
	_, out, _ := typed(t, "", "review -f mistyped -o json"+whole)
	var r review.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range r.Errors {
		got = append(got, e.Error())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("review (-want +got)\n%s", diff)
	}
	_, out, _ = typed(t, "", "diff --from none --to policies -f mistyped -o json --state cluster")
	var d diff.Diff
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	got = nil
	for _, e := range d.Errors {
		got = append(got, e.Error())
	}
	if diff := cmp.Diff([]string{want[1], want[3]}, got); diff != "" {
		t.Errorf("diff (-want +got)\n%s", diff)
	}
}

// A file that several paths lead to is read once; an object of two files is judged twice, and that is said.
func TestTheSameObjectTwice(t *testing.T) {
	inTree(t)
	if err := os.WriteFile("list.json", []byte(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}},{"apiVersion":"v1","kind":"Pod","metadata":{"name":"b"}}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"-f deploy -f ./deploy/calm.yaml -f deploy":       "2",
		"-f list.json -f list.json":                       "2", // both are at line 1
		"-f deploy/calm.yaml -f -":                        "2 judged more than once, since it is in the input more than once: Pod other/calm (deploy/calm.yaml:1, stdin:1)\n",
		"-f deploy/calm.yaml -f denied --state deploy":    "2",
		"-f deploy/calm.yaml -f deploy --operation evict": "2",
	} {
		_, out, complaints := typed(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: calm, namespace: other}\n", "review -o json=report.json -o markdown "+args+whole)
		raw, err := os.ReadFile("report.json")
		if err != nil {
			t.Fatal(err)
		}
		var r review.Report
		if err := json.Unmarshal(raw, &r); err != nil {
			t.Fatal(err)
		}
		if got := strings.TrimSpace(fmt.Sprint(len(r.Results), " ", strings.Join(report.Remarks(&r), "; "))); got != strings.TrimSpace(want) {
			t.Errorf("%s: %s, want %s\n%s%s", args, got, want, out, complaints)
		}
	}
	if _, _, complaints := typed(t, "apiVersion: v1\nkind: Pod\nmetadata: {name: calm, namespace: other}\n", "review -f deploy/calm.yaml -f -"+whole); !strings.Contains(complaints, "judged more than once") {
		t.Errorf("stderr: %q", complaints)
	}
}

// The page says when it was made, by a clock.
func TestThePageHasADate(t *testing.T) {
	inTree(t)
	var out bytes.Buffer
	at := terminal.Terminal{Out: &out, Err: &out, Clock: clocktesting.NewFakePassiveClock(time.Date(2026, 5, 1, 12, 30, 0, 0, time.UTC))}
	if code := command(t.Context(), at, strings.Fields("podgrace review -f deploy -o html"+whole)); code != 0 || !strings.Contains(out.String(), "1 May 2026, 12:30 UTC") {
		t.Errorf("exit %d: %s", code, out.String())
	}
}

// Without the policies that somebody named, or with a path that is empty since a variable is, nothing is judged.
func TestReviewOfWrongPaths(t *testing.T) {
	kubeconfig(t)
	inTree(t)
	if err := os.WriteFile("binary.yaml", []byte("\x7fELF\x00\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"review -f deploy --policy nowhere":                   "podgrace: --policy nowhere: no such file or directory\n",
		"review -f deploy --policy policies --policy nowhere": "podgrace: --policy nowhere: no such file or directory\n",
		"review -f deploy --policy nowhere -o json":           "podgrace: --policy nowhere: no such file or directory\n",
		"review -f deploy --policy cluster":                   "podgrace: --policy cluster: no PodPolicy in it\n",
		"review -f deploy --policy nodes --policy empty":      "podgrace: --policy nodes: no PodPolicy in it\npodgrace: --policy empty: no PodPolicy in it\n",
		"review -f deploy --policy binary.yaml":               "podgrace: --policy binary.yaml: a binary file (it has NUL bytes), neither YAML nor JSON\n",
		"review -f deploy --policy .":                         "podgrace: --policy binary.yaml: a binary file (it has NUL bytes), neither YAML nor JSON\n",
		"review -f deploy --policy -":                         "podgrace: --policy -: no PodPolicy in it\n",
		"review -f - --policy -":                              "podgrace: stdin can be read only once: give --policy - or the others a file\n",
		"review -f deploy --policy=":                          "podgrace: --policy has an empty path; is a variable not set?\n",
		"review --filename=":                                  "podgrace: -f has an empty path; is a variable not set?\n",
		"review -f deploy --state=":                           "podgrace: --state has an empty path; is a variable not set?\n",
		"diff --from none --to nowhere -f deploy":             "podgrace: --to nowhere: no such file or directory\n",
		"diff --from nowhere --to cluster -f deploy":          "podgrace: --from nowhere: no such file or directory\npodgrace: --to cluster: no PodPolicy in it\n",
		"diff --from none --to= -f deploy":                    "podgrace: --to has an empty path; is a variable not set?\n",
		"diff --from= --to none -f deploy":                    "podgrace: --from has an empty path; is a variable not set?\n",
		"diff --from none --to policies --filename=":          "podgrace: -f has an empty path; is a variable not set?\n",
		"explain web -f deploy --node-policy=":                "podgrace: --node-policy has an empty path; is a variable not set?\n",
	} {
		code, out, complaints := typed(t, "", args)
		if code != 2 || out != "" || complaints != want {
			t.Errorf("%s: exit %d, %q, %q", args, code, out, complaints)
		}
	}
}

// The report is on standard output whole, and can be read by another program, whatever else is said.
func TestReviewIsReadable(t *testing.T) {
	inTree(t)
	code, out, _ := typed(t, "", "review -f broken -f deploy -o json"+whole)
	var r review.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 2 || r.Kind != "ReviewReport" || r.Summary.Errors != 2 || len(r.Results) != 3 {
		t.Errorf("exit %d, %v, %+v", code, err, r.Summary)
	}
	for _, format := range formats() {
		if code, out, complaints := typed(t, "", "review -f deploy -o "+format+whole); code != 0 || !strings.Contains(out, "web") || complaints != "" {
			t.Errorf("%s: exit %d, %q, %q", format, code, out, complaints)
		}
	}
}

package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/diff"
	"github.com/podgrace/podgrace/cli/terminal"
)

// runsDiff runs the command as command does.
func runsDiff(t *testing.T, stdin string, args ...string) (code int, out string) {
	t.Helper()
	var text bytes.Buffer
	cmd := newDiff(terminal.Terminal{In: strings.NewReader(stdin), Out: &text, Err: &text}, "podgrace")
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	cmd.SetArgs(args)
	cmd.SetOut(&text)
	err := cmd.ExecuteContext(t.Context())
	var usage terminal.UsageError
	switch {
	case err == nil:
	case errors.Is(err, terminal.ErrNo):
		code = 1
	case errors.Is(err, terminal.ErrBadInput):
		code = 2
	case errors.As(err, &usage):
		code = 2
		text.WriteString(err.Error())
	default:
		code = 1
		text.WriteString(err.Error())
	}
	return code, text.String()
}

func TestDiffExitCodes(t *testing.T) {
	const dir = "testdata/diff/"
	for name, tc := range map[string]struct {
		args string
		code int
		says string
	}{
		"help":                 {"--help", 0, "--fail-on string"},
		"an exception comes":   {"--from testdata/exceptions/bounds.yaml --to testdata/exceptions -f testdata/slow", 1, "60 → 150"},
		"no exception comes":   {"--from testdata/exceptions --to testdata/exceptions -f testdata/slow", 0, "the change of policies changes nothing"},
		"no to":                {"--from none -f " + dir + "web.yaml", 2, "which policies come?"},
		"no from":              {"--to none -f " + dir + "web.yaml", 2, "which policies are there now?"},
		"no manifests":         {"--from none --to none", 2, "what is to be compared?"},
		"none and more":        {"--from none --from " + dir + "old.yaml --to none -f " + dir, 2, "--from none stands alone"},
		"fail on what":         {"--from none --to none -f - --fail-on warn", 2, "it is change, deny or never"},
		"format":               {"--from none --to none -f - -o sarif", 2, "it is one of text, json, markdown"},
		"a group of nobody":    {"--from none --to none -f - --as-group g", 2, "--as-group goes with --as"},
		"no such policies":     {"--from none --to " + dir + "gone.yaml -f " + dir + "web.yaml", 2, "gone.yaml"},
		"no policy in it":      {"--from none --to " + dir + "web.yaml -f " + dir + "web.yaml", 2, "web.yaml: no PodPolicy in it"},
		"neither has any":      {"--from none --to none -f " + dir + "web.yaml", 0, "Neither side has a PodPolicy"},
		"empty stdin":          {"--from none --to " + dir + "new.yaml -f -", 2, "stdin: there is no document in it"},
		"nothing changes":      {"--from " + dir + "old.yaml --to " + dir + "old.yaml -f " + dir + "web.yaml", 0, "changes nothing"},
		"something changes":    {"--from " + dir + "old.yaml --to " + dir + "new.yaml -f " + dir + "web.yaml", 1, "10 → 45"},
		"but nothing denies":   {"--from " + dir + "old.yaml --to " + dir + "new.yaml -f " + dir + "web.yaml --fail-on deny", 0, "10 → 45"},
		"a guard denies":       {"--from " + dir + "old.yaml --to " + dir + "guard.yaml -f " + dir + "web.yaml --fail-on deny", 1, "force delete forbidden"},
		"the way back doesn't": {"--from " + dir + "guard.yaml --to " + dir + "old.yaml -f " + dir + "web.yaml --fail-on deny", 0, "force delete allowed"},
		"never":                {"--from " + dir + "old.yaml --to " + dir + "guard.yaml -f " + dir + "web.yaml --fail-on never", 0, "force delete forbidden"},
		"policies are added":   {"--from " + dir + "old.yaml --to " + dir + "old.yaml --to " + dir + "guard.yaml -f " + dir + "web.yaml", 1, "force delete forbidden"},
		"bad manifest":         {"--from " + dir + "old.yaml --to " + dir + "new.yaml -f " + dir + "web.yaml -f " + dir + "half.txt --fail-on never", 2, "10 → 45"},
		"bad policy":           {"--from " + dir + "old.yaml --to " + dir + "new.yaml --to " + dir + "bad.txt -f " + dir + "web.yaml", 2, "10 → 45"},
		"bad policy is said":   {"--from " + dir + "bad.txt --to " + dir + "bad.txt -f " + dir + "web.yaml", 2, "bad.txt:5"},
		"allowed actor":        {"--from none --to " + dir + "guard.yaml -f " + dir + "web.yaml --as robot", 0, "changes nothing"},
		"no cluster":           {"--to none --kubeconfig /nowhere/kubeconfig", 2, "read the kubeconfig"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out := runsDiff(t, "", strings.Fields(tc.args)...)
			if code != tc.code || !strings.Contains(out, tc.says) {
				t.Errorf("exit %d, want %d and %q in:\n%s", code, tc.code, tc.says, out)
			}
		})
	}
}

func TestDiffOfStdinAsJSON(t *testing.T) {
	manifests, err := os.ReadFile("testdata/diff/web.yaml")
	if err != nil {
		t.Fatal(err)
	}
	code, out := runsDiff(t, string(manifests), "--from", "none", "--to", "testdata/diff/new.yaml", "-f", "-", "-o", "json")
	var d diff.Diff
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err)
	}
	if code != 1 || d.Summary.Files != 1 || d.Summary.Kinds[diff.Changed] != 1 || d.Workloads[0].Source.File != "-" {
		t.Errorf("exit %d: %+v", code, d.Summary)
	}
}

// cluster is an API server with one Deployment and one pod, which gives the Deployments in two pages and no DaemonSets. Where others are given, it answers their paths as these say.
func cluster(t *testing.T, others ...map[string]string) (kubeconfig string) {
	t.Helper()
	lists := map[string]string{
		"/apis/apps/v1/deployments":               `{"metadata":{"continue":"more"},"items":[{"metadata":{"namespace":"shop","name":"web","uid":"d"},"spec":{"selector":{"matchLabels":{"app":"web"}},"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}]}`,
		"/apis/apps/v1/deployments more":          `{"items":[{"metadata":{"namespace":"shop","name":"api"},"spec":{"selector":{"matchLabels":{"app":"api"}},"template":{"metadata":{"labels":{"app":"api"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}]}`,
		"/api/v1/pods":                            `{"items":[{"metadata":{"namespace":"shop","name":"web-abc-1","labels":{"app":"web","pod-template-hash":"abc"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-abc","uid":"u","controller":true}]},"spec":{"nodeName":"n1","priority":0,"terminationGracePeriodSeconds":30,"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}]}`,
		"/apis/podgrace.dev/v1alpha1/podpolicies": `{"items":[{"metadata":{"name":"p"},"spec":{"gracePeriod":{"defaultSeconds":20,"allowShorterDefault":true}}}]}`,
		"/apis/apps.example.com/v1/clonesets":     `{"items":[{"apiVersion":"apps.example.com/v1","kind":"CloneSet","metadata":{"namespace":"shop","name":"own"},"spec":{"template":{"metadata":{"labels":{"app":"own"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}]}`,
		"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/podgrace": `{"kind":"ValidatingWebhookConfiguration","apiVersion":"admissionregistration.k8s.io/v1","metadata":{"name":"podgrace"},"webhooks":[{"name":"pods.validate.podgrace.dev","clientConfig":{"service":{"namespace":"podgrace-system","name":"w"}},"namespaceSelector":{"matchExpressions":[{"key":"kubernetes.io/metadata.name","operator":"NotIn","values":["kube-system","podgrace-system"]}]}}]}`,
		"/api":  `{"kind":"APIVersions","versions":["v1"]}`,
		"/apis": `{"kind":"APIGroupList","groups":[{"name":"apps.example.com","versions":[{"groupVersion":"apps.example.com/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps.example.com/v1","version":"v1"}}]}`,
	}
	for _, bodies := range others {
		maps.Copy(lists, bodies)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if strings.HasSuffix(r.URL.Path, "/daemonsets") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","message":"you may not","reason":"Forbidden","code":403}`))
			return
		}
		body, ok := lists[strings.TrimSpace(r.URL.Path+" "+r.URL.Query().Get("continue"))]
		if !ok {
			body = resources(r.URL.Path)
		}
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: '" + server.URL + "'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(kubeconfig, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// resources answers discovery for what is listed; any other list is empty.
func resources(path string) string {
	kinds := map[string]string{
		"/api/v1":                      "pods Pod,nodes Node,namespaces Namespace,services Service,persistentvolumeclaims PersistentVolumeClaim,replicationcontrollers ReplicationController",
		"/apis/apps/v1":                "deployments Deployment,replicasets ReplicaSet,statefulsets StatefulSet,daemonsets DaemonSet",
		"/apis/batch/v1":               "jobs Job,cronjobs CronJob",
		"/apis/scheduling.k8s.io/v1":   "priorityclasses PriorityClass",
		"/apis/coordination.k8s.io/v1": "leases Lease",
		"/apis/podgrace.dev/v1alpha1":  "podpolicies PodPolicy,nodepolicies NodePolicy",

		"/apis/admissionregistration.k8s.io/v1": "validatingwebhookconfigurations ValidatingWebhookConfiguration",
		"/apis/apps.example.com/v1":             "clonesets CloneSet",
	}
	listed, ok := kinds[path]
	if !ok {
		return `{"items":[]}`
	}
	var all []string
	for pair := range strings.SplitSeq(listed, ",") {
		name, kind, _ := strings.Cut(pair, " ")
		namespaced := "true"
		if strings.Contains("nodes namespaces priorityclasses podpolicies nodepolicies validatingwebhookconfigurations", name) {
			namespaced = "false"
		}
		all = append(all, `{"name":"`+name+`","kind":"`+kind+`","namespaced":`+namespaced+`,"verbs":["list","get"]}`)
	}
	return `{"kind":"APIResourceList","groupVersion":"` + strings.TrimPrefix(strings.TrimPrefix(path, "/apis/"), "/api/") + `","resources":[` + strings.Join(all, ",") + `]}`
}

// Without -f and --from both are the cluster's. What may not be read is told, and the rest is compared.
func TestDiffOfACluster(t *testing.T) {
	code, out := runsDiff(t, "", "--to", "testdata/diff/new.yaml", "--kubeconfig", cluster(t), "-o", "json")
	var d diff.Diff
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err, out)
	}
	if code != 2 || len(d.Errors) != 1 || !strings.Contains(d.Errors[0].Message, "list the DaemonSet objects") {
		t.Errorf("exit %d, %+v", code, d.Errors)
	}
	if d.Summary.Workloads != 2 || d.Summary.Kinds[diff.Changed] != 2 || string(d.Workloads[0].Changes[0].Fields[0].From) != "20" {
		t.Errorf("%+v %+v", d.Summary, d.Workloads)
	}
	if len(d.Running) != 1 || d.Running[0].Owner.String() != "Deployment shop/web" || string(d.Running[0].Fields[0].To) != "45" {
		t.Errorf("%+v", d.Running)
	}
}

// A change of NodePolicies says on how many nodes their enforcers evict at once.
func TestDiffOfNodePolicies(t *testing.T) {
	stats := func(available, used string) string {
		return `{"node":{"nodeName":"n","memory":{"availableBytes":` + available + `,"workingSetBytes":` + used + `}}}`
	}
	kubeconfig := cluster(t, map[string]string{
		"/api/v1/nodes": `{"items":[{"metadata":{"name":"n1"}},{"metadata":{"name":"n2"}},{"metadata":{"name":"n3"}},{"metadata":{"name":"silent"}},{"metadata":{"name":"other","labels":{"pool":"gpu"}}}]}`,
		"/apis/podgrace.dev/v1alpha1/nodepolicies": `{"items":[{"metadata":{"name":"gpu"},"spec":{"mode":"Tune","weight":10,"nodeSelector":{"matchLabels":{"pool":"gpu"}},"eviction":{"hard":[{"signal":"memory.available","value":"90%"}]}}}]}`,
		"/api/v1/nodes/n1/proxy/stats/summary":     stats("900", "100"),
		"/api/v1/nodes/n2/proxy/stats/summary":     stats("100", "900"),
		"/api/v1/nodes/n3/proxy/stats/summary":     stats("850", "150"),
		"/api/v1/nodes/silent/proxy/stats/summary": `no answer`,
		"/api/v1/nodes/other/proxy/stats/summary":  stats("1", "999"),
		"/apis/apps/v1/deployments":                `{"items":[]}`,
		"/api/v1/pods":                             `{"items":[]}`,
		"/apis/podgrace.dev/v1alpha1/podpolicies":  `{"items":[{"metadata":{"name":"p"},"spec":{"gracePeriod":{"defaultSeconds":20,"allowShorterDefault":true}}}]}`,
	})
	for name, test := range map[string]struct {
		policy string
		code   int
		says   []string
	}{
		"mistyped": {"90%", 1, []string{
			"EVICTS", "NodePolicy workers: hard memory.available of 90% is met now by 2 of 4 nodes (n2, n3); 1 did not tell what is left (invalid character", "1  new eviction threshold is met by nodes now",
		}},
		"as meant": {"10%", 0, []string{"NODES", "NodePolicy workers: hard memory.available of 10% is met now by 0 of 4 nodes; 1 did not tell what is left", "changes none of them"}},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "node.yaml")
			text := `{apiVersion: podgrace.dev/v1alpha1, kind: NodePolicy, metadata: {name: workers}, spec: {mode: Tune, eviction: {hard: [{signal: memory.available, value: "` + test.policy + `"}]}}}
`
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			code, out := runsDiff(t, "", "--to", file, "--kubeconfig", kubeconfig, "-f", "testdata/diff/web.yaml")
			if code != test.code {
				t.Errorf("exit %d, want %d", code, test.code)
			}
			for _, want := range test.says {
				if !strings.Contains(strings.Join(strings.Fields(out), " "), strings.Join(strings.Fields(want), " ")) {
					t.Errorf("%q is not in\n%s", want, out)
				}
			}
		})
	}
}

// Without the rights to read NodePolicies the rest of a diff holds.
func TestDiffWithoutRightsOnNodes(t *testing.T) {
	kubeconfig := cluster(t, map[string]string{
		"/apis/podgrace.dev/v1alpha1/nodepolicies": `no list`, "/apis/apps/v1/deployments": `{"items":[]}`, "/api/v1/pods": `{"items":[]}`,
	})
	file := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(file, []byte("{apiVersion: podgrace.dev/v1alpha1, kind: NodePolicy, metadata: {name: workers}, spec: {mode: Tune}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out, told bytes.Buffer
	root := newRoot(terminal.Terminal{In: strings.NewReader(""), Out: &out, Err: &told}, "podgrace")
	root.SetArgs([]string{"diff", "--to", file, "--kubeconfig", kubeconfig, "-f", "testdata/diff/web.yaml"})
	if err := root.ExecuteContext(t.Context()); err != nil || !strings.Contains(out.String(), "1 workload in 1 file") || !strings.Contains(told.String(), "not known on which nodes") || !strings.Contains(told.String(), "PodPolicies are not compared") {
		t.Errorf("%v\n%s\n%s", err, out.String(), told.String())
	}
}

// A policy of the cluster with a field that this program does not know, as where it is older, is told on stderr, and keeps no command from its answer: the one of what is in force.
func TestHalfReadPoliciesOfACluster(t *testing.T) {
	kubeconfig := cluster(t, map[string]string{
		"/api/v1/namespaces/shop/pods/web-abc-1": `{"kind":"Pod","apiVersion":"v1","metadata":{"namespace":"shop","name":"web-abc-1"},"spec":{"priority":0,"terminationGracePeriodSeconds":30,"containers":[{"name":"c","image":"i"}]},"status":{"phase":"Running"}}`,
		"/apis/podgrace.dev/v1alpha1/podpolicies": `{"items":[{"metadata":{"name":"p","managedFields":[{"manager":"kubectl","operation":"Apply","apiVersion":"podgrace.dev/v1alpha1","fieldsType":"FieldsV1",` +
			`"fieldsV1":{"f:spec":{"f:gracePeriod":{"f:defaultSeconds":{},"f:newSeconds":{}}}}}]},"spec":{"gracePeriod":{"defaultSeconds":20,"allowShorterDefault":true,"newSeconds":1}}}]}`,
	})
	for name, tc := range map[string]struct{ args, says string }{
		"diff":    {"diff --to testdata/diff/new.yaml --fail-on never -f testdata/diff/web.yaml", "10 → 45"},
		"review":  {"review -f testdata/diff/web.yaml", "1 clean"},
		"explain": {"explain web-abc-1 -n shop --preview=false", "PodPolicy p: default 20 s"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, told bytes.Buffer
			root := newRoot(terminal.Terminal{In: strings.NewReader(""), Out: &out, Err: &told}, "podgrace")
			root.SetArgs(append(strings.Fields(tc.args), "--kubeconfig", kubeconfig))
			if err := root.ExecuteContext(t.Context()); err != nil {
				t.Errorf("%v\n%s", err, told.String())
			}
			if !strings.Contains(out.String(), tc.says) {
				t.Errorf("no %q in %s", tc.says, out.String())
			}
			if !strings.Contains(told.String(), "PodPolicy p: spec.gracePeriod.newSeconds") || !strings.Contains(told.String(), "it is in force, but for spec.gracePeriod.newSeconds") {
				t.Errorf("told: %s", told.String())
			}
		})
	}
}

// Custom workloads are the cluster's, too, where a flag says what they are; one that the cluster does not have is told.
func TestDiffOfCustomWorkloadsOfACluster(t *testing.T) {
	_, out := runsDiff(t, "", "--to", "testdata/diff/new.yaml", "--kubeconfig", cluster(t), "-o", "json",
		"--template", "CloneSet.apps.example.com=spec.template", "--template", "CloneSte.apps.example.com=spec.template")
	var d diff.Diff
	if err := json.Unmarshal([]byte(out), &d); err != nil {
		t.Fatal(err, out)
	}
	if d.Summary.Workloads != 3 || d.Workloads[0].Resource.Kind != "CloneSet" || string(d.Workloads[0].Changes[0].Fields[0].To) != "45" {
		t.Errorf("%+v %+v", d.Summary, d.Workloads)
	}
	if len(d.Errors) != 2 || !strings.Contains(d.Errors[0].Message, "--template CloneSte.apps.example.com: no matches for kind") {
		t.Errorf("%+v", d.Errors)
	}
}

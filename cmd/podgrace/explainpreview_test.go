package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/internal/program/version"
)

// explained runs explain beside a fake podgrace-preview, and returns what it prints, what the fake notes, and what it complains of.
func explained(t *testing.T, folder, does, stdin string, args ...string) (out, started, complaints string) {
	t.Helper()
	notes := filepath.Join(t.TempDir(), "notes")
	cmd := podgrace(t, filepath.Join(folder, "podgrace"), "", append([]string{"explain"}, args...)...)
	cmd.Env, cmd.Stdin = append(cmd.Env, fakeDoes+"="+does, fakeNotes+"="+notes), strings.NewReader(stdin)
	code, out, complaints := ran(t, cmd)
	if code != 0 {
		t.Errorf("%q: exit %d: %s", args, code, complaints)
	}
	noted, _ := os.ReadFile(notes) // there are none where it was not started
	return out, string(noted), complaints
}

const fullNodes = "Scheduling 0/2 nodes are available: 2 Insufficient cpu."

func TestExplainPreviewsAManifest(t *testing.T) {
	kubeconfig(t) // is there, and is not to be used
	both, alone := installed(t, "podgrace", version.Preview), installed(t, "podgrace")
	inTree(t)
	inFolder(t, map[string]string{
		"more/pods.yaml": pods("fits-a", "nowhere-a"), "more/node.yaml": aNode, "more/running.yaml": strings.Replace(pods("fits-r"), "spec: {", "spec: {nodeName: n1, ", 1),
		"more/set.yaml": "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: nowhere, namespace: shop}\nspec: {replicas: 3, selector: {matchLabels: {app: db}}, template: {metadata: {labels: {app: db}}, spec: {containers: [{name: c, image: i}]}}}\n",
	})
	const passed = " < Node/n1 Pod/fits-a Pod/nowhere-a Pod/fits-r StatefulSet/nowhere\n"
	for name, test := range map[string]struct {
		folder, does, args, stdin string
		says, started             string
	}{
		"pending":            {both, "answer", "nowhere-a -f more --policy policies", "", fullNodes, "--policy=policies --output=json --filename=- --state=/dev/null" + passed},
		"one of a set":       {both, "answer", "nowhere-2 -f more", "", fullNodes, "--output=json --filename=- --state=/dev/null" + passed},
		"running":            {both, "answer", "fits-r -f more", "", "Scheduling If it were made anew: fits on 2 of 2 nodes.", "--output=json --filename=- --state=/dev/null" + passed},
		"stdin":              {both, "answer", "-f - --state more/node.yaml", pods("nowhere-b"), fullNodes, "--state=more/node.yaml --output=json --filename=- < Pod/nowhere-b\n"},
		"as JSON":            {both, "answer", "nowhere-a -f more -o json", "", `"outcome": "Nowhere",`, "--output=json --filename=- --state=/dev/null" + passed},
		"nobody wants it":    {both, "answer", "nowhere-a -f more --preview=false", "", "", ""},
		"no nodes are known": {both, "answer", "nowhere-a -f more/pods.yaml", "", "", ""},
		"it is not there":    {alone, "answer", "nowhere-a -f more", "", "Scheduling Not previewed: podgrace-preview is neither in " + alone + ` nor on the PATH: "make build" in a clone of Podgrace makes it, as bin/podgrace-preview.` + "\n", ""},
		"nor for a running":  {alone, "answer", "fits-r -f more", "", "", ""},
		"it fails":           {both, "fail with 1", "nowhere-a -f more", "", "Scheduling Not previewed: podgrace-preview gives no answer (exit code 1): a complaint; another.\n", ""},
		"a state of once":    {both, "answer", "-f more/pods.yaml --state - fits-a", aNode, "Scheduling Not previewed: - can be read only once.\n", ""},
		"it knows no answer": {both, "answer", "web -f deploy/web.yaml -f more/node.yaml", "", "Scheduling Not previewed: its preview is missing.\n", "--output=json --filename=- --state=/dev/null < Deployment/web ConfigMap/web Node/n1\n"},
	} {
		t.Run(name, func(t *testing.T) {
			out, started, complaints := explained(t, test.folder, test.does, test.stdin, strings.Fields(test.args)...)
			if !strings.Contains(out, test.says) || test.says == "" && strings.Contains(out, "Scheduling") {
				t.Errorf("want %q, got %s%s", test.says, out, complaints)
			}
			if started != test.started {
				t.Errorf("started with %q, want %q", started, test.started)
			}
		})
	}
}

// api is an API server that has no objects but those that a test adds, and forbids what is not in it.
var api = map[string]string{
	"/api":                       `{"kind":"APIVersions","versions":["v1"]}`,
	"/apis":                      `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
	"/api/v1":                    `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"v1","resources":[{"name":"pods","singularName":"pod","namespaced":true,"kind":"Pod","verbs":["get","list"]}]}`,
	"/apis/scheduling.k8s.io/v1": `{"kind":"APIResourceList","apiVersion":"v1","groupVersion":"scheduling.k8s.io/v1","resources":[{"name":"priorityclasses","singularName":"priorityclass","namespaced":false,"kind":"PriorityClass","verbs":["list"]}]}`,
	"/apis/scheduling.k8s.io/v1/priorityclasses": `{"kind":"PriorityClassList","apiVersion":"scheduling.k8s.io/v1","items":[]}`,
}

func TestExplainPreviewsAPodOfTheCluster(t *testing.T) {
	pod := func(name, status string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":"shop","uid":"1"},"spec":{"containers":[{"name":"c","image":"i"}]%s}`, name, status)
	}
	known := map[string]string{
		"nowhere-1": pod("nowhere-1", `},"status":{"phase":"Pending"}`), "fits-1": pod("fits-1", `,"nodeName":"n1"},"status":{"phase":"Running"}`), "fits-2": pod("fits-2", `,"nodeName":"n1"},"status":{"phase":"Succeeded"}`),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		name, _ := strings.CutPrefix(r.URL.Path, "/api/v1/namespaces/shop/pods/")
		text, ok := known[name]
		if !ok {
			text, ok = api[r.URL.Path]
		}
		if !ok {
			w.WriteHeader(http.StatusForbidden)
			text = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
		}
		fmt.Fprint(w, text)
	}))
	defer server.Close()
	both := installed(t, "podgrace", version.Preview)
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for name, test := range map[string]struct{ does, args, says, started string }{
		"pending":  {"answer", "nowhere-1 -n shop", fullNodes, "--namespace=shop --server=" + server.URL + " --output=json --namespace=shop nowhere-1 < Pod/nowhere-1\n"},
		"running":  {"answer", "fits-1 -n shop", "Scheduling If it were made anew: fits on 2 of 2 nodes.", "--namespace=shop --server=" + server.URL + " --output=json --namespace=shop fits-1 < Pod/fits-1\n"},
		"a state":  {"answer", "fits-1 -n shop --state ignored", "Scheduling If", "--namespace=shop --server=" + server.URL + " --output=json --namespace=shop fits-1 < Pod/fits-1\n"},
		"finished": {"answer", "fits-2 -n shop", "", ""},
		"it fails": {"fail with 2", "fits-1 -n shop", "Scheduling Not previewed: podgrace-preview gives no answer (exit code 2): a complaint; another.\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			out, started, complaints := explained(t, both, test.does, "", append(strings.Fields(test.args), "--server="+server.URL)...)
			if !strings.Contains(out, test.says) || test.says == "" && strings.Contains(out, "Scheduling") {
				t.Errorf("want %q, got %s%s", test.says, out, complaints)
			}
			if started != test.started {
				t.Errorf("started with %q, want %q", started, test.started)
			}
		})
	}
}

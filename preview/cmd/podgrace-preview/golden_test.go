package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/program/version"
)

var update = flag.Bool("update", false, "write what the command prints into testdata")

// typed runs the command, and returns what a person sees and the exit code.
func typed(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	shell := terminal.Terminal{In: strings.NewReader(""), Out: &out, Err: &errs, Style: console.Style{Width: 80}}
	root := newCommand(shell, "podgrace preview")
	terminal.Declare(root, shell, "podgrace preview", version.Of(version.Preview))
	root.SetArgs(args)
	code = terminal.Execute(t.Context(), shell, root)
	return out.String(), errs.String(), code
}

// Each archive of testdata has the arguments in its first line, files, and what is printed, with the exit code at its end.
func TestGolden(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal(archives, err)
	}
	for _, path := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			absolute, err := filepath.Abs(path)
			if err != nil {
				t.Fatal(err)
			}
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			t.Chdir(t.TempDir())
			printed := -1
			for i, f := range archive.Files {
				if f.Name == "printed" {
					printed = i
				} else if err := os.WriteFile(f.Name, f.Data, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			args, _, _ := strings.Cut(string(archive.Comment), "\n")
			out, errs, code := typed(t, strings.Fields(args)...)
			got := fmt.Sprintf("%s%sexit code %d\n", out, errs, code)
			if *update {
				archive.Files[printed].Data = []byte(got)
				if err := os.WriteFile(absolute, txtar.Format(archive), 0o600); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(archive.Files[printed].Data), got); diff != "" {
				t.Errorf("printed otherwise (-want +got; -update writes it):\n%s", diff)
			}
		})
	}
}

// The page tells when it was made; what else is on it preview's own tests hold.
func TestHTML(t *testing.T) {
	t.Chdir(unpacked(t, "testdata/contradiction.txtar"))
	out, errs, code := typed(t, "-f", "new.yaml", "--state", "cluster.yaml", "-o", "html")
	for _, want := range []string{"<title>Deployment shop/web fits nowhere", "Made on <time", "by podgrace ", "zone A <span>2 hosts, 3 pods</span>", "<b>maxSkew 2</b> for <code>kubernetes.io/hostname</code> <span>makes room on n3</span>"} {
		if !strings.Contains(out, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if code != 4 || errs != "" {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

func TestBadInput(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	none := filepath.Join(t.TempDir(), "none.yaml")
	if err := os.WriteFile(none, []byte("{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	nodes := filepath.Join(t.TempDir(), "nodes.yaml")
	if err := os.WriteFile(nodes, []byte("{apiVersion: v1, kind: Node, metadata: {name: n1}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	pods := filepath.Join(t.TempDir(), "pods.yaml")
	if err := os.WriteFile(pods, []byte("{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: b}}\n---\n{apiVersion: v1, kind: Pod, metadata: {name: web, namespace: a}}"), 0o600); err != nil {
		t.Fatal(err)
	}
	config := func(text string) string {
		file := filepath.Join(t.TempDir(), "scheduler.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return "-f " + none + " --state " + nodes + " --scheduler-config " + file
	}
	const head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
	for name, test := range map[string]struct{ args, says string }{
		"no such configuration":  {"-f " + none + " --state " + nodes + " --scheduler-config nowhere.yaml", "read --scheduler-config: open nowhere.yaml"},
		"no YAML":                {config("a: ["), "invalid --scheduler-config"},
		"another kind":           {config("apiVersion: v1\nkind: ConfigMap"), `no kind "ConfigMap" is registered`},
		"another version":        {config(strings.Replace(head, "/v1", "/v1beta3", 1)), "kubescheduler.config.k8s.io/v1beta3"},
		"only its arguments":     {config(strings.Replace(head, "KubeSchedulerConfiguration", "VolumeBindingArgs", 1)), "it is a VolumeBindingArgs of kubescheduler.config.k8s.io/v1, not a KubeSchedulerConfiguration"},
		"an unknown field":       {config(head + "profile: []"), `unknown field "profile"`},
		"an invalid constraint":  {config(head + "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, defaultConstraints: [{maxSkew: 0, topologyKey: rack, whenUnsatisfiable: DoNotSchedule}]}}]}]"), "profiles[0].pluginConfig[0].args.defaultConstraints[0].maxSkew: Invalid value: 0"},
		"a profile twice":        {config(head + "profiles: [{schedulerName: a}, {schedulerName: a}]"), "profiles[1].schedulerName: Duplicate value"},
		"somebody else's plugin": {config(head + "profiles: [{schedulerName: a, plugins: {filter: {enabled: [{name: Mine}]}}}]"), `profile a: make the scheduler's framework: FilterPlugin "Mine" does not exist (only the plugins of Kubernetes itself can be asked)`},
		"nothing":                {"", "which pod? -f FILE, or POD"},
		"both":                   {"db-0 -f " + none, "either POD, of the cluster or the state, or the manifests of -f"},
		"no such format":         {"db-0 -o yaml", "-o yaml: it is text, json or html"},
		"no name":                {"a%b --state " + nodes, `"a%b" is no pod's name`},
		"no nodes":               {"-f " + none + " --state " + none, "not one node is known"},
		"no pod":                 {"-f " + none + " --state " + nodes, "nothing of what was given is a pod, or makes one"},
		"no such pod":            {"db-0 -n shop --state " + nodes, "there is no pod db-0 in namespace shop"},
		"a workload":             {"deployment/web --state " + nodes, "a workload's pods are previewed from its manifest"},
		"elsewhere":              {"pods/web -n shop --state " + nodes + " --state " + pods, "there is no pod web in namespace shop; there is one in a, b"},
		"no cluster":             {"db-0", "which nodes? --state FILE, or the cluster of a kubeconfig, of which there is none"},
		"no such file":           {"-f nowhere.yaml --state " + nodes, "nowhere.yaml"},
		"too old":                {"-f " + none + " --kubernetes-version 1.20 --state " + nodes, "kubernetes 1.20 is too old: kube-scheduler 1.36.3 knows the feature gates of 1.33 to 1.36"},
		"an unknown flag":        {"--nodes 3", "unknown flag: --nodes; see podgrace preview --help"},
	} {
		t.Run(name, func(t *testing.T) {
			out, errs, code := typed(t, strings.Fields(test.args)...)
			if code != 2 || !strings.Contains(errs, test.says) || out != "" {
				t.Errorf("%d, want 2 and %q: %s%s", code, test.says, out, errs)
			}
		})
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/podgrace/podgrace/internal/program/memory"
	"github.com/podgrace/podgrace/internal/program/version"
)

func TestExitCodes(t *testing.T) {
	unpack(t)
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, filepath.Join(t.TempDir(), "none"))
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	away := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	for name, text := range map[string]string{
		"away.conf":       away,
		"empty.yaml":      "",
		"half.yaml":       "apiVersion: v1\nkind: Pod\nspec: {containers: [",
		"typo.yaml":       "apiVersion: podgrace.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: a}\nspec: {modus: Tune}\n",
		"mode.yaml":       "apiVersion: podgrace.dev/v1alpha1\nkind: NodePolicy\nmetadata: {name: a}\nspec: {mode: Force}\n",
		"two.yaml":        "apiVersion: v1\nkind: Node\nmetadata: {name: a}\n---\napiVersion: v1\nkind: Node\nmetadata: {name: b}\n",
		"driver.yaml":     "cgroupDriver: openrc\n",
		"unknown.yaml":    "cgroupDrivr: systemd\n",
		"proxy.yaml":      "kind: KubeProxyConfiguration\n",
		"not-a-list.yaml": "[1, 2]\n",
	} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const files = "plan --pods-from=pods.yaml --node=node.yaml --cgroup-version=2 "
	for name, tc := range map[string]struct {
		args string
		code int
		says []string // in what is printed, or logged where it fails
	}{
		"help":               {"--help", 0, []string{"beside the kubelet", "--dry-run", "Available Commands", "plan "}},
		"plan's help":        {"plan --help", 0, []string{"It writes nothing", "--cgroup-version", "-o, --output"}},
		"help of plan":       {"help plan", 0, []string{"It writes nothing"}},
		"version":            {"--version", 0, []string{version.Of("podgrace-nodeenforcer").String() + "\n"}},
		"unknown command":    {"plna", 2, []string{`unexpected argument "plna"; see nodeenforcer --help`}},
		"uninstall's help":   {"uninstall --help", 0, []string{"before the rights of the node enforcers are deleted", "--daemonset", "--timeout"}},
		"uninstall nothing":  {"uninstall --timeout=0s", 2, []string{`invalid --daemonset "": must be NAMESPACE/NAME`, "invalid --timeout 0s"}},
		"uninstall half":     {"uninstall --daemonset=podgrace-node/", 2, []string{`invalid --daemonset "podgrace-node/"`}},
		"a wrong DaemonSet":  {"--daemonset=podgrace-nodeenforcer", 2, []string{`invalid --daemonset "podgrace-nodeenforcer": must be NAMESPACE/NAME`}},
		"uninstall, away":    {"uninstall --kubeconfig=away.conf --daemonset=a/b", 1, []string{"delete DaemonSet a/b"}},
		"an argument":        {"plan pods.yaml", 2, []string{`unexpected argument "pods.yaml"; see nodeenforcer plan --help`}},
		"unknown flag":       {"--dryrun", 2, []string{"unknown flag: --dryrun; see nodeenforcer --help"}},
		"plan's own flag":    {"--cgroup-version=1", 2, []string{"unknown flag: --cgroup-version"}},
		"the daemon's flag":  {"plan --dry-run", 2, []string{"unknown flag: --dry-run; see nodeenforcer plan --help"}},
		"not a number":       {"plan --cgroup-version=two", 2, []string{"invalid argument", "--cgroup-version"}},
		"all that is wrong":  {"--mode=Force --resync=10ms --bind-address=here --metrics-bind-address=there --health-port=-1 --metrics-port=65536 --pods-from=", 2, []string{`--mode: "Force" is not Enforce, Observe, Tune or Repair`, "--resync: 10ms is shorter than 1s", `--bind-address: "here"`, `--metrics-bind-address: "there"`, "--health-port: -1", "--metrics-port: 65536", "--pods-from"}},
		"log format":         {"--log-format=yaml", 2, []string{`--log-format: "yaml" is neither text nor json`}},
		"of plan":            {"plan --mode=observe --cgroup-version=3 --cgroup-driver=openrc -o yaml", 2, []string{`--mode: "observe"`, "--cgroup-version: 3 is neither 1 nor 2", `--cgroup-driver: "openrc" is neither cgroupfs nor systemd`, `--output: "yaml" is neither text nor json`}},
		"a plan":             {files, 0, []string{"shop/web"}},
		"in another mode":    {files + "--policy=policy.yaml --mode=Repair", 0, []string{"NodePolicy web, mode Repair"}},
		"no pods file":       {"plan --pods-from=none.yaml --cgroup-version=2", 1, []string{"none.yaml"}},
		"half a pods file":   {files + "--pods-from=half.yaml", 1, []string{"half.yaml:3: YAML: "}},
		"a folder":           {files + "--pods-from=.", 1, []string{"."}},
		"no node file":       {files + "--node=none.yaml", 1, []string{"none.yaml"}},
		"an empty node file": {files + "--node=empty.yaml", 1, []string{"empty.yaml: there are 0 Nodes in it, want one"}},
		"two Nodes":          {files + "--node=two.yaml", 1, []string{"two.yaml: there are 2 Nodes"}},
		"half a node file":   {files + "--node=half.yaml", 1, []string{"half.yaml:3: YAML: "}},
		"no policy file":     {files + "--policy=none.yaml", 1, []string{"none.yaml"}},
		"a policy's typo":    {files + "--policy=typo.yaml", 1, []string{`typo.yaml:4: unknown field "spec.modus"`}},
		"two bad policies":   {files + "--policy=typo.yaml --policy=mode.yaml", 1, []string{"typo.yaml:4:", "mode.yaml:4:"}},
		"no kubelet's file":  {files + "--kubelet-config=none.yaml", 1, []string{"none.yaml"}},
		"a kubelet's typo":   {files + "--kubelet-config=unknown.yaml", 1, []string{"unknown.yaml", "cgroupDrivr"}},
		"not a kubelet's":    {files + "--kubelet-config=proxy.yaml", 1, []string{"proxy.yaml: it is a KubeProxyConfiguration"}},
		"nothing like it":    {files + "--kubelet-config=not-a-list.yaml", 1, []string{"not-a-list.yaml"}},
		"an unknown driver":  {files + "--kubelet-config=driver.yaml", 1, []string{`driver.yaml: cgroupDriver "openrc" is neither cgroupfs nor systemd`}},
		"no kubeconfig":      {"plan --kubeconfig=none.conf", 1, []string{"none.conf"}},
		"no API server":      {"plan --kubeconfig=away.conf --node-name=worker-1", 1, []string{"read node worker-1", "--node-name"}},
		"pods of nobody":     {"plan --kubeconfig=away.conf --node=node.yaml", 1, []string{"list the pods of node worker-1"}},
		"no cgroups":         {"plan --pods-from=pods.yaml --node=node.yaml --cgroup-root=.", 1, []string{"no cgroups are mounted at .", "--cgroup-version plans for another machine"}},
		"no such folder":     {"--cgroup-root=nowhere", 1, []string{"detecting the cgroup version at nowhere: no such file or directory"}},
		"no cgroups to keep": {"--cgroup-root=.", 1, []string{"no cgroups are mounted at ."}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, log := call(t, strings.Fields(tc.args)...)
			text := out
			if tc.code != 0 {
				text = log
				if out != "" {
					t.Errorf("it printed:\n%s", out)
				}
			}
			for _, want := range tc.says {
				if code != tc.code || !strings.Contains(text, want) {
					t.Errorf("exit %d, want %d and %q in:\n%s", code, tc.code, want, text)
				}
			}
			if tc.code != 0 && !strings.Contains("\n"+log, "\nnodeenforcer: ") {
				t.Errorf("it says %s", log)
			}
		})
	}
}

// With JSON the last line is JSON as well.
func TestEndsInTheFormatOfTheLog(t *testing.T) {
	unpack(t)
	code, _, log := call(t, "--log-format=json", "--cgroup-root=.")
	for line := range strings.Lines(log) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %s", line)
		}
	}
	if code != 1 || !strings.Contains(log, `"msg":"ended","program":"nodeenforcer","err":"no cgroups are mounted at .`) {
		t.Errorf("exit %d, logged:\n%s", code, log)
	}
}

// The first line of the log says what is starting: also of one that can't.
func TestLogBeginsWithTheVersion(t *testing.T) {
	unpack(t)
	_, _, log := call(t, "--cgroup-root=.")
	first, _, _ := strings.Cut(log, "\n")
	if want := fmt.Sprintf(`"starting" program="podgrace-nodeenforcer" version=%q`, version.Of("").Version); !strings.Contains(first, want) {
		t.Errorf("it begins with %s, want %s", first, want)
	}
}

// The API server's audit log has the user agent.
func TestUserAgent(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := clientConfig(&options{kubeconfig: file})
	if err != nil || !strings.HasPrefix(config.UserAgent, "podgrace-nodeenforcer/") {
		t.Errorf("got %+v, %v", config, err)
	}
}

// The name of this node is what is set, else what its pod was given, else the host's.
func TestNodeName(t *testing.T) {
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct{ flag, env, want string }{{"a", "b", "a"}, {"", "b", "b"}, {"", "", host}} {
		t.Setenv("NODE_NAME", tc.env)
		o := defaultOptions()
		o.NodeName = tc.flag
		if err := o.Complete(); err != nil || o.NodeName != tc.want {
			t.Errorf("%+v: got %q, %v", tc, o.NodeName, err)
		}
	}
}

// The program heeds the limit that its manifest names, before anything else.
func TestMemoryLimit(t *testing.T) {
	t.Setenv(memory.Variable, "lots")
	if err := run(t.Context(), defaultOptions(), io.Discard); err == nil || !strings.Contains(err.Error(), memory.Variable) {
		t.Errorf("run returns %v", err)
	}
}

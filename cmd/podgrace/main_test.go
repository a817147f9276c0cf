package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/program/version"
)

// kubeconfig of a server that nobody is.
func kubeconfig(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	text := "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: 'https://127.0.0.1:1'}}]\ncontexts: [{name: c, context: {cluster: c}}, {name: production, context: {cluster: c}}]\ncurrent-context: c\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(clientcmd.RecommendedConfigPathEnvVar, file)
	return file
}

func TestExitCodes(t *testing.T) {
	kubeconfig(t)
	for name, tc := range map[string]struct {
		args string
		asks bool
		code int
		says string
	}{
		"help":                 {"--help", false, 0, "Confirm that a pod may run twice"},
		"nothing":              {"", false, 0, "Available Commands"},
		"confirm's help":       {"confirm --help", false, 0, "podgrace confirm node/worker-3"},
		"version":              {"--version", false, 0, version.Of("podgrace").String() + "\n"},
		"version's command":    {"version", false, 0, version.Of("podgrace").String() + "\n"},
		"version of what":      {"version webhook", false, 2, `unexpected argument "webhook"; see podgrace version --help`},
		"unknown command":      {"cnfirm", false, 2, `unknown command "cnfirm" (confirm?); see podgrace --help`},
		"no command at all":    {"frobnicate", false, 2, `unknown command "frobnicate"; see podgrace --help`},
		"unknown flag":         {"confirm --frce db-0", true, 2, "unknown flag: --frce; see podgrace confirm --help"},
		"which":                {"confirm", true, 2, "which pod or node?"},
		"which node":           {"confirm node/", true, 2, "which pod or node?"},
		"another kind":         {"confirm deployment/web", true, 2, "neither a pod nor a node"},
		"two":                  {"confirm db-0 db-1", true, 2, "one pod or node at a time"},
		"no name":              {"confirm pod/a%b", true, 2, `"a%b" is no name`},
		"no kubeconfig":        {"confirm db-0 --kubeconfig=/nowhere/kubeconfig", true, 2, "read the kubeconfig"},
		"no such context":      {"confirm db-0 --context=nowhere", true, 2, "read the kubeconfig"},
		"no terminal":          {"confirm db-0", false, 2, "stdin is no terminal"},
		"nobody answers":       {"confirm db-0", true, 1, "read pod default/db-0"},
		"yes":                  {"confirm db-0 --yes", false, 1, "read pod default/db-0"},
		"dry run":              {"confirm db-0 -n shop --dry-run", false, 1, "read pod shop/db-0"},
		"pod/NAME":             {"confirm pod/db-0", true, 1, "read pod default/db-0"},
		"kind and name":        {"confirm node worker-3", true, 1, "read node worker-3"},
		"node/NAME":            {"confirm node/worker-3", true, 1, "read node worker-3"},
		"compiles":             {"compile --policy ../../examples/production-web", false, 0, "# PodPolicy production-web: Partly: the API server judges priority.allowedClassNames, gracePeriod by itself; gracePeriod for the hooks and probes of a pod with more than 256 containers, and for a preStop command of more than 256 characters or that is not plainly a sleep, holds by the webhook alone: to look at more would cost the API server too much\n---\napiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\n"},
		"compiles granted":     {"compile --policy testdata/exceptions", false, 0, "# PolicyException shop/asked: it lifts nothing: it was not granted yet. Who has the verb except on PodPolicy bounds can do so (kubectl podgrace grant -n shop asked)\n# PolicyException shop/granted: granted by olga, in force until 2999-01-01T00:00:00Z\n---\n"},
		"compiles its end":     {"compile --policy testdata/exceptions", false, 0, `< timestamp("2999-01-01T00:00:00Z")`},
		"a grant of a file":    {"review -f testdata/exceptions -f testdata/slow", false, 0, "PolicyException shop/granted: granted by olga according to the file itself"},
		"compiles for":         {"compile --policy ../../examples/production-web -n ours --global-default basic", false, 0, `authorizer.serviceAccount("ours", "podgrace-webhook")`},
		"compiles what":        {"compile", false, 2, "which policies? --policy FILE or --policy FOLDER"},
		"compiles nothing":     {"compile --policy ../../examples/stateful", false, 0, "# PodPolicy "},
		"compiles no path":     {"compile --policy=", false, 2, "is a variable not set?"},
		"compiles no file":     {"compile --policy /nowhere", false, 2, "/nowhere"},
		"doctor's format":      {"doctor -o yaml", false, 2, "--output yaml: it is text or json"},
		"doctor fails on":      {"doctor --fail-on serious", false, 2, "--fail-on serious: it is one of error, warning, note, never"},
		"doctor, no namespace": {"doctor -n a;b", false, 2, `--namespace "a;b": no namespace can be called so`},
		"doctor's kubelets":    {"doctor --kubelet-config --state testdata/doctor", false, 2, "--state looks at none"},
		"doctor's no state":    {"doctor --state=", false, 2, "is a variable not set?"},
		"doctor, no files":     {"doctor --state /nowhere", false, 2, "/nowhere"},
		"doctor's files":       {"doctor --state testdata/doctor", false, 1, "it is not in --state"},
		"doctor, never":        {"doctor --state testdata/doctor --fail-on never", false, 0, "cri-o://1.35.0"},
		"doctor's JSON":        {"doctor --state testdata/doctor --fail-on never -o json", false, 0, `"kind": "DoctorReport"`},
		"doctor, no server":    {"doctor", false, 1, "ask the API server for its version"},
		"completion":           {"completion bash", false, 0, "bash completion"},
		"completes offline":    {"__complete confirm d", false, 0, ":4"},
	} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			code := command(t.Context(), terminal.Terminal{In: strings.NewReader(""), Out: &out, Err: &out, Asks: tc.asks}, append([]string{"podgrace"}, strings.Fields(tc.args)...))
			if code != tc.code || !strings.Contains(out.String(), tc.says) {
				t.Errorf("exit %d, want %d and %q in:\n%s", code, tc.code, tc.says, out.String())
			}
		})
	}
}

// kubectl finds its plugins, and their completion, by the program's name.
func TestKubectlPlugin(t *testing.T) {
	kubeconfig(t)
	for program, want := range map[string]string{
		"/opt/bin/kubectl-podgrace":          "kubectl podgrace confirm -n shop db-0",
		"/opt/bin/podgrace":                  "  podgrace confirm -n shop db-0",
		"/opt/bin/kubectl_complete-podgrace": ":4",
	} {
		var out bytes.Buffer
		args := []string{program, "confirm", "--help"}
		if strings.Contains(program, "complete") {
			args[2] = "d"
		}
		if code := command(t.Context(), terminal.Terminal{Out: &out, Err: &out}, args); code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("%s: exit %d, want %q in:\n%s", program, code, want, out.String())
		}
	}
}

// What is to be typed next goes to the same cluster as the same user, and repeats no secret.
func TestCarriedFlags(t *testing.T) {
	cmd := newConfirm(terminal.Terminal{}, "podgrace")
	if err := cmd.ParseFlags([]string{"--context", "it's prod", "--as=bob", "--as-group=a", "--as-group=b", "--as-user-extra=team=x", "--token=secret", "-n", "shop", "--yes"}); err != nil {
		t.Fatal(err)
	}
	if got, want := carriedFlags(cmd.Flags()), ` --context='it'\''s prod' --as=bob --as-group=a --as-group=b --as-user-extra=team=x`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/preview"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/controllers"
)

var (
	docs = filepath.Join("..", "..", "..", "docs", "preview.md")
	// files of the page are named in their first line.
	files    = regexp.MustCompile("(?ms)^```yaml\n# (\\S+)\n(.*?)^```$")
	consoles = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")
)

func page(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(docs)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// What docs/preview.md shows is what is printed, in its order, with its files.
func TestDocs(t *testing.T) {
	absolute, err := filepath.Abs(docs)
	if err != nil {
		t.Fatal(err)
	}
	text := page(t)
	t.Chdir(t.TempDir())
	for _, m := range files.FindAllStringSubmatch(text, -1) {
		if err := os.WriteFile(m[1], []byte(m[2]), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	shown := 0
	got := consoles.ReplaceAllStringFunc(text, func(block string) string {
		shown++
		return "```console\n" + session(t, consoles.FindStringSubmatch(block)[1]) + "```"
	})
	if shown < 4 {
		t.Errorf("only %d sessions were found", shown)
	}
	if *update {
		if err := os.WriteFile(absolute, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(text, got); diff != "" {
		t.Errorf("it prints otherwise (-page +printed; -update writes it):\n%s", diff)
	}
}

// session types the commands of a block, and returns them with what they print.
func session(t *testing.T, block string) string {
	t.Helper()
	var out strings.Builder
	code := 0
	for line := range strings.Lines(block) {
		command, ok := strings.CutPrefix(line, "$ ")
		if !ok {
			continue
		}
		out.WriteString(line)
		switch args, ok := strings.CutPrefix(command, "podgrace preview "); {
		case ok:
			var stdout, stderr string
			stdout, stderr, code = typed(t, strings.Fields(args)...)
			out.WriteString(stdout + stderr)
		case command == "echo $?\n":
			fmt.Fprintf(&out, "%d\n", code)
		default:
			t.Errorf("nobody here can type %q", command)
		}
	}
	return out.String()
}

// The page lists the kinds that are read, once as rules and once for kubectl: one that is missing would be taken for empty.
func TestDocsNameAllKinds(t *testing.T) {
	var want []string // resource.group
	for _, kind := range slices.Concat(review.Kinds(), preview.Kinds(), []client.Object{&v1alpha1.PodPolicy{}}) {
		kinds, _, err := webhook.NewScheme().ObjectKinds(kind)
		if err != nil {
			t.Fatal(err)
		}
		plural, _ := meta.UnsafeGuessKindToResource(kinds[0])
		want = append(want, plural.GroupResource().String())
	}
	slices.Sort(want)

	var role rbacv1.ClusterRole
	text := page(t)
	if m := regexp.MustCompile("(?ms)^```yaml\n(apiVersion: rbac.*?)^```$").FindStringSubmatch(text); m == nil {
		t.Fatal("the page has no ClusterRole")
	} else if err := yaml.UnmarshalStrict([]byte(m[1]), &role); err != nil {
		t.Fatal(err)
	}
	var allowed, plurals []string
	excluded := rbacv1.PolicyRule{APIGroups: []string{"admissionregistration.k8s.io"}, Resources: []string{"validatingwebhookconfigurations"}, ResourceNames: []string{controllers.ConfigurationName}, Verbs: []string{"get"}}
	if !slices.ContainsFunc(role.Rules, func(r rbacv1.PolicyRule) bool { return reflect.DeepEqual(r, excluded) }) {
		t.Error("the ClusterRole does not let it read which namespaces are excluded")
	}
	for _, rule := range role.Rules {
		if reflect.DeepEqual(rule, excluded) { // of a file nothing is read but by the flag
			continue
		}
		if !slices.Equal(rule.Verbs, []string{"list"}) || len(rule.APIGroups) != 1 {
			t.Errorf("rule %v: to list is enough, a rule a group", rule)
		}
		for _, resource := range rule.Resources {
			allowed = append(allowed, strings.TrimSuffix(resource+"."+rule.APIGroups[0], "."))
			plurals = append(plurals, resource)
		}
	}
	slices.Sort(allowed)
	if diff := cmp.Diff(want, allowed); diff != "" {
		t.Errorf("the ClusterRole allows others than are read (-read +allowed): %s", diff)
	}
	command := regexp.MustCompile(`(?m)^kubectl get (\S+) -A -o json`).FindStringSubmatch(text)
	if command == nil {
		t.Fatal("the page has no kubectl get")
	}
	got := strings.Split(strings.ReplaceAll(command[1], ".podgrace.dev", ""), ",") // Kyverno has a plural of the same name
	slices.Sort(got)
	slices.Sort(plurals)
	if diff := cmp.Diff(plurals, got); diff != "" {
		t.Errorf("kubectl gets others than the ClusterRole allows (-allowed +got): %s", diff)
	}
}

// The exit codes of the page are those of the help.
func TestDocsNameAllExitCodes(t *testing.T) {
	rows := regexp.MustCompile(`(?m)^\| (\d) \| (.*) \|$`).FindAllStringSubmatch(page(t), -1)
	help := strings.Join(strings.Fields(long[strings.Index(long, "Exit codes:"):]), " ")
	got := "Exit codes:"
	for _, r := range rows {
		got += " " + r[1] + " " + strings.ReplaceAll(r[2], "`", "")
	}
	if help != got {
		t.Errorf("the page says\n%s\nthe help\n%s", got, help)
	}
}

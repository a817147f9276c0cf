package main

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/review"
)

// inFolder writes files into the working directory of the tree.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		if i := strings.LastIndex(name, "/"); i > 0 {
			if err := os.MkdirAll(name[:i], 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestWhatIsLeftOutIsSaid(t *testing.T) {
	inTree(t)
	inFolder(t, map[string]string{"deploy/values.yaml": "image: web\n", "deploy/.podgraceignore": "old/\n", "deploy/old/old.yaml": "{{"})
	code, out, complaints := typed(t, "", "review -f deploy --exclude calm.yaml"+whole)
	if code != 0 || !strings.Contains(out, "Left out: 1 file has no manifest.\nLeft out: 2 paths are excluded.\n") || !strings.Contains(out, "Reviewed 1 in 2 files") || complaints != "" {
		t.Errorf("exit %d: %s%s", code, out, complaints)
	}
	for _, format := range []string{"markdown", "html"} {
		if _, out, _ := typed(t, "", "review -f deploy -o "+format+whole); !strings.Contains(out, "1 file has no manifest") {
			t.Errorf("%s does not say it", format)
		}
	}
	for _, format := range []string{"github", "sarif", "junit"} {
		if _, _, complaints := typed(t, "", "review -f deploy -o "+format+whole); !strings.Contains(complaints, "left out: 1 file has no manifest.") {
			t.Errorf("%s: %q", format, complaints)
		}
	}
	_, out, _ = typed(t, "", "review -f deploy -o json"+whole)
	var r review.Report
	if err := json.Unmarshal([]byte(out), &r); err != nil || len(r.LeftOut) != 2 || r.LeftOut[1].Path != "deploy/values.yaml" {
		t.Errorf("%v: %v", err, r.LeftOut)
	}
	// Nothing is left: that is no clean review.
	if code, out, _ := typed(t, "", "review -f deploy --exclude *"+whole); code != 2 || !strings.Contains(out, "there is no document in it; 4 paths are excluded.") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, _, complaints := typed(t, "", "review -f deploy --exclude [a"); code != 2 || !strings.Contains(complaints, `--exclude: line 1: "[a" is no pattern`) {
		t.Errorf("exit %d: %s", code, complaints)
	}
}

// What a folder stands for has no depth, and no dot hides a part of it: half of the policies would judge something else.
func TestFoldersInFoldersCount(t *testing.T) {
	const namespace, class, policy = "apiVersion: v1\nkind: Namespace\nmetadata: {name: other, labels: {profile: web}}\n",
		"apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 1000\n",
		"apiVersion: podgrace.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: deep}\nspec:\n  gracePeriod: {minSeconds: 50}\n"
	for name, files := range map[string]map[string]string{
		"state, two folders down":    {"known/a/b/ns.yaml": namespace, "known/a/class.yaml": class},
		"state, in a hidden folder":  {"known/.cluster/ns.yaml": namespace, "known/class.yaml": class},
		"policies, two folders down": {"known/ns.yaml": namespace, "known/class.yaml": class, "more/a/b/deep.yaml": policy, "more/top.yaml": strings.Replace(policy, "deep}", "top}", 1)},
		"policies, in a hidden one":  {"known/ns.yaml": namespace, "known/class.yaml": class, "more/.team/deep.yaml": policy, "more/top.yaml": strings.Replace(policy, "deep}", "top}", 1)},
	} {
		t.Run(name, func(t *testing.T) {
			inTree(t)
			inFolder(t, files)
			args, deep := "review -f deploy/calm.yaml -o json --policy policies --state known", files["more/top.yaml"] != ""
			if deep {
				args += " --policy more"
			}
			_, out, complaints := typed(t, "", args)
			var r review.Report
			if err := json.Unmarshal([]byte(out), &r); err != nil {
				t.Fatal(err, complaints)
			}
			if len(r.Results) != 1 || !strings.HasPrefix(r.Results[0].Why["priorityClassName"], "high") || slices.Contains(r.Results[0].Policies, "deep") != deep {
				t.Errorf("%+v %+v", r.Results, r.Errors)
			}
		})
	}
}

func TestRenderedFoldersAreReviewed(t *testing.T) {
	inTree(t)
	inFolder(t, map[string]string{
		"deploy/kustomization.yaml": "resources: [web.yaml]\nnamePrefix: prod-\n",
		"deploy/chart/Chart.yaml":   "apiVersion: v2\nname: web\n",
		"built/kustomization.yaml":  "resources: [policy.yaml, pod.yaml]\nnameSuffix: -a\n",
		"built/pod.yaml":            "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: shop}\nspec: {containers: [{name: c, image: i}]}\n",
		"built/policy.yaml":         "apiVersion: podgrace.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: built}\nspec: {gracePeriod: {minSeconds: 50}}\n",
	})
	code, out, _ := typed(t, "", "review -f deploy --render kustomize"+whole)
	for _, says := range []string{"WARNED   Deployment shop/prod-web (deploy/kustomization.yaml)\n", "Reviewed 2 in 2 files", "Left out: 1 Helm chart was not rendered (--render=helm): deploy/chart.\n"} {
		if code != 0 || !strings.Contains(out, says) {
			t.Errorf("exit %d, without %q: %s", code, says, out)
		}
	}
	// Policies that are rendered hold, too.
	if code, out, _ := typed(t, "", "review -f built --render=kustomize,kustomize"); code != 0 || !strings.Contains(out, "PodPolicy built-a: minimum 50 s") {
		t.Errorf("exit %d: %s", code, out)
	}
	if code, out, _ := typed(t, "", "review -f deploy/chart"+whole); code != 2 || !strings.Contains(out, "there is no document in it; 1 Helm chart was not rendered (--render=helm): deploy/chart.") {
		t.Errorf("a chart alone: exit %d: %s", code, out)
	}
	if code, _, complaints := typed(t, "", "review -f deploy --render jsonnet"); code != 2 || !strings.Contains(complaints, "--render jsonnet: it is helm or kustomize") {
		t.Errorf("exit %d: %s", code, complaints)
	}
	t.Setenv("PATH", t.TempDir())
	if code, _, complaints := typed(t, "", "review -f deploy --render helm"); code != 2 || !strings.Contains(complaints, "--render helm: ") {
		t.Errorf("exit %d: %s", code, complaints)
	}
}

// A repository is more than manifests; this one has a chart, kustomizations, patches, values and the configuration of programs.
func TestThisRepositoryCanBeReviewed(t *testing.T) {
	t.Chdir("../..")
	for _, args := range []string{"", " --render kustomize"} {
		code, out, complaints := typed(t, "", "review -f . -o json"+args)
		var r review.Report
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatalf("exit %d: %v: %s", code, err, complaints)
		}
		if code != 1 || len(r.Errors) > 0 || r.Summary.Reviewed < 10 {
			t.Errorf("%q: exit %d, %d reviewed, errors: %v", args, code, r.Summary.Reviewed, r.Errors)
		}
	}
}

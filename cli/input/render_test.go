package input

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/internal/manifest"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec: {replicas: 1}
`

// program puts a shell script first on the PATH.
func program(t *testing.T, name, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(filepath.ListSeparator)+os.Getenv("PATH"))
}

func TestChartsAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"a.yaml": "apiVersion: v1\nkind: A\n", "chart/Chart.yaml": "apiVersion: v2\nname: web\n", "chart/values.yaml": "{{", "chart/templates/web.yaml": "{{ if }}",
		"chart/charts/sub/Chart.yaml": "apiVersion: v2\nname: sub\n", "other/Chart.yaml/b.yaml": "apiVersion: v1\nkind: B\n",
	})
	t.Chdir(dir)
	kinds, left := readFolder(t, &Reader{}, ".")
	if diff := cmp.Diff([]string{"a.yaml A", "other/Chart.yaml/b.yaml B"}, kinds) + cmp.Diff([]LeftOut{{Path: "chart", As: HelmChart, Why: "--render=helm"}}, left); diff != "" {
		t.Error(diff)
	}
	if got := LeftOutInWords(left); !cmp.Equal(got, []string{"1 Helm chart was not rendered (--render=helm): chart."}) {
		t.Errorf("in words: %q", got)
	}
	if kinds, left := readFolder(t, &Reader{}, "chart"); len(kinds) != 0 || len(left) != 1 {
		t.Errorf("named: %q, %v", kinds, left)
	}
	if kinds, _ := readFolder(t, &Reader{}, "chart/templates/web.yaml"); len(kinds) != 1 || !strings.HasPrefix(kinds[0], "chart/templates/web.yaml:1: ") {
		t.Errorf("a template that is named: %q", kinds)
	}
	if kinds, left := readFolder(t, &Reader{Plain: true}, "."); len(kinds) != 6 || len(left) != 0 {
		t.Errorf("plainly: %q, %v", kinds, left)
	}
}

func TestChartsAreRendered(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{"-x/Chart.yaml": "apiVersion: v2\nname: web\n", "-x/templates/web.yaml": "{{ if }}", "b.yaml": "apiVersion: v1\nkind: B\n"})
	t.Chdir(dir)
	program(t, "helm", `printf '%s\n' "$*" >&2
[ "$1 $2 $3" = "template --namespace=shop --" ] && [ -f "$4/Chart.yaml" ] || exit 3
printf -- '---\n# Source: web/templates/web.yaml\napiVersion: v1\nkind: One\n---\n# Source: web/../../etc/x.yaml\napiVersion: v1\nkind: Two\n---\napiVersion: v1\nkind: Three\n---\n# Source: web/templates/bad.yaml\nkind: Four\n'
`)
	r := &Reader{Render: []string{RenderHelm}, Namespace: "shop"}
	var got []string
	for d, err := range r.Read(".") {
		switch {
		case err != nil:
			got = append(got, err.Error())
		case d.Rendered != (d.File != "b.yaml") || d.Rendered && d.Line != 0:
			t.Errorf("%s: rendered %t, line %d", d.File, d.Rendered, d.Line)
		default:
			got = append(got, d.File+" "+d.Kind)
		}
	}
	want := []string{"-x/templates/web.yaml One", "-x/etc/x.yaml Two", "-x/etc/x.yaml Three", "-x/templates/bad.yaml: line 3 of what was rendered: no apiVersion (kind is Four)", "b.yaml B"}
	if diff := cmp.Diff(want, got); diff != "" || len(r.LeftOut) != 0 {
		t.Errorf("%v %s", r.LeftOut, diff)
	}
	program(t, "helm", "echo 'missing dependency' >&2; exit 1\n")
	if got, _ := readFolder(t, &Reader{Render: []string{RenderHelm}}, "."); len(got) != 2 || got[0] != "-x: helm template: exit status 1: missing dependency" {
		t.Errorf("helm fails: %q", got)
	}
	program(t, "helm", "printf 'level=INFO msg=\"found symbolic link\"\\nError: execution error at (web/templates/pod.yaml:1:3): image is needed\\n\\nUse --debug\\n' >&2; exit 1\n")
	if got, _ := readFolder(t, &Reader{Render: []string{RenderHelm}}, "."); len(got) != 2 || !strings.HasPrefix(got[0], "-x: helm template: exit status 1: Error: execution error at (web/templates/pod.yaml:1:3): image is needed") {
		t.Errorf("helm logs: %q", got)
	}
	writeTree(t, dir, map[string]string{"-x/Chart.yaml": "apiVersion: v2\nname: web\ntype: library\n"})
	for _, render := range [][]string{nil, {RenderHelm}} {
		if got, left := readFolder(t, &Reader{Render: render}, "."); len(got) != 1 || !cmp.Equal(left, []LeftOut{{Path: "-x", As: LibraryChart}}) {
			t.Errorf("a library: %q, %v", got, left)
		}
	}
	writeTree(t, dir, map[string]string{"-x/Chart.yaml": "apiVersion: v2\nname: web\n"})
	t.Setenv("PATH", t.TempDir())
	if got, _ := readFolder(t, &Reader{Render: []string{RenderHelm}}, "."); len(got) != 2 || got[0] != "-x: to render this chart, helm must be on the PATH" {
		t.Errorf("no helm: %q", got)
	}
}

func TestKustomizations(t *testing.T) {
	dir := t.TempDir()
	writeTree(t, dir, map[string]string{
		"base/kustomization.yaml":         "resources: [web.yaml]\n",
		"base/web.yaml":                   deployment,
		"prod/kustomization.yml":          "resources: [../base]\nnamePrefix: prod-\npatches: [{path: patch.yaml}]\ncomponents: [../component]\nconfigMapGenerator: [{name: c, files: [config.yaml, k=two.yaml]}]\n",
		"prod/patch.yaml":                 "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 5}\n",
		"prod/config.yaml":                "a: {{\n",
		"prod/two.yaml":                   "a: {{\n",
		"prod/beside.yaml":                "apiVersion: v1\nkind: Beside\n",
		"component/kustomization.yaml":    "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nnamespace: shop\n",
		"unused/kustomization.yaml":       "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [u.yaml]\n",
		"unused/u.yaml":                   "apiVersion: v1\nkind: Unused\n",
		"broken/kustomization.yaml":       "resources: [gone.yaml]\n",
		"wrong/kustomization.yaml":        "resource: [web.yaml]\n",
		"remote/kustomization.yaml":       "resources: [base]\n",
		"remote/base/kustomization.yaml":  "resources: ['https://example.com/x.yaml', b.yaml]\n",
		"remote/base/b.yaml":              "apiVersion: v1\nkind: Base\n",
		"transform/kustomization.yaml":    "transformers: [t.yaml]\nresources: []\n",
		"transform/t.yaml":                "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: x}\npath: https://example.com/x\n",
		"loop/kustomization.yaml":         "resources: [../loop2]\n",
		"loop2/kustomization.yaml":        "resources: [../loop]\n",
		"outside/kustomization.yaml":      "resources: [../prod/beside.yaml]\n",
		"outside/README.txt":              "kustomize refuses files above the folder",
		"configuration/Kustomization":     "resources: [c.yaml]\n",
		"configuration/c.yaml":            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n",
		"configuration/kustomization.txt": "",
	})
	t.Chdir(dir)
	kinds, left := readFolder(t, &Reader{}, ".")
	want := []string{"base/web.yaml Deployment", "configuration/c.yaml ConfigMap", "prod/beside.yaml Beside", "remote/base/b.yaml Base", "unused/u.yaml Unused"}
	if diff := cmp.Diff(want, kinds); diff != "" {
		t.Errorf("not built: %s", diff)
	}
	counts := map[As]int{}
	for _, l := range left {
		counts[l.As]++
	}
	if diff := cmp.Diff(map[As]int{Kustomization: 13, KustomizationPart: 4}, counts); diff != "" {
		t.Errorf("not built: %s\n%v", diff, left)
	}

	kinds, left = readFolder(t, &Reader{Render: []string{RenderKustomize}}, ".")
	want = []string{
		"broken/kustomization.yaml: gone.yaml: no such file or directory",
		"configuration/Kustomization ConfigMap",
		"loop/kustomization.yaml: ../loop: it is built of itself", "loop2/kustomization.yaml: ../loop2: it is built of itself",
		"prod/kustomization.yml ConfigMap", "prod/kustomization.yml Deployment",
		"remote/base/b.yaml Base", "unused/u.yaml Unused",
	}
	var got []string
	for _, k := range kinds {
		switch {
		case strings.HasPrefix(k, "wrong/") && strings.Contains(k, `unknown field "resource"`), strings.HasPrefix(k, "outside/") && strings.Contains(k, "is not in or below"):
			// The text is kustomize's.
		default:
			got = append(got, k)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(kinds) != len(want)+2 {
		t.Errorf("built: %s\n%q", diff, kinds)
	}
	var why []string
	for _, l := range left {
		if l.As == Kustomization {
			why = append(why, l.Path+" "+l.Why)
		}
	}
	if diff := cmp.Diff([]string{
		"remote not on this machine: https://example.com/x.yaml", "remote/base not on this machine: https://example.com/x.yaml",
		"transform not on this machine: https://example.com/x", "unused a component of none of these",
	}, why); diff != "" {
		t.Errorf("built: %s", diff)
	}
	for d, err := range (&Reader{Render: []string{RenderKustomize}}).Read("prod") {
		if err == nil && d.Kind == "Deployment" && (d.Name != "prod-web" || d.Namespace != "shop" || !strings.Contains(string(d.JSON), `"replicas":5`) || !d.Rendered || d.Line != 0) {
			t.Errorf("%+v %s", d, d.JSON)
		}
	}
}

// Nothing that is read may make this machine fetch something.
func TestKustomizationsFetchNothing(t *testing.T) {
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	defer server.Close()
	marker := filepath.Join(t.TempDir(), "git-was-run")
	program(t, "git", "echo \"$*\" >>"+marker+"\nexit 1\n")
	url := server.URL + "/x.yaml"
	inline := func(configuration string) string {
		return "transformers:\n- |-\n  {apiVersion: builtin, " + configuration + "}\n"
	}
	for name, text := range map[string]string{
		"resource":      "resources: ['" + url + "']\n",
		"upper case":    "resources: ['HTTP" + strings.TrimPrefix(url, "http") + "']\n",
		"base":          "bases: ['" + url + "']\n",
		"component":     "components: ['" + url + "']\n",
		"github":        "resources: [github.com/a/b]\n",
		"GitHub":        "resources: [GitHub.com/a/b]\n",
		"there as well": "resources: [github.com/there/too]\n",
		"scp":           "resources: ['git@127.0.0.1:a/b']\n",
		"user":          "resources: ['git@127.0.0.1/a/b']\n",
		"git::":         "resources: ['git::https://127.0.0.1/a/b']\n",
		"ssh":           "resources: ['ssh://127.0.0.1/a/b']\n",
		"file":          "resources: ['file:///a/b']\n",
		"patch":         "patches: [{path: '" + url + "'}]\n",
		"merge patch":   "patchesStrategicMerge: ['" + url + "']\n",
		"JSON patch":    "patchesJson6902: [{path: '" + url + "', target: {kind: A, version: v1, name: a}}]\n",
		"replacement":   "replacements: [{path: '" + url + "'}]\n",
		"schema":        "openapi: {path: '" + url + "'}\n",
		"CRD":           "crds: ['" + url + "']\n",
		"configuration": "configurations: ['" + url + "']\n",
		"ConfigMap":     "configMapGenerator: [{name: a, files: ['k=" + url + "']}]\n",
		"env":           "configMapGenerator: [{name: a, env: '" + url + "'}]\n",
		"env with a =":  "configMapGenerator: [{name: a, envs: ['" + url + "?a=b']}]\n",
		"Secret":        "secretGenerator: [{name: a, envs: ['" + url + "']}]\n",
		"generator":     "generators: [g.yaml]\n",
		"in a folder":   "transformers: [plugins]\n",
		"hidden":        "transformers: [hidden]\n",
		"patched":       "transformers: [patched]\n",
		"a field":       inline("kind: PatchTransformer, metadata: {name: a}, PATH: '" + url + "'"),
		"paths":         inline("kind: PatchStrategicMergeTransformer, metadata: {name: a}, paths: ['" + url + "']"),
		"value":         inline("kind: ValueAddTransformer, metadata: {name: a}, targetFilePath: '" + url + "'"),
		"replaced":      inline("kind: ReplacementTransformer, metadata: {name: a}, replacements: [{path: '" + url + "'}]"),
		"data":          inline("kind: SecretGenerator, metadata: {name: a}, env: '" + url + "'"),
		"its chart":     inline("kind: HelmChartInflationGenerator, metadata: {name: a}, name: a, repo: '" + server.URL + "'"),
		"a program":     "generators: ['{apiVersion: example.com/v1, kind: Fetch, metadata: {name: a}}']\n",
		"a function":    "generators: ['{apiVersion: v1, kind: Fetch, metadata: {name: a, annotations: {config.kubernetes.io/function: \"exec: {path: /bin/git}\"}}}']\n",
		"chart":         "helmCharts: [{name: a, repo: '" + server.URL + "'}]\n",
		"inline":        "transformers: ['{apiVersion: builtin, kind: PatchTransformer, metadata: {name: a}, path: \"" + url + "\"}']\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeTree(t, dir, map[string]string{
				"kustomization.yaml": text, "github.com/there/too/kustomization.yaml": "resources: []\n",
				"g.yaml":                     "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: a}\nfiles: ['" + url + "']\n",
				"plugins/kustomization.yaml": "resources: [p.yaml]\n", "plugins/p.yaml": "{apiVersion: builtin, kind: PatchTransformer, metadata: {name: a}, path: '" + url + "'}\n",
				"hidden/kustomization.yaml": "resources: [h.yaml]\n", "hidden/h.yaml": "{apiVersion: builtin, kind: PatchTransformer, metadata: {name: a, annotations: {config.kubernetes.io/local-config: 'true'}}, path: '" + url + "'}\n",
				"patched/kustomization.yaml": "resources: [q.yaml]\npatches: [{patch: '[{op: replace, path: /path, value: \"" + url + "\"}]', target: {kind: PatchTransformer}}]\n",
				"patched/q.yaml":             "{apiVersion: builtin, kind: PatchTransformer, metadata: {name: a}, path: here.yaml}\n",
			})
			kinds, left := readFolder(t, &Reader{Render: []string{RenderKustomize}}, dir)
			if len(left) == 0 || left[0].As != Kustomization {
				t.Errorf("left out: %v; read: %q", left, kinds)
			}
		})
	}
	if n := asked.Load(); n != 0 {
		t.Errorf("the server was asked %d times", n)
	}
	if text, err := os.ReadFile(marker); err == nil {
		t.Errorf("git was run: %s", text)
	}
}

// kustomize's own plugins need no program: a kustomization that has no others is built, in whichever form it has them.
func TestKustomizationsWithPlugins(t *testing.T) {
	const priority = "{apiVersion: builtin, kind: PatchTransformer, metadata: {name: priority}, target: {kind: Deployment}, patch: '[{\"op\": \"add\", \"path\": \"/spec/priority\", \"value\": \"high\"}]'}\n"
	for name, test := range map[string]struct {
		files map[string]string
		// want is what the Deployment has, and left why it was not built; both empty: an error.
		want, left string
	}{
		"in a file":           {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ntransformers: [p.yaml]\n", "p.yaml": priority}, `"priority":"high"`, ""},
		"inline":              {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ntransformers:\n- |\n  " + priority}, `"priority":"high"`, ""},
		"several in a file":   {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ntransformers: [p.yaml]\n", "p.yaml": "{apiVersion: builtin, kind: NamespaceTransformer, metadata: {name: n, namespace: shop}}\n---\n" + priority}, `"priority":"high"`, ""},
		"in a folder":         {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ntransformers: [plugins]\n", "plugins/kustomization.yaml": "resources: [p.yaml]\n", "plugins/p.yaml": priority}, `"priority":"high"`, ""},
		"of a base":           {map[string]string{"kustomization.yaml": "resources: [base]\n", "base/kustomization.yaml": "resources: [web.yaml]\ntransformers: [p.yaml]\n", "base/web.yaml": deployment, "base/p.yaml": priority}, `"priority":"high"`, ""},
		"of a component":      {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ncomponents: [c]\n", "c/kustomization.yaml": "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\ntransformers: [p.yaml]\n", "c/p.yaml": priority}, `"priority":"high"`, ""},
		"with a file":         {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ntransformers: [p.yaml]\n", "p.yaml": "{apiVersion: builtin, kind: PatchTransformer, metadata: {name: p}, path: patch.yaml}\n", "patch.yaml": "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 7}}\n"}, `"replicas":7`, ""},
		"a validator":         {map[string]string{"kustomization.yaml": "resources: [web.yaml]\nvalidators: [p.yaml]\n", "p.yaml": "{apiVersion: builtin, kind: NamespaceTransformer, metadata: {name: n}}\n"}, `"replicas":1`, ""},
		"a generator":         {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ngenerators: [p.yaml]\n", "p.yaml": "{apiVersion: builtin, kind: ConfigMapGenerator, metadata: {name: c}, files: [k=data.yaml]}\n", "data.yaml": "a: {{\n"}, `"replicas":1`, ""},
		"a program":           {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ntransformers: [p.yaml]\n", "p.yaml": "{apiVersion: example.com/v1, kind: Thing, metadata: {name: t}}\n"}, "", "it needs a plugin that is not built into kustomize: Thing of example.com/v1"},
		"one beside another":  {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ntransformers: [p.yaml]\n", "p.yaml": priority + "---\n{apiVersion: example.com/v1, kind: Thing, metadata: {name: t}}\n"}, "", "it needs a plugin that is not built into kustomize: Thing of example.com/v1"},
		"a patched folder":    {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ntransformers: [plugins]\n", "plugins/kustomization.yaml": "namePrefix: a-\nresources: [p.yaml]\n", "plugins/p.yaml": priority}, "", "it needs a plugin that is not built into kustomize, or more than resources in the kustomization of plugins"},
		"charts":              {map[string]string{"kustomization.yaml": "resources: [web.yaml]\nhelmCharts: [{name: a}]\n"}, "", "it has Helm charts, which kustomize renders with --enable-helm only"},
		"a file that is gone": {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ntransformers: [gone.yaml]\n"}, "", ""},
		"not a configuration": {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ntransformers: [p.yaml]\n", "p.yaml": "a: b\n"}, "", ""},
		"an unknown one":      {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ntransformers: [p.yaml]\n", "p.yaml": "{apiVersion: builtin, kind: Nothing, metadata: {name: n}}\n"}, "", ""},
		"loops":               {map[string]string{"kustomization.yaml": "resources: [web.yaml]\ntransformers: [plugins]\n", "plugins/kustomization.yaml": "resources: [../plugins]\n"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeTree(t, dir, map[string]string{"web.yaml": deployment})
			writeTree(t, dir, test.files)
			r := &Reader{Render: []string{RenderKustomize}}
			var got string
			var wrong []*manifest.Error
			for d, err := range r.Read(dir) {
				switch {
				case err != nil:
					wrong = append(wrong, err)
				case d.Kind == "Deployment" && d.Rendered:
					got += string(d.JSON)
				case d.APIVersion == "builtin" && test.want != "":
					t.Errorf("%s is read beside what is built", d.File)
				}
			}
			if !strings.Contains(got, test.want) || (test.want == "") != (got == "") || (test.want == "" && test.left == "") != (len(wrong) > 0) {
				t.Errorf("got %s, %v", got, wrong)
			}
			var left string
			for _, l := range r.LeftOut {
				if l.As == Kustomization {
					left = l.Why
				}
			}
			if left != test.left {
				t.Errorf("left out: %q", left)
			}
		})
	}
}

package manifest

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/yaml"
	kubeyaml "sigs.k8s.io/yaml"
)

// kubectlAgrees compares a YAML document that was read with what kubectl makes of it.
func kubectlAgrees(t interface {
	Helper()
	Fatalf(string, ...any)
}, text string, d *Document, exactly bool,
) {
	t.Helper()
	raw, err := kubeyaml.YAMLToJSON([]byte(text))
	if err != nil {
		return
	}
	decode := decoded
	if !exactly { // integers of more than 64 bits are floats for kubectl
		decode = func(raw []byte) (o map[string]any, err error) { return o, json.Unmarshal(raw, &o) }
	}
	want, err := decode(raw)
	if err != nil {
		return
	}
	if got, err := decode(d.JSON); err != nil || !cmp.Equal(want, got) {
		t.Fatalf("%q: kubectl reads\n%s, and we %v\n%s", text, raw, err, d.JSON)
	}
}

func TestScalarsAreAsForKubectl(t *testing.T) {
	all := slices.Concat(awkward, strings.Fields(`y Y yes Yes YES yEs n N no No NO true True TRUE tRUE false off Off OFF on On ON null Null NULL nULL ~ ~a
		0 -0 +0 1 +1 -1 00 08 0o7 0o17 017 -017 0x1f 0X1F -0x1 +0x1f 0xg 0b101 -0b101 0b2 1_000 _1 1_ 1__0 9223372036854775807 9223372036854775808 -9223372036854775808
		18446744073709551615 1.0 1.10 -.5 .5 5. . .. 1e3 1E3 1e 1e+3 +1.5e-3 1e400 0.1 1.7976931348623157e308 0x1p-2 .inf -.Inf +.INF .nan .NaN .NAN .NaNs inf nan
		infinity 2001-12-14 2001-12-14t21:59:43.10-05:00 12:30 190:20:30 1.2.3 10.0.0.1 100m 1Gi 0644 0_7 << <<a = - -a --a 1-2 deadbeef 1e5f`))
	for _, s := range all {
		for _, form := range []string{"%s", "!!str %s", "!!int %s", "!!float %s", "!!bool %s", "!!null %s", "!!binary %s", "!!timestamp %s", "!a %s", "'%s'", "&a %s", ">\n  %s", "[%s]", "{a: %s}", "{%s: a}", "a\n  %s", "? %s"} {
			if strings.ContainsAny(form, "[{") && s == "-" {
				continue // no YAML, and the two parsers differ
			}
			text := "apiVersion: v1\nkind: A\nx: " + fmt.Sprintf(form, s) + "\n"
			_, kubectlErr := kubeyaml.YAMLToJSONStrict([]byte(text))
			for d, err := range readText(text, 0) {
				if (err == nil) != (kubectlErr == nil) {
					t.Errorf("%q: kubectl %v, we %v", text, kubectlErr, err)
				}
				if err == nil {
					kubectlAgrees(t, text, d, true)
				}
			}
		}
	}
}

func TestAnchorsAreAsForKubectl(t *testing.T) {
	for _, text := range []string{
		"a: &a {b: c}\nd: *a\n",
		"a: &a\n  b: c\nd:\n  <<: *a\n  e: f\n",
		"a: &a {b: c}\nd: {b: e, <<: *a}\n",
		"a: &a {b: c}\nd: {<<: *a, b: e}\n",
		"a: &a {b: c, d: e}\nf: &f {b: g}\nh: {<<: [*a, *f], i: j}\n",
		"a: &a {b: c, d: e}\nf: &f {b: g, <<: *a}\nh: {<<: [*f, {k: l}, *a]}\n",
		"a: &a {b: c}\nd: {!!merge x: *a}\n",
		"a: &a {b: c}\nd: {'<<': *a}\n",
		"a: &a b\n*a : c\n",
		"a: &a x\nb: &a y\nc: *a\n",
		"a: &a [1, 2]\nb: [*a, *a]\n",
		"a: &a 1\nb: *a\n*a : c\n",
		"a: &kind Pod\nkind: *kind\n",
		"m: &m {name: x, namespace: z}\nmetadata: *m\n",
		"m: &m {name: x, namespace: z}\nmetadata: {<<: *m, name: w}\n",
		"<<: {kind: B}\nx: y\n",
		"1: a\n2.5: b\ntrue: c\n0x10: d\n1e3: e\n2001-01-01: f\n",
	} {
		text = "apiVersion: v1\n" + text
		if !strings.Contains(text, "kind") {
			text += "kind: A\n"
		}
		n := 0
		for d, err := range readText(text, 0) {
			if n++; err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			kubectlAgrees(t, text, d, true)
			var head struct {
				Kind     string
				Metadata struct{ Name, Namespace string }
			}
			if err := json.Unmarshal(d.JSON, &head); err != nil || d.Kind != head.Kind || d.Name != head.Metadata.Name || d.Namespace != head.Metadata.Namespace {
				t.Errorf("%q: %+v of %s", text, d, d.JSON)
			}
		}
		if n != 1 {
			t.Errorf("%q: %d documents", text, n)
		}
	}
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{
		"apiVersion: v1\nkind: A\nmetadata: {name: x}\n---\n# a\n%YAML 1.1\n---\nkind: List\napiVersion: v1\nitems:\n- &a {kind: B}\n- *a\n...\n",
		`{"apiVersion":"v1","kind":"List","items":[{"kind":"A","a":[1,null,"\u0061"]},{}]}` + "\n{\"a\":1,\n{}\n---\na: b\n",
		"a: &a [*a]\n---\nb: {<<: *b}\n---\n- |\n  c\n\td: \"\\x\"\n--- !!int >\n 5\n", "\xff\xfea", "a: \x00", bom + "{\r\n\"a\": b,}\r\n",
		"{{ if }}\na: @\n{{ end }}\n", "'a\n---\n\"b\n---\n[c\n---\n{d\n", "{kind: A, apiVersion: b,\n # c\n ? [e]\n : f}",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		last := 1 + strings.Count(text, "\n")
		var documents []*Document
		found := 0
		for d, err := range readText(text, 0) {
			found++
			switch {
			case (d == nil) == (err == nil):
				t.Fatalf("%v and %v", d, err)
			case err != nil && (err.File != "-" || err.Line < 0 || err.Line > last || err.Message == ""):
				t.Fatalf("error %+v of %d lines", err, last)
			case d != nil && (d.File != "-" || d.Line < 1 || d.Line > last || d.APIVersion == "" || d.Kind == "" || !json.Valid(d.JSON) || d.JSON[0] != '{'):
				t.Fatalf("document %+v with %s of %d lines", d, d.JSON, last)
			}
			if d != nil {
				documents = append(documents, d)
			}
		}
		// Of several documents kubectl's function reads the first; a list is several to us; a text's tag "!" is not told to us.
		if several := regexp.MustCompile(`---|\.\.\.|items|![\s]|\r|\x{85}|\x{2028}|\x{2029}`); found == 1 && len(documents) == 1 && !several.MatchString(text) {
			kubectlAgrees(t, text, documents[0], false)
		}
	})
}

// A stream of documents in flow style or JSON is read as by kubectl's decoder (cli-runtime pkg/resource/visitor.go StreamVisitor, 1.36.3).
func TestStreamsAreAsForKubectl(t *testing.T) {
	const a, b = "{apiVersion: v1, kind: Pod, metadata: {name: a}}\n", "{apiVersion: v1, kind: Pod, metadata: {name: b}}\n"
	const quoted = `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "c"}}` + "\n"
	for _, text := range []string{
		a, a + "---\n" + b, "---\n" + a + "---\n" + b, "# c\n" + a + "---\n" + b, quoted + "---\n" + a, quoted + "---\n" + quoted, quoted + "---\n" + a + "---\n" + b,
		a + "---\n" + quoted, a + "---\napiVersion: v1\nkind: Pod\nmetadata: {name: d}\n",
	} {
		var want, got []map[string]any
		decoder := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
		for {
			var o map[string]any
			if err := decoder.Decode(&o); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%q: kubectl: %v", text, err)
			}
			want = append(want, o)
		}
		for d, err := range readText(text, 0) {
			if err != nil {
				t.Fatalf("%q: %v", text, err)
			}
			o, wrong := decoded(d.JSON)
			if wrong != nil {
				t.Fatal(wrong)
			}
			got = append(got, o)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: -kubectl +ours:\n%s", text, diff)
		}
	}
}

package manifest

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

// lines of what a stream gives, one each: "LINE apiVersion kind namespace/name JSON", or "LINE! message".
func lines(found iter.Seq2[*Document, *Error]) []string {
	var all []string
	for d, err := range found {
		if err != nil {
			all = append(all, fmt.Sprintf("%d! %s", err.Line, err.Message))
			continue
		}
		all = append(all, fmt.Sprintf("%d %s %s %s/%s %s", d.Line, d.APIVersion, d.Kind, d.Namespace, d.Name, d.JSON))
	}
	return all
}

func readText(text string, limit int) iter.Seq2[*Document, *Error] {
	return func(yield func(*Document, *Error) bool) {
		(&Reader{File: Stdin, limit: limit}).Read(strings.NewReader(text), yield)
	}
}

// check compares line by line; a want that ends in "..." is a beginning.
func check(t *testing.T, text string, want ...string) {
	t.Helper()
	got := lines(readText(text, 0))
	for i := range min(len(got), len(want)) {
		if start, ok := strings.CutSuffix(want[i], "..."); ok && strings.HasPrefix(got[i], start) {
			got[i] = want[i]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("of %.300q (-want +got):\n%.2000s", text, diff)
	}
}

func TestReadDocuments(t *testing.T) {
	const a, b = "apiVersion: v1\nkind: A\n", "apiVersion: v1\nkind: B\n"
	const jsonA, jsonB = `{"apiVersion":"v1","kind":"A"}`, `{"apiVersion":"v1","kind":"B"}`
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                      {"", nil},
		"white space":                  {" \n\t\r\n\n", nil},
		"only comments and separators": {"# a\n---\n# b\n--- # c\n...\n---\n \n", nil},
		"null":                         {"null\n---\n~\n--- null\n", nil},
		"one":                          {a, []string{"1 v1 A / " + jsonA}},
		"no line break at the end":     {"kind: A\napiVersion: v1", []string{"1 v1 A / " + jsonA}},
		"comments before":              {"# Source: x\n\n---\n# y\n\n" + a, []string{"6 v1 A / " + jsonA}},
		"several":                      {a + "---\n" + b + "--- # c\n" + a, []string{"1 v1 A / " + jsonA, "4 v1 B / " + jsonB, "7 v1 A / " + jsonA}},
		"as Helm writes them": {"---\n# Source: c/a.yaml\n" + a + "---\n# Source: c/empty.yaml\n---\n# Source: c/b.yaml\n\n\n" + b,
			[]string{"3 v1 A / " + jsonA, "11 v1 B / " + jsonB}},
		"directives":              {"%YAML 1.1\n%TAG ! tag:x,2000:\n---\n" + a + "...\n%YAML 1.1\n---\n" + b, []string{"4 v1 A / " + jsonA, "9 v1 B / " + jsonB}},
		"ended, then bare":        {a + "...\n" + b, []string{"1 v1 A / " + jsonA, "4 v1 B / " + jsonB}},
		"on the separator's line": {"--- {apiVersion: v1, kind: A}\n--- \n" + b, []string{"1 v1 A / " + jsonA, "3 v1 B / " + jsonB}},
		"flow over lines":         {"{apiVersion: v1,\nkind: A}\n---\n{\n\"apiVersion\": v1, kind: B\n}\n", []string{"1 v1 A / " + jsonA, "4 v1 B / " + jsonB}},
		"byte order marks":        {bom + a + "---\n" + bom + b + "---\n" + bom + jsonA, []string{"1 v1 A / " + jsonA, "4 v1 B / " + jsonB, "7 v1 A / " + jsonA}},
		"CRLF":                    {"---\r\n# x\r\napiVersion: v1\r\nkind: A\r\n---\r\n\r\napiVersion: v1\r\nkind: B\r\n", []string{"3 v1 A / " + jsonA, "7 v1 B / " + jsonB}},
		"separators in a block": {a + "data: |\n  ---\n  x\n  ...\n", []string{
			`1 v1 A / {"apiVersion":"v1","data":"---\nx\n...\n","kind":"A"}`}},
		"tags and an anchor before": {"--- !!map\n&x\napiVersion: v1\nkind: A\n", []string{"3 v1 A / " + jsonA}},
		"separated by U+2028":       {a + "x: z\u2028---\u2028" + b, []string{`1 v1 A / {"apiVersion":"v1","kind":"A","x":"z"}`, "4 v1 B / " + jsonB}},
		"old Macintosh":             {"apiVersion: v1\rkind: A\r---\rapiVersion: v1\rkind: B\r", []string{"1 v1 A / " + jsonA, "1 v1 B / " + jsonB}},
		"names": {a + "metadata: {name: x, namespace: z}\n", []string{
			`1 v1 A z/x {"apiVersion":"v1","kind":"A","metadata":{"name":"x","namespace":"z"}}`}},
		"names that are null": {a + "metadata: {name: null, namespace: ~}\n---\n" + b + "metadata:\n", []string{
			`1 v1 A / {"apiVersion":"v1","kind":"A","metadata":{"name":null,"namespace":null}}`, `5 v1 B / {"apiVersion":"v1","kind":"B","metadata":null}`}},
		"JSON":             {jsonA, []string{"1 v1 A / " + jsonA}},
		"JSON in a row":    {jsonA + jsonB + " " + jsonA, []string{"1 v1 A / " + jsonA, "1 v1 B / " + jsonB, "1 v1 A / " + jsonA}},
		"JSON, one a line": {jsonA + "\n\n" + jsonB + "\r\n" + jsonA, []string{"1 v1 A / " + jsonA, "3 v1 B / " + jsonB, "4 v1 A / " + jsonA}},
		"JSON with white space": {"\n  {\n\"kind\":\"A\",\n  \"apiVersion\" : \"v1\"}\n{ }", []string{
			"2 v1 A / {\n\"kind\":\"A\",\n  \"apiVersion\" : \"v1\"}", "5! no apiVersion and no kind: not an object of Kubernetes"}},
		"JSON and YAML":             {jsonA + "\n---\n" + b + "---\n" + jsonA + "\n---\n# x\n" + jsonB, []string{"1 v1 A / " + jsonA, "3 v1 B / " + jsonB, "6 v1 A / " + jsonA, "9 v1 B / " + jsonB}},
		"YAML that looks like JSON": {`{"apiVersion": v1, "kind": A,}` + "\n", []string{"1 v1 A / " + jsonA}},
		"JSON keeps its numbers": {`{"apiVersion":"v1","kind":"A","x":[123456789012345678901234567890,1.50,1E400]}`, []string{
			`1 v1 A / {"apiVersion":"v1","kind":"A","x":[123456789012345678901234567890,1.50,1E400]}`}},
		"JSON keeps its texts": {`{"apiVersion":"v1","kind":"A","metadata":{"name":"\u0061\ud83d\ude00\/"}}`, []string{
			`1 v1 A /a😀/ {"apiVersion":"v1","kind":"A","metadata":{"name":"\u0061\ud83d\ude00\/"}}`}},
		"AdmissionReview": {`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","object":{"items":[{}]}}}`, []string{
			`1 admission.k8s.io/v1 AdmissionReview / {"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"u","object":{"items":[{}]}}}`}},
		"cases matter": {`{"apiVersion":"v1","kind":"A","Kind":"B","METADATA":{"name":"x"}}`, []string{
			`1 v1 A / {"apiVersion":"v1","kind":"A","Kind":"B","METADATA":{"name":"x"}}`}},
	} {
		t.Run(name, func(t *testing.T) { check(t, tc.text, tc.want...) })
	}
}

// What kubectl does not take, or passes over, is read and noted. kubectl's own decoder is asked.
func TestReadNotesWhatKubectlRefuses(t *testing.T) {
	const a, b = "apiVersion: v1\nkind: A\n", "apiVersion: v1\nkind: B\n"
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"nothing":                     {a + "---\n" + b + "--- # c\n" + a, nil},
		"a directive":                 {"%YAML 1.1\n---\n" + a, []string{"1 kubectl does not take a directive before a document: %YAML 1.1"}},
		"a directive in the middle":   {a + "---\n# x\n%TAG ! tag:x,2000:\n---\n" + b, []string{"5 kubectl does not take a directive before a document: %TAG ! tag:x,2000:"}},
		"one after the end":           {a + "...\n%YAML 1.1\n---\n" + b, nil},
		"text after a separator":      {"--- {apiVersion: v1, kind: A}\n--- !!map\n" + b, []string{"1 kubectl does not take what stands after a separator...", "2 kubectl does not take what stands after a separator..."}},
		"a tag in a block":            {a + "b: |\n  --- x\n  %YAML 1.1\n", nil},
		"bare, after the end":         {a + "...\n# x\n" + b, []string{"5 kubectl passes over a document..."}},
		"flow, after the end":         {a + "...\n{\"apiVersion\": v1, \"kind\": B}\n", []string{"4 kubectl passes over a document..."}},
		"separated, after the end":    {a + "...\n---\n" + b + "...\n", nil},
		"separated by one with words": {a + "...\n--- # x\n" + b, nil},
		"flow, several":               {"{apiVersion: v1, kind: A}\n---\n{apiVersion: v1, kind: B}\n", nil},
		"as Windows writes it":        {strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"), nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Reader{File: Stdin}
			documents := 0
			r.Read(strings.NewReader(tc.text), func(_ *Document, wrong *Error) bool {
				if wrong != nil {
					t.Error(wrong)
				}
				documents++
				return true
			})
			var got []string
			for i, e := range r.Refused {
				got = append(got, fmt.Sprintf("%d %s", e.Line, e.Message))
				if start, ok := strings.CutSuffix(tc.want[min(i, len(tc.want)-1)], "..."); ok && strings.HasPrefix(got[i], start) {
					got[i] = start + "..."
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
			if kubectl := kubectlCounts(tc.text); kubectl == documents != (len(tc.want) == 0) {
				t.Errorf("kubectl reads %d documents of %d", kubectl, documents)
			}
		})
	}
}

// kubectlCounts is how many objects kubectl reads; -1: it refuses the text.
func kubectlCounts(text string) int {
	n := 0
	for d := utilyaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096); ; {
		var o map[string]any
		switch err := d.Decode(&o); {
		case errors.Is(err, io.EOF):
			return n
		case err != nil:
			return -1
		case len(o) > 0:
			n++
		}
	}
}

func TestReadLists(t *testing.T) {
	const a, b = `{"apiVersion":"v1","kind":"A"}`, `{"apiVersion":"v1","kind":"B"}`
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"YAML": {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: A\n-\n  # c\n  apiVersion: v1\n  kind: B\n- {apiVersion: v1, kind: A}\n",
			[]string{"4 v1 A / " + a, "8 v1 B / " + b, "10 v1 A / " + a}},
		"items first": {"items:\n- kind: A\n  apiVersion: v1\napiVersion: v1\nkind: List\nmetadata: {}\n", []string{"2 v1 A / " + a}},
		"nested": {"apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: List\n  items:\n  - apiVersion: v1\n    kind: A\n- apiVersion: v1\n  kind: B\n",
			[]string{"7 v1 A / " + a, "9 v1 B / " + b}},
		"empty":           {"{apiVersion: v1, kind: List, items: []}\n---\n{apiVersion: v1, kind: PodList, items: null}\n", nil},
		"empty JSON":      {`{"apiVersion":"v1","items":null,"kind":"PodList"}{"apiVersion":"v1","kind":"List","items":[]}`, nil},
		"no list":         {"{apiVersion: v1, kind: A, items: null}\n---\n{apiVersion: v1, kind: PlayList}", []string{`1 v1 A / {"apiVersion":"v1","items":null,"kind":"A"}`, `3 v1 PlayList / {"apiVersion":"v1","kind":"PlayList"}`}},
		"items no array":  {"{apiVersion: v1, kind: A, items: {a: b}}\n---\n" + `{"apiVersion":"v1","kind":"A","items":{"a":"b"}}`, []string{`1 v1 A / {"apiVersion":"v1","items":{"a":"b"},"kind":"A"}`, `3 v1 A / {"apiVersion":"v1","kind":"A","items":{"a":"b"}}`}},
		"JSON":            {"{\n\"apiVersion\":\"v1\",\n\"items\": [\n " + a + ",\n " + b + "],\n\"kind\":\"List\"}\n" + a, []string{"4 v1 A / " + a, "5 v1 B / " + b, "7 v1 A / " + a}},
		"nested JSON":     {`{"kind":"List","apiVersion":"v1","items":[{"items":[` + a + `],"kind":"List","apiVersion":"v1"},` + "\n" + b + "]}", []string{"1 v1 A / " + a, "2 v1 B / " + b}},
		"typed":           {"kind: PodList\napiVersion: v1\nitems:\n- metadata: {name: x}\n- {}\n", []string{`4 v1 Pod /x {"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`, `5 v1 Pod / {"apiVersion":"v1","kind":"Pod"}`}},
		"typed JSON":      {`{"kind":"PodList","apiVersion":"v1","items":[{"metadata":{"name":"x"}},{ }]}`, []string{`1 v1 Pod /x {"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`, `1 v1 Pod / {"apiVersion":"v1","kind":"Pod"}`}},
		"bad items":       {"apiVersion: v1\nkind: List\nitems:\n- a\n- null\n- [b]\n- kind: A\n- apiVersion: v1\n- apiVersion: v1\n  kind: A\n", []string{"4! a text, not an object", "5! null, not an object", "6! a list, not an object", "7! no apiVersion (kind is A)", "8! no kind (apiVersion is v1)", "9 v1 A / " + a}},
		"bad JSON items":  {`{"apiVersion":"v1","kind":"List","items":["a",null,[1,{}],{"kind":"A"},{"a":1,"a":2},` + a + "]}", []string{"1! a text as an item of a list, not an object", "1! null as an item...", "1! a list as an item...", "1! no apiVersion (kind is A)", `1! field "a" is in this object twice`, "1 v1 A / " + a}},
		"list of no kind": {"apiVersion: v1\nitems:\n- {apiVersion: v1, kind: A}\n", []string{"3 v1 A / " + a, "1! no kind (apiVersion is v1) (a list; its items were read)"}},
		"JSON of no kind": {`{"apiVersion":"v1","items":[` + a + `]}`, []string{"1 v1 A / " + a, "1! no kind (apiVersion is v1) (a list; its items were read)"}},
		"items by alias":  {"apiVersion: v1\nkind: List\nx: &x {apiVersion: v1, kind: A}\nitems:\n- *x\n- *x\n", []string{"5 v1 A / " + a, "6 v1 A / " + a}},
		"itself":          {"apiVersion: v1\nkind: List\nitems: &x\n- *x\n- apiVersion: v1\n  kind: List\n  items: *x\n", []string{"4! anchor &x contains itself"}},
		"half a list":     {"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[" + a + ",\n" + b + ",\n", []string{"1 v1 A / " + a, "2 v1 B / " + b, "1! JSON: it ends in the middle, at line 2; the list was read up to here, 2 items"}},
		"broken list":     {"{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":[" + a + ",\n{\"a\" 1},\n" + b + "]}\n" + a, []string{"1 v1 A / " + a, "2! JSON: invalid character '1' after object key; the list was read up to here, 1 items", "3 v1 B / " + b, "3! JSON: unexpected ']' after an object", "4 v1 A / " + a}},
	} {
		t.Run(name, func(t *testing.T) { check(t, tc.text, tc.want...) })
	}
}

// An empty list is there, though no document comes of it.
func TestReadCountsLists(t *testing.T) {
	for text, want := range map[string]int{
		"": 0, "# a\n---\n": 0, "kind: Pod\napiVersion: v1\n": 0, "apiVersion: v1\nkind: PodList\nitems:\n": 1,
		`{"kind":"List","apiVersion":"v1","items":[]}` + "\n---\napiVersion: v1\nkind: List\nitems: []\n": 2,
		"apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Pod}\n":                             1,
	} {
		r := &Reader{File: Stdin}
		r.Read(strings.NewReader(text), func(_ *Document, err *Error) bool {
			if err != nil {
				t.Errorf("%q: %v", text, err)
			}
			return true
		})
		if r.Lists != want {
			t.Errorf("%q: %d lists, want %d", text, r.Lists, want)
		}
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	const a, b = "apiVersion: v1\nkind: A\n", "\n---\napiVersion: v1\nkind: B\n"
	for name, tc := range map[string]struct{ text, want string }{
		"tab":                {a + "a:\n  b: c\n\td: e\nf: g\n", "5! YAML: found a tab character that violates indentation (there is a tab..."},
		"tab as indentation": {a + "a:\n\td: e\nf: g\n", "4! YAML: found character that cannot start any token (there is a tab..."},
		"indentation":        {a + "c:\n  d: e\n f: g\nh: i\nj: k\n", "5! YAML: did not find expected key (wrong indentation?)"},
		"deep indentation":   {a + "c:\n  d:\n    e: f\n   g: h\ni: j\n", "6! YAML: did not find expected key (wrong indentation?)"},
		"a list's":           {a + "c:\n- d\n- e\n f: g\nh: i\n", "6! YAML: mapping values are not allowed in this context (wrong..."},
		"no colon":           {a + "b\nc: d\n", "3! YAML: could not find expected ':'"},
		"two colons":         {a + "b: c: d\n", "3! YAML: mapping values are not allowed in this context (wrong..."},
		"quote":              {a + "b: \"c\nd: e\nf: g\n", "3! YAML: found unexpected end of stream (a quote is not closed)"},
		"bracket":            {a + "b: [c, d\nf: g\nh: i\n", "3! YAML: did not find expected ',' or ']' (a bracket is not closed)"},
		"character":          {a + "b: @c\n", "3! YAML: found character that cannot start any token (a text..."},
		"first line":         {"b: @c\n", "1! YAML: found character that cannot start any token (a text..."},
		"merge conflict":     {a + "<<<<<<< HEAD\nb: c\n=======\n", "3! YAML: could not find expected ':'"},
		"no such anchor":     {a + "b:\n  c: *x\nd: e\n", "4! YAML: unknown anchor 'x' referenced"},
		"control character":  {a + "b: c\x07\nd: e\n", "3! YAML: control characters are not allowed"},
		"cyclic anchor":      {a + "a: &a [*a]\n", "3! anchor &a contains itself"},
		"cyclic object":      {a + "b: c\na: &a\n  b: {c: *a}\n", "5! anchor &a contains itself"},
		"cyclic merge":       {a + "a: &a\n  <<: *a\n", "4! anchor &a contains itself"},
		"cyclic metadata":    {a + "metadata: &a\n  <<: *a\n  name: x\n", "4! anchor &a contains itself"},
		"merge of a text":    {a + "a: {<<: b}\n", "3! << merges an object or a list of objects"},
		"merge of lists":     {a + "a:\n  <<: [[{b: c}]]\n", "4! << merges an object or a list of objects"},
		"key twice":          {a + "b:\n  c: d\n  e: f\n  c: g\n", `6! key "c" is in this object twice`},
		"merged twice":       {a + "b: &b {c: d}\ne: {<<: *b, f: g, f: h}\n", `4! key "f" is in this object twice`},
		"kind twice":         {a + "kind: C\n", `3! key "kind" is in this object twice`},
		"template":           {a + "b: {{ .Values.c }}\n", "3! a key that is an object (a template that was not rendered?)"},
		"template's line":    {"{{ if .Values.c }}\n" + a + "{{ end }}\n", "1! a key that is an object (a template that was not rendered?)"},
		"key null":           {a + "~: b\n", "3! null as a key"},
		"no number of JSON":  {a + "b: .inf\n", "3! .inf is a number that JSON does not have"},
		"not of its tag":     {a + "b: !!int c\n", `3! "c" is no !!int`},
		"a text":             {"abc def\n", "1! a text, not an object"},
		"a number":           {"12\n", "1! a number (12), not an object"},
		"a boolean":          {"yes\n", "1! a boolean (yes), not an object"},
		"a list":             {"# x\n- a: b\n", "2! a list, not an object"},
		"a JSON list":        {"[{\"a\":\n1}]\n", "1! a list, not an object"},
		"JSON text":          {`"a"` + "\n", "1! a text, not an object"},
		"no kind":            {"apiVersion: v1\nmetadata: {name: x}\n", "1! no kind (apiVersion is v1)"},
		"empty kind":         {"# x\nkind: ''\napiVersion: v1\n", "2! no kind (apiVersion is v1)"},
		"neither":            {"a: b\n", "1! no apiVersion and no kind: not an object of Kubernetes"},
		"kind a number":      {"apiVersion: v1\nkind: 5\n", "2! kind is a number (5), not a text"},
		"name a number":      {a + "metadata:\n  name: 0x10\n", "4! metadata.name is a number (16), not a text"},
		"name a boolean":     {a + "metadata:\n  name: on\n", "4! metadata.name is a boolean (on), not a text"},
		"name an object":     {a + "metadata:\n  name: {a: b}\n", "4! metadata.name is an object, not a text"},
		"metadata a text":    {a + "metadata: x\n", "3! metadata is a text, not an object"},
		"JSON name a number": {"{\"apiVersion\":\"v1\",\"kind\":\"A\",\n\"metadata\":{\"name\":1.50}}", "2! metadata.name is a number (1.50), not a text"},
		"JSON metadata":      {`{"apiVersion":"v1","kind":"A","metadata":[{"name":"x"}]}`, "1! metadata is a list, not an object"},
		"JSON field twice":   {"{\"apiVersion\":\"v1\",\"kind\":\"A\",\n\"b\":{\"c\":1,\n\"c\":2}}", `3! field "c" is in this object twice`},
		"JSON syntax":        {"{\"apiVersion\":\"v1\",\n\n\"kind\" \"A\"}", "3! JSON: invalid character '\"' after object key"},
		"half of JSON":       {"\n{\"apiVersion\":\"v1\",\n\"kind\": {\n", "2! JSON: it ends in the middle, at line 3"},
		"half a JSON text":   {"{\"apiVersion\":\"v1\",\n\"kind\": \"A", "1! JSON: it ends in the middle, at line 2"},
		"not UTF-8":          {a + "b: \xff\n", "3! text that is not UTF-8"},
		"JSON not UTF-8":     {"{\"apiVersion\":\"v1\",\"kind\":\"A\",\n\"b\":\"\xff\"}", "2! text that is not UTF-8"},
		"deep":               {a + "b: " + strings.Repeat("[", 10000) + strings.Repeat("]", 10000), "1! nested deeper than 10000"},
		"deeper":             {a + "b: " + strings.Repeat("[", 20000), "3! YAML: exceeded max depth of 10000"},
		"deep JSON":          {`{"a":` + strings.Repeat("[", 20000), "1! JSON: nested deeper than 10000"},
	} {
		t.Run(name, func(t *testing.T) {
			check(t, tc.text, tc.want)
			next := b
			if strings.HasPrefix(tc.text, "{\"") && !strings.HasSuffix(tc.text, "}") && !strings.Contains(tc.text, "[[") || name == "half of JSON" {
				return // what is open may go on
			}
			before := 1 + strings.Count(tc.text, "\n")
			check(t, tc.text+next, tc.want, fmt.Sprintf(`%d v1 B / {"apiVersion":"v1","kind":"B"}`, before+2))
		})
	}
}

func TestReadGoesOnAfterBrokenJSON(t *testing.T) {
	const a, good = `{"apiVersion":"v1","kind":"A"}`, " v1 A / " + `{"apiVersion":"v1","kind":"A"}`
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"not closed":      {"{\"a\":{\"b\":1}\n" + a + "\n", []string{"2! JSON: invalid character '{' after object key:value pair", "2" + good}},
		"in a text":       {a + "\n{\"a\":\"b\n" + a + "\n", []string{"1" + good, "2! JSON: invalid character '\\n' in string literal", "3" + good}},
		"in a word":       {"{\"a\":tru\n" + a, []string{"1! JSON: invalid character '\\n' in literal true...", "2" + good}},
		"after a comma":   {"{\"a\":1,\n" + a, []string{"2! JSON: invalid character '{'...", "2" + good}},
		"closed twice":    {a + "}\n" + a, []string{"1" + good, "1! JSON: unexpected '}' after an object", "2" + good}},
		"commas":          {a + ",\n" + a + "\n", []string{"1" + good, "1! JSON: unexpected ',' after an object", "2" + good}},
		"pretty-printed":  {"{\n \"a\": 1\n \"b\": {\n }\n}\n{\n\"kind\":\"A\",\"apiVersion\":\"v1\"}", []string{"3! JSON: invalid character '\"' after object key:value pair", "6 v1 A / {\n\"kind\":\"A\",\"apiVersion\":\"v1\"}"}},
		"then YAML":       {"{\"a\":}\n---\napiVersion: v1\nkind: A\n", []string{"1! JSON: invalid character '}'...", "3" + good}},
		"text behind":     {a + " abc\n---\n" + a, []string{"1" + good, "1! a text, not an object", "3" + good}},
		"half, then YAML": {"{\"a\":[\n---\napiVersion: v1\nkind: A\n", []string{"2! JSON: invalid character '-' in numeric literal", "3" + good}},
	} {
		t.Run(name, func(t *testing.T) { check(t, tc.text, tc.want...) })
	}
}

func TestReadSaysThatItIsNoText(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"UTF-16":    {"\xff\xfea\x00:\x00", "0! text in UTF-16; save it as UTF-8"},
		"other end": {"\xfe\xff\x00a", "0! text in UTF-16; save it as UTF-8"},
		"binary":    {"\x7fELF\x02\x01\x01\x00\x00", "0! a binary file (it has NUL bytes), neither YAML nor JSON"},
		"late NUL":  {strings.Repeat("# a\n", sniff/4) + "apiVersion: v1\na: \x00\n", "2050! a NUL byte: not text"},
	} {
		t.Run(name, func(t *testing.T) { check(t, tc.text, tc.want) })
	}
}

func TestReadStopsAtBombs(t *testing.T) {
	var laughs, merges, long strings.Builder
	for i := range 20 {
		fmt.Fprintf(&laughs, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", max(i-1, 0)), 9*min(i, 1)), ","))
		fmt.Fprintf(&merges, "a%d: &a%d {<<: [%s]}\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d,", max(i-1, 0)), 9*min(i, 1)), ","))
	}
	fmt.Fprintf(&long, "a: &a %s\nb: [%s]\n", strings.Repeat("x", 1<<20), strings.TrimSuffix(strings.Repeat("*a,", 100), ","))
	const head, tail = "apiVersion: v1\nkind: A\n", "---\napiVersion: v1\nkind: B\n"
	for name, text := range map[string]string{"laughs": laughs.String(), "merges": merges.String(), "long": long.String()} {
		t.Run(name, func(t *testing.T) {
			got := lines(readText(head+text+tail, 0))
			if len(got) != 2 || !strings.Contains(got[0], "! the anchors of this document expand to more than 64 MiB") || !strings.HasSuffix(got[1], `v1 B / {"apiVersion":"v1","kind":"B"}`) {
				t.Errorf("got %.300q", got)
			}
		})
	}
}

func TestReadStopsAtItsLimit(t *testing.T) {
	const limit = 2 * step
	fill := strings.Repeat("x", limit)
	const a, good = `{"apiVersion":"v1","kind":"A"}`, ` v1 A / {"apiVersion":"v1","kind":"A"}`
	for name, tc := range map[string]struct {
		text string
		want []string
	}{
		"line":           {"a: " + fill + fill + fill + "\n---\n" + a, []string{"1! a YAML document of more than 131072 bytes;", "3" + good}},
		"lines":          {strings.Repeat("a: b\n", limit/4) + "---\n" + a, []string{"1! a YAML document of more than 131072 bytes;", fmt.Sprint(limit/4+2, good)}},
		"JSON":           {`{"a":"` + fill + fill + "\"}\n" + a, []string{"1! a JSON object of more than 131072 bytes", "2" + good}},
		"JSON's members": {`{"a":[` + strings.Repeat("1,\n", limit) + "1]}\n" + a, []string{"1! a JSON object of more than 131072 bytes", fmt.Sprint(limit+2, good)}},
		"list's item":    {`{"items":[` + a + `,{"a":"` + fill + fill + "\"}]}\n" + a, []string{"1" + good, "1! a JSON object of more than 131072 bytes", "2" + good}},
	} {
		t.Run(name, func(t *testing.T) {
			got := lines(readText(tc.text, limit))
			for i := range min(len(got), len(tc.want)) {
				if strings.HasPrefix(got[i], tc.want[i]) {
					got[i] = tc.want[i]
				}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	list := `{"kind":"List","apiVersion":"v1","items":[` + strings.TrimSuffix(strings.Repeat(a+",\n", limit/10), ",\n") + "]}"
	if got := lines(readText(list, limit)); len(got) != limit/10 || got[len(got)-1] != fmt.Sprint(limit/10, good) {
		t.Errorf("a list larger than the limit: %d items, the last %q", len(got), got[len(got)-1])
	}
}

func TestReadDoesNotFlood(t *testing.T) {
	text := strings.Repeat("a: b\n---\n", 1000) + "apiVersion: v1\nkind: A\n"
	got := lines(readText(text, 0))
	if len(got) != maxErrors+2 || !strings.HasPrefix(got[maxErrors], "2001 v1 A") || got[maxErrors+1] != "0! and 980 more errors in this file" {
		t.Errorf("got %d: %q", len(got), got[maxErrors:])
	}
}

func TestReadDoesNotTryBrokenJSONAgain(t *testing.T) {
	const bad = 5000
	got := lines(readText(strings.Repeat("{\"a\" \"b\"\n", bad)+`{"apiVersion":"v1","kind":"A"}`, 0))
	if len(got) != maxErrors+2 || !strings.HasPrefix(got[maxErrors], fmt.Sprint(bad+1, " v1 A")) || !strings.HasPrefix(got[0], "1! JSON: ") {
		t.Errorf("got %d: %q", len(got), got)
	}
}

func TestReadStopsWhenToldTo(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("apiVersion: v1\nkind: A\n---\n", 5), strings.Repeat(`{"apiVersion":"v1","kind":"A"}`, 5), strings.Repeat("a: b\n---\n", 5),
		`{"items":[{"apiVersion":"v1","kind":"A"},{"apiVersion":"v1","kind":"A"}]}`, "items:\n- a\n- b\n",
	} {
		n := 0
		for range readText(text, 0) {
			n++
			break
		}
		if n != 1 {
			t.Errorf("%q: %d", text, n)
		}
	}
}

type brokenReader struct{ text *strings.Reader }

func (b brokenReader) Read(p []byte) (int, error) {
	if b.text.Len() == 0 {
		return 0, os.ErrDeadlineExceeded
	}
	return b.text.Read(p)
}

func TestReadTellsThatReadingFailed(t *testing.T) {
	for _, last := range []string{"apiVersion: v1\nkind: B\n", `{"apiVersion":"v1","kind":`, "# x\n"} {
		got := lines(Read(Stdin, brokenReader{strings.NewReader("apiVersion: v1\nkind: A\n---\n" + last)}))
		if len(got) != 2 || !strings.HasPrefix(got[0], "1 v1 A") || !strings.HasSuffix(got[1], "! read: i/o timeout") {
			t.Errorf("%q: got %q", last, got)
		}
	}
}

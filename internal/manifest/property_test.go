package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// written is an object as text, and as it has to come back.
type written struct {
	text string
	// line of text where it begins, from 1.
	line   int
	object map[string]any
}

// words that YAML could take for something else, and texts that need quotes.
var awkward = []string{"", "y", "No", "on", "null", "~", "1", "0644", "1e3", "0x1F", "1_000", "12:30:45", "2001-01-01", ".inf", "-", "---", "<<", "*a", "&a", "!a", "a: b", "a #b",
	" a ", "a\nb\n", "\n a", "\t", "\"", "'", "\\", "{a", "[", "%", "@", "é", "😀", "\u2028", "\u0085", "\x7f", "\x00", "- a", "? a", "a\r\nb", "100m", "10.0.0.1", "--- a\n...\n"}

func texts() *rapid.Generator[string] {
	return rapid.OneOf(rapid.SampledFrom(awkward), rapid.StringMatching(`[a-z][a-z0-9./-]{0,12}`), rapid.String())
}

func values(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		texts().AsAny(), rapid.Bool().AsAny(), rapid.Just(any(nil)),
		rapid.Custom(func(t *rapid.T) any { return json.Number(fmt.Sprint(rapid.Int64().Draw(t, "int"))) }),
		rapid.Custom(func(t *rapid.T) any { return json.Number(fmt.Sprint(rapid.Uint64().Draw(t, "uint"))) }),
		rapid.Custom(func(t *rapid.T) any {
			return json.Number(fmt.Sprintf("%d.5", rapid.IntRange(-99, 99).Draw(t, "float")))
		}),
	}
	if depth > 0 {
		kinds = append(kinds, rapid.SliceOfN(values(depth-1), 0, 4).AsAny(),
			rapid.Custom(func(t *rapid.T) any { return rapid.MapOfN(texts(), values(depth-1), 0, 4).Draw(t, "object") }))
	}
	return rapid.OneOf(kinds...)
}

func objects(t *rapid.T) map[string]any {
	o := rapid.MapOfN(texts().Filter(func(s string) bool { return s != "items" }), values(3), 0, 5).Draw(t, "object")
	o["apiVersion"] = rapid.StringMatching(`[a-z]{1,5}/v[0-9]`).Draw(t, "apiVersion")
	o["kind"] = rapid.SampledFrom([]string{"Pod", "Deployment", "PlayList", "null", "5"}).Draw(t, "kind")
	o["metadata"] = map[string]any{"name": texts().Draw(t, "name"), "namespace": texts().Draw(t, "namespace")}
	return o
}

// writer writes values as YAML in styles that it draws.
type writer struct {
	t *rapid.T
	bytes.Buffer
	crlf bool
}

func (w *writer) flip(label string) bool { return rapid.Bool().Draw(w.t, label) }

func (w *writer) comment(indent string) {
	if w.flip("comment") {
		w.WriteString(rapid.SampledFrom([]string{"\n", indent + "# a: b\n", indent + "#---\n", " \n"}).Draw(w.t, "of"))
	}
}

func (w *writer) scalar(v any) {
	s, isText := v.(string)
	raw, _ := json.Marshal(v)
	switch {
	case !isText:
		w.Write(raw)
	case plainText(s) && w.flip("plain"):
		w.WriteString(s)
	case !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r >= 0x7f }) && w.flip("single"):
		w.WriteString("'" + strings.ReplaceAll(s, "'", "''") + "'")
	default:
		w.WriteString(quote(s))
	}
}

// quote writes a text in double quotes; YAML 1.1 has no pairs of surrogates.
func quote(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r < ' ' || r == '"' || r == '\\' || r >= 0x7f {
			fmt.Fprintf(&b, `\U%08x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return `"` + b.String() + `"`
}

func plainText(s string) bool {
	return len(s) > 5 && !strings.ContainsFunc(s, func(r rune) bool { return r < 'a' || r > 'z' })
}

func (w *writer) flow(v any) {
	switch v := v.(type) {
	case map[string]any:
		w.WriteByte('{')
		for i, k := range w.keys(v) {
			if i > 0 {
				w.WriteString(", ")
			}
			w.scalar(k)
			w.WriteString(": ")
			w.flow(v[k])
		}
		w.WriteByte('}')
	case []any:
		w.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				w.WriteString(",")
				w.WriteString(rapid.SampledFrom([]string{" ", "\n    "}).Draw(w.t, "space"))
			}
			w.flow(e)
		}
		w.WriteByte(']')
	default:
		w.scalar(v)
	}
}

func (w *writer) keys(m map[string]any) []string {
	var all []string
	for k := range m {
		all = append(all, k)
	}
	slices.Sort(all)
	return rapid.Permutation(all).Draw(w.t, "order")
}

func (w *writer) mapping(m map[string]any, indent string, first bool) {
	for _, k := range w.keys(m) {
		if !first {
			w.comment(indent)
			w.WriteString(indent)
		}
		first = false
		w.scalar(k)
		w.WriteByte(':')
		w.value(m[k], indent)
	}
}

// value writes what follows a key, or the dash of an element.
func (w *writer) value(v any, indent string) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) > 0 && w.flip("block") {
			w.WriteString("\n")
			w.mapping(v, indent+rapid.SampledFrom([]string{" ", "  ", "    "}).Draw(w.t, "indent"), false)
			return
		}
	case []any:
		if len(v) > 0 && w.flip("block") {
			w.WriteString("\n")
			w.sequence(v, indent+rapid.SampledFrom([]string{" ", "  "}).Draw(w.t, "indent"))
			return
		}
	case string:
		if block(v) && w.flip("literal") {
			w.WriteString(" |\n" + indent + "  " + strings.ReplaceAll(strings.TrimSuffix(v, "\n"), "\n", "\n"+indent+"  ") + "\n")
			return
		}
	}
	w.WriteByte(' ')
	w.flow(v)
	w.WriteByte('\n')
}

func block(s string) bool {
	return strings.HasSuffix(s, "\n") && !strings.HasSuffix(s, "\n\n") && s[0] > ' ' && !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' && r != '\n' || r >= 0x7f })
}

func (w *writer) sequence(list []any, indent string) {
	for _, e := range list {
		w.comment(indent)
		w.WriteString(indent + "-")
		if m, ok := e.(map[string]any); ok && len(m) > 0 && w.flip("compact") {
			w.WriteByte(' ')
			w.mapping(m, indent+"  ", true)
			continue
		}
		w.value(e, indent)
	}
}

func (w *writer) line() int { return 1 + strings.Count(w.String(), "\n") }

// stream writes objects, as documents of YAML and JSON and as lists of them, and says where each one is.
func stream(t *rapid.T) (string, []written) {
	w := &writer{t: t}
	var all []written
	for range rapid.IntRange(0, 5).Draw(t, "documents") {
		w.comment("")
		if w.flip("separator") || w.Len() > 0 {
			w.WriteString(rapid.SampledFrom([]string{"---\n", "--- # a\n", "...\n---\n", "---\n---\n# a\n---\n"}).Draw(t, "of"))
		}
		w.comment("")
		switch o := objects(t); rapid.IntRange(0, 3).Draw(t, "style") {
		case 0:
			all = append(all, written{line: w.line(), object: o})
			w.mapping(o, "", true)
		case 1:
			all = append(all, written{line: w.line(), object: o})
			w.flow(o)
			w.WriteByte('\n')
		case 2:
			all = append(all, written{line: w.line(), object: o})
			raw, _ := json.MarshalIndent(o, "", rapid.SampledFrom([]string{"", "  "}).Draw(t, "indent"))
			w.Write(append(raw, '\n'))
		case 3:
			w.WriteString("apiVersion: v1\nitems:\n")
			for range rapid.IntRange(1, 3).Draw(t, "items") {
				o := objects(t)
				w.comment("")
				w.WriteString("- ")
				all = append(all, written{line: w.line(), object: o})
				w.mapping(o, "  ", true)
			}
			w.WriteString("kind: List\n")
		}
	}
	return w.String(), all
}

func decoded(raw []byte) (o map[string]any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return o, d.Decode(&o)
}

func TestWhatIsWrittenComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, want := stream(t)
		if rapid.Bool().Draw(t, "crlf") {
			text = strings.ReplaceAll(text, "\n", "\r\n")
		}
		var got []written
		for d, err := range readText(text, 0) {
			if err != nil {
				t.Fatalf("%v, of\n%s", err, text)
			}
			o, decodeErr := decoded(d.JSON)
			meta, _ := o["metadata"].(map[string]any)
			if decodeErr != nil || d.APIVersion != o["apiVersion"] || d.Kind != o["kind"] || d.Name != meta["name"] || d.Namespace != meta["namespace"] {
				t.Fatalf("%+v has %s, %v", d, d.JSON, decodeErr)
			}
			got = append(got, written{line: d.Line, object: o})
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(written{})); diff != "" {
			t.Fatalf("(-want +got):\n%s\nof\n%s", diff, text)
		}
	})
}

package manifest

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// jsonStream writes objects and lists of them as JSON.
func jsonStream(t *rapid.T) string {
	var b strings.Builder
	for range rapid.IntRange(1, 4).Draw(t, "documents") {
		var value any = objects(t)
		if rapid.Bool().Draw(t, "list") {
			list := map[string]any{"apiVersion": "v1", "kind": rapid.SampledFrom([]string{"List", "PodList"}).Draw(t, "kind"), "metadata": map[string]any{}}
			items := []any{}
			for range rapid.IntRange(0, 4).Draw(t, "items") {
				o := objects(t)
				if rapid.Bool().Draw(t, "untyped") {
					delete(o, "apiVersion")
					delete(o, "kind")
				}
				items = append(items, o)
			}
			list["items"] = items
			value = list
		}
		raw, err := json.Marshal(value)
		if rapid.Bool().Draw(t, "indented") {
			raw, err = json.MarshalIndent(value, "", " ")
		}
		if err != nil {
			t.Fatal(err)
		}
		b.Write(raw)
		b.WriteString(rapid.SampledFrom([]string{"\n", "", "\n---\n", "\n\n"}).Draw(t, "between"))
	}
	return b.String()
}

// wrench is what is thrown into JSON, with what only looks like it.
var wrench = []string{"", "{", "}", "[", "]", ",", ":", `"`, `\`, "\n", "\t", "\r", " ", "\x00", "\x10", "\x1f", "\xff", "\u2028", "null", "true", "fals", "nul", "0", "01", "-", "-0", "1.", ".5", "1e", "1E+5", "2e-",
	`"\u00e9"`, `"\ud800"`, `\u12`, "\\u\x10\x11\x12\x13", `\x`, `\"`, `"items"`, `"items":[`, `"items":null,`, `"kind":"A",`, `"kind":1,`, `"apiVersion":null,`, `"k\u0069nd":"A",`, `"metadata":{"name":"a"},`,
	`"metadata":[],`, `"name":"b",`, `"name":{},`, `"a":1,"a":2,`, `{"apiVersion":"v1","kind":"A"}`, "}\n{", "[[", "[{", "---\n", "a: b\n"}

// spoilt is a text with some wrenches in it, in place of some of it.
func spoilt(t *rapid.T, text string) string {
	for range rapid.IntRange(0, 3).Draw(t, "wrenches") {
		at := rapid.IntRange(0, len(text)).Draw(t, "at")
		if rapid.Bool().Draw(t, "at a token") {
			if i := strings.IndexAny(text[at:], `{}[],:"`); i >= 0 {
				at += i + rapid.IntRange(0, 1).Draw(t, "after")
			}
		}
		end := min(len(text), at+rapid.SampledFrom([]int{0, 0, 1, 2, 10}).Draw(t, "instead of"))
		text = text[:at] + rapid.SampledFrom(wrench).Draw(t, "wrench") + text[end:]
	}
	return text
}

// What is skimmed is as the decoder reads it, and what is wrong is said by the decoder as ever.
func TestSkimmedIsAsDecoded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := spoilt(t, jsonStream(t))
		from := rapid.SampledFrom([]func(io.Reader) io.Reader{iotest.OneByteReader, iotest.HalfReader, iotest.DataErrReader, iotest.TimeoutReader}).Draw(t, "from")
		name := rapid.SampledFrom([]string{Stdin, "a.json"}).Draw(t, "name")
		found := rapid.Bool().Draw(t, "found")

		stop := rapid.IntRange(1, 30).Draw(t, "stop")
		read := func(decoded bool) ([]string, Reader) {
			r := Reader{File: name, Found: found, decoded: decoded}
			left := stop
			said := lines(func(yield func(*Document, *Error) bool) {
				r.Read(from(strings.NewReader(text)), func(d *Document, err *Error) bool { left--; return yield(d, err) && left > 0 })
			})
			return said, r
		}
		want, decoder := read(true)
		got, skimmer := read(false)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("of %q (-decoded +skimmed):\n%s", text, diff)
		}
		if decoder.Lists != skimmer.Lists || decoder.Foreign != skimmer.Foreign || !slices.Equal(decoder.Listed, skimmer.Listed) {
			t.Fatalf("of %q: %+v, want %+v", text, skimmer, decoder)
		}
	})
}

// The items of a long list lie in the memory that the file is read into. None changes while the rest is read.
func TestItemsOfALongListStay(t *testing.T) {
	var list strings.Builder
	var want []string
	list.WriteString(`{"apiVersion":"v1","kind":"PodList","items":[`)
	for i := range 3 * manyItems {
		filling := strings.Repeat("x", i*i%4000)
		item := fmt.Sprintf(`{"apiVersion":"v1","kind":"A","metadata":{"name":"a%d"},"data":%q}`, i, filling)
		given := item
		switch i % 7 {
		case 3: // for the decoder
			item = fmt.Sprintf(`{"apiVersion":"v1","k\u0069nd":"A","metadata":{"name":"a%d"},"data":%q}`, i, filling)
			given = item
		case 5:
			item = fmt.Sprintf(`{"metadata":{"name":"a%d"},"data":%q}`, i, filling)
			given = `{"apiVersion":"v1","kind":"Pod",` + item[1:]
		}
		if i > 0 {
			list.WriteString(",\n")
		}
		list.WriteString(item)
		want = append(want, given)
	}
	list.WriteString("]}")
	var all []*Document
	for d, err := range Read(Stdin, iotest.HalfReader(strings.NewReader(list.String()))) {
		if err != nil {
			t.Fatal(err)
		}
		d.JSON = append(d.JSON, ' ')[:len(d.JSON)] // which must not be the neighbour's
		all = append(all, d)
	}
	if len(all) != len(want) {
		t.Fatalf("%d documents, want %d", len(all), len(want))
	}
	for i, d := range all {
		if string(d.JSON) != want[i] || d.Line != i+1 || d.Name != fmt.Sprintf("a%d", i) {
			t.Fatalf("%d: line %d, %s: %.200s", i, d.Line, d.Name, d.JSON)
		}
	}
}

func TestSkims(t *testing.T) {
	const head = `{"apiVersion":"v1","kind":"A","metadata":{"name":"a","namespace":"b"}`
	for text, want := range map[string]bool{
		head + `}`: true,
		head + `, "a" : [ 0 , -1.5e+7, 10E3, true, false, null, [], {}, "\"\\\/\b\f\n\r\t\u00Ef", {"a": {"a": 1}} ] }`: true,
		head + `,"é":"é😀"}`:                   true,
		head:                                  false,
		head + `,}`:                           false,
		head + `,"a":01}`:                     false,
		head + `,"a":"\x"}`:                   false,
		head + `,"a":1,"a":2}`:                false,
		head + `,"kind":"A"}`:                 false,
		head + `,"\u0061":1}`:                 false,
		head + `,"items":[]}`:                 false,
		head + ",\"a\":\"\xff\"}":             false,
		head + ",\"a\":\"\n\"}":               false,
		`{"apiVersion":"v1","kind":null}`:     false,
		`{"apiVersion":"v1","kind":"\u0041"}`: false,
		`{"metadata":[]}`:                     false,
		head + `,"a":` + strings.Repeat("[", 200_000) + strings.Repeat("]", 200_000) + "}": false,
	} {
		given := 0
		d := jsonDocument{splitter: &splitter{source: source{from: iotest.HalfReader(strings.NewReader(text)), line: 1}, limit: maxDocument, sink: &Reader{yield: func(d *Document, err *Error) bool {
			if given++; d == nil || string(d.JSON) != text || d.Name != "a" || d.Namespace != "b" || d.Kind != "A" || d.APIVersion != "v1" {
				t.Errorf("%.200q gives %+v, %v", text, d, err)
			}
			return true
		}}}}
		if end, ok := d.skim(nil, 0); ok != want || ok && end != len(text) || (given == 1) != want {
			t.Errorf("%.200q: skimmed up to %d, %t; %d given", text, end, ok, given)
		}
	}
}

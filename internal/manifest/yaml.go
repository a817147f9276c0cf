package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeyaml "sigs.k8s.io/yaml"
)

// yamlDocument is a document of YAML. What it says, kubectl's own library reads (sigs.k8s.io/yaml); the nodes of another parser have the
// lines. They cost as much again (go test ./internal/manifest -bench Kubectl), and most documents need none: where an object begins is seen.
type yamlDocument struct {
	text        []byte
	first, last int // lines of the file
	limit       int
	sink        *Reader
	// root is parsed when a line is asked for.
	root *yaml.Node
}

// readYAML gives the objects of a YAML document that begins at a line of the file.
func readYAML(text []byte, line, limit int, out *Reader) {
	if at, what := notText(text); at >= 0 {
		out.fail(line+bytes.Count(text[:at], newline), "%s", what)
		return
	}
	d := yamlDocument{text: text, first: line, last: line + bytes.Count(bytes.TrimSuffix(text, newline), newline), limit: limit, sink: out}
	if begin, plain := plainMapping(text); plain {
		d.convert(text, line+begin, kubeyaml.YAMLToJSONStrict)
		return
	}
	d.each()
}

// plainMapping reports whether a document is one mapping in block style, which begins at a line from 0, and has neither aliases nor line breaks
// that only YAML knows. Of any other, kubectl's library may read a part and be silent about the rest.
func plainMapping(text []byte) (line int, plain bool) {
	if bytes.IndexByte(text, '*') >= 0 && bytes.IndexByte(text, '&') >= 0 || bytes.Count(text, []byte("\r")) != bytes.Count(text, []byte("\r\n")) ||
		bytes.Contains(text, []byte("\u0085")) || bytes.Contains(text, []byte("\u2028")) || bytes.Contains(text, []byte("\u2029")) {
		return 0, false
	}
	for rest := range bytes.Lines(text) {
		blank := len(bytes.TrimSpace(rest)) == 0 || rest[0] == '#' || isMarker(rest, "---") && len(bytes.TrimSpace(rest)) == len("---")
		if !blank {
			return line, rest[0] >= 'a' && rest[0] <= 'z' || rest[0] >= 'A' && rest[0] <= 'Z'
		}
		line++
	}
	return 0, false
}

// each gives the objects of what may be several documents: a lone carriage return and U+2028 are line breaks of YAML, and may stand before a
// separator.
func (d *yamlDocument) each() {
	var roots []*yaml.Node
	var err error
	for decoder := yaml.NewDecoder(bytes.NewReader(d.text)); err == nil; {
		var node yaml.Node
		if err = decode(decoder, &node); err == nil && len(node.Content) > 0 && !isNull(node.Content[0]) {
			roots = append(roots, node.Content[0])
		}
	}
	before := d.sink.errors
	for _, root := range roots {
		d.root = root
		e := expansion{limit: d.limit, sizes: map[*yaml.Node]int{}, open: map[*yaml.Node]bool{}}
		wrong := e.check(root)
		if wrong == nil {
			wrong = blame(root)
		}
		if wrong != nil {
			d.fail(wrong)
			continue
		}
		text := d.text
		if len(roots) > 1 || !errors.Is(err, io.EOF) {
			text, _ = yaml.Marshal(root) // which was made of a text
		}
		d.convert(text, d.begin(root), kubeyaml.YAMLToJSON) // which takes a key beside one that is merged
	}
	rest := strings.Contains(err.Error(), "<document start>") && d.sink.errors > before // of what was told of already
	if !errors.Is(err, io.EOF) && !rest {
		d.failAt(explain(d.text, err))
	}
}

// decode takes a panic of the parser for an error: it has some for states that it holds to be impossible.
func decode(decoder *yaml.Decoder, node *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: the parser failed: %v", p)
		}
	}()
	return decoder.Decode(node)
}

// toJSON is decode for kubectl's library.
func toJSON(text []byte, convert func([]byte) ([]byte, error)) (raw []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: the parser failed: %v", p)
		}
	}()
	if raw, err = convert(text); err != nil {
		return nil, errors.New(strings.TrimPrefix(err.Error(), "error converting YAML to JSON: "))
	}
	return raw, nil
}

// isNull reports whether a document is empty; kubectl passes over one that says null, too.
func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style == 0 && slices.Contains([]string{"", "~", "null"}, n.Value)
}

// convert gives the objects of a document that begins at a line.
func (d *yamlDocument) convert(text []byte, line int, by func([]byte) ([]byte, error)) {
	if d.sink.stopped {
		return
	}
	raw, err := toJSON(text, by)
	switch {
	case err != nil:
		d.explain(err)
	case string(raw) == "null":
	case len(raw) > d.limit:
		d.sink.fail(line, "an object of more than %s", inBytes(d.limit))
	default:
		d.object(raw, line, nil, nil)
	}
}

// explain says what is wrong with a document that can't be converted: its syntax, or a node of it.
func (d *yamlDocument) explain(err error) {
	if d.root == nil {
		var node yaml.Node
		if err := decode(yaml.NewDecoder(bytes.NewReader(d.text)), &node); err != nil {
			d.failAt(explain(d.text, err))
			return
		}
		d.root = node.Content[0]
	}
	if wrong := blame(d.root); wrong != nil {
		d.fail(wrong)
		return
	}
	d.failAt(explain(d.text, err))
}

// failAt reports an error at a line of the document, from 1.
func (d *yamlDocument) failAt(line int, message string) {
	d.sink.templated = d.sink.templated || isTemplate(d.text, line)
	d.sink.fail(min(d.first+line-1, d.last), "%s", message)
}

func (d *yamlDocument) fail(wrong *nodeError) {
	d.failAt(max(wrong.node.Line, 1), wrong.message)
}

// line of the file. The parser counts more line breaks than editors and this package do; a line stays within the document.
func (d *yamlDocument) line(n *yaml.Node) int { return min(d.first+max(n.Line, 1)-1, d.last) }

// begin is the line of the file where an object begins: its first key, or its brace.
func (d *yamlDocument) begin(n *yaml.Node) int {
	if n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle == 0 && len(n.Content) > 0 {
		return d.line(n.Content[0])
	}
	return d.line(n)
}

// at is what stands at a path, and the line of the nearest thing to it.
func (d *yamlDocument) at(path []string) (*yaml.Node, int) {
	if d.root == nil {
		var node yaml.Node
		if decode(yaml.NewDecoder(bytes.NewReader(d.text)), &node) != nil || len(node.Content) == 0 {
			node.Content = []*yaml.Node{{}} // it was read by the other parser
		}
		d.root = node.Content[0]
	}
	found, line := walk(d.root, path)
	return found, d.line(&yaml.Node{Line: line})
}

// object gives the object at a path, or the items of a list. The list is that which it is an item of, or nil.
func (d *yamlDocument) object(raw json.RawMessage, line int, list *head, path []string) {
	if raw[0] != '{' {
		d.sink.foreign(line, "%s, not an object%s", d.describe(raw, path), manifestsIn(&head{}, raw))
		return
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		d.sink.fail(line, "nested deeper than %d", maxDepth)
		return
	}
	h := d.head(members, path)
	if items, ok := members["items"]; ok && (items[0] == '[' || string(items) == "null" && h.isList()) {
		d.items(items, &h, line, append(slices.Clip(path), "items"))
		return
	}
	h.give(d.sink, line, h.inherit(list, raw))
}

// items gives those of a list. As for kubectl, what has an array of items is a list, whatever its kind.
func (d *yamlDocument) items(raw json.RawMessage, h *head, line int, path []string) {
	var items []json.RawMessage
	_ = json.Unmarshal(raw, &items) // an array, or null
	for i, item := range items {
		if d.sink.stopped {
			return
		}
		its := append(slices.Clip(path), strconv.Itoa(i))
		node, at := d.at(its)
		if node != nil {
			at = d.begin(node)
		}
		d.object(item, at, h, its)
	}
	h.giveList(d.sink, line)
}

// head reads what the object says of itself.
func (d *yamlDocument) head(members map[string]json.RawMessage, path []string) head {
	var h head
	for _, key := range []string{"apiVersion", "kind"} {
		if raw, ok := members[key]; ok {
			h.typed = true
			d.word(&h, key, raw, h.typeOf(key), append(slices.Clip(path), key))
		}
	}
	raw, ok := members["metadata"]
	if h.named = ok; !ok || string(raw) == "null" {
		return h
	}
	var metadata map[string]json.RawMessage
	if json.Unmarshal(raw, &metadata) != nil {
		_, line := d.at(append(slices.Clip(path), "metadata"))
		h.fail(line, "metadata is %s, not an object", d.describe(raw, append(slices.Clip(path), "metadata")))
	}
	for _, key := range []string{"name", "namespace", "generateName"} {
		if raw, ok := metadata[key]; ok {
			d.word(&h, "metadata."+key, raw, h.nameOf(key), append(slices.Clip(path), "metadata", key))
		}
	}
	return h
}

// word reads a member that must be a text; null is none.
func (d *yamlDocument) word(h *head, name string, raw json.RawMessage, into *string, path []string) {
	if json.Unmarshal(raw, into) != nil {
		_, line := d.at(path)
		h.fail(line, "%s is %s, not a text", name, d.describe(raw, path))
	}
}

// describe says what stands at a path, for people: of a boolean, by which word it was written.
func (d *yamlDocument) describe(raw []byte, path []string) string {
	if node, _ := d.at(path); node != nil && node.Kind == yaml.ScalarNode && (raw[0] == 't' || raw[0] == 'f') {
		return "a boolean (" + node.Value + ")"
	}
	return describeJSON(raw)
}

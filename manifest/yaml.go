package manifest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readYAML gives the objects of a YAML document that begins at a line of the file. It uses the parser's nodes, and not what they decode
// to: they have lines, and are resolved here as kubectl does it, which uses an older version of the parser.
func readYAML(text []byte, line, limit int, out *Reader) {
	if at, what := notText(text); at >= 0 {
		out.fail(line+bytes.Count(text[:at], newline), "%s", what)
		return
	}
	last := line + bytes.Count(bytes.TrimSuffix(text, newline), newline)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	// More than one: a lone carriage return and U+2028 are line breaks of YAML, and may stand before a separator.
	for before := out.errors; !out.stopped; {
		var node yaml.Node
		err := decode(decoder, &node)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			if out.errors > before && strings.Contains(err.Error(), "<document start>") {
				return // the rest of what was told of already
			}
			at, message := explain(text, err)
			out.fail(min(line+at-1, last), "%s", message)
			return
		}
		d := yamlDocument{converter: converter{limit: limit, first: line, last: last}, sink: out}
		d.root(&node)
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

// yamlDocument gives the objects of one document.
type yamlDocument struct {
	converter
	sink *Reader
}

func (d *yamlDocument) root(document *yaml.Node) {
	if len(document.Content) == 0 || isNull(document.Content[0]) {
		return
	}
	d.object(document.Content[0], nil)
}

// isNull says whether a document is empty; kubectl passes over one that says null, too.
func isNull(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Style == 0 && (n.Value == "" || n.Value == "~" || n.Value == "null")
}

// object gives the object, or the items of a list. The list is that which the object is an item of, or nil.
func (d *yamlDocument) object(n *yaml.Node, list *head) {
	line := d.begin(n)
	if n.Kind == yaml.AliasNode {
		leave, err := d.enter(n)
		if err != nil {
			d.fail(err)
			return
		}
		defer leave()
		n = n.Alias
	}
	if n.Kind != yaml.MappingNode {
		d.sink.foreign(line, "%s, not an object", describe(n))
		return
	}
	members, err := d.members(n)
	if err != nil {
		d.fail(err)
		return
	}
	h := d.head(members)
	if items, ok := find(members, "items"); ok && d.items(items, &h, line) {
		return
	}
	d.out, d.depth = d.out[:0], 1
	if err := d.mapping(members); err != nil {
		d.fail(err)
		return
	}
	h.give(d.sink, line, h.inherit(list, bytes.Clone(d.out)))
}

// items gives those of a list. False: it is none. As for kubectl, what has an array of items is a list, whatever its kind.
func (d *yamlDocument) items(n *yaml.Node, h *head, line int) bool {
	if n.Kind == yaml.AliasNode {
		leave, err := d.enter(n)
		if err != nil {
			d.fail(err)
			return true
		}
		defer leave()
		n = n.Alias
	}
	isList := n.Kind == yaml.SequenceNode || isNull(n) && h.isList()
	if !isList {
		return false
	}
	for _, item := range n.Content {
		if d.sink.stopped {
			return true
		}
		d.object(item, h)
	}
	h.giveList(d.sink, line)
	return true
}

// begin is the line of the file where an object begins: its first key, or its brace.
func (d *yamlDocument) begin(n *yaml.Node) int {
	if n.Kind == yaml.MappingNode && n.Style&yaml.FlowStyle == 0 && len(n.Content) > 0 {
		return d.line(n.Content[0])
	}
	return d.line(n)
}

func (d *yamlDocument) fail(err error) {
	if p, ok := errors.AsType[*problem](err); ok {
		d.sink.fail(p.line, "%s", p.message)
		return
	}
	d.sink.fail(d.first, "%v", err)
}

// head reads what the object says of itself.
func (d *yamlDocument) head(members []member) head {
	var h head
	for _, m := range members {
		switch m.key {
		case "apiVersion", "kind":
			h.typed = true
			d.text(&h, m, m.key, h.typeOf(m.key))
		case "metadata":
			h.named = true
			d.metadata(&h, m.value)
		}
	}
	return h
}

func (d *yamlDocument) metadata(h *head, n *yaml.Node) {
	line := d.line(n)
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if isNull(n) {
		return
	}
	if n.Kind != yaml.MappingNode {
		h.fail(line, "metadata is %s, not an object", describe(n))
		return
	}
	members, err := d.members(n)
	if err != nil {
		return // it is told when the object is written
	}
	for _, m := range members {
		if into := h.nameOf(m.key); into != nil {
			d.text(h, m, "metadata."+m.key, into)
		}
	}
}

// text reads a member that must be a text; null is none.
func (d *yamlDocument) text(h *head, m member, name string, into *string) {
	n := m.value
	if n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	*into = ""
	if isNull(n) {
		return
	}
	if n.Kind == yaml.ScalarNode {
		if value, ok, err := scalar(n); err == nil && ok {
			*into = value
			return
		}
	}
	h.fail(d.line(m.value), "%s is %s, not a text", name, describe(n))
}

// describe says what a node is, for people.
func describe(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "an object"
	case yaml.SequenceNode:
		return "a list"
	}
	value, isText, err := scalar(n)
	switch {
	case err != nil || isText:
		return "a text"
	case value == "true" || value == "false":
		return "a boolean (" + n.Value + ")"
	case value == "null":
		return "null"
	}
	return "a number (" + strings.TrimSpace(value) + ")"
}

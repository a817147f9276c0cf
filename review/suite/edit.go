package suite

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/podgrace/podgrace/manifest"
)

// edit replaces lines from..to of a file, counted from 1; with to before from it puts its lines between. Of the first line
// it keeps so many bytes.
type edit struct {
	from, to, keep int
	lines          []string
}

// editor changes a file line by line: what it does not touch stays as it is, byte by byte.
type editor struct {
	lines []string
	edits []edit
	// ending of the lines, without the newline.
	ending string
}

func newEditor(text []byte) *editor {
	e := &editor{lines: strings.Split(string(text), "\n")}
	if bytes.Contains(text, []byte("\r\n")) {
		e.ending = "\r"
	}
	return e
}

// text is the file after all edits, of which the last is done first, so that lines keep their numbers.
func (e *editor) text() []byte {
	slices.Reverse(e.edits) // of those at one place, too, the last goes first
	slices.SortStableFunc(e.edits, func(a, b edit) int { return cmp.Or(cmp.Compare(b.from, a.from), cmp.Compare(b.to, a.to)) })
	whole := slices.Clone(e.lines)
	for _, d := range e.edits {
		var with []string
		for i, line := range d.lines {
			if i == 0 && d.to >= d.from {
				line = e.lines[d.from-1][:d.keep] + line
			}
			if d.to < len(e.lines) || i < len(d.lines)-1 { // else the file ends here, without a line break
				line += e.ending
			}
			with = append(with, line)
		}
		whole = slices.Replace(whole, d.from-1, d.to, with...)
	}
	return []byte(strings.Join(whole, "\n"))
}

// end is the last line of what begins at a line and column and goes on as long as lines are indented deeper. A list may stand at the column
// of its key. Comments and empty lines at the end are not its own.
func (e *editor) end(line, column int, list bool) int {
	last := line
	for i := line; i < len(e.lines); i++ {
		text := strings.TrimRight(e.lines[i], " \t\r")
		within := strings.TrimLeft(text, " ")
		if within == "" || within[0] == '#' {
			continue
		}
		indent := len(text) - len(within)
		dash := list && indent == column-1 && (within == "-" || strings.HasPrefix(within, "- "))
		if indent < column && !dash {
			break
		}
		last = i + 1
	}
	return last
}

// replace gives a key another value; nil takes the entry away.
func (e *editor) replace(key, old, value *yaml.Node) error {
	d := edit{from: key.Line, to: e.end(key.Line, key.Column, old.Kind == yaml.SequenceNode), keep: key.Column - 1}
	if value == nil {
		d.keep = 0
		e.edits = append(e.edits, d)
		return nil
	}
	rendered, err := render(&yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{bare(key), value}}, key.Column-1)
	if err != nil {
		return err
	}
	if comment := cmp.Or(key.LineComment, old.LineComment); comment != "" {
		rendered[0] += " " + comment
	}
	d.lines = rendered
	e.edits = append(e.edits, d)
	return nil
}

// add puts entries behind those of a mapping in block style.
func (e *editor) add(mapping, entries *yaml.Node) error {
	if len(entries.Content) == 0 {
		return nil
	}
	column := mapping.Content[0].Column
	rendered, err := render(entries, column-1)
	if err != nil {
		return err
	}
	rendered[0] = strings.Repeat(" ", column-1) + rendered[0]
	n := len(mapping.Content)
	key, value := mapping.Content[n-2], mapping.Content[n-1]
	after := e.end(key.Line, key.Column, value.Kind == yaml.SequenceNode)
	if after == len(e.lines) { // the file ends without a line break
		e.lines[after-1] += e.ending
		e.lines = append(e.lines, "")
	}
	e.edits = append(e.edits, edit{from: after + 1, to: after, lines: rendered})
	return nil
}

// bare is a key without the comments around it, which stay where they are.
func bare(key *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: key.Kind, Tag: key.Tag, Style: key.Style, Value: key.Value, Anchor: key.Anchor}
}

// render writes a node as lines, of which all but the first are indented.
func render(n *yaml.Node, indent int) ([]string, error) {
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(n); err != nil {
		return nil, fmt.Errorf("write YAML: %w", err)
	}
	lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
	for i := 1; i < len(lines); i++ {
		lines[i] = strings.Repeat(" ", indent) + lines[i]
	}
	return lines, nil
}

// errPlace is for YAML that is correct, but not written so that one could change a part of it.
var errPlace = errors.New("it is written so that it can't be updated in place")

// change makes the edits of one case.
func (e *editor) change(s *Suite, index int, changes []change) error {
	if s.node == nil {
		return errPlace
	}
	_, cases := manifest.Entry(s.node, "cases")
	if cases == nil || cases.Kind != yaml.SequenceNode || isFlow(cases) || cases.Content[index].Kind != yaml.MappingNode {
		return errPlace
	}
	one := cases.Content[index]
	if isFlow(one) {
		return e.flowCase(cases, one, changes)
	}
	key, then := manifest.Entry(one, "then")
	switch {
	case key == nil:
		added := &yaml.Node{Kind: yaml.MappingNode}
		setEntry(added, "then", changed(nil, changes))
		return e.add(one, added)
	case then.Kind != yaml.MappingNode || isFlow(then) || len(then.Content) == 0:
		return e.replace(key, then, changed(then, changes))
	}
	return e.then(then, changes)
}

// flowCase writes a case anew that stands in braces.
func (e *editor) flowCase(cases, one *yaml.Node, changes []change) error {
	_, then := manifest.Entry(one, "then")
	whole := copied(one)
	setEntry(whole, "then", changed(then, changes))
	rendered, err := render(whole, one.Column-1)
	if err != nil {
		return err
	}
	if one.LineComment != "" {
		rendered[len(rendered)-1] += " " + one.LineComment
	}
	e.edits = append(e.edits, edit{from: one.Line, to: e.end(one.Line, cases.Column, false), keep: one.Column - 1, lines: rendered})
	return nil
}

// then makes the edits of a "then" in block style, entry by entry.
func (e *editor) then(then *yaml.Node, changes []change) error {
	added := &yaml.Node{Kind: yaml.MappingNode}
	var paths []change
	for _, c := range changes {
		key, old := manifest.Entry(then, c.field)
		switch {
		case c.path != "":
			paths = append(paths, c)
		case key == nil:
			setEntry(added, c.field, c.value)
		default:
			if err := e.replace(key, old, c.value); err != nil {
				return err
			}
		}
	}
	if err := e.fields(then, added, paths); err != nil {
		return err
	}
	return e.add(then, added)
}

// fields makes the edits of the pod's fields.
func (e *editor) fields(then, added *yaml.Node, changes []change) error {
	if len(changes) == 0 {
		return nil
	}
	key, fields := manifest.Entry(then, fieldFields)
	switch {
	case key == nil:
		apply(added, changes)
		return nil
	case fields.Kind != yaml.MappingNode || isFlow(fields):
		whole := copied(resolved(fields))
		for _, c := range changes {
			setEntry(whole, c.path, c.value)
		}
		return e.replace(key, fields, whole)
	}
	further := &yaml.Node{Kind: yaml.MappingNode}
	for _, c := range changes {
		key, old := manifest.Entry(fields, c.path)
		if key == nil {
			setEntry(further, c.path, c.value)
		} else if err := e.replace(key, old, c.value); err != nil {
			return err
		}
	}
	return e.add(fields, further)
}

// changed is a "then" with changes; one in block style where there was none.
func changed(then *yaml.Node, changes []change) *yaml.Node {
	whole := &yaml.Node{Kind: yaml.MappingNode}
	if then != nil && resolved(then).Kind == yaml.MappingNode && len(resolved(then).Content) > 0 {
		whole = copied(resolved(then))
	}
	apply(whole, changes)
	return whole
}

// copied is a node and what is below it, without the comments around it, which stay where they are.
func copied(n *yaml.Node) *yaml.Node {
	c := *n
	c.HeadComment, c.LineComment, c.FootComment = "", "", ""
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, below := range n.Content {
		c.Content[i] = copied(below)
	}
	return &c
}

// setEntry replaces a key's value, or adds it; nil: it takes it away.
func setEntry(mapping *yaml.Node, name string, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value != name {
			continue
		}
		if value == nil {
			mapping.Content = slices.Delete(mapping.Content, i, i+2)
		} else {
			mapping.Content[i+1] = value
		}
		return
	}
	if value != nil {
		mapping.Content = append(mapping.Content, textNode(name), value)
	}
}

// resolved follows an alias.
func resolved(node *yaml.Node) *yaml.Node {
	for node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return node
}

func isFlow(node *yaml.Node) bool { return node.Style&yaml.FlowStyle != 0 }

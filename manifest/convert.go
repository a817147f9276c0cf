package manifest

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	// maxDepth of nested objects and lists, as of encoding/json.
	maxDepth = 10_000
	// maxAliased is how many nodes of a YAML document may come from its anchors: a few lines of them can stand for billions.
	maxAliased = 1_000_000
)

// converter writes the nodes of one YAML document as JSON.
type converter struct {
	out         []byte
	limit       int
	first, last int // lines of the file
	// open aliases, in which the nodes at hand are.
	open           map[*yaml.Node]bool
	depth, aliased int
}

// line of the file. The parser counts more line breaks than editors and this package do; a line stays within the document.
func (c *converter) line(n *yaml.Node) int { return min(c.first+max(n.Line, 1)-1, c.last) }

func (c *converter) wrong(n *yaml.Node, format string, args ...any) error {
	return &problem{c.line(n), fmt.Sprintf(format, args...)}
}

// enter follows an alias until leave is called.
func (c *converter) enter(n *yaml.Node) (leave func(), err error) {
	if c.open[n] {
		return nil, c.wrong(n, "anchor &%s contains itself", n.Value)
	}
	if c.open == nil {
		c.open = map[*yaml.Node]bool{}
	}
	c.open[n] = true
	return func() { delete(c.open, n) }, nil
}

func (c *converter) write(n *yaml.Node) error {
	if err := c.count(n); err != nil {
		return err
	}
	c.depth++
	defer func() { c.depth-- }()
	switch n.Kind {
	case yaml.AliasNode:
		leave, err := c.enter(n)
		if err != nil {
			return err
		}
		defer leave()
		return c.write(n.Alias)
	case yaml.MappingNode:
		members, err := c.members(n)
		if err != nil {
			return err
		}
		return c.mapping(members)
	case yaml.SequenceNode:
		return c.sequence(n)
	}
	value, isText, err := scalar(n)
	if err != nil {
		return c.wrong(n, "%v", err)
	}
	if isText {
		c.out = appendText(c.out, value)
	} else {
		c.out = append(c.out, value...)
	}
	return nil
}

// count keeps what a document may expand to within limits.
func (c *converter) count(n *yaml.Node) error {
	if len(c.open) > 0 {
		c.aliased++
	}
	switch {
	case c.aliased > maxAliased || len(c.out) > c.limit && c.aliased > 0:
		return c.wrong(n, "the anchors of this document expand to more than %s or %d values", size(c.limit), maxAliased)
	case len(c.out) > c.limit:
		return c.wrong(n, "an object of more than %s", size(c.limit))
	case c.depth >= maxDepth:
		return c.wrong(n, "nested deeper than %d", maxDepth)
	}
	return nil
}

func (c *converter) sequence(n *yaml.Node) error {
	c.out = append(c.out, '[')
	for i, item := range n.Content {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		if err := c.write(item); err != nil {
			return err
		}
	}
	c.out = append(c.out, ']')
	return nil
}

func (c *converter) mapping(members []member) error {
	c.out = append(c.out, '{')
	for i, m := range members {
		if i > 0 {
			c.out = append(c.out, ',')
		}
		c.out = append(appendText(c.out, m.key), ':')
		if err := c.write(m.value); err != nil {
			return err
		}
	}
	c.out = append(c.out, '}')
	return nil
}

// text is a JSON string.
func text(s string) []byte { return appendText(nil, s) }

func appendText(out []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == '"' || c == '\\' || c >= utf8.RuneSelf {
			quoted, _ := json.Marshal(s) // a string never fails
			return append(out, quoted...)
		}
	}
	out = append(append(out, '"'), s...)
	return append(out, '"')
}

func size(bytes int) string {
	if bytes >= 1<<20 {
		return fmt.Sprintf("%d MiB", bytes>>20)
	}
	return fmt.Sprintf("%d bytes", bytes)
}

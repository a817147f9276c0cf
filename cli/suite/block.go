package suite

import (
	"bytes"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// block returns a "then" by which the case passes, as YAML to paste; empty: it passes as it is, or could not be judged. Of what the case expects it changes
// only what did not happen.
func (o *Outcome) block() string {
	if o.Status == Passed || o.Result == nil || o.of == nil {
		return ""
	}
	then := o.suite.then(o.of.index)
	apply(then, o.changes())
	whole := &yaml.Node{Kind: yaml.MappingNode}
	setEntry(whole, "then", then)
	var out bytes.Buffer
	encoder := yaml.NewEncoder(&out)
	encoder.SetIndent(2)
	encoder.CompactSeqIndent()
	if err := encoder.Encode(whole); err != nil {
		return ""
	}
	return strings.TrimRight(out.String(), "\n")
}

// then is what a case expects, with an entry a line.
func (s *Suite) then(index int) *yaml.Node {
	whole, _ := valueOf(s.json).(map[string]any)
	cases, _ := whole["cases"].([]any)
	block := &yaml.Node{Kind: yaml.MappingNode}
	if index >= len(cases) {
		return block
	}
	one, _ := cases[index].(map[string]any)
	if n := node(one["then"]); n.Kind == yaml.MappingNode {
		block = n
	}
	block.Style = 0
	for _, below := range block.Content {
		below.Style &^= yaml.FlowStyle
	}
	return block
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

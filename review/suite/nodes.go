package suite

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

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

package suite

import (
	"bytes"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// documents are the YAML documents of a file by the line at which each begins, as far as they can be read.
func documents(text []byte) (nodes map[int]*yaml.Node) {
	nodes = map[int]*yaml.Node{}
	defer func() { _ = recover() }() // the parser has some for states that it holds to be impossible
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		if decoder.Decode(&document) != nil {
			return nodes
		}
		if len(document.Content) == 1 && document.Content[0].Kind == yaml.MappingNode {
			nodes[document.Content[0].Line] = document.Content[0]
		}
	}
}

// lineOf is the line of what stands at a path, or of the nearest thing around it; 0: unknown.
func lineOf(node *yaml.Node, path []string) int {
	if node == nil {
		return 0
	}
	line := node.Line
	for _, step := range path {
		node = resolved(node)
		switch node.Kind {
		case yaml.MappingNode:
			key, value := entry(node, step)
			if key == nil {
				return line
			}
			node, line = value, key.Line
		case yaml.SequenceNode:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(node.Content) {
				return line
			}
			node = node.Content[i]
			line = node.Line
		default:
			return line
		}
	}
	return line
}

// entry is that of a key in a mapping; nil: there is none.
func entry(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
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

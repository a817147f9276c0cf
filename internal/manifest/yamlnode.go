package manifest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	kubeyaml "sigs.k8s.io/yaml"
)

// nodeError is what is wrong with a node.
type nodeError struct {
	node    *yaml.Node
	message string
}

// expansion says what the anchors of a document make of it, before it is converted: a few lines of them can stand for billions.
type expansion struct {
	limit int
	sizes map[*yaml.Node]int
	// open nodes are those that the one at hand is in.
	open map[*yaml.Node]bool
	// aliased in bytes is what comes from anchors.
	aliased int
}

// perNode in bytes is what a node takes at the least.
const perNode = 64

// most is more than any limit, and may be added to itself.
const most = 1 << 40

func (e *expansion) check(root *yaml.Node) *nodeError {
	_, wrong := e.size(root)
	return wrong
}

// size of a node and all that is in it.
func (e *expansion) size(n *yaml.Node) (int, *nodeError) {
	if n.Kind == yaml.AliasNode {
		if e.open[n.Alias] {
			return 0, &nodeError{n, fmt.Sprintf("anchor &%s contains itself", n.Value)}
		}
		size, wrong := e.size(n.Alias)
		if e.aliased = min(e.aliased+size, most); wrong == nil && e.aliased > e.limit {
			wrong = &nodeError{n, fmt.Sprintf("the anchors of this document expand to more than %s", inBytes(e.limit))}
		}
		return size, wrong
	}
	if size, ok := e.sizes[n]; ok {
		return size, nil
	}
	e.open[n] = true
	defer delete(e.open, n)
	size := perNode + len(n.Value)
	for _, child := range n.Content {
		more, wrong := e.size(child)
		if wrong != nil {
			return 0, wrong
		}
		size = min(size+more, most)
	}
	e.sizes[n] = size
	return size, nil
}

// blame finds the first node that kubectl's library does not take; it seldom says where that is. nil: it can't be told.
func blame(n *yaml.Node) *nodeError {
	switch n.Kind {
	case yaml.MappingNode:
		return blameMapping(n)
	case yaml.SequenceNode:
		for _, item := range n.Content {
			if wrong := blame(item); wrong != nil {
				return wrong
			}
		}
	case yaml.ScalarNode:
		return blameScalar(n)
	}
	return nil
}

func blameMapping(n *yaml.Node) *nodeError {
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if isMerge(key) {
			if wrong := blameMerge(value, true); wrong != nil {
				return wrong
			}
			continue
		}
		name := key
		if key.Kind == yaml.AliasNode {
			name = key.Alias
		}
		switch {
		case name.Kind == yaml.MappingNode:
			return &nodeError{key, "a key that is an object" + unrendered}
		case name.Kind == yaml.SequenceNode:
			return &nodeError{key, "a key that is a list" + unrendered}
		case name.Style == 0 && slices.Contains([]string{"", "~", "null", "Null", "NULL"}, name.Value):
			return &nodeError{key, "null as a key"}
		case seen[name.Value]:
			return &nodeError{key, fmt.Sprintf("key %q is in this object twice", name.Value)}
		}
		seen[name.Value] = true
		if wrong := blame(value); wrong != nil {
			return wrong
		}
	}
	return nil
}

func isMerge(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "<<" && (n.Style == 0 || n.Tag == "!!merge")
}

func blameMerge(n *yaml.Node, lists bool) *nodeError {
	from := n
	if n.Kind == yaml.AliasNode {
		from = n.Alias
	}
	switch {
	case from.Kind == yaml.MappingNode:
		if from == n {
			return blame(n)
		}
		return nil
	case n.Kind == yaml.SequenceNode && lists:
		for _, one := range n.Content {
			if wrong := blameMerge(one, false); wrong != nil {
				return wrong
			}
		}
		return nil
	}
	return &nodeError{n, "<< merges an object or a list of objects"}
}

func blameScalar(n *yaml.Node) *nodeError {
	tagged := n.Style&yaml.TaggedStyle != 0
	text, message := n.Value, "%s is a number that JSON does not have"
	switch {
	case tagged:
		text, message = n.Tag+" "+strconv.QuoteToASCII(n.Value), "%q is no "+n.Tag
	case n.Style&^yaml.FlowStyle != 0: // quoted, or a block
		return nil
	}
	if _, err := toJSON([]byte("- "+text), kubeyaml.YAMLToJSON); err == nil {
		return nil
	}
	shown := n.Value
	if len(shown) > 40 {
		shown = strings.ToValidUTF8(shown[:40], "") + "..."
	}
	return &nodeError{n, fmt.Sprintf(message, shown)}
}

package policyfile

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// lines finds the line of a field in a YAML document.
type lines struct {
	file string
	root *yaml.Node
}

// wrap makes an error that names the line of the field, or of the nearest thing around it that is there.
func (l lines) wrap(path *field.Path, format string, args ...any) *Error {
	return &Error{File: l.file, Line: l.find(path.String()), Message: fmt.Sprintf(format, args...)}
}

// body is what the document holds.
func (l lines) body() *yaml.Node {
	if l.root.Kind == yaml.DocumentNode && len(l.root.Content) > 0 {
		return l.root.Content[0]
	}
	return l.root
}

// find walks a path such as spec.topologySpread.constraints[1].maxSkew.
func (l lines) find(path string) int {
	node := l.body()
	line := node.Line
	for _, step := range steps(path) {
		for node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		next, at := child(node, step)
		if next == nil {
			break
		}
		node, line = next, at
	}
	return line
}

// steps splits a path at dots and brackets.
func steps(path string) []string {
	return strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' })
}

// child returns a member or element, and the line where it begins: for a member that is its key's.
func child(node *yaml.Node, step string) (*yaml.Node, int) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == step {
				return node.Content[i+1], node.Content[i].Line
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i], node.Content[i].Line
		}
	}
	return nil, 0
}

// toJSON turns a decoded YAML document into JSON, in which keys are strings and times are text.
func toJSON(object map[string]any) ([]byte, error) {
	raw, err := json.Marshal(object)
	if err != nil {
		return nil, fmt.Errorf("not expressible as JSON: %w", err)
	}
	return raw, nil
}

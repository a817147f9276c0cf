package input

import (
	"bytes"
	"cmp"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Nodes are the objects of a file by the line at which each begins, as far as they can be read. Those of a list are none.
func Nodes(text []byte) map[int]*yaml.Node {
	nodes := map[int]*yaml.Node{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		if decode(decoder, &document) != nil {
			return nodes
		}
		for _, root := range document.Content {
			if root.Kind == yaml.MappingNode {
				nodes[root.Line] = root
			}
		}
	}
}

// addItems adds those of a list, and of lists in it.
func addItems(nodes map[int]*yaml.Node, list *yaml.Node) {
	_, items := Entry(list, "items")
	if items == nil || items.Kind != yaml.SequenceNode {
		return
	}
	for _, item := range items.Content {
		if item.Kind == yaml.MappingNode {
			nodes[item.Line] = item
			addItems(nodes, item)
		}
	}
}

// LineOf is the line of what stands at a path, or of the nearest thing around it; 0: unknown.
func LineOf(node *yaml.Node, path []string) int {
	_, line := walk(node, path)
	return line
}

// NodeAt is what stands at a path; nil: nothing does.
func NodeAt(node *yaml.Node, path []string) *yaml.Node {
	found, _ := walk(node, path)
	return found
}

func walk(node *yaml.Node, path []string) (found *yaml.Node, line int) {
	if node == nil {
		return nil, 0
	}
	line = node.Line
	for _, step := range path {
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		switch node.Kind {
		case yaml.MappingNode:
			key, value := Entry(node, step)
			if key == nil {
				return nil, line
			}
			node, line = value, key.Line
		case yaml.SequenceNode:
			i, err := strconv.Atoi(step)
			if err != nil || i < 0 || i >= len(node.Content) {
				return nil, line
			}
			node = node.Content[i]
			line = node.Line
		default:
			return nil, line
		}
	}
	return node, line
}

// Entry is that of a key in a mapping; nil: there is none.
func Entry(mapping *yaml.Node, name string) (key, value *yaml.Node) {
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == name {
			return mapping.Content[i], mapping.Content[i+1]
		}
	}
	return nil, nil
}

// step of a path: in brackets an index, or a key with dots.
var pathStep = regexp.MustCompile(`\[([^\]]*)\]|[^.\[\]]+`)

// Steps of a path such as spec.containers[0].image or metadata.annotations[example.com/a].
func Steps(path string) []string {
	var steps []string
	for _, m := range pathStep.FindAllStringSubmatch(path, -1) {
		steps = append(steps, cmp.Or(m[1], m[0]))
	}
	return steps
}

// pathOf is the path that Steps takes apart.
func pathOf(steps []string) string {
	var path strings.Builder
	for i, step := range steps {
		_, notNumber := strconv.Atoi(step)
		switch {
		case notNumber == nil || strings.ContainsAny(step, "./"):
			step = "[" + step + "]"
		case i > 0:
			step = "." + step
		}
		path.WriteString(step)
	}
	return path.String()
}

// maxLocated in bytes is how large a file may be that is read again for the lines of fields. A person's manifests are smaller, and a
// cluster's dump has few mistakes.
const maxLocated = 4 << 20

// Locate puts each error about a field at the line of the field, for which its file is read again, and leaves out what was said before. An
// error of what can't be read again, as standard input, stays at its object.
func Locate(errs []*Error) []*Error {
	var located []*Error
	files := map[string]map[int]*yaml.Node{}
	seen := map[Error]bool{}
	for _, e := range errs {
		if e.Field != "" && e.Line > 0 {
			if _, is := files[e.File]; !is {
				files[e.File] = nodesOf(e.File)
			}
			e.Line = max(e.Line, LineOf(files[e.File][e.Line], Steps(e.Field)))
		}
		e.Field = "" // it was found, or can't be
		if !seen[*e] {
			seen[*e] = true
			located = append(located, e)
		}
	}
	return slices.Clip(located)
}

func nodesOf(file string) map[int]*yaml.Node {
	info, err := os.Stat(file)
	if file == stdin || err != nil || !info.Mode().IsRegular() || info.Size() > maxLocated {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	nodes := Nodes(text)
	for _, list := range slices.Collect(maps.Values(nodes)) {
		addItems(nodes, list)
	}
	return nodes
}

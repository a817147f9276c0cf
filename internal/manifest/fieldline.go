package manifest

import (
	"bytes"
	"os"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/podgrace/podgrace/internal/fieldpath"
)

// Lines are the objects of a text by the line at which each begins, as far as they can be read: those of lists, too.
type Lines map[int]*yaml.Node

// LinesOf reads them.
func LinesOf(text []byte) Lines {
	nodes := Lines{}
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var document yaml.Node
		if decode(decoder, &document) != nil {
			return nodes
		}
		for _, root := range document.Content {
			if root.Kind == yaml.MappingNode {
				nodes[root.Line] = root
				nodes.addItems(root)
			}
		}
	}
}

// addItems adds those of a list, and of lists in it.
func (l Lines) addItems(list *yaml.Node) {
	_, items := Entry(list, "items")
	if items == nil || items.Kind != yaml.SequenceNode {
		return
	}
	for _, item := range items.Content {
		if item.Kind == yaml.MappingNode {
			l[item.Line] = item
			l.addItems(item)
		}
	}
}

// Locate puts an error about a field at the field's line.
func (l Lines) Locate(e *Error) {
	if e.Field != "" && e.Line > 0 {
		e.Line = max(e.Line, LineOf(l[e.Line], Steps(e.Field)))
	}
	e.Field = "" // it was found, or can't be
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

// Steps of a path such as spec.containers[0].image or metadata.annotations[example.com/a]; none of one that can't be read.
func Steps(path string) fieldpath.Path {
	steps, _ := fieldpath.Parse(path)
	return steps
}

// maxLocated in bytes is how large a file may be that is read again for the lines of fields. A person's manifests are smaller, and a
// cluster's dump has few mistakes.
const maxLocated = 4 << 20

// Locate puts each error about a field at the line of the field, for which its file is read again, and leaves out what was said before. An
// error of what can't be read again, as standard input, stays at its object.
func Locate(errs []*Error) []*Error {
	files := map[string]Lines{}
	for _, e := range errs {
		if _, ok := files[e.File]; !ok && e.Field != "" && e.Line > 0 {
			files[e.File] = linesOfFile(e.File)
		}
		files[e.File].Locate(e)
	}
	return Unique(errs)
}

func linesOfFile(file string) Lines {
	info, err := os.Stat(file)
	if file == Stdin || err != nil || !info.Mode().IsRegular() || info.Size() > maxLocated {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	return LinesOf(text)
}

package suite

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/fieldpath"
	"github.com/podgrace/podgrace/internal/manifest"
)

// change of a case's "then": a field of it, or with a path a field of the pod. Without a value it is taken away.
type change struct {
	field, path string
	value       *yaml.Node
}

// changes make what is expected what happened.
func (o *Outcome) changes() []change {
	if o.of.Then.empty() {
		return happened(o.Result)
	}
	var found []change
	for _, d := range o.Differences {
		if d.Field == fieldFields && podOf(o.Result) == nil {
			continue
		}
		found = append(found, o.change(d))
	}
	if len(o.of.Then.Fields) > 0 && podOf(o.Result) == nil {
		found = append(found, change{field: fieldFields})
		if o.of.Then.Decision == nil { // else nothing might be left to expect
			found = append(found, change{field: fieldDecision, value: textNode(string(o.Result.Decision))})
		}
	}
	return found
}

func (o *Outcome) change(d Difference) change {
	c := change{field: d.Field, path: d.Path}
	switch d.Field {
	case fieldDecision:
		c.value = textNode(string(o.Result.Decision))
	case fieldReason:
		c.value = textNode(o.Result.Reason)
	case fieldMessage:
		c.value = messageNode(o.Result.Message)
	case fieldWarnings:
		c.value = textsNode(kept(*o.of.Then.Warnings, d))
	case fieldUnknown:
		c.value = textsNode(kept(*o.of.Then.Unknown, d))
	case fieldPatch:
		c.value = patchNode(o.Result.Patch)
	case fieldFields:
		c.value = fieldNode(fieldOf(podOf(o.Result), d.Path, o.of.Then.Fields[d.Path]))
	}
	return c
}

// kept are the parts that were found, and whole texts for what had none.
func kept(want []string, d Difference) []string {
	found := slices.DeleteFunc(slices.Clone(want), func(w string) bool { return slices.Contains(d.Want, w) })
	return append(found, d.Got...)
}

// happened is all that can be said of a result: of a pod, the fields that were changed.
func happened(r *review.Result) []change {
	found := []change{{field: fieldDecision, value: textNode(string(r.Decision))}}
	if r.Decision == review.Denied {
		found = append(found, change{field: fieldReason, value: textNode(r.Reason)}, change{field: fieldMessage, value: messageNode(r.Message)})
	}
	found = append(found, change{field: fieldWarnings, value: textsNode(r.Warnings)})
	if len(r.Unknown) > 0 {
		found = append(found, change{field: fieldUnknown, value: textsNode(r.Unknown)})
	}
	pod := podOf(r)
	switch {
	case r.Decision == review.Allowed && (len(r.Patch) == 0 && r.Operation == review.OperationCreate || len(r.Patch) > 0 && pod == nil):
		found = append(found, change{field: fieldPatch, value: patchNode(r.Patch)})
	case pod != nil:
		for _, path := range changedPaths(r) {
			value := fieldOf(pod, path, map[string]any{})
			if checkPath(path) == nil {
				found = append(found, change{field: fieldFields, path: path, value: fieldNode(value)})
			}
		}
	}
	return found
}

// changedPaths are those of a patch, of maps their members'.
func changedPaths(r *review.Result) []string {
	var paths []string
	for _, o := range r.Patch {
		members, ok := valueOf(o.Value).(map[string]any)
		if !ok || o.Op == "remove" {
			members = map[string]any{"": nil}
		}
		for _, name := range slices.Sorted(maps.Keys(members)) {
			at := fieldpath.OfPointer(o.Path)
			if name != "" {
				at = append(at, name)
			}
			if path := at.Exact(); !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// apply changes a "then" as nodes.
func apply(then *yaml.Node, changes []change) {
	for _, c := range changes {
		if c.path == "" {
			setEntry(then, c.field, c.value)
			continue
		}
		_, fields := manifest.Entry(then, fieldFields)
		if fields == nil || fields.Kind != yaml.MappingNode {
			fields = &yaml.Node{Kind: yaml.MappingNode}
			setEntry(then, fieldFields, fields)
		}
		setEntry(fields, c.path, c.value)
	}
}

// plain is a text that needs no quotes by any version of YAML; the rest gets them.
var plain = regexp.MustCompile(`^[A-Za-z][][A-Za-z0-9./_-]*( [A-Za-z0-9][A-Za-z0-9./_-]*)*$`)

// words that some version of YAML takes for something else.
var words = []string{"y", "n", "yes", "no", "on", "off", "true", "false", "null"}

func textNode(text string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: text}
	if !plain.MatchString(text) || slices.Contains(words, strings.ToLower(text)) {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// ago is how long something lasts until now, as of a node that is silent: another at each run.
var ago = regexp.MustCompile(`([0-9]+h)?([0-9]+m)?[0-9]+s ago`)

// messageNode is a text for people, as it will be the next time, too.
func messageNode(text string) *yaml.Node {
	return textNode(ago.ReplaceAllString(console.Fold(text), gap+" ago"))
}

func textsNode(texts []string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, text := range texts {
		n.Content = append(n.Content, messageNode(text))
	}
	if len(texts) == 0 {
		n.Style = yaml.FlowStyle
	}
	return n
}

func patchNode(patch []review.Operation) *yaml.Node {
	n := textsNode(nil)
	for _, o := range patch {
		m := node(map[string]any{})
		setEntry(m, "op", textNode(o.Op))
		setEntry(m, "path", textNode(o.Path))
		if o.Value != nil {
			setEntry(m, "value", node(valueOf(o.Value)))
		}
		n.Content, n.Style = append(n.Content, m), 0
	}
	return n
}

// fieldNode is a node in one line, or a line for each object of a list.
func fieldNode(value any) *yaml.Node {
	n := node(value)
	if n.Kind == yaml.SequenceNode && slices.ContainsFunc(n.Content, func(e *yaml.Node) bool { return e.Kind == yaml.MappingNode }) {
		n.Style = 0
	}
	return n
}

// node of a value of JSON, in one line.
func node(value any) *yaml.Node {
	switch v := value.(type) {
	case string:
		return textNode(v)
	case []any:
		n := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
		for _, e := range v {
			n.Content = append(n.Content, node(e))
		}
		return n
	case map[string]any:
		n := &yaml.Node{Kind: yaml.MappingNode, Style: yaml.FlowStyle}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			n.Content = append(n.Content, textNode(key), node(v[key]))
		}
		return n
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: canonical(value)} // null, a boolean, a number
}

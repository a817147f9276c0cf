package delta

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/fieldpath"
)

// enforcement is the path of the annotation that holds JSON: its fields are compared, and not its text.
const enforcement = "metadata.annotations[" + v1alpha1.AnnotationEnforcement + "]"

// constraints is the path of the topology spread constraints.
const constraints = "spec.topologySpreadConstraints"

// Field is a field of a pod that differs. Its path is as people write it: spec.terminationGracePeriodSeconds,
// spec.topologySpreadConstraints[topology.kubernetes.io/zone].maxSkew,
// metadata.annotations[podgrace.dev/enforcement].oom.rank. From or To is absent where the field is.
type Field struct {
	Path string          `json:"path"`
	From json.RawMessage `json:"from,omitempty"`
	To   json.RawMessage `json:"to,omitempty"`
}

// Fields are the fields in which two pods in JSON differ, by path.
func Fields(from, to json.RawMessage) []Field { return FieldsOfTrees(Tree(from), Tree(to)) }

// FieldsOfTrees is Fields of pods that are read already.
func FieldsOfTrees(from, to map[string]any) []Field {
	var c comparison
	c.objects("", from, to)
	slices.SortStableFunc(c.fields, func(a, b Field) int { return strings.Compare(a.Path, b.Path) })
	return c.fields
}

// Tree of a pod's JSON, with the annotation as an object; empty for what is none.
func Tree(raw json.RawMessage) map[string]any {
	pod := Object(raw)
	metadata, _ := pod["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if text, ok := annotations[v1alpha1.AnnotationEnforcement].(string); ok {
		if decided := Object([]byte(text)); decided != nil {
			annotations[v1alpha1.AnnotationEnforcement] = decided
		}
	}
	return pod
}

type comparison struct{ fields []Field }

func (c *comparison) objects(path string, from, to map[string]any) {
	for key, p := range Members(from, to) {
		c.values(fieldpath.Member(path, key), p)
	}
}

// values goes into objects and lists down to what differs. An object that is on one side only is gone into where its members are
// decisions of their own: those of the annotation and what leads to it.
func (c *comparison) values(path string, p Pair) {
	if p.Same() {
		return
	}
	before, wasObject := p.From.(map[string]any)
	after, isObject := p.To.(map[string]any)
	decided := path == "metadata.annotations" || strings.HasPrefix(path, enforcement)
	if wasObject && isObject || decided && (wasObject && !p.Is || isObject && !p.Was) {
		c.objects(path, before, after)
		return
	}
	if c.lists(path, p) {
		return
	}
	c.fields = append(c.fields, Field{Path: path, From: encoded(p.From, p.Was), To: encoded(p.To, p.Is)})
}

// lists compares elements by what names them; false: they have no such names, or there are no lists, and all is compared as a whole.
func (c *comparison) lists(path string, p Pair) bool {
	from, wasList := p.From.([]any)
	to, isList := p.To.([]any)
	if p.Was != wasList || p.Is != isList || len(from)+len(to) == 0 {
		return false
	}
	for _, naming := range [][]string{{"topologyKey"}, {"topologyKey", "whenUnsatisfiable"}, {"name"}} {
		before, ok := named(from, naming)
		after, alsoOK := named(to, naming)
		if !ok || !alsoOK {
			continue
		}
		for name, p := range Members(before, after) {
			c.values(fieldpath.Element(path, name), p)
		}
		return true
	}
	return false
}

// named are the elements by their names; false: not each has one of its own.
func named(list []any, naming []string) (map[string]any, bool) {
	elements := make(map[string]any, len(list))
	for _, element := range list {
		o, _ := element.(map[string]any)
		var name []string
		for _, key := range naming {
			part, ok := o[key].(string)
			if !ok {
				return nil, false
			}
			name = append(name, part)
		}
		elements[strings.Join(name, ",")] = element
	}
	return elements, len(elements) == len(list)
}

func encoded(value any, is bool) json.RawMessage {
	if !is {
		return nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err) // it came out of JSON
	}
	return raw
}

package told

import (
	"bytes"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
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
	if text, is := annotations[v1alpha1.AnnotationEnforcement].(string); is {
		if decided := Object([]byte(text)); decided != nil {
			annotations[v1alpha1.AnnotationEnforcement] = decided
		}
	}
	return pod
}

// Object is a JSON object, with numbers as they stand there; nil for what is none.
func Object(raw []byte) map[string]any {
	var o map[string]any
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	if decoder.Decode(&o) != nil {
		return nil
	}
	return o
}

type comparison struct{ fields []Field }

func (c *comparison) objects(path string, from, to map[string]any) {
	for key, old := range from {
		now, is := to[key]
		c.values(join(path, key), old, true, now, is)
	}
	for key, now := range to {
		if _, was := from[key]; !was {
			c.values(join(path, key), nil, false, now, true)
		}
	}
}

// values goes into objects and lists down to what differs. An object that is on one side only is gone into where its members are
// decisions of their own: those of the annotation and what leads to it.
func (c *comparison) values(path string, old any, was bool, now any, is bool) {
	if was == is && reflect.DeepEqual(old, now) {
		return
	}
	before, wasObject := old.(map[string]any)
	after, isObject := now.(map[string]any)
	decided := path == "metadata.annotations" || strings.HasPrefix(path, enforcement)
	if wasObject && isObject || decided && (wasObject && !is || isObject && !was) {
		c.objects(path, before, after)
		return
	}
	if c.lists(path, old, was, now, is) {
		return
	}
	c.fields = append(c.fields, Field{Path: path, From: encoded(old, was), To: encoded(now, is)})
}

// lists compares elements by what names them; false: they have no such names, or there are no lists, and all is compared as a whole.
func (c *comparison) lists(path string, old any, was bool, now any, is bool) bool {
	from, wasList := old.([]any)
	to, isList := now.([]any)
	if was != wasList || is != isList || len(from)+len(to) == 0 {
		return false
	}
	for _, naming := range [][]string{{"topologyKey"}, {"topologyKey", "whenUnsatisfiable"}, {"name"}} {
		before, ok := named(from, naming)
		after, alsoOK := named(to, naming)
		if !ok || !alsoOK {
			continue
		}
		for name, old := range before {
			now, is := after[name]
			c.values(path+"["+name+"]", old, true, now, is)
		}
		for name, now := range after {
			if _, was := before[name]; !was {
				c.values(path+"["+name+"]", nil, false, now, true)
			}
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
			part, is := o[key].(string)
			if !is {
				return nil, false
			}
			name = append(name, part)
		}
		elements[strings.Join(name, ",")] = element
	}
	return elements, len(elements) == len(list)
}

// join adds a key to a path; one with dots or slashes, or that is a number, stands in brackets.
func join(path, key string) string {
	_, notNumber := strconv.Atoi(key)
	switch {
	case notNumber == nil || key == "" || strings.ContainsAny(key, "./[]"):
		return path + "[" + key + "]"
	case path == "":
		return key
	}
	return path + "." + key
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

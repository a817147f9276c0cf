// Package written tells what of an object was written and is not read. The API server drops fields that the CustomResourceDefinition does not know
// whenever it reads an object, without a word, and a program drops those that its types do not know. The names of all fields that were ever written,
// and not removed since, stay in metadata.managedFields: these are not dropped with them.
package written

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/internal/console"
)

// Unread returns the fields of an object's spec that its managed fields name and that spec, as it was decoded, does not have: paths such as
// spec.removal.newField, sorted, and of fields within each other the outer one. Fields that were written by another API version are not judged. spec is
// a struct, or a pointer to one.
//
// A bool, number, list or map that is empty and may be left out may have been written so, and is taken for read. What stands in a list that has no keys (an
// atomic list) has no names of its own.
func Unread(managed []metav1.ManagedFieldsEntry, apiVersion string, spec any) []string {
	found := map[string]bool{}
	for _, fields := range specs(managed, apiVersion) {
		var n node
		if err := json.Unmarshal(fields, &n); err == nil {
			n.walk("spec", reflect.ValueOf(spec), found)
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// NotStored says that the API server has stored nothing of a status that differs: the CustomResourceDefinition lacks its fields. Who writes it gets no error from the API server, and would
// find the same difference again at once, for ever.
func NotStored(object, definition string) error {
	return fmt.Errorf("nothing of it was stored in %s: the CustomResourceDefinition %s is older than this program, and lacks fields: apply that of this version", object, definition)
}

// Trim returns of managed fields what Unread goes by, for who keeps many objects: their annotations may have as many names as their authors like.
func Trim(managed []metav1.ManagedFieldsEntry, apiVersion string) (kept []metav1.ManagedFieldsEntry) {
	for _, fields := range specs(managed, apiVersion) {
		kept = append(kept, metav1.ManagedFieldsEntry{APIVersion: apiVersion, FieldsV1: metav1.NewFieldsV1(`{"f:spec":` + string(fields) + `}`)})
	}
	return kept
}

// specs are the sets of fields of the spec that were written by an API version.
func specs(managed []metav1.ManagedFieldsEntry, apiVersion string) (all []json.RawMessage) {
	for _, m := range managed {
		if m.APIVersion != apiVersion || m.Subresource != "" || m.FieldsV1 == nil {
			continue
		}
		var root map[string]json.RawMessage
		if err := json.Unmarshal(m.FieldsV1.GetRawBytes(), &root); err != nil {
			continue // the API server writes them, and keeps none that it can't read
		}
		if fields, ok := root["f:spec"]; ok {
			all = append(all, fields)
		}
	}
	return all
}

// longest name of a field that is told, in characters: whoever may write an object may write any name into its managed fields.
const longest = 100

// Say says in words what it means that fields of an object, which is what it is called, are not read.
func Say(fields []string, object string) string {
	const most = 3
	told := slices.Clone(fields)
	for i := range told[:min(most, len(told))] {
		told[i] = console.Clip(console.OneLine(told[i]), longest)
	}
	return console.Some(told, most, ", ") + ": written, and not read: the CustomResourceDefinition or this program is older than the " + object
}

// node is a set of fields as managed fields write it (metav1.FieldsV1): f:NAME is a field, k:{KEYS} an item of a list by its keys, v:VALUE one by its
// value, and a dot the place itself.
type node map[string]node

func (n node) walk(path string, v reflect.Value, unread map[string]bool) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case v.Kind() == reflect.Struct && !opaque(v.Type()):
		n.walkStruct(path, v, unread)
	case v.Kind() == reflect.Slice:
		for key, below := range n {
			if item, ok := itemWith(v, key); ok {
				below.walk(path+"[]", item, unread)
			}
		}
	}
}

func (n node) walkStruct(path string, v reflect.Value, unread map[string]bool) {
	for key, below := range n {
		name, isField := strings.CutPrefix(key, "f:")
		if !isField {
			continue
		}
		at := path + "." + name
		value, optional, known := fieldOf(v, name)
		if !known || absent(value, optional) {
			unread[at] = true
			continue
		}
		below.walk(at, value, unread)
	}
}

// fieldOf finds a field by its name in JSON. optional: it is left out where it is empty.
func fieldOf(v reflect.Value, name string) (_ reflect.Value, optional, known bool) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		tag, options, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && tag == "" {
			if value, optional, known := fieldOf(v.Field(i), name); known {
				return value, optional, known
			}
		} else if tag == name {
			return v.Field(i), strings.Contains(options, "omitempty"), true
		}
	}
	return reflect.Value{}, false, false
}

// absent says whether a field has nothing that somebody can have written. That a string is not written as an empty one is held by the schemas.
func absent(v reflect.Value, optional bool) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return v.IsNil()
	case reflect.String:
		return optional && v.Len() == 0
	}
	return false
}

// itemWith finds the item of a list that k:{KEYS} names.
func itemWith(list reflect.Value, key string) (reflect.Value, bool) {
	text, byKeys := strings.CutPrefix(key, "k:")
	var keys map[string]any
	if !byKeys || json.Unmarshal([]byte(text), &keys) != nil {
		return reflect.Value{}, false
	}
	for i := range list.Len() {
		item, err := json.Marshal(list.Index(i).Interface())
		var fields map[string]any
		if err != nil || json.Unmarshal(item, &fields) != nil {
			continue
		}
		if !slices.ContainsFunc(slices.Collect(maps.Keys(keys)), func(k string) bool { return !reflect.DeepEqual(fields[k], keys[k]) }) {
			return list.Index(i), true
		}
	}
	return reflect.Value{}, false
}

// opaque says whether a type writes its JSON itself, so that its Go fields are not those of the object.
func opaque(t reflect.Type) bool {
	marshaler := reflect.TypeFor[json.Marshaler]()
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

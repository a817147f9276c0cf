package suite

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"

	"github.com/podgrace/podgrace/internal/fieldpath"
)

// checkPath reports whether a pod can have a field there: one that it can't have would always be absent.
func checkPath(path string) error {
	parts, err := fieldpath.Parse(path)
	if err != nil {
		return err
	}
	at := reflect.TypeFor[corev1.Pod]()
	for i, part := range parts {
		for at.Kind() == reflect.Pointer {
			at = at.Elem()
		}
		switch _, own := reflect.PointerTo(at).MethodByName("UnmarshalJSON"); {
		case own || at.Kind() == reflect.String: // a time, a quantity; and what is within a text, only the text knows
			return nil
		case at.Kind() == reflect.Map || at.Kind() == reflect.Slice:
			at = at.Elem()
		case at.Kind() != reflect.Struct:
			return fmt.Errorf("a pod has nothing below %s", strings.Join(parts[:i], "."))
		default:
			if at = member(at, part); at == nil {
				return fmt.Errorf("a pod has no field %s", strings.Join(parts[:i+1], "."))
			}
		}
	}
	return nil
}

// member is the type of a field by its name in JSON; nil: there is none.
func member(of reflect.Type, name string) reflect.Type {
	for f := range of.Fields() {
		tag, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case tag == name:
			return f.Type
		case f.Anonymous && (tag == "" || options == "inline") && f.Type.Kind() == reflect.Struct:
			if within := member(f.Type, name); within != nil {
				return within
			}
		}
	}
	return nil
}

// walk returns what stands at a path; false: nothing. An element of a list goes by its number or its name, and a text that holds a
// JSON object is entered as one.
func walk(value any, path []string) (any, bool) {
	for _, part := range path {
		if text, ok := value.(string); ok {
			value = object(text)
		}
		switch v := value.(type) {
		case map[string]any:
			value = v[part]
		case []any:
			value = element(v, part)
		default:
			return nil, false
		}
	}
	return value, value != nil
}

func element(list []any, name string) any {
	if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(list) {
		return list[i]
	}
	for _, e := range list {
		if m, ok := e.(map[string]any); ok && m["name"] == name {
			return m
		}
	}
	return nil
}

// object is what a text holds, if that is a JSON object.
func object(text string) map[string]any {
	var m map[string]any
	if !strings.HasPrefix(text, "{") || sigsjson.UnmarshalCaseSensitivePreserveInts([]byte(text), &m) != nil {
		return nil
	}
	return m
}

// canonical is a value as JSON, by which values are compared.
func canonical(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value) // no value of JSON
	}
	return string(raw)
}

package suite

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	sigsjson "sigs.k8s.io/json"
)

// steps of a path to a field: spec.terminationGracePeriodSeconds, spec.containers[0].image, spec.containers[nginx].image,
// metadata.annotations[podgrace.dev/enforcement].oom.rank, or a JSON pointer (RFC 6901).
func steps(path string) ([]string, error) {
	if pointer, is := strings.CutPrefix(path, "/"); is {
		parts := strings.Split(pointer, "/")
		for i, part := range parts {
			parts[i] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		}
		return parts, nil
	}
	var parts []string
	for rest := "." + path; rest != ""; {
		var part string
		switch rest[0] {
		case '.':
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			part, rest = rest[1:end], rest[end:]
		case '[':
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return nil, errors.New("a [ without a ]")
			}
			part, rest = strings.Trim(rest[1:end], `"'`), rest[end+1:]
		default:
			return nil, fmt.Errorf("%q follows a ]", rest)
		}
		if part == "" {
			return nil, errors.New("an empty step")
		}
		parts = append(parts, part)
	}
	return parts, nil
}

// pathTo writes a JSON pointer as people do.
func pathTo(pointer string) string {
	parts, _ := steps(pointer)
	var path strings.Builder
	for i, part := range parts {
		_, notNumber := strconv.Atoi(part)
		switch {
		case strings.ContainsAny(part, "]\"'") || part == "" || i == 0 && strings.ContainsAny(part, "./["):
			return pointer
		case i > 0 && (notNumber == nil || strings.ContainsAny(part, "./[")):
			path.WriteString("[" + part + "]")
		case i > 0:
			path.WriteString("." + part)
		default:
			path.WriteString(part)
		}
	}
	return path.String()
}

// checkPath says whether a pod can have a field there: one that it can't have would always be absent.
func checkPath(path string) error {
	parts, err := steps(path)
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
		if text, is := value.(string); is {
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
		if m, is := e.(map[string]any); is && m["name"] == name {
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

package suite

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/review"
)

// about is what an editor says of a field, and which values it offers, by the path of the field. All else follows from the types that a suite
// is read into.
var about = map[string]struct {
	says     string
	more     map[string]any
	required bool
}{
	"apiVersion":                      {"The version of this file's format", map[string]any{"const": v1alpha1.GroupVersion.String()}, true},
	"kind":                            {"A suite of cases that policies are tested by", map[string]any{"const": Kind}, true},
	"metadata":                        {"The name of the suite", nil, false},
	"metadata.name":                   {"In the report; default: the file's path", nil, false},
	"now":                             {"When the cases happen; default: when they are run", map[string]any{"format": "date-time"}, false},
	"policies":                        {"Files and folders with PodPolicies, relative to the suite; default: the other files of its folder; []: none, knowingly", nil, false},
	"state":                           {"Files and folders with what is known of the cluster; default: the other files of the suite's folder", nil, false},
	"manifests":                       {"Files and folders with workloads; default: the other files of the suite's folder", nil, false},
	"objects":                         {"More policies, manifests and state, inline", map[string]any{"items": anObject}, false},
	"cases":                           {"What somebody does, and what must come of it", map[string]any{"minItems": 1}, true},
	"cases[].name":                    {"In the report, and for --run", nil, true},
	"cases[].state":                   {"Overrides objects for this case, each by a JSON merge patch on the one of its kind and name, if there is one", map[string]any{"items": anObject}, false},
	"cases[].when":                    {"Who does what to which object: one of object, manifest and review", map[string]any{"oneOf": oneOf("object", "manifest", "review")}, true},
	"cases[].when.object":             {"KIND NAMESPACE/NAME, or {apiVersion, kind, namespace, name}, of the state, objects or manifests", map[string]any{"anyOf": references}, false},
	"cases[].when.manifest":           {"An object, inline", anObject, false},
	"cases[].when.review":             {"The path of a recorded AdmissionReview, relative to the suite; FILE:LINE where the file has several", nil, false},
	"cases[].when.template":           {"Which of its pod templates, as review names it, if the object has several", nil, false},
	"cases[].when.operation":          {"What is done; default: create", map[string]any{"enum": []any{"create", "delete", "evict"}}, false},
	"cases[].when.user":               {"Who does it; default: nobody in particular", nil, false},
	"cases[].when.groups":             {"The groups of that user", nil, false},
	"cases[].when.gracePeriodSeconds": {"Of a delete or an eviction; 0 is what kubectl delete --force sends", nil, false},
	"cases[].then":                    {"What must come of it. What is left out is not looked at", nil, false},
	"cases[].then.decision":           {"Whether the request is let through", map[string]any{"enum": []any{string(review.Allowed), string(review.Denied)}}, false},
	"cases[].then.reason":             {"The reason in one word, exactly; \"\": none", nil, false},
	"cases[].then.message":            {"A part of the message; ... stands for anything; \"\": none", nil, false},
	"cases[].then.warnings":           {"A part of each warning; []: none", nil, false},
	"cases[].then.unknown":            {"A part of each thing that is not known; []: none", nil, false},
	"cases[].then.patch":              {"The JSON patch, in this order; []: nothing is changed", nil, false},
	"cases[].then.patch[].op":         {"What is done", nil, true},
	"cases[].then.patch[].path":       {"A JSON pointer into the pod", nil, true},
	"cases[].then.patch[].value":      {"The new value", nil, false},
	"cases[].then.fields":             {"Values of the pod that comes of it, by path, such as spec.priorityClassName; null: absent", nil, false},
}

var (
	anObject   = map[string]any{"type": "object", "required": []any{"apiVersion", "kind"}}
	references = []any{
		map[string]any{"type": "string", "pattern": `^\S+ \S+$`},
		map[string]any{"type": "object", "additionalProperties": false, "required": []any{"kind", "name"}, "properties": map[string]any{
			"apiVersion": map[string]any{"type": "string"}, "kind": map[string]any{"type": "string"}, "namespace": map[string]any{"type": "string"}, "name": map[string]any{"type": "string"},
		}},
	}
)

func oneOf(names ...string) []any {
	var all []any
	for _, name := range names {
		all = append(all, map[string]any{"required": []any{name}})
	}
	return all
}

// Schema is the JSON schema of a suite, for editors. It panics where a field has nothing said about it, which its test would find.
func Schema() map[string]any {
	s := schemaOf(reflect.TypeFor[suiteYAML](), "")
	s["description"] = "Policies' tests by cases, for podgrace test"
	cases := s["properties"].(map[string]any)["cases"].(map[string]any)
	cases["items"] = schemaOf(reflect.TypeFor[caseYAML](), "cases[].")
	return s
}

// schemaOf a type whose fields have paths that begin so.
func schemaOf(t reflect.Type, begin string) map[string]any {
	switch {
	case t == reflect.TypeFor[json.RawMessage]():
		return map[string]any{}
	case t.Kind() == reflect.Pointer:
		return schemaOf(t.Elem(), begin)
	case t.Kind() == reflect.Slice:
		return map[string]any{"type": "array", "items": schemaOf(t.Elem(), strings.TrimSuffix(begin, ".")+"[].")}
	case t.Kind() == reflect.Struct:
		return structSchema(t, begin)
	}
	return map[string]any{"type": map[reflect.Kind]string{reflect.String: "string", reflect.Int64: "integer", reflect.Map: "object"}[t.Kind()]}
}

func structSchema(t reflect.Type, begin string) map[string]any {
	properties, required := map[string]any{}, []any{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		field, ok := about[begin+name]
		if !ok {
			panic(fmt.Sprintf("nothing is said about the field %s%s of a suite", begin, name))
		}
		s := schemaOf(f.Type, begin+name+".")
		s["description"] = field.says
		maps.Copy(s, field.more)
		if properties[name] = s; field.required {
			required = append(required, name)
		}
	}
	s := map[string]any{"type": "object", "additionalProperties": false, "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	return s
}

package manifest

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/podgrace/podgrace/internal/fieldpath"
)

// FieldError is what is wrong with one field of an object.
type FieldError struct {
	// Field as people write it: spec.containers[0].image.
	Field   string
	Message string
	// Variable is the field's value, if it is a variable that another program fills in: what the field is then is not known.
	Variable string
}

func (e *FieldError) Error() string { return e.Message }

// Wrong is an error about the document, or about the field that it is of (FieldError); one that is of this package stays as it is.
func (d *Document) Wrong(err error) *Error {
	if known, ok := errors.AsType[*Error](err); ok {
		return known
	}
	e := &Error{File: d.File, Line: d.Line, Message: err.Error()}
	if of, ok := errors.AsType[*FieldError](err); ok {
		e.Field, e.Variable = of.Field, of.Variable
	}
	if d.Node != nil { // Locate does not look into what is around it
		e.Line, e.Field = max(e.Line, LineOf(d.Node, Steps(e.Field))), ""
	}
	return e
}

// variable is one as Flux and envsubst fill it in: ${NAME}, ${NAME:=default}.
var variable = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*(?:[^A-Za-z0-9_{}][^{}]*)?\}`)

// HasVariable reports whether a text has a variable in it that another program fills in.
func HasVariable(text string) bool { return variable.MatchString(text) }

// VariableHint asks about a variable.
const VariableHint = "(a variable that Flux fills in?)"

// wrongType is what decoders say of a value of another type. That of sigs.k8s.io/json has an internal type for it.
var wrongType = regexp.MustCompile(`^json: cannot unmarshal (\w+)(?: \S+)? into Go .* of type (\S+)$`)

// Plainly is what a decoder says of an object, without words that only a programmer of Go knows, and with the field, as a FieldError. decode
// must say the same of the same.
func Plainly(raw []byte, decode func([]byte) error, err error) error {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	var object any
	if decoder.Decode(&object) != nil {
		return err
	}
	steps := culprit(object, func(alone any) bool {
		raw, failed := json.Marshal(alone)
		if failed != nil {
			return false
		}
		wrong := decode(raw)
		if wrong != nil {
			err = wrong // of less and less, in the end of one field
		}
		return wrong != nil
	})
	path := fieldpath.Path(steps).String()
	if text, ok := valueAt(object, steps).(string); ok && HasVariable(text) {
		return &FieldError{Field: path, Message: path + " is " + text + " " + VariableHint, Variable: text}
	}
	if m := wrongType.FindStringSubmatch(err.Error()); m != nil {
		return &FieldError{Field: path, Message: cmp.Or(path, "it") + " is " + valueInWords(m[1]) + ", not " + typeInWords(m[2])}
	}
	if path == "" {
		return err
	}
	return &FieldError{Field: path, Message: fmt.Sprintf("%s: %v", path, err)}
}

// valueAt is what stands at a path that was found in an object.
func valueAt(value any, steps []string) any {
	for _, step := range steps {
		switch v := value.(type) {
		case map[string]any:
			value = v[step]
		case []any:
			i, err := strconv.Atoi(step)
			if err != nil || i >= len(v) {
				return nil
			}
			value = v[i]
		}
	}
	return value
}

// culprit is the path of the first field that fails even where all others are left out, as far down as that can be told. What fails without
// all that is in it is to blame itself: it is a list where an object belongs.
func culprit(value any, fails func(alone any) bool) []string {
	switch v := value.(type) {
	case map[string]any:
		if fails(map[string]any{}) {
			return nil
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			alone := func(child any) bool { return fails(map[string]any{key: child}) }
			if alone(v[key]) {
				return append([]string{key}, culprit(v[key], alone)...)
			}
		}
	case []any:
		if fails([]any{}) {
			return nil
		}
		for i, element := range v {
			alone := func(child any) bool { return fails([]any{child}) }
			if alone(element) {
				return append([]string{strconv.Itoa(i)}, culprit(element, alone)...)
			}
		}
	}
	return nil
}

// valueInWords is the decoder's word for a value of JSON.
func valueInWords(name string) string {
	switch name {
	case "string":
		return "a text"
	case "bool":
		return "a boolean"
	case "array":
		return "a list"
	case "object":
		return "an object"
	}
	return "a " + name
}

// typeInWords is a type of Go for people.
func typeInWords(name string) string {
	known := name[strings.LastIndexByte(name, '.')+1:]
	switch {
	case strings.HasPrefix(name, "int"), strings.HasPrefix(name, "uint"):
		return "a whole number"
	case strings.HasPrefix(name, "[]"):
		return "a list"
	case strings.HasPrefix(name, "map["):
		return "an object"
	case name == "bool":
		return "a boolean"
	case name == "string":
		return "a text"
	}
	if unicode.IsLower(rune(known[0])) { // a struct of this program's own, whose name tells nobody anything
		return "an object"
	}
	return "what belongs there (" + known + ")"
}

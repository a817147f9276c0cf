package report

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/console"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/manifest"
	"github.com/podgrace/podgrace/review"
)

// outcome is what a result comes to for a reader, the more urgent the greater.
type outcome int

const (
	clean outcome = iota
	changed
	unknown
	warned
	denied
)

func (o outcome) String() string {
	return [...]string{"clean", "changed", "unknown", "warned", "denied"}[o]
}

func outcomeOf(r *review.Result) outcome {
	switch {
	case r.Decision == review.Denied:
		return denied
	case len(r.Warnings) > 0:
		return warned
	case len(r.Unknown) > 0:
		return unknown
	case len(r.Patch) > 0:
		return changed
	}
	return clean
}

// subject is what was judged, as one would say it: "delete Pod shop/db-0 as eve", "update status of Pod shop/db-0". It is clipped.
func subject(r *review.Result) string {
	return console.Clip(console.Visible(asked(r, r.Resource.String())), maxLine)
}

// asked is what was asked of an object, or of several.
func asked(r *review.Result, objects string) string {
	text := objects
	if r.Subresource != "" {
		text = r.Subresource + " of " + text
	}
	if r.Subresource != "" || r.Operation != "" && r.Operation != review.OperationCreate {
		text = strings.ToLower(r.Operation) + " " + text
	}
	if r.User != "" {
		text += " as " + r.User
	}
	return text
}

// noMessage is what a refusal says that has nothing to say.
const noMessage = "refused without a message"

// refusal is the message of a denied result after its reason.
func refusal(r *review.Result) string {
	message := cmp.Or(r.Message, noMessage)
	if r.Reason == "" {
		return console.OneLine(message)
	}
	return console.OneLine(r.Reason + ": " + message)
}

// stdin is what a stream is called.
const stdin = "stdin"

// where is file:line for a person.
func where(file string, line int) string {
	if file == "-" {
		file = stdin
	}
	if line > 0 {
		file += ":" + strconv.Itoa(line)
	}
	return console.Visible(file)
}

// relative is the path for a program that knows the working directory, with slashes.
func relative(file, dir string) string {
	if filepath.IsAbs(file) && dir != "" {
		if short, err := filepath.Rel(dir, file); err == nil && filepath.IsLocal(short) {
			file = short
		}
	}
	return filepath.ToSlash(filepath.Clean(file))
}

func errorSource(e *manifest.Error) review.Source { return review.Source{File: e.File, Line: e.Line} }

// segments of a JSON pointer (RFC 6901).
func segments(pointer string) []string {
	parts := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, part := range parts {
		parts[i] = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
	}
	return parts
}

// fieldName is a JSON pointer as people write it: spec.priority, metadata.annotations[podgrace.dev/enforcement].
func fieldName(pointer string) string {
	var name strings.Builder
	for i, part := range segments(pointer) {
		_, notNumber := strconv.Atoi(part)
		switch {
		case notNumber == nil || strings.ContainsAny(part, "./"):
			part = "[" + part + "]"
		case i > 0:
			part = "." + part
		}
		name.WriteString(part)
	}
	return console.Visible(name.String())
}

// maxValue is how much of a value is shown within a sentence, in characters.
const maxValue = 80

// sentence says what an operation does.
func sentence(r *review.Result, o review.Operation) string {
	text := fieldName(o.Path)
	if o.Op == "remove" {
		text += " is removed"
	} else {
		text += ": " + console.Clip(console.OneLine(string(o.Value)), maxValue)
	}
	if why := reason(r, o); why != "" {
		text += " (" + why + ")"
	}
	return text
}

// auditKey is the name under which webhook.audit gives the reason of a change.
func auditKey(o review.Operation) string {
	const annotations = "/metadata/annotations"
	if probe, is := defaulting.ProbeOf(o.Path); is {
		return probe
	}
	path := segments(o.Path)
	last := path[len(path)-1]
	if o.Path != annotations && !strings.HasPrefix(o.Path, annotations+"/") {
		return last
	}
	var made map[string]json.RawMessage
	if o.Path == annotations {
		_ = json.Unmarshal(o.Value, &made) // what is no map has no such key
	}
	if _, is := made[v1alpha1.AnnotationProtected]; is || last == v1alpha1.AnnotationProtected {
		return "protected"
	}
	return "enforcement"
}

// reason of a change, without the value that stands before it.
func reason(r *review.Result, o review.Operation) string {
	why := r.Why[auditKey(o)]
	value := string(o.Value)
	var text string
	if json.Unmarshal(o.Value, &text) == nil {
		value = text
	}
	if o.Op == "remove" {
		value = "removed"
	}
	if rest, found := strings.CutPrefix(why, value+" ("); found {
		why = strings.TrimSuffix(rest, ")")
	} else if i := strings.LastIndex(why, " (PodPolicy "); i >= 0 { // of a long value the log has the beginning
		why = strings.TrimSuffix(why[i+len(" ("):], ")")
	}
	return console.OneLine(why)
}

package report

import (
	"cmp"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/fieldpath"
	"github.com/podgrace/podgrace/internal/manifest"
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
	case r.Warned():
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

// warnings are all that is warned of: what the API server would pass on, and that the pod would be pending.
func warnings(r *review.Result) []string {
	if r.Pending == nil {
		return r.Warnings
	}
	return append(slices.Clone(r.Warnings), r.Pending.Message)
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

func errorSource(e *manifest.Error) manifest.Source {
	return manifest.Source{File: e.File, Line: e.Line}
}

// fieldName is a JSON pointer as people write it.
func fieldName(pointer string) string { return console.Visible(fieldpath.OfPointer(pointer).String()) }

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
	if why := r.WhyAt(o.Path); why != "" {
		text += " (" + console.OneLine(why) + ")"
	}
	return text
}

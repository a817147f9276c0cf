package report

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/api/fieldpath"
	"github.com/podgrace/podgrace/review"
	"github.com/podgrace/podgrace/review/input"
	"github.com/podgrace/podgrace/review/safe"
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
	return safe.Clip(safe.Visible(asked(r, r.Resource.String())), maxLine)
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
		return safe.OneLine(message)
	}
	return safe.OneLine(r.Reason + ": " + message)
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
	return safe.Visible(file)
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

func errorSource(e *input.Error) review.Source { return review.Source{File: e.File, Line: e.Line} }

// fieldName is a JSON pointer as people write it.
func fieldName(pointer string) string { return safe.Visible(fieldpath.OfPointer(pointer).String()) }

// maxValue is how much of a value is shown within a sentence, in characters.
const maxValue = 80

// sentence says what an operation does.
func sentence(r *review.Result, o review.Operation) string {
	text := fieldName(o.Path)
	if o.Op == "remove" {
		text += " is removed"
	} else {
		text += ": " + safe.Clip(safe.OneLine(string(o.Value)), maxValue)
	}
	if why := r.WhyAt(o.Path); why != "" {
		text += " (" + safe.OneLine(why) + ")"
	}
	return text
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

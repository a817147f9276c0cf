package report

import (
	"fmt"
	"strings"

	"github.com/podgrace/podgrace/console"
	"github.com/podgrace/podgrace/review"
)

// maxRepeated objects are named, each with so many places: a repository has the same one in each of its examples. JSON has them all.
const maxRepeated = 3

// Remarks are what is to be said beside the results, a line each: of the policies, each remark once with the policies that it is about, and of
// the input.
func Remarks(r *review.Report) []string {
	about, exceptions := map[string][]string{}, map[string]bool{} // a message is of one kind only
	var messages []string
	for _, remark := range r.Remarks {
		if about[remark.Message] == nil {
			messages = append(messages, remark.Message)
		}
		of := remark.Policy
		if remark.Exception != "" {
			of = remark.Exception
			exceptions[remark.Message] = true
		}
		about[remark.Message] = append(about[remark.Message], console.OneLine(of))
	}
	var lines []string
	for _, message := range messages {
		kind := "PodPolicy"
		if exceptions[message] {
			kind = "PolicyException"
		}
		lines = append(lines, fmt.Sprintf("%s %s: %s", kind, strings.Join(about[message], ", "), console.OneLine(message)))
	}
	if len(r.Repeated) > 0 {
		lines = append(lines, repeated(r.Repeated))
	}
	return lines
}

func repeated(all []review.Repeated) string {
	var objects []string
	for _, one := range all {
		var places []string
		for _, s := range one.Sources {
			places = append(places, where(s.File, s.Line))
		}
		objects = append(objects, fmt.Sprintf("%s (%s)", console.Visible(one.Resource.String()), console.Some(places, maxRepeated, ", ")))
	}
	return "judged more than once, since it is in the input more than once: " + console.Some(objects, maxRepeated, "; ")
}

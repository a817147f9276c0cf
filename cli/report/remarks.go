package report

import (
	"fmt"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/console"
)

// maxRepeated objects are named, each with so many places: a repository has the same one in each of its examples. JSON has them all.
const maxRepeated = 3

// Remarks are what is to be said beside the results, a line each: of the policies, each remark once with the policies that it is about, and of
// the input.
func Remarks(r *review.Report) []string {
	about, kinds := map[string][]string{}, map[string]string{} // a message is of one kind only
	var messages []string
	for _, remark := range r.Remarks {
		if about[remark.Message] == nil {
			messages = append(messages, remark.Message)
		}
		kind, of := "PodPolicy", remark.Policy
		switch {
		case remark.Exception != "":
			kind, of = "PolicyException", remark.Exception
		case remark.Claim != "":
			kind, of = "PersistentVolumeClaim", remark.Claim
		case remark.Rollout != "":
			kind, of = "Rollout", remark.Rollout
		case remark.NodePolicy != "":
			kind, of = "NodePolicy", remark.NodePolicy
		case remark.Deadline != "":
			kind, of = "grace periods and", remark.Deadline
		}
		kinds[remark.Message] = kind
		about[remark.Message] = append(about[remark.Message], console.OneLine(of))
	}
	var lines []string
	for _, message := range messages {
		lines = append(lines, fmt.Sprintf("%s %s: %s", kinds[message], console.Some(about[message], maxRepeated, ", "), console.OneLine(message)))
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

package diff

import (
	"cmp"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/cli/delta"
	"github.com/podgrace/podgrace/cli/review"
)

// creationChanges compares two answers to a creation, or to a recorded request.
func creationChanges(from, to *review.Result) []Change {
	was, is := from.Decision == review.Denied, to.Decision == review.Denied
	switch {
	case was && is:
		if refusal(from) == refusal(to) {
			return nil
		}
		return []Change{{Kind: RefusedOtherwise, Reason: to.Reason, From: refusal(from), To: refusal(to)}}
	case is:
		return []Change{{Kind: Refused, Reason: to.Reason, To: refusal(to)}}
	case was:
		return []Change{{Kind: Admitted, Reason: from.Reason, From: refusal(from)}}
	}
	var changes []Change
	if fields := resultFields(from, to); len(fields) > 0 {
		changes = append(changes, Change{Kind: Changed, Fields: fields})
	}
	return append(changes, warningChanges(from.Warnings, to.Warnings)...)
}

func refusal(r *review.Result) string {
	return cmp.Or(r.Message, r.Reason, "refused without a message")
}

// resultFields compares the pods; of a request without one, the patches.
func resultFields(from, to *review.Result) []delta.Field {
	if from.After != nil && to.After != nil {
		return delta.Fields(from.After, to.After)
	}
	_, was := delta.OfPatch(from.Patch)
	_, ok := delta.OfPatch(to.Patch)
	return delta.FieldsOfTrees(was, ok)
}

// warningChanges pairs those that differ in their numbers only: where a policy says 20 instead of 10, one warning is not gone and
// another new.
func warningChanges(from, to []string) []Change {
	gone, added := without(from, to), without(to, from)
	var changes []Change
	for _, text := range added {
		i := slices.IndexFunc(gone, func(old string) bool { return wording(old) == wording(text) })
		if i < 0 {
			changes = append(changes, Change{Kind: Warned, To: text})
			continue
		}
		changes = append(changes, Change{Kind: WarnedOtherwise, From: gone[i], To: text})
		gone = slices.Delete(gone, i, i+1)
	}
	for _, text := range gone {
		changes = append(changes, Change{Kind: Unwarned, From: text})
	}
	return changes
}

// without returns a new list.
func without(list, others []string) []string {
	var left []string
	for _, text := range list {
		if !slices.Contains(others, text) {
			left = append(left, text)
		}
	}
	return left
}

// wording is a text without its numbers.
func wording(text string) string {
	return strings.Map(func(r rune) rune {
		if '0' <= r && r <= '9' {
			return -1
		}
		return r
	}, text)
}

// removal is a question about a removal, with the kind of change by the verdict that it comes to.
type removal struct {
	question review.Question
	kinds    map[Verdict]Kind
}

// change compares two answers; nil: the verdict is the same.
func (q *removal) change(from, to *review.Result) *Change {
	was, is := verdict(from), verdict(to)
	if was == is {
		return nil
	}
	c := &Change{Kind: q.kinds[is], From: string(was), To: string(is)}
	for _, r := range []*review.Result{to, from} {
		if v := verdict(r); v != Allowed {
			c.Reason, c.Message = r.Reason, r.Message
			if v != Denied {
				c.Message = strings.Join(r.Warnings, "; ")
			}
			break
		}
	}
	return c
}

func verdict(r *review.Result) Verdict {
	switch {
	case r.Decision == review.Denied:
		return Denied
	case len(r.Patch) > 0:
		return Raised
	case len(r.Warnings) > 0:
		return WithAWord
	}
	return Allowed
}

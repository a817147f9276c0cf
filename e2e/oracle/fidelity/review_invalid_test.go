package fidelity

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// reviewed are the fields of which a review says what the API server's validation does.
var reviewed = regexp.MustCompile(`\.sleep$|Probe\.terminationGracePeriodSeconds$|\.priorityClassName$|\.topologySpreadConstraints\[\d+\]`)

// TestFidelityReviewInvalid: of the fields that Podgrace is about, a review says what the API server's validation does, in its words.
func TestFidelityReviewInvalid(t *testing.T) {
	t.Parallel()
	draw.Check(t, draw.Shares{"valid": 10, "invalid": 3}, func(t *rapid.T, counts *draw.Tally) {
		c := validationCases.Draw(t, "case")
		pod := received(t, c.Pod)
		theirs := slices.DeleteFunc(judged(prepared(pod)), func(e *field.Error) bool { return !reviewed.MatchString(e.Field) })
		stored := sent(t, prepared(pod))
		ours := apiserver.ValidatePodSpec(&stored.Spec, field.NewPath("spec"))
		if diff := cmp.Diff(texts(theirs), texts(ours)); diff != "" {
			t.Fatalf("(-API server +review)\n%s\n%s", diff, draw.Show(stored))
		}
		if len(ours) > 0 {
			counts.Add("invalid")
		} else {
			counts.Add("valid")
		}
	})
}

func texts(errs field.ErrorList) []string {
	var all []string
	for _, e := range errs {
		all = append(all, e.Error())
	}
	slices.Sort(all)
	return all
}

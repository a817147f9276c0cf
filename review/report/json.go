package report

import (
	"io"
	"slices"

	"github.com/podgrace/podgrace/console"
	"github.com/podgrace/podgrace/review"
)

// writeJSON prints the report by its own tags; lists that are always there are so when they are empty, too.
func writeJSON(w io.Writer, r *review.Report, _ Options) error {
	whole := *r
	whole.Results = slices.Clone(r.Results)
	if whole.Results == nil {
		whole.Results = []review.Result{}
	}
	for i := range whole.Results {
		result := &whole.Results[i]
		result.Warnings = orEmpty(result.Warnings)
		result.Patch = orEmpty(result.Patch)
		result.Policies = orEmpty(result.Policies)
	}
	return console.EncodeJSON(w, whole)
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

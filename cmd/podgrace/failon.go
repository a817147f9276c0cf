package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/review"
)

// What --fail-on can be.
const (
	failOnDeny    = "deny"
	failOnWarn    = "warn"
	failOnUnknown = "unknown"
	failOnNever   = "never"
)

var failOnReview = []string{failOnDeny, failOnWarn, failOnUnknown, failOnNever}

// validateFailOn takes several at once, but for never, which is none of them.
func validateFailOn(values []string) error {
	for _, v := range values {
		if !slices.Contains(failOnReview, v) {
			return fmt.Errorf("--fail-on %s: it is %s or %s", v, strings.Join(failOnReview[:len(failOnReview)-1], ", "), failOnNever)
		}
	}
	switch {
	case len(values) == 0:
		return fmt.Errorf("--fail-on is empty: %s is for nothing", failOnNever)
	case len(values) > 1 && slices.Contains(values, failOnNever):
		return fmt.Errorf("--fail-on %s stands alone", failOnNever)
	}
	return nil
}

// found says whether there is what --fail-on names. What is refused always counts beside it.
func found(s *review.Summary, failOn []string) bool {
	if slices.Contains(failOn, failOnNever) {
		return false
	}
	return s.Denied > 0 || slices.Contains(failOn, failOnWarn) && s.Warned > 0 || slices.Contains(failOn, failOnUnknown) && s.Unknown > 0
}

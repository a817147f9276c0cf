package policytest

import (
	"strings"

	"pgregory.net/rapid"
)

// CompareTexts says so where texts are not as wanted: what each must contain, in order.
func CompareTexts(t rapid.TB, what string, want, got []string) {
	t.Helper()
	ok := len(want) == len(got)
	for i := 0; ok && i < len(want); i++ {
		ok = Contains(got[i], want[i])
	}
	if !ok {
		t.Errorf("%s:\n got  %q\n want %q", what, got, want)
	}
}

// Contains reports whether all parts of the pattern, which … separates, are in the text in that order.
func Contains(text, pattern string) bool {
	for part := range strings.SplitSeq(pattern, "…") {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}

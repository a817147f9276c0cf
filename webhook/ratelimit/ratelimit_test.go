package ratelimit_test

import (
	"fmt"
	"testing"

	"golang.org/x/time/rate"

	"github.com/podgrace/podgrace/webhook/ratelimit"
)

// Each key has a limit of its own; the limits of many others are kept no longer than there is room for them.
func TestLimiters(t *testing.T) {
	l := ratelimit.New(rate.Limit(0), 2)
	for i, want := range []bool{true, true, false, false} {
		if got := l.Allow("loop"); got != want {
			t.Errorf("%d. of a key: %t, want %t", i+1, got, want)
		}
	}
	if !l.Allow("other") {
		t.Error("one key has used up another's limit")
	}
	for i := range 5000 {
		l.Allow(fmt.Sprint(i))
	}
	if !l.Allow("loop") {
		t.Error("a limit is kept for ever")
	}
}

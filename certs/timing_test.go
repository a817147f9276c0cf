package certs

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestTimingValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		timing Timing
		want   []string // in the error; none: valid
	}{
		"default":         {DefaultTiming(), nil},
		"the shortest":    {Timing{CA: 132 * time.Second, Leaf: 10 * time.Second, Settle: time.Second}, nil},
		"nothing":         {Timing{}, []string{"--leaf-duration: 0s is less than 10s", "--ca-settle: 0s is less than 1s"}},
		"settles long":    {Timing{CA: 1000 * day, Leaf: day, Settle: 5 * time.Hour}, []string{"--ca-settle: 5h0m0s is more than a sixth of --leaf-duration, 24h0m0s"}},
		"no room":         {Timing{CA: 80 * day, Leaf: 6 * day, Settle: day}, []string{"--ca-duration: 1920h0m0s is less than 2016h0m0s"}},
		"no room at last": {Timing{CA: -day, Leaf: day, Settle: time.Hour}, []string{"--ca-duration: -24h0m0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := tc.timing.Validate()
			if (err == nil) != (tc.want == nil) {
				t.Fatalf("got %v", err)
			}
			for _, part := range tc.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("the error lacks %q: %v", part, err)
				}
			}
		})
	}
}

// What is valid leaves room: from half of a CA's life the next one signs before cert-manager's library takes its place at once,
// and a leaf that is due lasts until a lost CA has been replaced.
func TestTimingLeavesRoom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string, least, most time.Duration) time.Duration {
			return time.Duration(rapid.Int64Range(int64(least), int64(most)).Draw(t, name))
		}
		timing := Timing{Leaf: draw("leaf", minLeaf, 30*day), Settle: draw("settle", minSettle, day)}
		timing.CA = draw("ca", 0, 20*(timing.Leaf+timing.Settle))
		if timing.Validate() != nil {
			return
		}
		if timing.CA/2+timing.Settle+timing.retire() > timing.CA*2/3 {
			t.Error("the library would be faster")
		}
		// The library renews a leaf at two thirds of its life, which begins before it is signed.
		if left := (timing.Leaf + timing.backdate()) / 3; left < 2*timing.Settle {
			t.Errorf("a leaf that is due has %s left, the API servers need %s", left, timing.Settle)
		}
	})
}

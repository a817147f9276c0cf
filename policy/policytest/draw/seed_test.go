package draw

import "testing"

func TestSeed(t *testing.T) {
	t.Setenv(SeedVariable, "7")
	if got := Seed(); got != 7 {
		t.Errorf("got %d", got)
	}
	for _, unset := range []string{"", "0"} {
		t.Setenv(SeedVariable, unset)
		if a, b := Seed(), Seed(); a == b {
			t.Errorf("%q: twice %d", unset, a)
		}
	}
	t.Setenv(SeedVariable, "seven")
	defer func() {
		if recover() == nil {
			t.Error("a word is taken for a seed")
		}
	}()
	Seed()
}

package draw

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// Tally counts what the cases of one property were. A property runs in one goroutine.
type Tally struct {
	cases  int
	counts map[string]int
}

// Add counts a case of this kind.
func (c *Tally) Add(what string) { c.counts[what]++ }

// Shares are the least parts of all cases that must be of a kind, in percent.
type Shares map[string]float64

// Check runs a property on random cases and reports what they were. It fails where too few are of a kind: a generator that makes nothing relevant can't find
// anything.
func Check(t *testing.T, wanted Shares, property func(*rapid.T, *Tally)) {
	t.Helper()
	counts := &Tally{counts: map[string]int{}}
	rapid.Check(t, func(rt *rapid.T) {
		counts.cases++
		property(rt, counts)
	})
	t.Logf("%d cases, 0 disagreements: %s", counts.cases, counts)
	for what, least := range wanted {
		if got := counts.percent(what); got < least {
			t.Errorf("only %.2f%% of the cases are %q, at least %.2f%% must be: the generator no longer makes what this property is about", got, what, least)
		}
	}
}

func (c *Tally) percent(what string) float64 { return 100 * float64(c.counts[what]) / float64(c.cases) }

func (c *Tally) String() string {
	parts := make([]string, 0, len(c.counts))
	for what, n := range c.counts {
		parts = append(parts, fmt.Sprintf("%s %d (%.1f%%)", what, n, c.percent(what)))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// Show renders objects for the message of a disagreement.
func Show(objects ...any) string {
	var b strings.Builder
	for _, o := range objects {
		text, err := yaml.Marshal(o)
		if err != nil {
			text = fmt.Appendf(nil, "%#v (%v)\n", o, err)
		}
		b.WriteString("---\n")
		b.Write(text)
	}
	return b.String()
}

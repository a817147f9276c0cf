package fidelity

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"
)

// Where neither flag nor environment says otherwise: so many cases for each property, and all properties at once, so that
// the longest does not run alone at the end.
const (
	defaultChecks   = "10000"
	defaultParallel = "8"
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := sets.New[string]()
	flag.Visit(func(f *flag.Flag) { given.Insert(f.Name) })
	if _, inEnvironment := os.LookupEnv("RAPID_CHECKS"); !inEnvironment && !given.Has("rapid.checks") {
		set("rapid.checks", defaultChecks)
	}
	if !given.Has("test.parallel") {
		set("test.parallel", defaultParallel)
	}
	os.Exit(m.Run())
}

func set(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}

// tally counts what the cases of one property were. A property runs in one goroutine.
type tally struct {
	cases  int
	counts map[string]int
}

func (c *tally) add(what string) { c.counts[what]++ }

// share is the least part of all cases that must be of a kind, in percent.
type share struct {
	what    string
	percent float64
}

// check runs a property on random cases and reports what they were.
func check(t *testing.T, wanted []share, property func(*rapid.T, *tally)) {
	t.Helper()
	counts := &tally{counts: map[string]int{}}
	rapid.Check(t, func(rt *rapid.T) {
		counts.cases++
		property(rt, counts)
	})
	t.Logf("%d cases, 0 disagreements: %s", counts.cases, counts)
	for _, s := range wanted {
		if got := counts.percent(s.what); got < s.percent {
			t.Errorf("only %.2f%% of the cases are %q, at least %.2f%% must be: the generator no longer makes what this property is about", got, s.what, s.percent)
		}
	}
}

func (c *tally) percent(what string) float64 { return 100 * float64(c.counts[what]) / float64(c.cases) }

func (c *tally) String() string {
	parts := make([]string, 0, len(c.counts))
	for what, n := range c.counts {
		parts = append(parts, fmt.Sprintf("%s %d (%.1f%%)", what, n, c.percent(what)))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}

// show renders objects for the message of a disagreement.
func show(objects ...any) string {
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

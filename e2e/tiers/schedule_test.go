package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// fakes are what tiers are there for, by name. One that is not named takes a minute and says nothing.
type fakes map[string]func(ctx context.Context, out io.Writer) error

// scheduled runs tiers that are fakes, in each of which one test passes, on two cores and on a clock that nobody waits for.
func scheduled(t *testing.T, ctx context.Context, tests fakes, tiers ...tier) (rows []row, out string) {
	t.Helper()
	var text strings.Builder
	rows = schedule{
		cores: 2, out: &text,
		run: func(ctx context.Context, t tier, out io.Writer) (*tally, error) {
			if do, ok := tests[t.name]; ok {
				return &tally{passed: 1}, do(ctx, out)
			}
			time.Sleep(time.Minute) // of synctest's clock
			return &tally{passed: 1}, nil
		},
	}.all(ctx, tiers)
	return rows, text.String()
}

// takes is a fake that takes so long.
func takes(d time.Duration) func(context.Context, io.Writer) error {
	return func(context.Context, io.Writer) error { time.Sleep(d); return nil }
}

func named(name string, cores float64, after ...string) tier {
	return tier{name: name, what: "of " + name, cores: cores, after: after, limit: time.Hour}
}

func sharing(t tier) tier {
	t.shares = "the one"
	return t
}

// results are names and results of rows, in their order.
func results(rows []row) string {
	var all []string
	for _, r := range rows {
		all = append(all, r.tier+" "+r.result)
	}
	return strings.Join(all, ", ")
}

// times are when each tier ran, in minutes.
func times(rows []row) string {
	var all []string
	for _, r := range rows {
		all = append(all, fmt.Sprintf("%s %g-%g", r.tier, r.began.Minutes(), (r.began+r.took).Minutes()))
	}
	return strings.Join(all, ", ")
}

func TestTiersRunBesideEachOtherAsFarAsTheCoresGo(t *testing.T) {
	for _, test := range []struct {
		name  string
		tests fakes
		tiers []tier
		want  string
	}{
		{
			"what waits runs beside what computes", fakes{"kind": takes(3 * time.Minute)},
			[]tier{named("kind", 0.5), named("unit", 1.5), named("fidelity", 1.5)},
			"kind 0-3, unit 0-1, fidelity 1-2",
		},
		{
			"what finds no room lets a smaller one pass", fakes{"a": takes(2 * time.Minute)},
			[]tier{named("a", 1), named("b", 2), named("c", 1)},
			"a 0-2, b 2-3, c 0-1",
		},
		{
			"what wants more than there is runs alone", nil,
			[]tier{named("a", 3), named("b", 0.1), named("c", 3)},
			"a 0-1, b 1-2, c 2-3",
		},
		{
			"what another makes comes after it, and others before", fakes{"programs": takes(5 * time.Minute)},
			[]tier{named("programs", 1), named("kind", 0.5, "programs"), named("unit", 1)},
			"programs 0-5, kind 5-6, unit 0-1",
		},
		{
			"of those that share something one runs at a time", nil,
			[]tier{sharing(named("a", 0.5)), sharing(named("b", 0.5)), named("c", 0.5)},
			"a 0-1, b 1-2, c 0-1",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				rows, out := scheduled(t, t.Context(), test.tests, test.tiers...)
				if got := times(rows); got != test.want {
					t.Errorf("got %s, want %s\n%s", got, test.want, out)
				}
			})
		})
	}
}

// Who reads along sees what runs beside what, and whose line it is.
func TestOutputOfTiersThatRunAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, out := scheduled(t, t.Context(), fakes{
			"a": func(_ context.Context, out io.Writer) error {
				fmt.Fprint(out, "half a ")
				time.Sleep(time.Minute)
				fmt.Fprint(out, "line\nand another\n")
				return nil
			},
			"b": func(_ context.Context, out io.Writer) error {
				time.Sleep(time.Second)
				fmt.Fprint(out, "between\nand not ended")
				return nil
			},
		}, named("a", 1), named("b", 1))
		want := strings.Join([]string{
			"=== a: of a", "=== b: of b (beside it: a)", "[b] between", "[b] and not ended", "=== b: ok after 1s (beside it: a)",
			"[a] half a line", "[a] and another", "=== a: ok after 1m0s", "",
		}, "\n")
		if out != want {
			t.Errorf("got\n%s\nwant\n%s", out, want)
		}
	})
}

// One that hangs is ended, and reported by its name; the others go on.
func TestLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context, _ io.Writer) error { <-ctx.Done(); return context.Cause(ctx) }
		rows, _ := scheduled(t, t.Context(), fakes{"hangs": hangs}, named("hangs", 2), named("other", 2))
		if got := results(rows); got != "hangs FAILED, other ok" {
			t.Errorf("the rows are %s", got)
		}
		if rows[0].note != "did not end within its 1h0m0s" || rows[0].took != time.Hour {
			t.Errorf("got %+v", rows[0])
		}
	})
}

func TestFailureFailsTheWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := func(_ context.Context, out io.Writer) error {
			fmt.Fprintln(out, "got 1")
			return errors.New("go test: exit status 1")
		}
		rows, out := scheduled(t, t.Context(), fakes{"fails": fails}, named("fails", 1), named("other", 1))
		if got := results(rows); got != "fails FAILED, other ok" || rows[0].note != "go test: exit status 1" {
			t.Errorf("the rows are %s (%s)", got, rows[0].note)
		}
		if err := verdict(rows); !errors.Is(err, errFailed) {
			t.Errorf("the whole is %v", err)
		}
		if !strings.Contains(out, "[fails] got 1\n") {
			t.Errorf("%q does not say why", out)
		}
	})
}

// A signal ends what runs, nothing more begins, and what was written is seen.
func TestInterruption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, interrupt := context.WithCancelCause(t.Context())
		signal := errors.New("terminated signal received")
		rows, out := scheduled(t, ctx, fakes{
			"long": func(ctx context.Context, out io.Writer) error {
				fmt.Fprintln(out, "long")
				<-ctx.Done()
				return context.Cause(ctx)
			},
			"other": func(ctx context.Context, out io.Writer) error {
				fmt.Fprintln(out, "other")
				time.Sleep(time.Minute)
				interrupt(signal)
				return context.Cause(ctx)
			},
		}, named("long", 1), named("other", 1), named("next", 1), named("last", 1))
		if got := results(rows); got != "long FAILED, other FAILED, next FAILED, last FAILED" {
			t.Errorf("the rows are %s", got)
		}
		for i, want := range []string{signal.Error(), signal.Error(), "not run: " + signal.Error(), "not run: " + signal.Error()} {
			if rows[i].note != want || rows[i].failed != 1 {
				t.Errorf("%s: got %d failures and %q, want %q", rows[i].tier, rows[i].failed, rows[i].note, want)
			}
		}
		for _, want := range []string{"[long] long\n", "[other] other\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("what was written is not in\n%s", out)
			}
		}
	})
}

// A tier that can't run, or whose maker failed, runs nothing, and what comes after it neither.
func TestTiersThatCannotRun(t *testing.T) {
	for requireAll, want := range map[bool]string{
		true:  "unmet FAILED (not root), unbuilt FAILED (no compiler), after FAILED (not run: unbuilt is not there), later FAILED (not run: after is not there), other ok ()",
		false: "unmet skipped (not root), unbuilt FAILED (no compiler), after FAILED (not run: unbuilt is not there), later FAILED (not run: after is not there), other ok ()",
	} {
		unmet := named("unmet", 1)
		unmet.unmet = func() error { return errors.New("not root") }
		rows := schedule{
			requireAll: requireAll, cores: 2, out: io.Discard,
			run: func(_ context.Context, tier tier, _ io.Writer) (*tally, error) {
				switch tier.name {
				case "unbuilt":
					return newTally(), errors.New("no compiler")
				case "other":
					return &tally{passed: 1}, nil
				}
				t.Errorf("%s ran", tier.name)
				return newTally(), nil
			},
		}.all(t.Context(), []tier{unmet, named("unbuilt", 1), named("after", 1, "unbuilt"), named("later", 1, "after"), named("other", 1)})
		var got []string
		for _, r := range rows {
			got = append(got, fmt.Sprintf("%s %s (%s)", r.tier, r.result, r.note))
		}
		if got := strings.Join(got, ", "); got != want {
			t.Errorf("requireAll %v:\n got %s\nwant %s", requireAll, got, want)
		}
	}
}

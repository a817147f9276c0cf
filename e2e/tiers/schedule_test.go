package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"
)

// fakes are the tests of tiers, by name.
type fakes map[string]func(ctx context.Context, out io.Writer) error

// scheduled runs tiers whose tests are fakes, in each of which one test passes.
func scheduled(ctx context.Context, tests fakes, tiers ...tier) ([]row, string) {
	var out strings.Builder
	rows := schedule{
		out: &out,
		prepare: func(_ context.Context, t tier, out io.Writer) error {
			fmt.Fprintf(out, "prepare %s\n", t.name)
			return nil
		},
		test: func(ctx context.Context, t tier, out io.Writer) (*tally, error) {
			return &tally{passed: 1}, tests[t.name](ctx, out)
		},
	}.run(ctx, tiers)
	return rows, out.String()
}

// says is a fake that writes a line.
func says(line string) func(context.Context, io.Writer) error {
	return func(_ context.Context, out io.Writer) error { fmt.Fprintln(out, line); return nil }
}

func named(name string) tier   { return tier{name: name, what: "of " + name} }
func besides(name string) tier { t := named(name); t.beside = true; return t }

// results are names and results of rows, in their order.
func results(rows []row) string {
	var all []string
	for _, r := range rows {
		all = append(all, r.tier+" "+r.result)
	}
	return strings.Join(all, ", ")
}

func lines(text ...string) string { return strings.Join(text, "\n") + "\n" }

// Each waits for a line of the other, so that both must run at once, and neither is heard before it may speak.
func TestBesideRunsAlongAndIsPrintedInOnePiece(t *testing.T) {
	wrote, answered := make(chan struct{}), make(chan struct{})
	rows, out := scheduled(t.Context(), fakes{
		"first": says("first"),
		"long": func(_ context.Context, out io.Writer) error {
			fmt.Fprintln(out, "long 1")
			close(wrote)
			<-answered
			fmt.Fprintln(out, "long 2")
			return nil
		},
		"second": func(_ context.Context, out io.Writer) error {
			fmt.Fprintln(out, "second 1")
			<-wrote
			fmt.Fprintln(out, "second 2")
			return nil
		},
		"third": func(_ context.Context, out io.Writer) error {
			fmt.Fprintln(out, "third")
			close(answered)
			return nil
		},
	}, named("first"), besides("long"), named("second"), named("third"))
	if got := results(rows); got != "first ok, long ok, second ok, third ok" {
		t.Errorf("the rows are %s", got)
	}
	whole := lines("=== long: of long", "long 1", "long 2")
	before, after, found := strings.Cut(out, whole)
	if !found {
		t.Fatalf("the output of long is not in one piece:\n%s", out)
	}
	// It may end just as third does, or be waited for.
	rest := strings.Replace(before+after, "--- long still runs\n", "", 1)
	want := lines("=== first: of first", "prepare first", "first",
		"=== long: of long", "prepare long", "--- long runs beside the next tiers; its output comes once it has ended",
		"=== second: of second", "prepare second", "second 1", "second 2", "=== third: of third", "prepare third", "third")
	if rest != want {
		t.Errorf("got\n%s\nwant\n%s", rest, want)
	}
}

// One that ends while others are left is printed between two of them.
func TestPrintEnded(t *testing.T) {
	var out strings.Builder
	s := schedule{out: &out, test: func(_ context.Context, t tier, out io.Writer) (*tally, error) {
		fmt.Fprintln(out, "of", t.name)
		return &tally{passed: 1}, nil
	}}
	var rows [2]row
	ended := s.startBeside(t.Context(), named("short"), time.Now(), &rows[0])
	<-ended.ended
	runs := &besideRun{tier: named("long"), ended: make(chan struct{})}
	if still := s.printEnded([]*besideRun{runs, ended}); !slices.Equal(still, []*besideRun{runs}) {
		t.Errorf("%d still run", len(still))
	}
	if got, want := out.String(), lines("=== short: of short", "of short"); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := results(rows[:1]); got != "short ok" {
		t.Errorf("its row is %s", got)
	}
}

// Of several each has its own output and row.
func TestSeveralBeside(t *testing.T) {
	var a, b, end = make(chan struct{}), make(chan struct{}), make(chan struct{})
	meet := func(name string, mine, other chan struct{}) func(context.Context, io.Writer) error {
		return func(_ context.Context, out io.Writer) error {
			fmt.Fprintln(out, name, "1")
			close(mine)
			<-other
			<-end
			fmt.Fprintln(out, name, "2")
			return nil
		}
	}
	rows, out := scheduled(t.Context(), fakes{
		"a": meet("a", a, b), "b": meet("b", b, a),
		"c": func(context.Context, io.Writer) error { <-a; <-b; close(end); return nil },
	}, besides("a"), besides("b"), named("c"))
	if got := results(rows); got != "a ok, b ok, c ok" {
		t.Errorf("the rows are %s", got)
	}
	for _, name := range []string{"a", "b"} {
		if want := lines("=== "+name+": of "+name, name+" 1", name+" 2"); !strings.Contains(out, want) {
			t.Errorf("no\n%sin\n%s", want, out)
		}
	}
}

func TestLastTierHasNoOneToRunBeside(t *testing.T) {
	rows, out := scheduled(t.Context(), fakes{"first": says("first"), "long": says("long")}, named("first"), besides("long"))
	if want := lines("=== first: of first", "prepare first", "first", "=== long: of long", "prepare long", "long"); out != want {
		t.Errorf("got\n%s\nwant\n%s", out, want)
	}
	if got := results(rows); got != "first ok, long ok" {
		t.Errorf("the rows are %s", got)
	}
}

func TestFailureBesideFailsTheWhole(t *testing.T) {
	rows, out := scheduled(t.Context(), fakes{
		"long": func(_ context.Context, out io.Writer) error {
			fmt.Fprintln(out, "got 1")
			return errors.New("go test: exit status 1")
		},
		"other": says("other"),
	}, besides("long"), named("other"))
	if got := results(rows); got != "long FAILED, other ok" || rows[0].note != "go test: exit status 1" {
		t.Errorf("the rows are %s (%s)", got, rows[0].note)
	}
	if err := verdict(rows); !errors.Is(err, errFailed) {
		t.Errorf("the whole is %v", err)
	}
	if !strings.Contains(out, "got 1") {
		t.Errorf("%q does not say why", out)
	}
}

// A signal ends what runs, nothing more begins, and what was written is seen.
func TestInterruption(t *testing.T) {
	ctx, interrupt := context.WithCancelCause(t.Context())
	signal := errors.New("terminated signal received")
	runs := make(chan struct{})
	rows, out := scheduled(ctx, fakes{
		"long": func(ctx context.Context, out io.Writer) error {
			fmt.Fprintln(out, "long")
			close(runs)
			<-ctx.Done()
			return context.Cause(ctx)
		},
		"other": func(ctx context.Context, out io.Writer) error {
			fmt.Fprintln(out, "other")
			<-runs
			interrupt(signal)
			return context.Cause(ctx)
		},
		"next": says("next"),
	}, besides("long"), named("other"), named("next"), besides("last"))
	if got := results(rows); got != "long FAILED, other FAILED, next FAILED, last FAILED" {
		t.Errorf("the rows are %s", got)
	}
	for i, want := range []string{signal.Error(), signal.Error(), "not run: " + signal.Error(), "not run: " + signal.Error()} {
		if rows[i].note != want || rows[i].failed != 1 {
			t.Errorf("%s: got %d failures and %q, want %q", rows[i].tier, rows[i].failed, rows[i].note, want)
		}
	}
	if !strings.Contains(out, lines("=== long: of long", "long")) || !strings.Contains(out, "\nother\n") {
		t.Errorf("what was written is not in\n%s", out)
	}
}

// A tier that cannot run or be prepared runs nothing, beside or not.
func TestBegin(t *testing.T) {
	unmet := besides("unmet")
	unmet.unmet = func() error { return errors.New("not root") }
	var out strings.Builder
	rows := schedule{
		requireAll: true,
		out:        &out,
		prepare: func(_ context.Context, t tier, _ io.Writer) error {
			if t.name == "unmet" {
				return errors.New("prepared though it cannot run")
			}
			return errors.New("no programs")
		},
		test: func(_ context.Context, tier tier, _ io.Writer) (*tally, error) {
			t.Errorf("%s ran", tier.name)
			return newTally(), nil
		},
	}.run(t.Context(), []tier{unmet, besides("unbuilt"), named("unbuilt too")})
	for i, want := range []string{"not root", "no programs", "no programs"} {
		if rows[i].result != failed || rows[i].note != want {
			t.Errorf("got %+v, want %s", rows[i], want)
		}
	}
}

// A tier's time is from its own turn, with what it takes to prepare it.
func TestTimeBeside(t *testing.T) {
	s := schedule{out: io.Discard, test: func(context.Context, tier, io.Writer) (*tally, error) { return &tally{passed: 1}, nil }}
	var r row
	b := s.startBeside(t.Context(), named("long"), time.Now().Add(-time.Hour), &r)
	<-b.ended
	s.print(b)
	if r.took < time.Hour || r.took > time.Hour+time.Minute {
		t.Errorf("took %s", r.took)
	}
}

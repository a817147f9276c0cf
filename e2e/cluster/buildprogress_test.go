package cluster

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestPaceLeft(t *testing.T) {
	// Of these the doubt of a minute is as much as the first.
	first, second, third := program{takes: time.Minute}, program{takes: 4 * time.Minute}, program{takes: 2 * time.Minute}
	after := func(took ...time.Duration) (p pace) {
		for i, d := range took {
			p.add([]program{first, second}[i], d)
		}
		return p
	}
	tests := []struct {
		name  string
		pace  pace
		rest  []program
		spent time.Duration
		want  time.Duration
	}{
		{"at the start as expected", pace{}, []program{first, second, third}, 0, 7 * time.Minute},
		{"time passes", pace{}, []program{first, second, third}, 20 * time.Second, 7*time.Minute - 20*time.Second},
		{"as expected", after(time.Minute), []program{second, third}, 0, 6 * time.Minute},
		{"half as fast", after(2*time.Minute, 8*time.Minute), []program{third}, 0, 2 * time.Minute * 11 / 6},
		{"twice as fast", after(30*time.Second, 2*time.Minute), []program{third}, 0, 2 * time.Minute * 35 / 60},
		// All that the first needs was in the build cache, which says nothing of the others.
		{"one that took no time", after(0), []program{second, third}, 0, 3 * time.Minute},
		// The second should have ended after 4 minutes, so this machine is slower, or it has been interrupted: the third takes longer too.
		{"later than expected", after(time.Minute), []program{second, third}, 10 * time.Minute, 4 * time.Minute},
		{"later than expected, the last", after(time.Minute), []program{third}, 10 * time.Minute, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := test.pace.left(test.rest, test.spent).Round(time.Millisecond); got != test.want.Round(time.Millisecond) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

// While a program is built what is left shrinks as time passes, and does not jump where the program is late.
func TestPaceLeftHasNoJumps(t *testing.T) {
	rest := []program{{takes: time.Minute}, {takes: 4 * time.Minute}}
	var p pace
	for spent := time.Duration(0); spent < 10*time.Minute; spent += time.Second {
		now, next := p.left(rest, spent), p.left(rest, spent+time.Second)
		if change := next - now; change < -time.Second || change > 3*time.Second {
			t.Fatalf("after %s: from %s to %s", spent, now, next)
		}
	}
}

func TestAbout(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                             "less than a minute",
		29 * time.Second:              "less than a minute",
		30 * time.Second:              "about 1 min",
		time.Minute:                   "about 1 min",
		time.Minute + time.Second:     "about 2 min",
		8*time.Minute - 1*time.Second: "about 8 min",
	} {
		if got := about(d); got != want {
			t.Errorf("%s: %q, want %q", d, got, want)
		}
	}
}

// A log has a line a program: its place, its name, how long it took, and what is left.
func TestBuildProgressInALog(t *testing.T) {
	var out strings.Builder
	b := newBuildProgress(&out, "Kubernetes v1.2.3", []program{{name: "etcd", takes: time.Minute}, {name: "kubectl", takes: 90 * time.Second}, {name: "kubelet"}})
	for i, err := range []error{nil, nil, errors.New("no space")} {
		if got := b.during(i, func() error { return err }); !errors.Is(got, err) {
			t.Errorf("program %d: got %v", i, got)
		}
	}
	// They took no time, which is not believed at once: 45 s of the 90 after the first.
	want := regexp.MustCompile(`^building 3 programs of Kubernetes v1\.2\.3 from source, once: about 3 min on two cores
1 of 3 etcd \.\.\. \d+s, about 1 min left
2 of 3 kubectl \.\.\. \d+s, less than a minute left
3 of 3 kubelet \.\.\. failed
$`)
	if !want.MatchString(out.String()) {
		t.Errorf("got\n%s", out.String())
	}
}

func TestBuildProgressEndsWithTheWhole(t *testing.T) {
	var out strings.Builder
	b := newBuildProgress(&out, "Kubernetes v1.2.3", []program{{name: "kubectl", takes: time.Minute}})
	if err := b.during(0, func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`^building 1 program of .*\n1 of 1 kubectl \.\.\. \d+s, \d+s in all\n$`).MatchString(out.String()) {
		t.Errorf("got\n%s", out.String())
	}
}

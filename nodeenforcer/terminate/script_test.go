package terminate_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// TestScripts runs the files in testdata: lines with ">" are events, the others what follows from them. UPDATE=1 writes them again.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := play(t, string(want))
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// script is a state whose time is advanced by hand.
type script struct {
	t     *testing.T
	state terminate.State
	now   time.Duration
	out   strings.Builder
	// seen is what a Look finds; nil: nothing is answered.
	seen *terminate.Saw
	told bool
}

func play(t *testing.T, text string) string {
	s := &script{t: t, state: terminate.NewState(terminate.DefaultLimits())}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "#") || line == "":
			fmt.Fprintln(&s.out, line)
		case strings.HasPrefix(line, "> "):
			fmt.Fprintln(&s.out, line)
			s.do(strings.Fields(line[2:]))
		}
	}
	return s.out.String()
}

func (s *script) do(words []string) {
	s.t.Helper()
	switch words[0] {
	case "wait":
		d, err := time.ParseDuration(words[1])
		if err != nil {
			s.t.Fatal(err)
		}
		s.wait(s.now + d)
	case "processes":
		saw := terminate.Saw{}
		for _, w := range words[1:] {
			name, order, _ := strings.Cut(w, ":")
			n, _ := strconv.Atoi(order)
			saw.Containers = append(saw.Containers, terminate.Seen{ID: name, Order: n})
		}
		s.seen = &saw
	case "empty":
		s.seen = &terminate.Saw{PodGone: true}
	case "blind":
		s.seen = &terminate.Saw{Err: errors.New("unreadable")}
	default:
		s.next(s.event(words))
	}
}

func (s *script) event(words []string) terminate.Event {
	s.t.Helper()
	number := func(i int) int {
		n, err := strconv.Atoi(words[i])
		if err != nil {
			s.t.Fatal(words, err)
		}
		return n
	}
	failure := func() error {
		if slices.Contains(words, "fails") {
			return errors.New("failure")
		}
		return nil
	}
	switch words[0] {
	case "ask": // ask soft|hard GRACE KUBELET [contain [SLACK] [freeze]]
		e := terminate.Asked{Kind: kindOf(words[1]), GraceSeconds: int64(number(2)), Kubelet: time.Duration(number(3)) * time.Second, Contain: slices.Contains(words, "contain")}
		if e.Freeze = words[len(words)-1] == "freeze"; e.Freeze {
			e.Room, words = 65536, words[:len(words)-1]
		}
		if len(words) > 5 {
			e.Slack = int64(number(5))
		}
		return e
	case "answer": // answer CALL VERDICT [RETRYAFTER]
		verdicts := map[string]terminate.Verdict{"accepted": terminate.Accepted, "gone": terminate.Gone, "budget": terminate.Budget, "failed": terminate.Failed, "unknown": terminate.Unknown, "refused": terminate.Refused, "busy": terminate.Busy}
		e := terminate.Answered{Call: number(1)}
		e.Verdict = verdicts[words[2]]
		e.Online = e.Verdict != terminate.Failed && e.Verdict != terminate.Unknown
		if len(words) > 3 {
			e.RetryAfter = time.Duration(number(3)) * time.Second
		}
		if e.Verdict != terminate.Accepted {
			e.Err = errors.New(words[2])
		}
		return e
	case "contained":
		if err := failure(); err != nil {
			return terminate.Contained{Err: err}
		}
		return terminate.Contained{Was: words[1], Wrote: words[2]}
	case "froze": // froze [fails [halfway]]
		err := failure()
		return terminate.Froze{Asked: err == nil || slices.Contains(words, "halfway"), Err: err}
	case "peeked":
		return terminate.Peeked{Signalled: slices.Contains(words, "signalled")}
	case "thawed":
		return terminate.Thawed{Err: failure()}
	case "loosened": // loosened [WROTE [done] | fails]
		if err := failure(); err != nil || len(words) < 2 {
			return terminate.Loosened{Err: err}
		}
		return terminate.Loosened{Wrote: words[1], Done: slices.Contains(words, "done")}
	case "restored":
		return terminate.Restored{Err: failure()}
	case "termed":
		return terminate.Termed{ID: words[1], Err: failure(), Gone: slices.Contains(words, "gone")}
	case "killed":
		return terminate.Killed{ID: words[1], Err: failure(), Gone: slices.Contains(words, "gone")}
	case "removed":
		return terminate.Removed{}
	case "release":
		return terminate.Released{}
	case "stop":
		return terminate.Stopped{}
	}
	s.t.Fatalf("what is %q?", words)
	return nil
}

// wait lets time pass and ticks when the state asks for it.
func (s *script) wait(until time.Duration) {
	for {
		at, ok := s.state.Wake()
		if !ok || at > until || s.state.Finished() {
			s.now = until
			return
		}
		s.now = at
		s.next(terminate.Tick{})
	}
}

func (s *script) next(e terminate.Event) {
	if s.state.Finished() {
		return
	}
	var actions []terminate.Action
	s.state, actions = terminate.Next(s.state, s.now, e)
	for _, a := range actions {
		if _, ok := a.(terminate.Look); ok && s.seen != nil {
			s.next(*s.seen)
			continue
		}
		fmt.Fprintf(&s.out, "%8s  %s\n", s.now, text(a))
	}
	if s.state.Finished() && !s.told {
		s.told = true
		fmt.Fprintf(&s.out, "%8s  finished\n", s.now)
	}
}

func text(a terminate.Action) string {
	r, ok := a.(terminate.Report)
	if !ok {
		return strings.TrimPrefix(fmt.Sprintf("%T%+v", a, a), "terminate.")
	}
	line := "report " + string(r.Step)
	if r.Container != "" {
		line += " " + r.Container
	}
	if r.Try > 0 {
		line += fmt.Sprintf(" try %d", r.Try)
	}
	if r.RetryAfter > 0 {
		line += fmt.Sprintf(" retry after %s", r.RetryAfter)
	}
	if r.Message != "" {
		line += ": " + r.Message
	}
	if r.Err != nil {
		line += fmt.Sprintf(": %v", r.Err)
	}
	return line
}

func kindOf(word string) eviction.Kind {
	if word == eviction.Hard.String() {
		return eviction.Hard
	}
	return eviction.Soft
}

package main

import (
	"context"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
)

// Two that lead at once are a violation only if they do for longer than one needs to notice that it does not any more, and are told of once.
func TestLeaders(t *testing.T) {
	told := func(leading ...int) (times int) {
		w := leaders{}
		for _, n := range leading {
			if w.more(n, togetherAtMost) {
				times++
			}
		}
		return times
	}
	for want, leading := range map[int][][]int{
		0: {{0, 1, 1}, {2, 2, 2, 2, 2}, {2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2}, {}},
		1: {{2, 2, 2, 2, 2, 2}, {1, 2, 2, 2, 2, 2, 2, 2, 2, 2}},
		2: {{2, 2, 2, 2, 2, 2, 0, 2, 2, 2, 2, 2, 2}},
	} {
		for _, l := range leading {
			if got := told(l...); got != want {
				t.Errorf("%v: %d times, want %d", l, got, want)
			}
		}
	}
	w := leaders{}
	for look := range togetherResumed {
		if w.more(2, togetherResumed) {
			t.Errorf("one that was paused is told of at look %d", look)
		}
	}
	if !w.more(2, togetherAtMost) || w.more(2, togetherAtMost) {
		t.Error("it leads for longer than after a pause, and is not told of once")
	}
	for text, want := range map[string]bool{"": false, "leader_election_master_status{name=\"podgrace-webhook\"} 0\n": false, "leader_election_master_status{name=\"podgrace-webhook\"} 1\n": true} {
		if is, err := leads(text); err != nil || is != want {
			t.Errorf("%q: %t, %v", text, is, err)
		}
	}
}

// One that was paused may say for a while longer that it leads, and no other one, nor one of another program.
func TestTogether(t *testing.T) {
	const webhook, fencer = "podgrace-webhook", "podgrace-fencer"
	for name, tc := range map[string]struct {
		weather *weather
		job     string
		want    int
	}{
		"nothing was hit":               {&weather{}, webhook, togetherAtMost},
		"paused now":                    {&weather{hit: []plan.Scope{plan.PausedWebhook}}, webhook, togetherResumed},
		"paused just before":            {&weather{ended: map[plan.Scope]time.Time{plan.PausedWebhook: time.Now().Add(-10 * time.Second)}}, webhook, togetherResumed},
		"paused long ago":               {&weather{ended: map[plan.Scope]time.Time{plan.PausedWebhook: time.Now().Add(-time.Minute)}}, webhook, togetherAtMost},
		"cut off":                       {&weather{hit: []plan.Scope{plan.Replica, plan.Watcher, plan.Clock}}, webhook, togetherAtMost},
		"a fencer is paused":            {&weather{hit: []plan.Scope{plan.PausedFencer}}, fencer, togetherResumed},
		"one of another program is":     {&weather{hit: []plan.Scope{plan.PausedFencer, plan.PausedWebhook}}, "podgrace-volumelock", togetherAtMost},
		"a replica of the volume lock":  {&weather{hit: []plan.Scope{plan.PausedVolumeLock}}, "podgrace-volumelock", togetherResumed},
		"that one, and not the fencers": {&weather{hit: []plan.Scope{plan.PausedVolumeLock}}, fencer, togetherAtMost},
	} {
		l := scripted()
		l.weather = tc.weather
		if got := l.together(tc.job); got != tc.want {
			t.Errorf("%s: %d looks, want %d", name, got, tc.want)
		}
	}
}

// A certificate that API servers were not told of is not taken.
func TestHandshake(t *testing.T) {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	known := x509.NewCertPool()
	known.AddCert(s.Certificate())
	if err := handshake(t.Context(), s.URL, known); err != nil {
		t.Error(err)
	}
	if err := handshake(t.Context(), s.URL, x509.NewCertPool()); err == nil {
		t.Error("one of which nobody was told is taken")
	}
}

// What a liveness probe makes of a replica: one that says for long enough that it is not well is started again, one that says nothing is not, nor one that was ended on purpose.
func TestLive(t *testing.T) {
	says := http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(says) }))
	defer s.Close()
	silent := httptest.NewServer(http.NotFoundHandler())
	silent.Close()
	started := 0
	r := &replica{w: &podgrace.Webhook{HealthURL: s.URL}, start: func(...string) (*podgrace.Webhook, error) {
		started++
		return &podgrace.Webhook{HealthURL: s.URL}, nil
	}}
	look := func(times int) (restarted bool) {
		t.Helper()
		for range times {
			is, err := r.live(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			restarted = restarted || is
		}
		return restarted
	}
	says = http.StatusInternalServerError
	if look(liveFailures - 1) {
		t.Error("it is restarted too soon")
	}
	says = http.StatusOK
	look(1)
	says = http.StatusInternalServerError
	if look(liveFailures - 1) {
		t.Error("it was well meanwhile, and is restarted")
	}
	if !look(1) || started != 1 {
		t.Errorf("it is not restarted: %d", started)
	}
	r.w.HealthURL = silent.URL
	if look(liveFailures) {
		t.Error("nobody answers, and it is restarted")
	}
	r.w.HealthURL, r.held = s.URL, true
	if look(liveFailures) {
		t.Error("it was ended on purpose, and is restarted")
	}
}

// A replica is of the other version, and then of this one again.
func TestSwapped(t *testing.T) {
	p := programs{current: "a", other: "b", version: "v1"}
	r := &replica{program: "a"}
	if to := r.swapped(p); r.program != "b" || to != "other version, v1" {
		t.Errorf("%s: %s", r.program, to)
	}
	if r.swapped(p); r.program != "a" {
		t.Errorf("%s", r.program)
	}
}

// A confirmation ends by a replica's clock: while that is wrong by so much it is void. A clock that is wrong by less holds up only what has to be judged.
func TestClockHoldsUp(t *testing.T) {
	for scope, of := range map[plan.Scope]map[plan.Verb]result{
		plan.Clock:        {plan.Confirmed: failed, plan.ConfirmedVolume: failed, plan.DeletePod: failed, plan.ForceUnprotected: doneLater},
		plan.Confirmation: {plan.Confirmed: doneLater, plan.ConfirmedVolume: doneLater, plan.DeletePod: failed, plan.ForceUnprotected: failed},
	} {
		for verb, want := range of {
			l, tries := scripted(), 0
			l.weather = &weather{ended: map[plan.Scope]time.Time{scope: time.Now()}}
			l.insist(t.Context(), verb, func(context.Context) error {
				if tries++; tries == 1 {
					return os.ErrPermission
				}
				return nil
			})
			if got := *l.counts.operations[verb]; got[want] != 1 {
				t.Errorf("%d: %s: %v", scope, verb, got)
			}
		}
	}
}

// A clock that is moved holds up what was confirmed from when it is wrong by so much until it is right.
func TestMovedClockHoldsUp(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("nobody has written it for %s", runtime.GOARCH)
	}
	process := exec.CommandContext(t.Context(), "sleep", "600")
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = process.Process.Kill()
		_ = process.Wait()
	})
	long, short := 20*time.Second+time.Millisecond, time.Millisecond // both jump by 12 minutes, forth for the first half
	for name, tc := range map[string]struct {
		step plan.Step
		want bool
	}{
		"ahead by 12 minutes":  {plan.Step{Fault: plan.JumpClock, For: long}, false},
		"behind by 12 minutes": {plan.Step{Fault: plan.JumpClock, For: short}, true},
		"ahead by 95 minutes":  {plan.Step{Fault: plan.JumpClock, For: long + time.Millisecond}, true},
		"fast":                 {plan.Step{Fault: plan.FastClock, For: long}, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := scripted()
			held := func() bool {
				return l.weather.quietSince(time.Time{}, []plan.Scope{plan.Confirmation}).After(time.Time{})
			}
			mend, err := l.moveClock(&replica{w: &podgrace.Webhook{PID: process.Process.Pid}}, tc.step)
			if err != nil {
				t.Fatal(err)
			}
			if tc.want {
				suite.Eventually(t, "what was confirmed to be held up", func(context.Context) (bool, error) { return held(), nil })
			} else if held() {
				t.Error("it holds up what was confirmed")
			}
			if err := mend(t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(l.weather.hit) > 0 {
				t.Errorf("it is right, and %v are hit", l.weather.hit)
			}
		})
	}
}

package main

import (
	"testing"
	"time"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
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

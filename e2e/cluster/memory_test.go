package cluster

import "testing"

func TestKillsIn(t *testing.T) {
	for events, want := range map[string]int{
		"oom_kill_disable 0\nunder_oom 0\noom_kill 3\n":                3, // v1
		"low 0\nhigh 0\nmax 17\noom 2\noom_kill 1\noom_group_kill 0\n": 1, // v2
		"oom_kill_disable 0\nunder_oom 0\n":                            -1,
	} {
		got, err := killsIn(events)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: got %d, %v; want %d", events, got, err, want)
		}
	}
}

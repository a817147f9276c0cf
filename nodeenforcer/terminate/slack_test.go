package terminate_test

import (
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

const miB = int64(1 << 20)

// hooked makes a container with a hook: exec, http, tcp, sleep; anything else: none.
func hooked(hook string) corev1.Container {
	c := corev1.Container{Name: hook, Lifecycle: &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{}}}
	switch hook {
	case "exec":
		c.Lifecycle.PreStop.Exec = &corev1.ExecAction{}
	case "http":
		c.Lifecycle.PreStop.HTTPGet = &corev1.HTTPGetAction{}
	case "tcp":
		c.Lifecycle.PreStop.TCPSocket = &corev1.TCPSocketAction{}
	case "sleep":
		c.Lifecycle.PreStop.Sleep = &corev1.SleepAction{Seconds: 5}
	case "postStart":
		c.Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}}}
	default:
		c.Lifecycle = nil
	}
	return c
}

func hookedPod(main, init, sidecars []string) *corev1.Pod {
	var p corev1.Pod
	for _, h := range main {
		p.Spec.Containers = append(p.Spec.Containers, hooked(h))
	}
	for _, h := range init {
		p.Spec.InitContainers = append(p.Spec.InitContainers, hooked(h))
	}
	for _, h := range sidecars {
		c := hooked(h)
		c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	return &p
}

func TestSlack(t *testing.T) {
	for name, tc := range map[string]struct {
		main, init, sidecars []string
		left, want           int64
	}{
		"no hook":                        {main: []string{""}, left: 1000 * miB, want: 0},
		"a hook at the start":            {main: []string{"postStart"}, left: 1000 * miB, want: 0},
		"a hook that execs":              {main: []string{"exec"}, left: 1000 * miB, want: 32 * miB},
		"one that asks the container":    {main: []string{"http"}, left: 1000 * miB, want: 4 * miB},
		"the old way":                    {main: []string{"tcp"}, left: 1000 * miB, want: 4 * miB},
		"one that sleeps":                {main: []string{"sleep"}, left: 1000 * miB, want: 0},
		"of each container":              {main: []string{"exec", "", "http"}, sidecars: []string{"exec"}, left: 1000 * miB, want: 68 * miB},
		"an init container's never runs": {main: []string{""}, init: []string{"exec"}, left: 1000 * miB, want: 0},
		"a quarter of what is left":      {main: []string{"exec"}, left: 40 * miB, want: 10 * miB},
		"whole units":                    {main: []string{"exec"}, left: miB + 1, want: 256 << 10},
		"nothing is left":                {main: []string{"exec"}, left: 0, want: 0},
		"it is not known what is left":   {main: []string{"exec"}, left: -1, want: 32 * miB},
	} {
		t.Run(name, func(t *testing.T) {
			if got := terminate.Slack(hookedPod(tc.main, tc.init, tc.sidecars), tc.left); got != tc.want {
				t.Errorf("got %d, want %d", got, tc.want)
			}
		})
	}
}

func TestLooser(t *testing.T) {
	for name, tc := range map[string]struct {
		was, first, wrote string // KiB, or max
		usage, slack      int64  // KiB
		want              string
		done              bool
	}{
		"an instalment over its usage": {"max", "1000", "1000", 1010, 16384, "2034", false},
		"the next one":                 {"max", "1000", "2034", 2050, 16384, "3074", false},
		"the last one":                 {"max", "1000", "16500", 17000, 16384, "17384", true},
		"no more":                      {"max", "1000", "17384", 18000, 16384, "", true},
		"it has room":                  {"max", "1000", "2034", 1010, 16384, "", false},
		"not more than it had":         {"1500", "1000", "1000", 1010, 16384, "1500", true},
		"it had no more":               {"1000", "1000", "1000", 1010, 16384, "", true},
		"the least instalment":         {"max", "1000", "1000", 1000, 128, "1064", false},
		"what was written is no limit": {"max", "1000", "max", 1010, 16384, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			got, done := terminate.Looser(kib(tc.was), kib(tc.first), kib(tc.wrote), tc.usage<<10, tc.slack<<10)
			if got != kib(tc.want) || done != tc.done {
				t.Errorf("got %s, %v; want %s, %v", got, done, kib(tc.want), tc.done)
			}
		})
	}
}

func kib(text string) string {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return text
	}
	return strconv.FormatInt(n<<10, 10)
}

// Whatever it uses and however often: always more than before, never more than the slack or than it had, and it comes to an end.
func TestLooserIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.Int64Range(0, 1<<30).Draw(t, "first") &^ 4095
		slack := rapid.Int64Range(1, 1<<10).Draw(t, "slack") << 16
		limit := rapid.Int64Range(0, 1<<31).Draw(t, "was")
		held := first
		for range 20 {
			to, done := terminate.Looser(strconv.FormatInt(limit, 10), strconv.FormatInt(first, 10), strconv.FormatInt(held, 10), rapid.Int64Range(0, 1<<31).Draw(t, "usage"), slack)
			if to != "" {
				high, err := strconv.ParseInt(to, 10, 64)
				if err != nil || high <= held || high > first+slack || high > limit {
					t.Fatalf("%s after %d; first %d, slack %d, was %d", to, held, first, slack, limit)
				}
				held = high
			}
			if full := held >= min(first+slack, limit); done != full {
				t.Fatalf("done %v at %d; first %d, slack %d, was %d", done, held, first, slack, limit)
			}
		}
	})
}

// However many hooks there are, the slack is neither less than 0 nor more than its share of what is left.
func TestSlackIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		kinds := rapid.SliceOf(rapid.SampledFrom([]string{"", "exec", "http", "tcp", "sleep"}))
		pod := hookedPod(kinds.Draw(t, "main"), kinds.Draw(t, "init"), kinds.Draw(t, "sidecars"))
		left := rapid.Int64Range(0, 1<<40).Draw(t, "left")
		if got := terminate.Slack(pod, left); got < 0 || got > left/4 || got%(64<<10) != 0 {
			t.Fatalf("%d of %d", got, left)
		}
	})
}

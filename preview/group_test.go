package preview

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/preview/scheduler"
)

func TestGroups(t *testing.T) {
	scores := []scheduling.Score{{Plugin: "A", Score: 1, Weight: 2}}
	got := groups([]scheduler.Node{
		{Name: "n1", Fits: true, Total: 2, Scores: scores}, {Name: "n3", Fits: true, Total: 2, Scores: scores}, {Name: "n4", Plugin: "B", Reasons: []string{"full"}},
		{Name: "n5", Plugin: "B", Reasons: []string{"tainted"}}, {Name: "n6", Plugin: "B", Reasons: []string{"full"}},
	})
	want := []scheduling.Group{
		{Fits: true, Total: 2, Scores: scores, Nodes: []string{"n1", "n3"}}, {Plugin: "B", Reasons: []string{"full"}, Nodes: []string{"n4", "n6"}}, {Plugin: "B", Reasons: []string{"tainted"}, Nodes: []string{"n5"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecided(t *testing.T) {
	as := scheduling.Criteria{Violations: 1, HighestPriority: 5, SumOfPriorities: 1<<31 + 5, Victims: 1, Start: 100}
	for want, change := range map[string]func(*scheduling.Criteria){
		"1 violated PodDisruptionBudget, against 2":        func(c *scheduling.Criteria) { c.Violations = 2 },
		"5 as the highest priority of a victim, against 7": func(c *scheduling.Criteria) { c.HighestPriority = 7 },
		"a smaller sum of the victims' priorities":         func(c *scheduling.Criteria) { c.SumOfPriorities++ },
		"1 victim, against 2":                              func(c *scheduling.Criteria) { c.SumOfPriorities *= 2; c.Victims = 2 },
		"its victims began later":                          func(c *scheduling.Criteria) { c.Start = 50 },
		"":                                                 func(*scheduling.Criteria) {},
	} {
		other := as
		change(&other)
		if got := decided(as, other); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A pod that is being deleted does not get its whole time again.
func TestTimeOf(t *testing.T) {
	now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		stored      *int64
		end         time.Duration
		want        int64
		terminating bool
	}{
		"runs":              {nil, 0, 60, false},
		"ends in 20 s":      {new(int64(60)), 20 * time.Second, 20, true},
		"should be gone":    {new(int64(60)), -time.Hour, 0, true},
		"was forced before": {new(int64(0)), -time.Hour, 0, false},
	} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n1", TerminationGracePeriodSeconds: new(int64(60))}}
		if test.stored != nil {
			pod.DeletionGracePeriodSeconds, pod.DeletionTimestamp = test.stored, &metav1.Time{Time: now.Add(test.end)}
		}
		if got, terminating := timeOf(pod, now); got != test.want || terminating != test.terminating {
			t.Errorf("%s: %d, %t", name, got, terminating)
		}
	}
}

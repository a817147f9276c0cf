package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
)

// scripted is a laboratory without a cluster.
func scripted() *lab {
	l := &lab{progress: io.Discard, weather: &weather{}, counts: newCounts(), refused: map[types.UID]removal{}, began: time.Now(), roundBegan: time.Now()}
	l.copies = newCopies(func(what string) { l.violated("%s", what) })
	return l
}

// What is refused once is done later if something was hit that holds it up, or was mended within the time that it takes to settle before the operation began. Else a refusal is a violation.
func TestInsist(t *testing.T) {
	ago := func(d time.Duration) *weather {
		return &weather{ended: map[plan.Scope]time.Time{plan.ControlPlane: time.Now().Add(-d)}}
	}
	hit := &weather{}
	hit.begin(plan.ControlPlane)
	for name, tc := range map[string]struct {
		weather *weather
		want    result
	}{
		"nothing was hit":      {&weather{}, failed},
		"it is hit now":        {hit, doneLater},
		"mended just now":      {ago(0), doneLater},
		"mended long before":   {ago(settles + time.Minute), failed},
		"the webhook was away": {&weather{ended: map[plan.Scope]time.Time{plan.Webhook: time.Now()}}, failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, tries := scripted(), 0
			l.weather = tc.weather
			l.insist(t.Context(), plan.DeletePod, func(context.Context) error {
				if tries++; tries == 1 {
					return errors.New("refused")
				}
				return nil
			})
			got := *l.counts.operations[plan.DeletePod]
			if want := (tc.want == failed); got[tc.want] != 1 || (len(l.found()) == 1) != want {
				t.Errorf("%v, %q", got, l.found())
			}
		})
	}
}

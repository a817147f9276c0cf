package enforcer

import (
	"context"
	"testing"

	"github.com/podgrace/podgrace/e2e/measure"
)

// Metrics is an enforcer's text of them.
type Metrics func(ctx context.Context) (string, error)

// Series are those of a metric, or those whose labels begin so.
func (m Metrics) Series(t *testing.T, prefix string) map[string]float64 {
	t.Helper()
	text, err := m(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	of, err := measure.Series(text, prefix)
	if err != nil {
		t.Fatal(err)
	}
	return of
}

// Sum adds them up.
func (m Metrics) Sum(ctx context.Context, prefix string) (float64, error) {
	text, err := m(ctx)
	if err != nil {
		return 0, err
	}
	return measure.Sum(text, prefix)
}

// Of is Sum, for who does not wait.
func (m Metrics) Of(t *testing.T, prefix string) float64 {
	t.Helper()
	n, err := m.Sum(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

package enforcer

import (
	"context"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Metrics is an enforcer's text of them.
type Metrics func(ctx context.Context) (string, error)

// Series are those that begin so.
func (m Metrics) Series(t *testing.T, prefix string) map[string]float64 {
	t.Helper()
	of, err := m.series(t.Context(), prefix)
	if err != nil {
		t.Fatal(err)
	}
	return of
}

// Sum adds up the series that begin so.
func (m Metrics) Sum(ctx context.Context, prefix string) (float64, error) {
	of, err := m.series(ctx, prefix)
	return sum(of), err
}

// Of is Sum, at once.
func (m Metrics) Of(t *testing.T, prefix string) float64 {
	t.Helper()
	return sum(m.Series(t, prefix))
}

func (m Metrics) series(ctx context.Context, prefix string) (map[string]float64, error) {
	text, err := m(ctx)
	if err != nil {
		return nil, err
	}
	return seriesOf(text, prefix)
}

var line = regexp.MustCompile(`(?m)^([^#\s]+|[^#{]+\{[^}]*\}) (\S+)$`)

func seriesOf(text, prefix string) (map[string]float64, error) {
	of := map[string]float64{}
	for _, m := range line.FindAllStringSubmatch(text, -1) {
		if strings.HasPrefix(m[1], prefix) {
			n, err := strconv.ParseFloat(strings.TrimSpace(m[2]), 64)
			if err != nil {
				return nil, err
			}
			of[m[1]] = n
		}
	}
	return of, nil
}

func sum(of map[string]float64) (all float64) {
	for _, n := range of {
		all += n
	}
	return all
}

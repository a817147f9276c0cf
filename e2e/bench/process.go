package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/podgrace/podgrace/e2e/measure"
)

// metrics reads those of a server.
func (s *side) metrics(ctx context.Context) (string, error) {
	text, err := measure.Metrics(ctx, s.metricsURL)
	if err != nil {
		return "", fmt.Errorf("%s: %w", s.name, err)
	}
	return text, nil
}

// allocations reads the Go runtime's counters.
func (s *side) allocations(ctx context.Context) (size, objects float64, err error) {
	text, err := s.metrics(ctx)
	if err != nil {
		return 0, 0, err
	}
	size, err = measure.Sum(text, "go_memstats_alloc_bytes_total")
	if err == nil {
		objects, err = measure.Sum(text, "go_memstats_mallocs_total")
	}
	if err == nil && (size == 0 || objects == 0) {
		err = errors.New("the Go runtime's counters are not all there")
	}
	if err != nil {
		return 0, 0, fmt.Errorf("read the metrics of %s: %w", s.name, err)
	}
	return size, objects, nil
}

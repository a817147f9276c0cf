package webhook

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/podgrace/podgrace/e2e/measure"
)

// outcome is what a run measured.
type outcome struct {
	podgrace, bare             []round // paired, without the first
	podgraceMemory, bareMemory measure.Memory
}

// turn is a side and what it is asked.
type turn struct {
	*side
	reviews []review
}

// takeTurns lets the sides take turns. Who is first alternates too, so that a slow drift of the machine favours neither.
func takeTurns(ctx context.Context, o options, podgrace, bare turn, progress io.Writer) (outcome, error) {
	var result outcome
	for i := range o.rounds {
		pair := []turn{podgrace, bare}
		if i%2 == 1 {
			pair[0], pair[1] = bare, podgrace
		}
		done := map[*side]round{}
		for _, s := range pair {
			r, err := s.round(ctx, o, s.reviews)
			if err != nil {
				return result, fmt.Errorf("round %d: %w", i+1, err)
			}
			done[s.side] = r
		}
		note := ""
		if i == 0 {
			note = " (not counted)"
		} else {
			result.podgrace, result.bare = append(result.podgrace, done[podgrace.side]), append(result.bare, done[bare.side])
		}
		fmt.Fprintf(progress, "round %d of %d: %s: %.0f/s, %s: %.0f/s%s\n", i+1, o.rounds, podgrace.name, done[podgrace.side].perSecond, bare.name, done[bare.side].perSecond, note)
	}
	for s, m := range map[*turn]*measure.Memory{&podgrace: &result.podgraceMemory, &bare: &result.bareMemory} {
		var err error
		if *m, err = measure.MemoryOf(s.pid); err != nil {
			return result, err
		}
		if err := s.judgeAll(ctx, s.reviews); err != nil {
			return result, fmt.Errorf("after the rounds: %w", err)
		}
	}
	return result, nil
}

// round is one side's turn.
func (s *side) round(ctx context.Context, o options, reviews []review) (round, error) {
	before, err := s.usage(ctx)
	if err != nil {
		return round{}, err
	}
	latencies, elapsed, err := s.load(ctx, o, reviews)
	if err != nil {
		return round{}, err
	}
	after, err := s.usage(ctx)
	if err != nil {
		return round{}, err
	}
	return summarise(latencies, elapsed, before, after), nil
}

// usage is what a process has used since its start.
type usage struct {
	cpu            time.Duration
	bytes, objects float64
}

func (s *side) usage(ctx context.Context) (usage, error) {
	cpu, err := measure.CPU(s.pid)
	if err != nil {
		return usage{}, err
	}
	u := usage{cpu: cpu}
	u.bytes, u.objects, err = s.allocations(ctx)
	return u, err
}

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

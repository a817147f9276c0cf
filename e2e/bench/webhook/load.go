package webhook

import (
	"bytes"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/podgrace/podgrace/e2e/reviews"
)

// send asks one review and puts the answer into a buffer.
func (s *side) send(ctx context.Context, r review, answer *bytes.Buffer) error {
	return reviews.Ask(ctx, s.client, s.url+r.path, r.body, answer)
}

// load keeps so many requests in flight for a while, and returns how long each took and how long all did.
func (s *side) load(ctx context.Context, o options, reviews []review) ([]time.Duration, time.Duration, error) {
	latencies := make([][]time.Duration, o.concurrency)
	errs := make([]error, o.concurrency)
	begin := time.Now()
	var workers sync.WaitGroup
	for i := range o.concurrency {
		workers.Go(func() { latencies[i], errs[i] = s.work(ctx, begin.Add(o.duration), reviews, i) })
	}
	workers.Wait()
	elapsed := time.Since(begin)
	var all []time.Duration
	for _, l := range latencies {
		all = append(all, l...)
	}
	return all, elapsed, errors.Join(errs...)
}

// work sends one request after the other until the end, beginning with the first-th review.
func (s *side) work(ctx context.Context, end time.Time, reviews []review, first int) ([]time.Duration, error) {
	latencies := make([]time.Duration, 0, 1<<14)
	var answer bytes.Buffer
	for i := first; ; i++ {
		r := reviews[i%len(reviews)]
		begin := time.Now()
		if err := s.send(ctx, r, &answer); err != nil {
			return nil, err
		}
		now := time.Now()
		latencies = append(latencies, now.Sub(begin))
		if err := r.glance(answer.Bytes(), s.patched); err != nil {
			return nil, err
		}
		if now.After(end) {
			return latencies, nil
		}
	}
}

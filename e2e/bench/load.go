package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// newClient speaks as the API server does to a webhook behind a Service: HTTP/1.1, connections kept
// (k8s.io/apiserver/pkg/util/webhook/client.go hookClientConfig, 0.36.3).
func newClient(trusted []byte) *http.Client {
	return &http.Client{Transport: &http.Transport{
		TLSClientConfig:     &tls.Config{RootCAs: pool(trusted), NextProtos: []string{"http/1.1"}},
		MaxIdleConnsPerHost: 1000, // no connection is made twice, whatever the concurrency
		// A server that hangs voids the run instead of holding it up.
		ResponseHeaderTimeout: 10 * time.Second,
	}}
}

// send asks one review and puts the answer into a buffer.
func (s *side) send(ctx context.Context, r review, answer *bytes.Buffer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+r.path+timeoutParameter, bytes.NewReader(r.body))
	if err != nil {
		return fmt.Errorf("ask %s: %w", s.name, err)
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, */*")
	response, err := s.client.Do(request)
	if err != nil {
		return fmt.Errorf("ask %s: %w", s.name, err)
	}
	defer response.Body.Close()
	answer.Reset()
	if _, err := io.Copy(answer, response.Body); err != nil {
		return fmt.Errorf("read the answer of %s: %w", s.name, err)
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answered %s: %s", s.name, response.Status, answer)
	}
	return nil
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

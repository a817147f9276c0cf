// Package ratelimit limits by key, such as a namespace, so that a tenant in a loop uses up his own limit alone.
package ratelimit

import (
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// Limiters are rate limiters by key.
type Limiters struct {
	perSecond rate.Limit
	burst     int

	mu sync.Mutex
	by *lru.Cache
}

// maxLimits is how many keys are kept, the least recently used go first. A key that was dropped starts with its full burst.
const maxLimits = 4096

// New returns limiters which each let so many a second pass, and so many at once.
func New(perSecond rate.Limit, burst int) *Limiters {
	return &Limiters{perSecond: perSecond, burst: burst, by: lru.New(maxLimits)}
}

// Allow says whether one more is within the limit of a key, and counts it.
func (l *Limiters) Allow(key string) bool {
	l.mu.Lock()
	limit, ok := l.by.Get(key)
	if !ok {
		limit = rate.NewLimiter(l.perSecond, l.burst)
		l.by.Add(key, limit)
	}
	l.mu.Unlock()
	return limit.(*rate.Limiter).Allow()
}

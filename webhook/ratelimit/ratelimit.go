// Package ratelimit limits by key, such as a namespace, so that a tenant in a loop uses up his own limit alone.
package ratelimit

import (
	"hash/maphash"
	"sync"
	"sync/atomic"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// Limiters are rate limiters by key.
type Limiters struct {
	perSecond rate.Limit
	burst     int
	seed      maphash.Seed

	mu sync.Mutex
	by *lru.Cache // by the key's hash: a key may hold what a request says, and that may be long
}

// maxLimits is how many keys are kept, the least recently used go first. A key that was dropped starts with its full burst.
const maxLimits = 4096

// New returns limiters which each let so many a second pass, and so many at once.
func New(perSecond rate.Limit, burst int) *Limiters {
	return &Limiters{perSecond: perSecond, burst: burst, seed: maphash.MakeSeed(), by: lru.New(maxLimits)}
}

// Limit is that of one key.
type Limit struct {
	*rate.Limiter
	// Dropped is for the caller to count what did not pass, whatever kept it.
	Dropped atomic.Int64
}

// Of returns the limit of a key.
func (l *Limiters) Of(key string) *Limit {
	hash := maphash.String(l.seed, key)
	l.mu.Lock()
	defer l.mu.Unlock()
	if limit, ok := l.by.Get(hash); ok {
		return limit.(*Limit)
	}
	limit := &Limit{Limiter: rate.NewLimiter(l.perSecond, l.burst)}
	l.by.Add(hash, limit)
	return limit
}

// Allow reports whether one more is within the limit of a key, and counts it.
func (l *Limiters) Allow(key string) bool { return l.Of(key).Allow() }

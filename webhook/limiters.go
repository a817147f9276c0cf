package webhook

import (
	"sync"

	"golang.org/x/time/rate"
	"k8s.io/utils/lru"
)

// limiters are rate limiters by key, such as a namespace, so that a tenant in a loop uses up his own limit alone.
type limiters struct {
	perSecond rate.Limit
	burst     int

	mu sync.Mutex
	by *lru.Cache
}

// maxLimits is how many keys are kept, the least recently used go first. A key that was dropped starts with its full burst.
const maxLimits = 4096

func newLimiters(perSecond rate.Limit, burst int) *limiters {
	return &limiters{perSecond: perSecond, burst: burst, by: lru.New(maxLimits)}
}

// allow says whether one more is within the limit of a key, and counts it.
func (l *limiters) allow(key string) bool {
	l.mu.Lock()
	limit, ok := l.by.Get(key)
	if !ok {
		limit = rate.NewLimiter(l.perSecond, l.burst)
		l.by.Add(key, limit)
	}
	l.mu.Unlock()
	return limit.(*rate.Limiter).Allow()
}

package kube

import (
	"strings"
	"sync"
)

// Interned has equal strings of many objects share their memory: the names of drivers and nodes, for instance, which each object has in memory of its own as it comes from the API server. The zero
// value is ready. Package unique would forget a string with the next collection of garbage, since objects keep strings and no handles.
type Interned struct {
	lock  sync.Mutex
	known map[string]string
}

// mostInterned is how many strings are known at most. Nodes come and go, and what was said of them must not stay for ever.
const mostInterned = 1 << 16

// Of returns a string that is equal, and has its memory in common with those that were returned before.
func (i *Interned) Of(s string) string {
	i.lock.Lock()
	defer i.lock.Unlock()
	if known, is := i.known[s]; is {
		return known
	}
	if i.known == nil || len(i.known) == mostInterned {
		i.known = map[string]string{} // what has it in common already goes on to
	}
	s = strings.Clone(s) // of what it may be a part
	i.known[s] = s
	return s
}

package selffence

import "time"

// Evidence is since when the Node's Lease is known to have been renewed. Times are of a clock that goes on while the machine sleeps. The zero value knows nothing.
type Evidence struct {
	// asked is when the Lease was asked for last, renewal what it said.
	asked   time.Duration
	renewal string
	known   bool
	// stored is a time after which the last known renewal was stored.
	stored time.Duration
	proven bool
}

// Learn takes an answer: when it was asked for, and the renewTime that the Lease has. The first one proves nothing: the Lease may be years old.
func (e *Evidence) Learn(asked time.Duration, renewal string) {
	if asked < e.asked {
		return // the answer to an earlier question, which came later
	}
	if e.known && renewal != e.renewal {
		e.stored, e.proven = e.asked, true
	}
	e.asked, e.renewal, e.known = asked, renewal, true
}

// Within reports whether the Lease is known to have been renewed within a time until now.
func (e *Evidence) Within(now, patience time.Duration) bool {
	return e.proven && now >= e.stored && now-e.stored <= patience
}

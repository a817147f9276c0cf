package terminate

import "time"

// Limits are the times of the sequence that no policy sets.
type Limits struct {
	// Patience is how long a hard eviction waits for an API server that certainly accepted nothing.
	Patience time.Duration
	// Margin is what the kubelet gets beyond its own time, before the local sequence begins.
	Margin time.Duration
	// SoftPatience is how long a soft eviction is tried against an API server in trouble.
	SoftPatience time.Duration
	// SoftCall and HardCall bound one request.
	SoftCall, HardCall time.Duration
	// Mark bounds the condition that is written before the DELETE of a hard eviction, which it must not hold up.
	Mark time.Duration
	// Retry of a request after trouble.
	Retry Backoff
	// Budget is the wait after a budget forbade an eviction, where the answer asks for less.
	Budget Backoff
	// Restart is the wait before a container that the kubelet started again is stopped again.
	Restart Backoff
	// Again is the wait after a signal or a kill that failed or did not help.
	Again Backoff
	// LookMin and LookMax are how often the victim's cgroups are read, from the first seconds on.
	LookMin, LookMax time.Duration
}

// DefaultLimits are those of the node enforcer.
func DefaultLimits() Limits {
	return Limits{
		Patience: time.Second, Margin: 2 * time.Second, SoftPatience: 30 * time.Second,
		SoftCall: 10 * time.Second, HardCall: 3 * time.Second, Mark: 300 * time.Millisecond,
		Retry:   Backoff{Min: 200 * time.Millisecond, Max: 10 * time.Second},
		Budget:  Backoff{Min: 5 * time.Second, Max: time.Minute},
		Restart: Backoff{Min: time.Second, Max: 5 * time.Minute},
		Again:   Backoff{Min: time.Second, Max: time.Minute},
		LookMin: 100 * time.Millisecond, LookMax: time.Second,
	}
}

// lookEvery is a twentieth of the time that has passed, within the limits: quick at first, seldom for what lasts.
func (l *Limits) lookEvery(passed time.Duration) time.Duration {
	return min(max(passed/20, l.LookMin), l.LookMax)
}

// Backoff doubles from Min to Max.
type Backoff struct{ Min, Max time.Duration }

// after is the wait after the nth failure, counted from 1.
func (b Backoff) after(n int) time.Duration {
	wait := b.Min
	for ; n > 1 && wait < b.Max; n-- {
		wait *= 2
	}
	return min(wait, b.Max)
}

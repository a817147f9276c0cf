package pressure

import "sync"

// Aside has read what may take long, or for ever, so that the loop that watches memory need not wait for it: one reading at a time, whose answer
// is taken later. A reading that hangs keeps its goroutine, and nothing else.
type Aside[T any] struct {
	// Go is a test's; nil: a reading runs in a goroutine of its own.
	Go func(func())

	mu     sync.Mutex
	busy   bool
	answer *T
}

// Begin begins a reading, unless one runs.
func (a *Aside[T]) Begin(read func() T) (began bool) {
	a.mu.Lock()
	busy := a.busy
	a.busy = true
	a.mu.Unlock()
	if busy {
		return false
	}
	run := a.Go
	if run == nil {
		run = func(f func()) { go f() }
	}
	run(func() {
		answer := read()
		a.mu.Lock()
		defer a.mu.Unlock()
		a.busy, a.answer = false, &answer
	})
	return true
}

// Take returns the last answer, once.
func (a *Aside[T]) Take() (answer T, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.answer == nil {
		return answer, false
	}
	answer, a.answer = *a.answer, nil
	return answer, true
}

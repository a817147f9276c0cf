package nodeenforcer

import (
	"context"
	"strings"
	"sync"
)

// toldSource is a source that knows what it is told, and keeps what it is to save.
type toldSource struct {
	changed chan struct{}

	mu    sync.Mutex
	state State
	known bool
	saved []State
	fails error
}

func newSource() *toldSource { return &toldSource{changed: make(chan struct{}, 1)} }

func (s *toldSource) State() (State, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state, s.known
}

func (s *toldSource) Changed() <-chan struct{} { return s.changed }

func (s *toldSource) Start(context.Context) error { return nil }

func (s *toldSource) Save(state State) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.saved = append(s.saved, state)
	return s.fails
}

// say makes it known, and news.
func (s *toldSource) say(change func(*State)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known = true
	change(&s.state)
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *toldSource) saves() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.saved)
}

// logged are the messages of a log.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) write(prefix, args string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, prefix+args)
}

func (l *logged) count(text string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, text) {
			n++
		}
	}
	return n
}

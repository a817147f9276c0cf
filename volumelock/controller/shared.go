package controller

import (
	"errors"
	"sync"
)

var errPanicked = errors.New("the read that it shares has panicked")

// shared has all who want to read the same at once share one read, which begins after each of them has asked: it is later than whatever they had read before. So who asks while it is being read
// shares the next one, which begins once that has ended. The zero value is ready.
type shared[T any] struct {
	lock sync.Mutex
	last map[string]*sharedRead[T] // by what is read
}

type sharedRead[T any] struct {
	begun bool
	done  chan struct{} // closed when what follows is there
	is    T
	err   error
}

// read returns what is read by one of those who share it. Nobody may change it.
func (s *shared[T]) read(what string, read func() (T, error)) (T, error) {
	s.lock.Lock()
	before := s.last[what]
	if before != nil && !before.begun {
		s.lock.Unlock()
		<-before.done
		return before.is, before.err
	}
	r := &sharedRead[T]{done: make(chan struct{})}
	if s.last == nil {
		s.last = map[string]*sharedRead[T]{}
	}
	s.last[what] = r
	s.lock.Unlock()
	if before != nil {
		<-before.done
	}
	s.lock.Lock()
	r.begun = true
	s.lock.Unlock()
	r.err = errPanicked // unless it returns: who shares it must not wait for ever
	defer func() {
		s.lock.Lock()
		if s.last[what] == r {
			delete(s.last, what)
		}
		s.lock.Unlock()
		close(r.done)
	}()
	r.is, r.err = read()
	return r.is, r.err
}

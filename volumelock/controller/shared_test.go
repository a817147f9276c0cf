package controller

import (
	"sync"
	"testing"
)

// TestSharedRead: who asks while something is read does not get what was read before he asked; all who do so get it by one more read.
func TestSharedRead(t *testing.T) {
	t.Parallel()
	var s shared[int]
	begun, end := make(chan struct{}), make(chan struct{})
	stored, reads := 1, 0
	read := func() (int, error) { reads++; return stored, nil }
	first := make(chan int)
	go func() {
		is, _ := s.read("a", func() (int, error) {
			is, err := read()
			close(begun)
			<-end
			return is, err
		})
		first <- is
	}()
	<-begun
	stored = 2
	var others sync.WaitGroup
	for range 10 {
		others.Go(func() {
			if is, err := s.read("a", read); is != 2 || err != nil {
				t.Errorf("one that asked later got %d, %v", is, err)
			}
		})
	}
	if is, err := s.read("b", func() (int, error) { return 3, nil }); is != 3 || err != nil {
		t.Errorf("another object is %d, %v", is, err)
	}
	close(end)
	if is := <-first; is != 1 {
		t.Errorf("the first one got %d", is)
	}
	others.Wait()
	if reads < 2 || reads > 11 || len(s.last) > 0 {
		t.Errorf("%d reads, and %d are remembered", reads, len(s.last))
	}
}

// TestSharedReadPanics: one that panics leaves nobody waiting, neither who shares it nor who asks later.
func TestSharedReadPanics(t *testing.T) {
	t.Parallel()
	var s shared[int]
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was kept from who reads")
			}
		}()
		_, _ = s.read("a", func() (int, error) { panic("here") })
	}()
	if is, err := s.read("a", func() (int, error) { return 2, nil }); is != 2 || err != nil || len(s.last) > 0 {
		t.Errorf("the next one got %d, %v, and %d are remembered", is, err, len(s.last))
	}
}

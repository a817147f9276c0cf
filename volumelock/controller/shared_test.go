package controller

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// TestSharedRead: who asks while something is read does not get what was read before he asked; all who do so get it by one more read.
func TestSharedRead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		end := make(chan struct{})
		stored, reads := 1, 0
		read := func() (int, error) { reads++; return stored, nil }
		first := make(chan int)
		go func() {
			is, _ := s.read("a", func() (int, error) {
				is, err := read()
				<-end
				return is, err
			})
			first <- is
		}()
		synctest.Wait()
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
		synctest.Wait() // all ten have asked
		close(end)
		if is := <-first; is != 1 {
			t.Errorf("the first one got %d", is)
		}
		others.Wait()
		if reads != 2 || len(s.last) > 0 {
			t.Errorf("%d reads, and %d are remembered", reads, len(s.last))
		}
	})
}

// TestSharedReadPanics: of one that panics nobody takes what is not there for what was read, or waits for ever.
func TestSharedReadPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var s shared[int]
		end := make(chan struct{})
		go func() { _, _ = s.read("a", func() (int, error) { <-end; return 1, nil }) }()
		synctest.Wait()
		var others sync.WaitGroup
		others.Go(func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was kept from who reads")
				}
			}()
			_, _ = s.read("a", func() (int, error) { panic("here") })
		})
		synctest.Wait()
		others.Go(func() { // and shares that read
			if _, err := s.read("a", func() (int, error) { return 2, nil }); !errors.Is(err, errPanicked) {
				t.Errorf("who shares it is told %v", err)
			}
		})
		synctest.Wait()
		close(end)
		others.Wait()
		if is, err := s.read("a", func() (int, error) { return 2, nil }); is != 2 || err != nil || len(s.last) > 0 {
			t.Errorf("the next one got %d, %v, and %d are remembered", is, err, len(s.last))
		}
	})
}

// TestBothPanics: what is done beside another thing ends in a panic of who waits for both, which is recovered there.
func TestBothPanics(t *testing.T) {
	t.Parallel()
	defer func() {
		if r := recover(); r == nil {
			t.Error("nothing is told of it")
		}
	}()
	_ = (&Attacher{}).both(func() error { return nil }, func() error { panic("here") })
}

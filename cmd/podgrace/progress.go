package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progress is a bar on stderr for work that a person would otherwise wait for without a sign. It is not drawn where stderr is no
// terminal, nor before the work takes long enough to be noticed.
type progress struct {
	out   io.Writer // nil: nobody looks
	what  string
	total int

	mu     sync.Mutex
	count  int
	drawn  bool
	began  time.Time
	before time.Time
}

const (
	progressAfter = 500 * time.Millisecond
	progressEvery = 100 * time.Millisecond
	progressWidth = 30
)

func newProgress(t terminal, what string, total int) *progress {
	p := &progress{what: what, total: total, began: time.Now()}
	if t.Watches {
		p.out = t.Err
	}
	return p
}

// add counts what was done, from any goroutine.
func (p *progress) add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count += n
	now := time.Now()
	if p.out == nil || p.total == 0 || now.Sub(p.began) < progressAfter || now.Sub(p.before) < progressEvery {
		return
	}
	p.before, p.drawn = now, true
	full := progressWidth * p.count / p.total
	fmt.Fprintf(p.out, "\r%s [%s%s] %d/%d", p.what, strings.Repeat("=", full), strings.Repeat(" ", progressWidth-full), p.count, p.total)
}

// done takes the bar away.
func (p *progress) done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", len(p.what)+progressWidth+2*len(fmt.Sprint(p.total))+6))
	}
}

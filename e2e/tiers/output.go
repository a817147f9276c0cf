package main

import (
	"bytes"
	"io"
	"sync"
)

// lineWriter is one output for tiers that run at once: what is written in one call stays together, and lines are never mixed.
type lineWriter struct {
	mu  sync.Mutex
	out io.Writer
}

func (w *lineWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.out.Write(p)
}

// of returns a writer for one tier, whose name it puts before each line.
func (w *lineWriter) of(name string) *tierWriter {
	return &tierWriter{out: w, prefix: "[" + name + "] "}
}

// tierWriter passes whole lines on, and keeps the beginning of one until its end comes.
type tierWriter struct {
	mu      sync.Mutex // the events of go test and what it complains of come from two goroutines
	out     *lineWriter
	prefix  string
	pending []byte
}

func (w *tierWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, p...)
	return len(p), w.pass()
}

// end passes on a last line that has no end.
func (w *tierWriter) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 {
		w.pending = append(w.pending, '\n')
		_ = w.pass() // the closing table says how the tier ended
	}
}

// pass passes on what is whole.
func (w *tierWriter) pass() error {
	end := bytes.LastIndexByte(w.pending, '\n') + 1
	var text bytes.Buffer
	for line := range bytes.Lines(w.pending[:end]) {
		text.WriteString(w.prefix)
		text.Write(line)
	}
	w.pending = append([]byte(nil), w.pending[end:]...)
	_, err := w.out.Write(text.Bytes())
	return err
}

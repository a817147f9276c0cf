package manifest

import (
	"bytes"
	"errors"
	"io"
	"slices"
)

// step in bytes by which a file is read.
const step = 64 << 10

// source is a file of which only what is being looked at is in memory.
type source struct {
	from io.Reader
	// buf is read and not dropped yet; line is that of its first byte, from 1.
	buf  []byte
	line int
	// err ended the file; nil at its proper end.
	err  error
	done bool
	// mentions says that the file has the word apiVersion.
	mentions bool
}

// more reads on. False: there is nothing more.
func (s *source) more() bool {
	for !s.done {
		s.buf = slices.Grow(s.buf, step)
		n, err := s.from.Read(s.buf[len(s.buf) : len(s.buf)+step])
		s.buf = s.buf[:len(s.buf)+n]
		if err != nil {
			s.done = true
			if !errors.Is(err, io.EOF) {
				s.err = err
			}
		}
		if n > 0 {
			fresh := s.buf[max(len(s.buf)-n-len(apiVersion), 0):]
			s.mentions = s.mentions || bytes.Contains(fresh, []byte(apiVersion))
			return true
		}
	}
	return false
}

// apiVersion is a word that each manifest has.
const apiVersion = "apiVersion"

// has reports whether there are n bytes, and reads them.
func (s *source) has(n int) bool {
	for len(s.buf) < n {
		if !s.more() {
			return false
		}
	}
	return true
}

// starts reports whether the rest of the file starts so.
func (s *source) starts(prefix string) bool {
	return s.has(len(prefix)) && string(s.buf[:len(prefix)]) == prefix
}

// drop forgets the first n bytes.
func (s *source) drop(n int) {
	s.line += bytes.Count(s.buf[:n], newline)
	s.buf = s.buf[n:]
}

// dropLine forgets the rest of the line, however long.
func (s *source) dropLine() {
	for {
		if i := bytes.IndexByte(s.buf, '\n'); i >= 0 {
			s.drop(i + 1)
			return
		}
		s.drop(len(s.buf))
		if !s.more() {
			return
		}
	}
}

// lineAt is the line of a byte of buf.
func (s *source) lineAt(offset int) int { return s.line + bytes.Count(s.buf[:offset], newline) }

// endOfLine is the offset after the line that begins at an offset, its line break included. False: it is longer than the limit,
// counted from the start of buf.
func (s *source) endOfLine(from, limit int) (int, bool) {
	at := from
	for {
		if i := bytes.IndexByte(s.buf[at:], '\n'); i >= 0 {
			return at + i + 1, at+i < limit
		}
		at = len(s.buf)
		if at > limit {
			return at, false
		}
		if !s.more() {
			return at, true
		}
	}
}

var newline = []byte{'\n'}

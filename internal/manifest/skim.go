package manifest

import (
	"bytes"
	"slices"
	"unicode/utf8"
)

// Limits of what is skimmed; beyond them the decoder reads it.
const (
	// maxSkim in bytes: an object that has no end by then is the decoder's, which keeps its place when more is read.
	maxSkim = 1 << 20
	// manyItems of a list, after which they are given as they lie in buf, which is only added to: one that is kept then keeps some of its neighbours. Of
	// a short file, each would keep a whole step.
	manyItems = 100
	// skimDepth of nested objects and lists.
	skimDepth = 100
	// skimKeys of one object, each of which is compared with those before.
	skimKeys = 100
)

// skim gives the object at an offset of buf, if there is nothing remarkable about it, and returns the offset after it. Else false, and nothing
// is given. It takes a tenth of the time of the decoder, which makes a token of each value; a file may have the pods of a large cluster.
func (d *jsonDocument) skim(list *head, from int) (int, bool) {
	if d.sink.decoded {
		return 0, false
	}
	s := skimmer{keys: d.keys}
	for {
		s.text, s.at = d.buf, from
		s.head, s.keys = head{}, s.keys[:0]
		if s.byte() == '{' && s.object(topObject, 1) {
			break
		}
		n := len(d.buf) - from
		if s.at < len(s.text) || n > maxSkim || !d.fill() {
			return 0, false
		}
		for len(d.buf)-from < 2*n && d.fill() { // else much would be looked at again and again
		}
	}
	d.keys = s.keys
	raw := d.buf[from:s.at]
	if !utf8.Valid(raw) {
		return 0, false
	}
	if raw = slices.Clip(raw); d.items < manyItems {
		raw = bytes.Clone(raw)
	}
	s.head.give(d.sink, d.lineAt(from), s.head.inherit(list, raw))
	return s.at, true
}

// fill reads on, within the limit. False: there is nothing more, or too much.
func (d *jsonDocument) fill() bool { return len(d.buf) <= d.limit && d.more() }

// afterItems stand for the items that were skimmed, for a decoder that goes on after them. It has no number and no text at its end: there,
// the decoder would look at what follows.
const (
	afterItems       = `{"items":[[]`
	afterItemsTokens = 5
)

// skimItems gives items of the outermost list up to one that the decoder must read. any: there was an item before.
func (d *jsonDocument) skimItems(list *head, any bool) error {
	at, skimmed := d.at(), false
	for !d.sink.stopped {
		begin, ok := d.nextItem(at, any)
		if !ok {
			break
		}
		end, ok := d.skim(list, begin)
		if !ok {
			break
		}
		d.items++
		any, skimmed = true, true
		d.drop(end - 1) // the brace stays: what is said of a place is said of one after something
		at = 1
	}
	if !skimmed {
		return nil
	}
	d.given, d.dropped = at, int64(len(afterItems)-at)
	d.decode(afterItems)
	for range afterItemsTokens {
		if _, err := d.decoder.Token(); err != nil {
			return err
		}
	}
	return nil
}

// nextItem is the offset of the brace of the next item, after the comma if there was one before.
func (d *jsonDocument) nextItem(at int, any bool) (int, bool) {
	comma := !any
	for {
		for at < len(d.buf) {
			switch c := d.buf[at]; {
			case isSpace(c):
			case c == ',' && !comma:
				comma = true
			default:
				return at, c == '{' && comma
			}
			at++
		}
		if !d.fill() {
			return 0, false
		}
	}
}

// isSpace reports whether a byte is white space of JSON (RFC 8259, 2).
func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// skimmer finds the end of an object (RFC 8259), and its head. It stops, with at before the end of the text, at what is wrong, and at what is
// right and not worth the words here: escapes in keys and in the head, a list.
type skimmer struct {
	text []byte
	at   int
	head head
	// keys of the objects that are open, the outermost's first.
	keys [][]byte
}

// place is which object a member is of.
type place int

const (
	topObject place = iota
	topMetadata
	within
)

// object reads the object whose brace is next.
func (s *skimmer) object(of place, depth int) bool {
	if depth > skimDepth {
		return false
	}
	s.at++
	if s.next() == '}' {
		s.at++
		return true
	}
	first := len(s.keys)
	for {
		if s.next() != '"' {
			return false
		}
		key, ok := s.plain()
		if !ok || !s.isNew(key, first) || s.next() != ':' {
			return false
		}
		s.at++
		if !s.member(of, key, depth) {
			return false
		}
		switch s.next() {
		case ',':
			s.at++
		case '}':
			s.at++
			s.keys = s.keys[:first]
			return true
		default:
			return false
		}
	}
}

// isNew remembers a key of the object whose keys begin there.
func (s *skimmer) isNew(key []byte, first int) bool {
	known := s.keys[first:]
	if len(known) == skimKeys || slices.ContainsFunc(known, func(k []byte) bool { return string(k) == string(key) }) {
		s.at-- // into the key: it is no want of text
		return false
	}
	s.keys = append(s.keys, key)
	return true
}

func (s *skimmer) member(of place, key []byte, depth int) bool {
	var into *string
	switch {
	case of == topMetadata:
		into = s.head.nameOf(string(key))
	case of == within:
	case string(key) == "items":
		return false
	case string(key) == "apiVersion", string(key) == "kind":
		s.head.typed = true
		into = s.head.typeOf(string(key))
	case string(key) == "metadata":
		s.head.named = true
		return s.next() == '{' && s.object(topMetadata, depth+1)
	}
	if into == nil {
		return s.value(depth)
	}
	if s.next() != '"' {
		return false
	}
	text, ok := s.plain()
	*into = string(text)
	return ok
}

func (s *skimmer) value(depth int) bool {
	switch c := s.next(); c {
	case '{':
		return s.object(within, depth+1)
	case '[':
		return s.list(depth + 1)
	case '"':
		_, _, ok := s.quoted()
		return ok
	case 't':
		return s.literal("true")
	case 'f':
		return s.literal("false")
	case 'n':
		return s.literal("null")
	default:
		return s.number()
	}
}

func (s *skimmer) list(depth int) bool {
	if depth > skimDepth {
		return false
	}
	s.at++
	if s.next() == ']' {
		s.at++
		return true
	}
	for s.value(depth) {
		switch s.next() {
		case ',':
			s.at++
		case ']':
			s.at++
			return true
		default:
			return false
		}
	}
	return false
}

// next is the byte after white space; 0 at the end of the text.
func (s *skimmer) next() byte {
	for s.at < len(s.text) && isSpace(s.text[s.at]) {
		s.at++
	}
	return s.byte()
}

// byte is the next one; 0 at the end of the text.
func (s *skimmer) byte() byte {
	if s.at == len(s.text) {
		return 0
	}
	return s.text[s.at]
}

// plain is a text without escapes.
func (s *skimmer) plain() ([]byte, bool) {
	begin := s.at
	text, escaped, ok := s.quoted()
	if escaped {
		s.at = begin
	}
	return text, ok && !escaped
}

// quoted is what is between quotes, as it stands there.
func (s *skimmer) quoted() (text []byte, escaped, ok bool) {
	begin := s.at + 1
	for s.at = begin; s.at < len(s.text); s.at++ {
		switch c := s.text[s.at]; {
		case c == '"':
			s.at++
			return s.text[begin : s.at-1], escaped, true
		case c == '\\':
			if escaped = true; !s.escape() {
				return nil, true, false
			}
		case c < ' ':
			return nil, escaped, false
		}
	}
	return nil, escaped, false
}

// escape goes to the last byte of the escape that is next.
func (s *skimmer) escape() bool {
	s.at++
	switch s.byte() {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	case 'u':
		for range 4 {
			s.at++
			if c := s.byte(); !isDigit(c) && (c|0x20 < 'a' || c|0x20 > 'f') {
				return false
			}
		}
		return true
	}
	return false
}

func (s *skimmer) literal(word string) bool {
	if !bytes.HasPrefix(s.text[s.at:], []byte(word)) {
		if len(s.text)-s.at < len(word) {
			s.at = len(s.text)
		}
		return false
	}
	s.at += len(word)
	return true
}

func (s *skimmer) number() bool {
	if s.byte() == '-' {
		s.at++
	}
	if s.byte() == '0' {
		s.at++
	} else if !s.digits() {
		return false
	}
	if s.byte() == '.' {
		if s.at++; !s.digits() {
			return false
		}
	}
	if s.byte()|0x20 != 'e' {
		return true
	}
	s.at++
	if c := s.byte(); c == '+' || c == '-' {
		s.at++
	}
	return s.digits()
}

// digits reads at least one.
func (s *skimmer) digits() bool {
	begin := s.at
	for isDigit(s.byte()) {
		s.at++
	}
	return s.at > begin
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

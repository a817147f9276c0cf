package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// maxDepth of nested objects and lists, as of encoding/json.
const maxDepth = 10_000

var errTooLarge = errors.New("too large")

// json reads a JSON value. A list is read item by item, and is never in memory as a whole.
func (s *splitter) json() {
	line := s.line
	d := jsonDocument{splitter: s}
	if end, ok := d.skim(nil, 0); ok {
		d.drop(end)
		s.afterJSON = true
		return
	}
	d.decode("")
	err := d.value()
	switch {
	case s.sink.stopped:
	case s.err != nil && isEnd(err):
		s.drop(len(s.buf))
	case err == nil:
		d.dropTo(d.at())
		s.afterJSON = true
	case errors.Is(err, errTooLarge):
		s.sink.fail(line, "a JSON object of more than %s", inBytes(s.limit))
		s.resync(max(d.at(), 1))
	case d.isYAML():
		s.yaml()
	default:
		at := d.at()
		s.sink.fail(d.explain(err, line, at))
		s.resync(max(at, 1))
	}
}

// jsonDocument is a JSON value of a stream that is being read.
type jsonDocument struct {
	*splitter
	decoder *json.Decoder
	// given to the decoder of buf; dropped bytes of the value are no longer in it.
	given   int
	dropped int64
	depth   int
	// items that were read, of the outermost list.
	items int
	list  bool
	top   head
	// current object with a head, which has the blame.
	current *head
	// keys are memory for a skimmer.
	keys [][]byte
}

// decode has a decoder read what was not given yet, after a text.
func (d *jsonDocument) decode(before string) {
	d.decoder = json.NewDecoder(io.MultiReader(strings.NewReader(before), d))
	d.decoder.UseNumber()
}

// Read gives the decoder what is in buf, which keeps it until the document is read.
func (d *jsonDocument) Read(p []byte) (int, error) {
	if d.given == len(d.buf) {
		if len(d.buf) > d.limit {
			return 0, errTooLarge
		}
		if !d.more() {
			return 0, io.EOF
		}
	}
	n := copy(p, d.buf[d.given:])
	d.given += n
	return n, nil
}

// at is the offset in buf after what was decoded.
func (d *jsonDocument) at() int { return min(int(d.decoder.InputOffset()-d.dropped), len(d.buf)) }

func (d *jsonDocument) dropTo(at int) {
	d.drop(at)
	d.given -= at
	d.dropped += int64(at)
}

// isYAML reports whether what is no JSON is YAML all the same, such as a flow mapping with quoted keys; as kubectl does it. Nothing
// of it may have been given yet.
func (d *jsonDocument) isYAML() bool {
	if d.onlyJSON || d.named() || d.dropped > 0 || len(d.buf) > maxProbe {
		return false
	}
	end, ok := d.document()
	if !ok || end > maxProbe {
		return false
	}
	var out Reader
	out.yield = func(*Document, *Error) bool { return true }
	readYAML(d.buf[:end], d.line, d.limit, &out)
	d.onlyJSON = out.errors > 0
	return !d.onlyJSON
}

// explain is the line and the text of an error: where it is, or where the document began that has no end.
func (d *jsonDocument) explain(err error, line, at int) (int, string, string) {
	rest := ""
	if d.list {
		rest = fmt.Sprintf("; the list was read up to here, %d items", d.items)
	}
	if isEnd(err) {
		return line, "%s", fmt.Sprintf("JSON: it ends in the middle, at line %d%s", d.lineAt(len(bytes.TrimSpace(d.buf))), rest)
	}
	if d.comment(at) {
		rest = " (JSON has no comments)" + rest
	}
	return d.lineAt(d.space(at)), "%s", "JSON: " + err.Error() + rest
}

// comment reports whether a comment of JavaScript begins at an offset, or before it.
func (d *jsonDocument) comment(at int) bool {
	around := d.buf[max(at-1, 0):min(at+2, len(d.buf))]
	return bytes.Contains(around, []byte("//")) || bytes.Contains(around, []byte("/*"))
}

func isEnd(err error) bool { return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) }

// value reads a value at the top.
func (d *jsonDocument) value() error {
	token, err := d.decoder.Token()
	if err != nil {
		return err
	}
	if token == json.Delim('{') {
		return d.object(nil)
	}
	line := d.line
	d.current = &d.top
	if err := d.rest(token); err != nil {
		return err
	}
	d.sink.foreign(line, "a list, not an object%s", manifestsIn(&d.top, d.buf[:d.at()]))
	return nil
}

// object gives the object whose brace was read, or its items if it has any. The list is that which it is an item of, or nil.
func (d *jsonDocument) object(list *head) error {
	start := d.at() - 1
	line := d.lineAt(start)
	before := d.dropped
	var h head
	defer func(outer *head) { d.current = outer }(d.current)
	d.current = &h
	isList, isEmpty := false, false
	err := d.members(func(key string, token json.Token) error {
		switch key {
		case "apiVersion", "kind":
			h.typed = true
			return d.text(key, token, h.typeOf(key))
		case "metadata":
			h.named = true
			return d.metadata(token)
		case "items":
			switch token {
			case json.Delim('['):
				isList = true
				return d.itemsOf(&h)
			case nil:
				isEmpty = true
			}
		}
		return d.rest(token)
	})
	if err != nil {
		return err
	}
	if isList || isEmpty && h.isList() {
		h.giveList(d.sink, line)
		return nil
	}
	start -= int(d.dropped - before)
	raw := d.buf[start:d.at()]
	if !utf8.Valid(raw) {
		at, what := notText(raw)
		h.fail(d.lineAt(start+at), "%s", what)
	}
	h.give(d.sink, line, h.inherit(list, bytes.Clone(raw)))
	return nil
}

var errStopped = errors.New("stopped")

// itemsOf gives the items of a list, and drops what was read.
func (d *jsonDocument) itemsOf(h *head) error {
	d.list = true
	d.depth++
	defer func() { d.depth-- }()
	if d.depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	for any := false; ; any = true {
		if d.depth == 2 {
			if err := d.skimItems(h, any); err != nil {
				return err
			}
		}
		if d.sink.stopped {
			return errStopped
		}
		if !d.decoder.More() {
			break
		}
		token, err := d.decoder.Token()
		if err != nil {
			return err
		}
		d.dropTo(d.at() - 1)
		if token == json.Delim('{') {
			err = d.object(h)
		} else {
			line := d.line
			if err = d.rest(token); err == nil {
				d.sink.fail(line, "%s as an item of a list, not an object", describeToken(token))
			}
		}
		if err != nil {
			return err
		}
		d.items++
	}
	_, err := d.decoder.Token()
	return err
}

// members reads the members of an object up to its end. Of each, the first token is given, and the rest has to be read.
func (d *jsonDocument) members(each func(key string, token json.Token) error) error {
	if d.depth++; d.depth > maxDepth {
		return fmt.Errorf("nested deeper than %d", maxDepth)
	}
	defer func() { d.depth-- }()
	keys := keySet{}
	for d.decoder.More() {
		token, err := d.decoder.Token()
		if err != nil {
			return err
		}
		key, _ := token.(string)
		if !keys.add(key) && d.current.wrong == nil {
			d.current.fail(d.lineAt(d.at()), "field %q is in this object twice", key)
		}
		if token, err = d.decoder.Token(); err != nil {
			return err
		}
		if err := each(key, token); err != nil {
			return err
		}
	}
	_, err := d.decoder.Token()
	return err
}

// rest reads the rest of a value whose first token was read.
func (d *jsonDocument) rest(token json.Token) error {
	switch token {
	case json.Delim('{'):
		return d.members(func(_ string, token json.Token) error { return d.rest(token) })
	case json.Delim('['):
		if d.depth++; d.depth > maxDepth {
			return fmt.Errorf("nested deeper than %d", maxDepth)
		}
		defer func() { d.depth-- }()
		for d.decoder.More() {
			token, err := d.decoder.Token()
			if err != nil {
				return err
			}
			if err := d.rest(token); err != nil {
				return err
			}
		}
		_, err := d.decoder.Token()
		return err
	}
	return nil
}

func (d *jsonDocument) metadata(token json.Token) error {
	if token != nil && token != json.Delim('{') {
		d.current.fail(d.lineAt(d.at()), "metadata is %s, not an object", describeToken(token))
	}
	if token != json.Delim('{') {
		return d.rest(token)
	}
	return d.members(func(key string, token json.Token) error {
		if into := d.current.nameOf(key); into != nil {
			return d.text("metadata."+key, token, into)
		}
		return d.rest(token)
	})
}

// text reads a member that must be a text; null is none.
func (d *jsonDocument) text(name string, token json.Token, into *string) error {
	*into = ""
	value, ok := token.(string)
	if !ok && token != nil {
		d.current.fail(d.lineAt(d.at()), "%s is %s, not a text", name, describeToken(token))
	}
	*into = value
	return d.rest(token)
}

// describeJSON says what a value is, for people.
func describeJSON(raw []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	token, _ := decoder.Token()
	return describeToken(token)
}

func describeToken(token json.Token) string {
	switch t := token.(type) {
	case nil:
		return "null"
	case json.Delim:
		if t == '[' {
			return "a list"
		}
		return "an object"
	case bool:
		return fmt.Sprintf("a boolean (%t)", t)
	case json.Number:
		return "a number (" + t.String() + ")"
	}
	return "a text"
}

// keySet are the keys of one object.
type keySet struct {
	list []string
	all  map[string]bool
}

// few keys are searched for one after the other: a map would cost more.
const few = 12

// add is false for a key that is there already.
func (s *keySet) add(key string) bool {
	if s.all == nil {
		if slices.Contains(s.list, key) {
			return false
		}
		if s.list = append(s.list, key); len(s.list) > few {
			s.all = make(map[string]bool, 2*len(s.list))
			for _, k := range s.list {
				s.all[k] = true
			}
		}
		return true
	}
	if s.all[key] {
		return false
	}
	s.all[key] = true
	return true
}

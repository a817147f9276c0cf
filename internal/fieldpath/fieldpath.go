// Package fieldpath is where something stands in an object: for machines a JSON pointer (RFC 6901), /spec/containers/0/image, and for people
// spec.containers[0].image.
package fieldpath

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Path is the keys, indices and names that lead to a place.
type Path []string

// OfPointer is the path of a JSON pointer.
func OfPointer(pointer string) Path {
	if pointer == "" {
		return nil
	}
	steps := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, step := range steps {
		steps[i] = strings.ReplaceAll(strings.ReplaceAll(step, "~1", "/"), "~0", "~")
	}
	return steps
}

// Parse reads what a person wrote: spec.containers[web].image, metadata.annotations["podgrace.dev/enforcement"].oom.rank, or a JSON pointer.
func Parse(text string) (Path, error) {
	if strings.HasPrefix(text, "/") {
		return OfPointer(text), nil
	}
	var p Path
	for rest := "." + text; rest != ""; {
		var step string
		switch rest[0] {
		case '.':
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			step, rest = rest[1:end], rest[end:]
		case '[':
			end := strings.IndexByte(rest, ']')
			if end < 0 {
				return nil, errors.New("a [ without a ]")
			}
			step, rest = strings.Trim(rest[1:end], `"'`), rest[end+1:]
		default:
			return nil, fmt.Errorf("%q follows a ]", rest)
		}
		if step == "" {
			return nil, errors.New("an empty step")
		}
		p = append(p, step)
	}
	return p, nil
}

// Pointer is the path for machines.
func (p Path) Pointer() string {
	var pointer strings.Builder
	for _, step := range p {
		pointer.WriteString("/" + strings.ReplaceAll(strings.ReplaceAll(step, "~", "~0"), "/", "~1"))
	}
	return pointer.String()
}

// String is the path for people.
func (p Path) String() string {
	text := ""
	for _, step := range p {
		text = Member(text, step)
	}
	return text
}

// Exact is String, or the pointer of a path that nobody could read from that.
func (p Path) Exact() string {
	if read, err := Parse(p.String()); err == nil && slices.Equal(read, p) {
		return p.String()
	}
	return p.Pointer()
}

// Member is the place of a key, or an index, within a place as people write it: a key with dots or slashes, or that is a number, stands in
// brackets.
func Member(within, key string) string {
	_, notNumber := strconv.Atoi(key)
	switch {
	case notNumber == nil || strings.ContainsAny(key, "./"):
		return Element(within, key)
	case within == "":
		return key
	}
	return within + "." + key
}

// Element is the place of an element of a list by its name, which stands in brackets.
func Element(within, name string) string { return within + "[" + name + "]" }

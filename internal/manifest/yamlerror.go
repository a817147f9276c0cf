package manifest

import (
	"bytes"
	"io"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

var (
	yamlLine      = regexp.MustCompile(`^(?:yaml: )?(?:line (\d+): )?`)
	unknownAnchor = regexp.MustCompile(`^unknown anchor '(.*)' referenced`)
)

// maxProbe in bytes is how long a document may be to be parsed again for the line of an error.
const maxProbe = 1 << 20

// explain says at which line of the document, from 1, and what a person has to look for. The parser's own lines are those where the
// thing began that it was reading, from 0 or from 1, or none: source go.yaml.in/yaml/v3 v3.0.6 decode.go, fail.
func explain(text []byte, err error) (int, string) {
	message := err.Error()
	found := yamlLine.FindStringSubmatch(message)
	message = message[len(found[0]):]
	line, _ := strconv.Atoi(found[1])
	switch {
	case unknownAnchor.MatchString(message):
		line = lineOf(text, "*"+unknownAnchor.FindStringSubmatch(message)[1])
	case message == "control characters are not allowed":
		line = lineOfControl(text)
	case strings.HasPrefix(message, "did not find expected ',' or"):
		line++ // counted from 0: the bracket that is not closed
	case strings.HasPrefix(message, "did not find expected"), strings.HasPrefix(message, "found a tab"):
		line = probe(text, line)
	}
	line = max(line, 1)
	return line, "YAML: " + message + hint(text, line, message)
}

// hint says in a person's words what the parser means.
func hint(text []byte, line int, message string) string {
	switch {
	case isTemplate(text, line):
		return unrendered
	case bytes.ContainsRune(nth(text, line), '\t') && !strings.Contains(message, "escape"):
		return " (there is a tab in this line; YAML is indented by spaces)"
	case strings.Contains(message, "did not find expected key"), strings.Contains(message, "'-' indicator"):
		return " (wrong indentation?)"
	case strings.Contains(message, "mapping values are not allowed"):
		return " (wrong indentation, or a text with a colon that needs quotes?)"
	case strings.Contains(message, "unexpected end of stream"), strings.Contains(message, "unexpected document indicator"):
		return " (a quote is not closed)"
	case strings.Contains(message, "expected ',' or"):
		return " (a bracket is not closed)"
	case strings.Contains(message, "cannot start any token"):
		return " (a text with @, ` or % at its start needs quotes)"
	case bytes.Contains(text, []byte("{{")):
		return unrendered
	}
	return ""
}

// unrendered asks whether the text is a template.
const unrendered = " (a template that was not rendered?)"

// templateLine is one that begins with something that a template engine fills in, or whose value does (Go's templates, Jinja).
var templateLine = regexp.MustCompile(`^\s*(?:- +)?(?:[^\s:#]+:\s+)?\{[{%]`)

// isTemplate reports whether the text can't be read because it is a template. The parser's lines are not exact.
func isTemplate(text []byte, line int) bool {
	return templateLine.Match(nth(text, line-1)) || templateLine.Match(nth(text, line)) || templateLine.Match(nth(text, line+1))
}

func nth(text []byte, line int) []byte {
	for ; line > 1; line-- {
		i := bytes.IndexByte(text, '\n')
		if i < 0 {
			return nil
		}
		text = text[i+1:]
	}
	first, _, _ := bytes.Cut(text, newline)
	return first
}

func lineOf(text []byte, word string) int {
	return 1 + bytes.Count(text[:max(bytes.Index(text, []byte(word)), 0)], newline)
}

// lineOfControl finds what the parser takes for a control character. Source: go.yaml.in/yaml/v3 v3.0.6 readerc.go.
func lineOfControl(text []byte) int {
	at := bytes.IndexFunc(bytes.TrimPrefix(text, []byte(bom)), func(r rune) bool {
		return r < ' ' && r != '\t' && r != '\n' && r != '\r' || r >= 0x7f && r < 0xa0 && r != 0x85 || r == 0xfeff || r == 0xfffe || r == 0xffff
	})
	return 1 + bytes.Count(text[:max(at, 0)], newline)
}

// probe finds the line at which the parser gives up: it is fed byte by byte, and looks ahead by few.
func probe(text []byte, line int) int {
	if len(text) > maxProbe {
		return line + 1
	}
	feed := &drip{rest: text}
	var node yaml.Node
	for decoder := yaml.NewDecoder(feed); ; {
		if err := decode(decoder, &node); err != nil {
			break
		}
	}
	return 1 + bytes.Count(bytes.TrimRight(text[:len(text)-len(feed.rest)], " \t\r\n"), newline)
}

// drip is a reader of single bytes.
type drip struct{ rest []byte }

func (d *drip) Read(p []byte) (int, error) {
	if len(d.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1)], d.rest)
	d.rest = d.rest[n:]
	return n, nil
}

package agents

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/podgrace/podgrace/internal/console"
)

const (
	// maxError is how many letters of an error are kept: the status of a Fence has room for 1024 bytes.
	maxError = 400
	// maxWord is how many a receipt has for a state or a UUID.
	maxWord = 64
)

// short is others' text on one line, harmless to read, in as many bytes.
func short(text string, most int) string {
	text = console.OneLine(text)
	if len(text) <= most {
		return text
	}
	const more = "..."
	return strings.ToValidUTF8(text[:most-len(more)], "") + more
}

// end is the end of what a program wrote, where it says what stopped it, after its warnings and the places in its own code.
func end(text string, most int) string {
	text = console.OneLine(text)
	if len(text) <= most {
		return text
	}
	const more = "..."
	return more + strings.ToValidUTF8(text[len(text)-most+len(more):], "")
}

// scrubber takes secrets out of texts.
type scrubber struct{ forms []string } // in which they may stand there

// newScrubber knows secrets as they are and as programs are wont to show them: quoted, in URLs, in headers.
func newScrubber(secrets ...string) scrubber {
	var s scrubber
	for _, text := range secrets {
		quoted, _ := json.Marshal(text) // of a text: never fails
		for _, form := range []string{
			text, console.OneLine(text), url.QueryEscape(text), url.PathEscape(text), trimQuotes(string(quoted)), trimQuotes(strconv.Quote(text)),
			strings.ReplaceAll(text, `'`, `'"'"'`), strings.ReplaceAll(text, `'`, `\'`), strings.ReplaceAll(text, `\`, `\\`),
			base64.StdEncoding.EncodeToString([]byte(text)), base64.RawURLEncoding.EncodeToString([]byte(text)),
		} {
			if form != "" && !slices.Contains(s.forms, form) {
				s.forms = append(s.forms, form)
			}
		}
	}
	return s
}

func trimQuotes(text string) string { return strings.TrimSuffix(strings.TrimPrefix(text, `"`), `"`) }

// of secrets all values, each as it is and without the newline at its end.
func (s secret) scrubber(more ...string) scrubber {
	for _, value := range s.values {
		more = append(more, string(value), trimNewline(string(value)))
	}
	return newScrubber(more...)
}

const scrubbed = "[secret]"

// text is a text without the secrets. One that was cut off may end in the beginning of a secret: that goes as well. All places are found before any is taken out, since
// they may overlap.
func (s scrubber) text(text string, cutOff bool) string {
	secret := make([]bool, len(text))
	mark := func(from, to int) {
		for i := from; i < to; i++ {
			secret[i] = true
		}
	}
	for _, form := range s.forms {
		for at := 0; at < len(text); at++ {
			next := strings.Index(text[at:], form)
			if next < 0 {
				break
			}
			at += next
			mark(at, at+len(form))
		}
		for n := min(len(form), len(text)); cutOff && n > 0; n-- {
			if strings.HasSuffix(text, form[:n]) {
				mark(len(text)-n, len(text))
				break
			}
		}
	}
	var out strings.Builder
	for i := range len(text) {
		switch {
		case !secret[i]:
			out.WriteByte(text[i])
		case i == 0 || !secret[i-1]:
			out.WriteString(scrubbed)
		}
	}
	return out.String()
}

// wrap says what was done, to what, and what came of it, without secrets and in bounds. What the error is (errors.Is) can still be asked, but not what it said.
func (s scrubber) wrap(err error, format string, args ...any) error {
	if err == nil {
		return nil
	}
	return &scrubbedError{text: short(s.text(fmt.Sprintf(format, args...)+": "+err.Error(), false), maxError), is: err}
}

type scrubbedError struct {
	text string
	is   error
}

func (e *scrubbedError) Error() string { return e.text }

// Is keeps ErrWrongMachine and the context's errors known. There is no Unwrap, which would hand out the text as it was.
func (e *scrubbedError) Is(target error) bool { return errors.Is(e.is, target) }

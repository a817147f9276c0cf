package delta

import (
	"fmt"
	"regexp"
	"strings"
)

// special are the signs that mean something to Markdown, to a table or to HTML within a line.
const special = "\\`*_{}[]<>|~!&$^@#\""

// links are what GitHub makes a link of wherever it stands.
var links = strings.NewReplacer("://", "&#58;//", "www.", "www&#46;")

// Markdown writes what is special to Markdown, to a table or to HTML within a line as HTML's number of it, and keeps what looks like a
// link from being one.
func Markdown(text string) string {
	var out strings.Builder
	for _, r := range text {
		if strings.ContainsRune(special, r) {
			fmt.Fprintf(&out, "&#%d;", r)
		} else {
			out.WriteRune(r)
		}
	}
	return links.Replace(out.String())
}

// MaxComment is the size that a comment for a pull request is kept to, in bytes: GitHub refuses one of over 65,536 characters.
const MaxComment = 60_000

// Code is a text in the face of code, in which GitHub looks for no mentions and references.
func Code(text string) string {
	if text == "" {
		return ""
	}
	return "<code>" + Markdown(text) + "</code>"
}

// reference is the beginning of a mention or of an issue's number, which GitHub looks for in the finished HTML.
var reference = regexp.MustCompile(`(^|\W)@|#`)

// Prose is a text among Markdown. A blank of no width keeps what looks like a reference from being one.
func Prose(text string) string {
	return Markdown(reference.ReplaceAllString(text, "$0\u200b"))
}

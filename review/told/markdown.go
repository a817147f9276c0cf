package told

import (
	"fmt"
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

package impact

import (
	"fmt"
	"io"

	"github.com/podgrace/podgrace/review/safe"
)

// maxMessage is how much of a message is shown, in characters. JSON has all of it.
const maxMessage = 400

// writeJSON prints the Diff by its own tags.
func writeJSON(w io.Writer, d *Diff, _ Options) error { return safe.EncodeJSON(w, d) }

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

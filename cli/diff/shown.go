package diff

import (
	"io"

	"github.com/podgrace/podgrace/internal/console"
)

// maxMessage is how much of a message is shown, in characters. JSON has all of it.
const maxMessage = 400

// writeJSON prints the Diff by its own tags.
func writeJSON(w io.Writer, d *Diff, _ Options) error { return console.EncodeJSON(w, d) }

package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/podgrace/podgrace/confirm"
)

// terminal is where a person sits, if one does.
type terminal struct {
	In       io.Reader
	Out, Err io.Writer
	// Asks: somebody can be asked.
	Asks  bool
	Style confirm.Style
}

func newTerminal() terminal {
	t := terminal{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Asks: term.IsTerminal(int(os.Stdin.Fd()))}
	if out := int(os.Stdout.Fd()); term.IsTerminal(out) {
		t.Style.Color = os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
		if width, _, err := term.GetSize(out); err == nil {
			t.Style.Width = width
		}
	}
	return t
}

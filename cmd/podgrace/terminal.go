package main

import (
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/term"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/cmd/podgrace/confirm"
)

// terminal is where a person sits, if one does.
type terminal struct {
	In       io.Reader
	Out, Err io.Writer
	// Asks: somebody can be asked. Watches: somebody sees Err as it is written.
	Asks, Watches bool
	Style         confirm.Style
	// Clock is nil for the real one.
	Clock clock.PassiveClock
}

func (t terminal) now() time.Time {
	if t.Clock == nil {
		return time.Now()
	}
	return t.Clock.Now()
}

func newTerminal() terminal {
	t := terminal{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Asks: term.IsTerminal(int(os.Stdin.Fd())), Watches: term.IsTerminal(int(os.Stderr.Fd()))}
	out := int(os.Stdout.Fd())
	t.Style.Color = colored(os.Getenv, term.IsTerminal(out))
	if width, _, err := term.GetSize(out); err == nil {
		t.Style.Width = width
	} else if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		t.Style.Width = width
	}
	return t
}

// colored: on a terminal that knows colours, unless NO_COLOR is set (no-color.org); elsewhere where CLICOLOR_FORCE is (a log that is
// shown with its colours; bixense.com/clicolors).
func colored(env func(string) string, isTerminal bool) bool {
	if env("NO_COLOR") != "" {
		return false
	}
	if force := env("CLICOLOR_FORCE"); force != "" && force != "0" {
		return true
	}
	return isTerminal && env("TERM") != "dumb"
}

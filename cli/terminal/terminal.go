package terminal

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/internal/console"
)

// Terminal is where a person sits, if one does.
type Terminal struct {
	In       io.Reader
	Out, Err io.Writer
	// Asks: somebody can be asked. Watches: somebody sees Err as it is written.
	Asks, Watches bool
	Style         console.Style
	// Clock is nil for the real one.
	Clock clock.PassiveClock
}

// Now is the time by its clock.
func (t Terminal) Now() time.Time {
	if t.Clock == nil {
		return time.Now()
	}
	return t.Clock.Now()
}

// NewTerminal is that of the process.
func NewTerminal() Terminal {
	t := Terminal{In: os.Stdin, Out: os.Stdout, Err: os.Stderr, Asks: term.IsTerminal(int(os.Stdin.Fd())), Watches: term.IsTerminal(int(os.Stderr.Fd()))}
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

// Progress is a bar on stderr for work that a person would otherwise wait for without a sign. It is not drawn where stderr is no
// terminal, nor before the work takes long enough to be noticed.
type Progress struct {
	out   io.Writer // nil: nobody looks
	what  string
	total int

	mu     sync.Mutex
	count  int
	drawn  bool
	began  time.Time
	before time.Time
}

const (
	progressAfter = 500 * time.Millisecond
	progressEvery = 100 * time.Millisecond
	progressWidth = 30
)

// NewProgress is a bar for so many of what is done.
func NewProgress(t Terminal, what string, total int) *Progress {
	p := &Progress{what: what, total: total, began: time.Now()}
	if t.Watches {
		p.out = t.Err
	}
	return p
}

// Add counts what was done, from any goroutine.
func (p *Progress) Add(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count += n
	now := time.Now()
	if p.out == nil || p.total == 0 || now.Sub(p.began) < progressAfter || now.Sub(p.before) < progressEvery {
		return
	}
	p.before, p.drawn = now, true
	full := progressWidth * p.count / p.total
	fmt.Fprintf(p.out, "\r%s [%s%s] %d/%d", p.what, strings.Repeat("=", full), strings.Repeat(" ", progressWidth-full), p.count, p.total)
}

// Done takes the bar away.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.drawn {
		fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", len(p.what)+progressWidth+2*len(fmt.Sprint(p.total))+6))
	}
}

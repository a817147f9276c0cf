package cluster

import (
	"fmt"
	"io"
	"math"
	"os"
	"time"

	"golang.org/x/term"
)

// buildProgress says how far a build of some programs is. In a log each program has a line, which begins with the build and
// ends with it; on a terminal the line is kept up to date meanwhile.
type buildProgress struct {
	out      io.Writer
	terminal bool
	programs []program
	start    time.Time
	pace     pace
	built    int
}

// newBuildProgress says what is going to be built.
func newBuildProgress(out io.Writer, what string, programs []program) *buildProgress {
	file, isFile := out.(*os.File)
	b := &buildProgress{out: out, terminal: isFile && term.IsTerminal(int(file.Fd())), programs: programs, start: time.Now()}
	many := "1 program"
	if len(programs) > 1 {
		many = fmt.Sprintf("%d programs", len(programs))
	}
	fmt.Fprintf(out, "building %s of %s from source, once: %s on two cores\n", many, what, about(total(programs)))
	return b
}

// during runs the build of program i.
func (b *buildProgress) during(i int, build func() error) error {
	start := time.Now()
	place := fmt.Sprintf("%d of %d %s ... ", i+1, len(b.programs), b.programs[i].name)
	fmt.Fprint(b.out, place)
	stop := func() {}
	if b.terminal {
		stop = everySecond(func() {
			spent := time.Since(start)
			fmt.Fprintf(b.out, "\r%s%s, %s left\x1b[K", place, seconds(spent), about(b.pace.left(b.programs[i:], spent)))
		})
	}
	err := build()
	stop()
	took := time.Since(start)
	if b.terminal {
		fmt.Fprintf(b.out, "\r%s", place)
	}
	switch {
	case err != nil:
		fmt.Fprint(b.out, "failed")
	case i == len(b.programs)-1:
		fmt.Fprintf(b.out, "%s, %s in all", seconds(took), seconds(time.Since(b.start)))
	default:
		b.pace.add(b.programs[i], took)
		fmt.Fprintf(b.out, "%s, %s left", seconds(took), about(b.pace.left(b.programs[i+1:], 0)))
	}
	if b.terminal {
		fmt.Fprint(b.out, "\x1b[K") // what is left of a longer line
	}
	fmt.Fprintln(b.out)
	return err
}

// everySecond calls show every second until the function that it returns has returned.
func everySecond(show func()) (stop func()) {
	stopping, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(time.Second)
		defer tick.Stop()
		for {
			select {
			case <-stopping:
				return
			case <-tick.C:
				show()
			}
		}
	}()
	return func() { close(stopping); <-stopped }
}

// pace is how this machine compares with the one on which program.takes was measured, by what was built so far.
type pace struct{ took, expected time.Duration }

// doubt is how much that was built as fast as expected a pace begins with. One small program says little, and nothing of
// the others where its packages were in the build cache: alone it must not promise an end in seconds.
const doubt = time.Minute

func (p *pace) add(built program, took time.Duration) {
	p.took += took
	p.expected += built.takes
}

// left estimates how long the programs take of which the first has been building for spent. One that takes longer than
// expected slows the pace before it ends, so that what is left does not shrink while nothing gets done.
func (p pace) left(programs []program, spent time.Duration) time.Duration {
	factor := float64(p.took+doubt) / float64(p.expected+doubt)
	first := programs[0].takes
	if late := float64(p.took+spent+doubt) / float64(p.expected+first+doubt); late > factor {
		factor = late
	}
	current := max(0, scale(first, factor)-spent)
	return current + scale(total(programs[1:]), factor)
}

func scale(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d) * factor)
}

func total(programs []program) time.Duration {
	var sum time.Duration
	for _, p := range programs {
		sum += p.takes
	}
	return sum
}

// about is a duration as exact as an estimate may be: more than half a minute is rounded up, since who comes back too early waits.
func about(d time.Duration) string {
	if d < 30*time.Second {
		return "less than a minute"
	}
	return fmt.Sprintf("about %d min", int(math.Ceil(d.Round(time.Second).Minutes())))
}

// seconds is a duration as a clock shows it.
func seconds(d time.Duration) string { return d.Round(time.Second).String() }

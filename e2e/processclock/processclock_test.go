package processclock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"testing"
	"time"
)

// child has this program tell the time whenever it is asked, by both clocks, and end with its input. One that is busy reads it all the while besides, on two threads.
const (
	child = "PODGRACE_TEST_TELL_TIME"
	idle  = "idle"
	busy  = "busy"
)

func TestMain(m *testing.M) {
	if os.Getenv(child) == "" {
		os.Exit(m.Run())
	}
	signal.Notify(make(chan os.Signal, 1), os.Interrupt) // as most programs do, one thread of which then blocks most signals
	began := time.Now()
	if os.Getenv(child) == busy {
		for range 2 {
			go func() {
				for last := began; ; {
					now := time.Now()
					if now.Before(last) {
						panic("the time went back")
					}
					last = now
				}
			}()
		}
	}
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano(), now.Sub(began).Nanoseconds())
	}
}

// needsAMD64 is of tests that have a function of the kernel's replaced.
func needsAMD64(t *testing.T) {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skipf("nobody has written it for %s", runtime.GOARCH)
	}
}

// told is a child, and by how much its clocks are ahead of ours, to the second.
type told struct {
	in  io.Writer
	out io.Reader
	pid int
}

func start(t *testing.T, how string) *told {
	t.Helper()
	c := exec.CommandContext(context.Background(), os.Args[0]) // it ends with its input, after the test
	c.Env = append(os.Environ(), child+"="+how)
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		if err := c.Wait(); err != nil {
			t.Errorf("it did not end well: %v", err)
		}
	})
	return &told{in: in, out: out, pid: c.Process.Pid}
}

// started is one that runs: it has told the time.
func started(t *testing.T, how string) *told {
	t.Helper()
	c := start(t, how)
	c.ask(t)
	return c
}

func (c *told) ask(t *testing.T) (wall time.Time, since time.Duration) {
	t.Helper()
	var nanoseconds int64
	if _, err := fmt.Fprintln(c.in); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fscan(c.out, &nanoseconds, &since); err != nil {
		t.Fatal(err)
	}
	return time.Unix(0, nanoseconds), since
}

// A process's clock is what it is set to, of that process alone, however often it is asked for, and from when it was started on.
func TestSet(t *testing.T) {
	needsAMD64(t)
	moved, other := start(t, idle), start(t, idle)
	clock, err := Of(moved.pid)
	if err != nil {
		t.Fatal(err)
	}
	var monotonic time.Duration
	for _, by := range []struct{ wall, monotonic time.Duration }{
		{}, {13 * time.Hour, 0}, {-13*time.Hour - time.Millisecond, 0}, {999 * time.Millisecond, 5 * time.Minute}, {-time.Nanosecond, time.Hour}, {0, time.Hour},
	} {
		if again, err := Of(moved.pid); err != nil || *again != *clock {
			t.Fatalf("%+v, %v", again, err)
		}
		if err := clock.Set(by.wall, by.monotonic); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		before, unmoved := other.ask(t)
		wall, since := moved.ask(t)
		after, _ := other.ask(t)
		if wall.Before(before.Add(by.wall)) || wall.After(after.Add(by.wall)) {
			t.Errorf("%+v: it is %s for it, between %s and %s for another one", by, wall, before, after)
		}
		if before.Before(began.Add(-time.Millisecond)) {
			t.Errorf("%+v: another process's clock is moved: %s", by, before)
		}
		if since < by.monotonic || by.monotonic == 0 && since > unmoved+time.Hour || since < monotonic {
			t.Errorf("%+v: %s have passed for it, and %s for another one", by, since, unmoved)
		}
		monotonic = since
	}
}

// Where the function was written, and not the jump to it, the jump is: else a clock would never move, and nobody would know.
func TestJumpIsWrittenLater(t *testing.T) {
	needsAMD64(t)
	c := started(t, idle)
	dir := fmt.Sprintf("/proc/%d", c.pid)
	_, end, err := page(dir)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.OpenFile(dir+"/mem", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	if _, err := mem.WriteAt(hook, end-room); err != nil {
		t.Fatal(err)
	}
	clock, err := Of(c.pid)
	if err != nil {
		t.Fatal(err)
	}
	if err := clock.Set(time.Hour, 0); err != nil {
		t.Fatal(err)
	}
	if wall, _ := c.ask(t); time.Until(wall) < 59*time.Minute {
		t.Errorf("it is %s for it: its clock did not move", wall)
	}
}

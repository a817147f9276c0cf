package processclock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// child has this program tell the time whenever it is asked, by both clocks, and end with its input.
const child = "PODGRACE_TEST_TELL_TIME"

func TestMain(m *testing.M) {
	if os.Getenv(child) == "" {
		os.Exit(m.Run())
	}
	began := time.Now()
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		now := time.Now()
		fmt.Println(now.UnixNano(), now.Sub(began).Nanoseconds())
	}
}

// told is a child, and by how much its clocks are ahead of ours, to the second.
type told struct {
	in  io.Writer
	out io.Reader
	pid int
}

func start(t *testing.T) *told {
	t.Helper()
	c := exec.CommandContext(context.Background(), os.Args[0]) // it ends with its input, after the test
	c.Env = append(os.Environ(), child+"=yes")
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

// A process's clock is what it is set to, of that process alone, however often it is asked for.
func TestSet(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skipf("nobody has written it for %s", runtime.GOARCH)
	}
	moved, other := start(t), start(t)
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

func TestNoProcess(t *testing.T) {
	if _, err := Of(1 << 30); err == nil {
		t.Error("no error")
	}
}

func TestCounter(t *testing.T) {
	for text, want := range map[string]int64{"running\n": -1, "-1 0x7ffe 0x55d0\n": 0x55d0, "202 0x1 0x2 0x0 0x0 0x0 0x0 0x7ffe 0x46c1a3\n": 0x46c1a3} {
		at, still := counter(text)
		if still != (want >= 0) || still && at != want {
			t.Errorf("%q: %x, %t", text, at, still)
		}
	}
}

// A process that has ended and was not waited for is still there, without its memory.
func TestEnded(t *testing.T) {
	c := exec.CommandContext(t.Context(), "true")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(out); err != nil { // it ends with the process, in which its memory goes first
		t.Fatal(err)
	}
	if !Ended(c.Process.Pid) || Ended(os.Getpid()) {
		t.Errorf("ended: %t; this one: %t", Ended(c.Process.Pid), Ended(os.Getpid()))
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}

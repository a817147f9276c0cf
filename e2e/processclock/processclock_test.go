package processclock

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"
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

// A program goes on that is in the function all the while, also where a signal has it stop there for a moment, as Go's own do: here it is patched and mended again and again.
func TestPatchedWhileBusy(t *testing.T) {
	needsAMD64(t)
	c := started(t, busy)
	dir := fmt.Sprintf("/proc/%d", c.pid)
	begin, end, err := page(dir)
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.OpenFile(dir+"/mem", os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer mem.Close()
	image := make([]byte, end-begin)
	if _, err := mem.ReadAt(image, begin); err != nil {
		t.Fatal(err)
	}
	entry, err := function(image)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if _, err := Of(c.pid); err != nil {
			t.Fatal(err)
		}
		c.ask(t)
		if err := stoppedOutside(c.pid, begin+entry, begin+entry+jumpSize, func() error {
			_, err := mem.WriteAt(image[entry:entry+jumpSize], begin+entry)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		c.ask(t)
	}
}

// A thread that sleeps is none that is stopped: it may go on by itself. Of those that are stopped it is known where they are.
func TestLook(t *testing.T) {
	c := started(t, idle)
	nowhere, everywhere := int64(math.MaxInt64), int64(0)
	if stopped, _, err := look(c.pid, nowhere, nowhere); err != nil || stopped {
		t.Errorf("it was not told to stop: %t, %v", stopped, err)
	}
	if err := stoppedOutside(c.pid, nowhere, nowhere, func() error {
		if stopped, _, err := look(c.pid, nowhere, nowhere); err != nil || !stopped {
			t.Errorf("it was told to stop: %t, %v", stopped, err)
		}
		return nil
	}); err != nil {
		t.Errorf("it is somewhere: %v", err)
	}
	if err := syscall.Kill(c.pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	if outside, err := allOutside(c.pid, everywhere, math.MaxInt64); err != nil || outside {
		t.Errorf("it is somewhere: %t, %v", !outside, err)
	}
	if err := syscall.Kill(c.pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.ask(t)
}

func TestParseStatus(t *testing.T) {
	const caught = "SigCgt:\tfffffffd7fc1feff\n"
	for text, want := range map[string]struct{ stopped, handles bool }{
		"State:\tS (sleeping)\nSigBlk:\t0000000000000000\n" + caught:     {},
		"State:\tR (running)\nSigBlk:\t0000000000000000\n" + caught:      {},
		"State:\tT (stopped)\nSigBlk:\t0000000000000000\n" + caught:      {stopped: true},
		"State:\tt (tracing stop)\nSigBlk:\t0000000000000000\n" + caught: {}, // whoever traces it may have it go on
		"State:\tT (stopped)\nSigBlk:\tfffffffffffbfeff\n" + caught:      {stopped: true, handles: true},
		"State:\tT (stopped)\nSigBlk:\tfffffffc3bba3a00\n" + caught:      {stopped: true}, // it waits for signals
		"State:\tT (stopped)\nSigBlk:\t0000000000000000\n":               {stopped: true}, // nothing is caught
		"": {},
	} {
		if stopped, handles := parseStatus(text); stopped != want.stopped || handles != want.handles {
			t.Errorf("%q: stopped %t, handles %t", text, stopped, handles)
		}
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

// A process that has ended and was not waited for is still there, without its memory. Nobody waits until it stops.
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
	began := time.Now()
	if _, err := allOutside(c.Process.Pid, 0, 0); err == nil || time.Since(began) >= stoppedIn {
		t.Errorf("it was waited for, for %s: %v", time.Since(began), err)
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err)
	}
}

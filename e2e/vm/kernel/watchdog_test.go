package kernel

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/e2e/vm/task"
)

const (
	watchdogDevice = "/dev/watchdog"
	watchdogFiles  = "/sys/class/watchdog/watchdog0/"
	// watchdogTimeout is long beside what delays a guest on a busy machine: a feeder that is late ends the test.
	watchdogTimeout = 8 * time.Second
)

// The tests of a watchdog run in the order in which they stand here: each finds it as the one before has left it.

// watchdogHas holds what the kernel tells of it against what it is to be.
func watchdogHas(t *testing.T, want map[string]string) {
	t.Helper()
	for file, value := range want {
		text, err := os.ReadFile(watchdogFiles + file)
		if got := strings.TrimSpace(string(text)); got != value || err != nil {
			t.Errorf("%s is %q, want %q: %v", file, got, value, err)
		}
	}
}

// openWatchdog arms it, or takes it over from who had it open before: in a bare guest only, since a machine whose watchdog nobody feeds
// after that ends.
func openWatchdog(t *testing.T) *os.File {
	t.Helper()
	if _, err := os.Stat(task.File); err != nil {
		t.Fatal("no bare guest: ", err)
	}
	device, err := os.OpenFile(watchdogDevice, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = device.Close() })
	return device
}

func feed(t *testing.T, device *os.File) {
	t.Helper()
	if err := unix.IoctlWatchdogKeepalive(int(device.Fd())); err != nil {
		t.Fatal(err)
	}
}

func TestWatchdogIsSet(t *testing.T) {
	watchdogHas(t, map[string]string{"identity": "i6300ESB timer", "nowayout": "1", "state": "inactive", "min_timeout": "1", "max_timeout": "2046"})
	device := openWatchdog(t)
	if info, err := unix.IoctlGetWatchdogInfo(int(device.Fd())); err != nil || unix.ByteSliceToString(info.Identity[:]) != "i6300ESB timer" || info.Options&unix.WDIOF_SETTIMEOUT == 0 {
		t.Errorf("got %+v, %v", info, err)
	}
	seconds := int(watchdogTimeout.Seconds())
	if err := unix.IoctlSetPointerInt(int(device.Fd()), unix.WDIOC_SETTIMEOUT, 2047); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a timeout that is too long: %v", err)
	}
	if err := unix.IoctlSetPointerInt(int(device.Fd()), unix.WDIOC_SETTIMEOUT, seconds); err != nil {
		t.Fatal(err)
	}
	if got, err := unix.IoctlGetInt(int(device.Fd()), unix.WDIOC_GETTIMEOUT); got != seconds || err != nil {
		t.Errorf("the timeout is %d, want %d: %v", got, seconds, err)
	}
	watchdogHas(t, map[string]string{"timeout": "8", "state": "active"})
	feed(t, device)
}

// It lets the machine be that feeds it for longer than it would have waited.
func TestWatchdogIsFed(t *testing.T) {
	device := openWatchdog(t)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for begin := time.Now(); time.Since(begin) < watchdogTimeout*3/2; <-ticker.C {
		feed(t, device)
	}
	// The end of who feeds it, and even a proper farewell, leaves it armed.
	if _, err := device.WriteString("V"); err != nil {
		t.Fatal(err)
	}
	if err := device.Close(); err != nil {
		t.Fatal(err)
	}
	watchdogHas(t, map[string]string{"state": "active"})
}

// Nobody feeds it any more: the machine ends within this test.
func TestWatchdogExpires(t *testing.T) {
	<-time.After(3 * watchdogTimeout)
	t.Error("the watchdog is not fed, and the machine runs on")
}

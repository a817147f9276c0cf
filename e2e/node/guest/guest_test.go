package guest

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"testing"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/vm"
	"github.com/podgrace/podgrace/e2e/vm/guesttest"
)

// run runs tests of package kernel in a guest, and returns what they wrote.
func run(t *testing.T, o vm.GuestOptions, tests string) (output []byte, code int, err error) {
	t.Helper()
	clustertest.Require(t, vm.GuestSupported())
	o.Binary = filepath.Join(t.TempDir(), "kernel.test")
	if err := cluster.GoTestBinary(t.Context(), o.Binary, "e2e/vm/kernel"); err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	o.Args, o.Output = []string{guesttest.Verbose, "-test.run=" + tests, "-test.timeout=20m"}, io.MultiWriter(&text, t.Output())
	code, err = vm.RunGuest(t.Context(), o)
	return text.Bytes(), code, err
}

// Whatever package kernel has for a bare machine, each under its own name.
func TestGuest(t *testing.T) {
	output, code, err := run(t, vm.GuestOptions{}, "^Test(V2|Pressure)")
	if err != nil {
		t.Fatal(err)
	}
	guesttest.Report(t, output)
	if code != 0 && !t.Failed() {
		t.Errorf("no test failed, but the binary's exit code is %d", code)
	}
}

// A machine whose watchdog is fed lives, longer than the watchdog waits; once nobody feeds it the watchdog ends the machine, and nothing
// else does.
func TestWatchdog(t *testing.T) {
	output, code, err := run(t, vm.GuestOptions{Watchdog: &vm.Watchdog{NoWayOut: true}}, "^TestWatchdog")
	if !errors.Is(err, vm.ErrWatchdog) {
		t.Errorf("the guest ended with exit code %d: %v", code, err)
	}
	guesttest.ReportUntil(t, output, "TestWatchdogExpires")
}

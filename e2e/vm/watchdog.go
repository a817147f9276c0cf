package vm

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
)

// Watchdog is a hardware watchdog, /dev/watchdog in the guest, and takes the kernel that has its driver.
type Watchdog struct {
	// NoWayOut has it stay armed once it is opened, however properly it is closed.
	NoWayOut bool
}

// ErrWatchdog says that a guest was ended by its watchdog.
var ErrWatchdog = errors.New("the watchdog expired and ended the guest")

// watchdogDevice are QEMU's arguments for Intel's 6300ESB, which is on PCI. As hardware does, it resets the machine once it has expired,
// and a machine that restarts ends (hardware.arguments).
var watchdogDevice = []string{"-device", "i6300esb", "-action", "watchdog=reset"}

// watchdogEvent is what QEMU tells of a watchdog that has expired (qapi/run-state.json). A guest that restarts or panics by itself ends the
// machine without it.
const watchdogEvent = "WATCHDOG"

// watchdogDriver is the device's.
const watchdogDriver = "i6300esb"

// watchdogModules are the driver and what it needs, in the order in which they load.
var watchdogModules = []string{"watchdog", watchdogDriver}

// parameter is of the driver.
func (w *Watchdog) parameter() string {
	if w.NoWayOut {
		return "nowayout=1"
	}
	return "nowayout=0"
}

// boot has systemd load the driver (kernel-command-line(7)), with its parameter, which kmod takes from there as well.
func (w *Watchdog) boot() []string {
	return []string{"modules_load=" + watchdogDriver, watchdogDriver + "." + w.parameter()}
}

// awaitWatchdog returns once the machine has ended: nil where it was its watchdog.
func (m *machine) awaitWatchdog(ctx context.Context) error {
	if err := m.process.Wait(ctx); err != nil {
		return err
	}
	if err := m.told.end(); err != nil || m.told.has(watchdogEvent) {
		return err
	}
	return m.explain(errors.New("the machine ended, and not by its watchdog"))
}

// kernelWith is the package of a kernel for a guest that has a watchdog, or none.
func kernelWith(w *Watchdog) kernelPackage {
	if w != nil {
		return fullKernel
	}
	return cloudKernel
}

// watchdogFiles are watchdogModules in the initramfs.
func watchdogFiles(k kernel) ([]cpioFile, error) {
	var paths []string
	for _, module := range watchdogModules {
		found, _ := filepath.Glob(filepath.Join(k.modules, k.version, "kernel/drivers/watchdog", module+".ko*")) // the end says how it is compressed
		if len(found) != 1 {
			return nil, fmt.Errorf("the kernel %s has %d modules %s", k.version, len(found), module)
		}
		paths = append(paths, found[0])
	}
	return numbered(paths)
}

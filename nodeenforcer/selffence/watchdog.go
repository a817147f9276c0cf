package selffence

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// softwareIdentity is what the kernel's watchdog without hardware calls itself (drivers/watchdog/softdog.c, Linux 6.1).
const softwareIdentity = "Software Watchdog"

// stages is in how many timeouts of its driver a watchdog resets the machine, by its identity; 1: where it is not listed. (Linux 6.1.)
var stages = map[string]time.Duration{
	// The TCO timer counts down twice (Intel's datasheets, QEMU hw/acpi/ich9_tco.c). The driver halves its timeout for version 1 alone (drivers/watchdog/iTCO_wdt.c iTCO_wdt_set_timeout): of
	// the others it trusts the firmware to reset the machine at the first, where its SMI is enabled at all.
	"iTCO_wdt": 2,
	// The same timer on Intel's boards, by what their firmware says of it (drivers/watchdog/wdat_wdt.c).
	"wdat_wdt": 2,
	// With action=1 the first signal is an interrupt, and the second comes as long after it (drivers/watchdog/sbsa_gwdt.c).
	"SBSA Generic Watchdog": 2,
}

// latest is how long after the last feeding the machine is reset at the latest.
func latest(identity string, timeout time.Duration) time.Duration {
	return timeout * max(stages[identity], 1)
}

// ErrUnfit is the error of a watchdog that would not keep what is reckoned with.
var ErrUnfit = errors.New("the watchdog can't be used for a self-fence")

// Watchdog is an armed watchdog.
type Watchdog interface {
	// Feed has it count from the beginning.
	Feed() error
	// Disarm stops it. Close leaves it armed.
	Disarm() error
	Close() error
	// Timeout is how long after it was fed it resets the machine at the latest.
	Timeout() time.Duration
	// Identity as its driver says.
	Identity() string
}

// device is a watchdog of the kernel.
type device struct {
	file     *os.File
	state    string // the file of sysfs that tells whether it is active
	timeout  time.Duration
	identity string
}

// classFolder is where the kernel says of its watchdogs what can be known without arming them (Documentation/ABI/testing/sysfs-class-watchdog, Linux 6.1).
const classFolder = "class/watchdog"

// Open opens a watchdog, which arms and feeds it, and sets its timeout, in whole seconds. sysRoot is where sysfs is mounted. An error leaves it disarmed: what could not be disarmed
// is not opened.
func Open(path, sysRoot string, timeout time.Duration) (Watchdog, error) {
	if err := fit(path, sysRoot); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	switch {
	case errors.Is(err, unix.EBUSY):
		return nil, fmt.Errorf("%w (does systemd feed it? RuntimeWatchdogSec in its configuration)", err)
	case err != nil:
		return nil, err
	}
	d := &device{file: file, state: attribute(path, sysRoot, "state")}
	if err := d.prepare(timeout); err != nil {
		return nil, errors.Join(err, d.Disarm())
	}
	return d, nil
}

// attribute is the file of one of a watchdog's attributes.
func attribute(path, sysRoot, name string) string {
	watchdog := filepath.Base(path)
	if watchdog == "watchdog" { // the old name of the first
		watchdog = "watchdog0"
	}
	return filepath.Join(sysRoot, classFolder, watchdog, name)
}

// fit looks at a watchdog without opening it.
func fit(path, sysRoot string) error {
	read := func(name string) (string, error) {
		text, err := os.ReadFile(attribute(path, sysRoot, name))
		return strings.TrimSpace(string(text)), err
	}
	identity, err := read("identity")
	if err != nil {
		return fmt.Errorf("there is no watchdog %s, or its driver is not loaded: %w", path, err)
	}
	nowayout, err := read("nowayout")
	switch {
	case err != nil:
		return err
	case identity == softwareIdentity:
		return fmt.Errorf("%w: it is software (%s), and stops with the kernel", ErrUnfit, identity)
	case nowayout != "0":
		return fmt.Errorf("%w: %s can't be disarmed (nowayout), so that each update of the node enforcer might reset the machine", ErrUnfit, identity)
	}
	return nil
}

func (d *device) prepare(timeout time.Duration) error {
	fd := int(d.file.Fd())
	info, err := unix.IoctlGetWatchdogInfo(fd)
	if err != nil {
		return fmt.Errorf("ask the watchdog for its identity: %w", err)
	}
	name, _, _ := bytes.Cut(info.Identity[:], []byte{0})
	d.identity = string(name)
	switch {
	case info.Options&unix.WDIOF_ALARMONLY != 0:
		return fmt.Errorf("%w: %s only gives an alarm, and resets nothing", ErrUnfit, d.identity)
	case info.Options&unix.WDIOF_MAGICCLOSE == 0:
		return fmt.Errorf("%w: %s is disarmed when the process that feeds it crashes (no WDIOF_MAGICCLOSE)", ErrUnfit, d.identity)
	case info.Options&unix.WDIOF_SETTIMEOUT == 0:
		return fmt.Errorf("%w: the timeout of %s can't be set", ErrUnfit, d.identity)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.WDIOC_SETTIMEOUT, int(timeout.Seconds())); err != nil {
		return fmt.Errorf("set the timeout of %s to %s: %w", d.identity, timeout, err)
	}
	seconds, err := unix.IoctlGetUint32(fd, unix.WDIOC_GETTIMEOUT)
	if err != nil {
		return fmt.Errorf("read the timeout of %s: %w", d.identity, err)
	}
	if seconds == 0 || seconds > math.MaxInt32 {
		return fmt.Errorf("%w: %s says that its timeout is %d s", ErrUnfit, d.identity, seconds)
	}
	d.timeout = latest(d.identity, time.Duration(seconds)*time.Second)
	return nil
}

func (d *device) Feed() error            { return unix.IoctlWatchdogKeepalive(int(d.file.Fd())) }
func (d *device) Timeout() time.Duration { return d.timeout }
func (d *device) Identity() string       { return d.identity }
func (d *device) Close() error           { return d.file.Close() }

// Disarm closes it by the character that says that this is meant (Documentation/watchdog/watchdog-api.rst, Linux 6.1). That it did not stop, as one that firmware has locked, the kernel
// tells nobody who closes it (drivers/watchdog/watchdog_dev.c watchdog_release).
func (d *device) Disarm() error {
	_, err := d.file.Write([]byte("V"))
	err = errors.Join(err, d.file.Close())
	if text, unread := os.ReadFile(d.state); unread == nil && strings.TrimSpace(string(text)) == "active" {
		err = errors.Join(err, fmt.Errorf("%s did not stop, and resets the machine in %s", d.identity, d.timeout))
	}
	return err
}

// Now is the time since the machine started, in which it slept as well.
func Now() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &t); err != nil {
		return 0 // no evidence is younger than that: nothing is fed
	}
	return time.Duration(t.Nano())
}

// BootID is the kernel's, as kubelets report it.
func BootID(procRoot string) (string, error) {
	text, err := os.ReadFile(filepath.Join(procRoot, "sys/kernel/random/boot_id"))
	return strings.TrimSpace(string(text)), err
}

// Pausable reports whether the machine is a virtual one, or may be: only of x86 is known that a processor without the flag hypervisor has none.
func Pausable(procRoot string) bool {
	text, err := os.ReadFile(filepath.Join(procRoot, "cpuinfo"))
	if err != nil {
		return true
	}
	for line := range strings.Lines(string(text)) {
		if key, flags, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "flags" {
			for flag := range strings.FieldsSeq(flags) {
				if flag == "hypervisor" {
					return true
				}
			}
			return false
		}
	}
	return true
}

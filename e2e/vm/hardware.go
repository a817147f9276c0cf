package vm

import (
	"strconv"
	"strings"
)

const qemu = "qemu-system-x86_64"

// hardware is what both kinds of machines have.
type hardware struct {
	kernel, initramfs string
	console           string // the file for what the kernel says
	// threads is how the processors are emulated: in one thread ("single"), or in one each ("multi").
	threads         string
	memoryMiB, cpus int
	boot            []string // more for the kernel's command line
}

// arguments are QEMU's: tcg is emulation in software, on every machine alike. Nothing that boots slowly is there, and a machine that
// panics or restarts ends.
func (h hardware) arguments(more ...string) []string {
	boot := append([]string{"console=ttyS0", "quiet", "panic=-1", "psi=1", "mitigations=off", "nokaslr", "audit=0", "apparmor=0"}, h.boot...)
	return append([]string{
		"-machine", "pc,vmport=off", "-accel", "tcg,tb-size=512,thread=" + h.threads, "-cpu", "max",
		"-smp", strconv.Itoa(h.cpus), "-m", strconv.Itoa(h.memoryMiB),
		"-nodefaults", "-no-user-config", "-display", "none", "-no-reboot", "-rtc", "base=utc", "-serial", "file:" + h.console,
		"-kernel", h.kernel, "-initrd", h.initramfs, "-append", strings.Join(boot, " "),
	}, more...)
}

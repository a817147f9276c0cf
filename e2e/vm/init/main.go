// Command init is the first program of a machine, in its initramfs. In a bare guest it is the only one but for a test binary: it mounts
// and loads what a test of the kernel needs, runs that binary, and says how it ended (task.go). In a node it loads the modules that the
// disk needs, mounts the disk and becomes the init that is there (disk.go).
package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/e2e/vm/task"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "init: only for the first process of a machine: it ends by a reboot")
		os.Exit(2)
	}
	run := runTask
	if _, err := os.Stat(task.File); err != nil {
		run = startFromDisk // it returns only if it failed
	}
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "init:", err) // on the console, which the host shows
	}
	unix.Sync()
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART) // ends QEMU; where it fails our end is a panic, which does too
}

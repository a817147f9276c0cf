package main

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const disk, root = "/dev/vda", "/root"

func startFromDisk() error {
	if err := unix.Mount("dev", "/dev", "devtmpfs", 0, ""); err != nil {
		return fmt.Errorf("mounting /dev: %w", err)
	}
	if err := loadModules(nil); err != nil {
		return err
	}
	if err := await(disk); err != nil {
		return err
	}
	if err := unix.Mount(disk, root, "ext4", unix.MS_NOATIME, "nobarrier"); err != nil {
		return fmt.Errorf("mounting %s: %w", disk, err)
	}
	return become("/sbin/init")
}

// await waits for a device, which the kernel finds a moment after the driver is loaded.
func await(device string) error {
	for range 500 {
		if _, err := os.Stat(device); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return errors.New("no " + device)
}

// become makes the disk the root, as switch_root(8) does, and runs its init in our place.
func become(init string) error {
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("moving the root: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("changing the root: %w", err)
	}
	return syscall.Exec(init, []string{init}, os.Environ())
}

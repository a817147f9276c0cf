// Command witness writes ten records a second to a disk, each of who writes it: the pod and the boot of the machine that it runs on. Whoever reads the disk sees until when it ran.
//
//	witness DEVICE POD_UID
//
// A record has 512 bytes: the pod's UID and the boot ID, a blank between, and line ends. The first one comes after those that are there.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// recordSize is a sector: it is written whole, or not at all.
const recordSize = 512

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "witness:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("want a device and the pod's UID")
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return fmt.Errorf("read the boot ID: %w", err)
	}
	disk, err := os.OpenFile(args[0], os.O_RDWR|os.O_SYNC, 0)
	if err != nil {
		return fmt.Errorf("open the disk: %w", err)
	}
	defer disk.Close()
	at, err := end(disk)
	if err != nil {
		return fmt.Errorf("find the end of what is written: %w", err)
	}
	text := args[1] + " " + strings.TrimSpace(string(boot))
	record := []byte(text + strings.Repeat("\n", recordSize-len(text)))
	for ticker := time.NewTicker(100 * time.Millisecond); ; <-ticker.C {
		if _, err := disk.WriteAt(record, at); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		at += recordSize
	}
}

// end is where the first record is that nobody has written.
func end(disk io.ReaderAt) (int64, error) {
	record := make([]byte, recordSize)
	for at := int64(0); ; at += recordSize {
		if _, err := disk.ReadAt(record, at); err != nil {
			return 0, err
		}
		if record[0] == 0 {
			return at, nil
		}
	}
}

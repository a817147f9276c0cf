package vm

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"
)

// slots bounds how many guests there are on a machine at a time.
const slots = 16

// slotDir has a lock file for each slot.
const slotDir = "/var/lib/podgrace"

// slot is one guest's number on this machine, held by a file lock, and what follows from it.
type slot struct {
	number int
	lock   *os.File
}

// address is the node's InternalIP. It is none of loopback's, which a kubelet refuses (validateNodeIP,
// pkg/kubelet/kubelet_node_status.go in 1.36.3).
func (s *slot) address() net.IP { return net.IPv4(10, 207, 1, byte(10+s.number)) }

// podSubnet is where the node's pods are.
func (s *slot) podSubnet() string { return fmt.Sprintf("10.207.%d.0/24", 100+s.number) }

// takeSlot finds a free slot and makes its address one of this host's. If the holder is killed the lock is gone with
// it, and the route is the next holder's.
func takeSlot(ctx context.Context) (*slot, error) {
	if err := os.MkdirAll(slotDir, 0o700); err != nil {
		return nil, fmt.Errorf("taking an address for a guest: %w", err)
	}
	for number := range slots {
		file, err := os.OpenFile(filepath.Join(slotDir, fmt.Sprintf("guest-%d.lock", number)), os.O_CREATE|os.O_RDWR, 0o600)
		if err != nil {
			return nil, fmt.Errorf("taking an address for a guest: %w", err)
		}
		if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
			_ = file.Close()
			continue
		}
		s := &slot{number: number, lock: file}
		// The source makes the API server's connections come from loopback, which QEMU shows to the guest as its
		// gateway; otherwise they would come from the node's own address, and the guest would drop them.
		if err := s.route(ctx, "replace", "src", loopback); err != nil {
			return nil, errors.Join(err, file.Close())
		}
		return s, nil
	}
	return nil, fmt.Errorf("taking an address for a guest: %d guests run already", slots)
}

func (s *slot) route(ctx context.Context, verb string, more ...string) error {
	args := append([]string{"route", verb, "local", s.address().String() + "/32", "dev", "lo", "table", "local"}, more...)
	return command(ctx, "/", "ip", args...)
}

// free gives the slot back.
func (s *slot) free() error {
	if s == nil {
		return nil
	}
	return errors.Join(s.route(context.Background(), "delete"), s.lock.Close())
}

package cgroup

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// killPatience bounds the killing of processes one by one. A process that waits for a disk dies when the disk answers; its
	// SIGKILL is pending then, so to give up is no loss.
	killPatience = 10 * time.Second
	// killBatch bounds how many processes are held open at once: a fork bomb must not use up our files.
	killBatch = 256
)

// killable refuses the root: every process of the machine is below it.
func killable(cgroup string) error {
	if cgroup == "/" {
		return errors.New("the root cgroup is never killed")
	}
	return nil
}

// killEach kills what list lists until it lists nothing. Only an empty cgroup is a sure end: a fork that the kill overtook shows
// up after its parent was signalled, but not after its parent is gone. A cgroup that went away meanwhile was empty.
func killEach(ctx context.Context, cgroup string, list func() ([]int, error)) error {
	ctx, cancel := context.WithTimeout(ctx, killPatience)
	defer cancel()
	for round := 0; ; round++ {
		pids, err := list()
		if round > 0 && errors.Is(err, ErrGone) {
			return nil
		}
		if err != nil || len(pids) == 0 {
			return err
		}
		if err := signalAll(pids, list); err != nil {
			return fmt.Errorf("killing %s: %w", cgroup, err)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("killing %s: %d processes are left: %w", cgroup, len(pids), ctx.Err())
		case <-time.After(time.Millisecond << min(round, 5)):
		}
	}
}

// signalAll sends SIGKILL to those of pids that list still lists.
func signalAll(pids []int, list func() ([]int, error)) error {
	for batch := range slices.Chunk(pids, killBatch) {
		if err := signalBatch(batch, list); err != nil && !errors.Is(err, ErrGone) {
			return err
		}
	}
	return nil
}

// signalBatch takes hold of the processes first (a pidfd, from Linux 5.3), then looks again which of them are in the cgroup. So
// neither a process that has left it, nor another one that got the number of one that ended, is hit.
func signalBatch(pids []int, list func() ([]int, error)) error {
	held := make(map[int]*os.Process, len(pids))
	defer func() {
		for _, process := range held {
			_ = process.Release() // the process is not our child: there is nothing to lose
		}
	}()
	for _, pid := range pids {
		process, err := os.FindProcess(pid)
		if err != nil {
			return fmt.Errorf("finding process %d: %w", pid, err)
		}
		held[pid] = process
	}
	still, err := list()
	if err != nil {
		return err
	}
	for _, pid := range still {
		process, ok := held[pid]
		if !ok {
			continue
		}
		if err := process.Signal(unix.SIGKILL); err != nil && !errors.Is(err, os.ErrProcessDone) {
			return fmt.Errorf("signalling process %d: %w", pid, err)
		}
	}
	return nil
}

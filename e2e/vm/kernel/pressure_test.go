package kernel

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
)

const hogVariable = "PODGRACE_KERNEL_HOG"

// What a hog takes.
const (
	ofMemory = "memory"
	ofCPU    = "cpu"
)

// hog takes memory until it is killed; beyond memory.high the kernel makes it wait for each page. Or it takes a CPU.
func hog(what string) {
	for spun := 0; what == ofCPU; spun++ {
	}
	var held [][]byte
	for {
		chunk := make([]byte, 1<<20)
		for i := 0; i < len(chunk); i += os.Getpagesize() {
			chunk[i] = 1
		}
		held = append(held, chunk)
		runtime.KeepAlive(held)
	}
}

// startHog starts one in a cgroup. It ends with the test, or earlier.
func startHog(t *testing.T, at, what string) (end func()) {
	t.Helper()
	dir, err := os.Open(filepath.Join(mountpoint, at))
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), hogVariable+"="+what)
	cmd.SysProcAttr = &syscall.SysProcAttr{UseCgroupFD: true, CgroupFD: int(dir.Fd())}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end = func() { _, _ = cmd.Process.Kill(), cmd.Wait() }
	t.Cleanup(end)
	return end
}

// group makes a cgroup with little room, and a Tree for it.
func group(t *testing.T) (h *cgrouptest.Harness, at string) {
	t.Helper()
	h = cgrouptest.OnV2(t, mountpoint, cgroup.NewV2(mountpoint))
	at = beside(t, h, "small")
	h.Put(t, at, "memory.high", "16777216")
	return h, at
}

// beside makes another cgroup of the test's, with all the room there is.
func beside(t *testing.T, h *cgrouptest.Harness, word string) (at string) {
	t.Helper()
	at = h.Root + "/" + word
	h.Make(t, at)
	t.Cleanup(func() { h.Remove(t, at) })
	return at
}

// What all triggers here are armed with.
const (
	stall  = 50 * time.Millisecond
	window = 500 * time.Millisecond
)

// trigger is one on a cgroup's stall on memory.
func trigger(t *testing.T, at string) *pressure.Trigger {
	t.Helper()
	return triggerOn(t, filepath.Join(mountpoint, at, "memory.pressure"))
}

func triggerOn(t *testing.T, file string) *pressure.Trigger {
	t.Helper()
	trigger, err := pressure.OpenTrigger(file, pressure.Stall{Kind: v1alpha1.StallSome, Stall: stall, Window: window})
	if err != nil {
		t.Fatal(err)
	}
	return trigger
}

// It fires for its own cgroup again and again, and all that time not for the one beside it.
func TestPressureTriggerFires(t *testing.T) {
	h, at := group(t)
	quiet := trigger(t, beside(t, h, "quiet"))
	defer quiet.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	quietly := make(chan error, 1)
	go func() { quietly <- quiet.Wait(ctx) }()
	trigger := trigger(t, at)
	defer trigger.Close()
	started := time.Now()
	startHog(t, at, ofMemory)
	for i := range 3 {
		if err := trigger.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Logf("fired for the %d. time %s after the hog's start", i+1, time.Since(started))
	}
	cancel()
	if err := <-quietly; !errors.Is(err, context.Canceled) {
		t.Errorf("beside the stall: %v", err)
	}
	p, err := cgroup.ReadPressure(h.Tree, at, "memory")
	if err != nil || p.Some.Total < stall {
		t.Errorf("fired after a stall of %s: %v", p.Some.Total, err)
	}
	memory, err := cgroup.ReadMemory(h.Tree, at)
	if err != nil || memory.WorkingSet() < 1<<20 || memory.WorkingSet() > memory.Usage {
		t.Errorf("the hog uses %+v: %v", memory, err)
	}
	if pids, err := cgroup.ReadPIDs(h.Tree, at); err != nil || pids < 1 {
		t.Errorf("the hog has %d threads: %v", pids, err)
	}
}

// Whoever waits is woken by each way in which there is nothing more to wait for.
func TestPressureWaitEnds(t *testing.T) {
	for _, test := range []struct {
		name string
		end  func(cancel context.CancelFunc, trigger *pressure.Trigger, remove func())
		want error
	}{
		{"its context", func(cancel context.CancelFunc, _ *pressure.Trigger, _ func()) { cancel() }, context.Canceled},
		{"closed", func(_ context.CancelFunc, trigger *pressure.Trigger, _ func()) { _ = trigger.Close() }, os.ErrClosed},
		{"the cgroup is removed", func(_ context.CancelFunc, _ *pressure.Trigger, remove func()) { remove() }, cgroup.ErrGone},
	} {
		t.Run(test.name, func(t *testing.T) {
			h, at := group(t)
			trigger := trigger(t, at)
			defer trigger.Close()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			waited := make(chan error)
			go func() { waited <- trigger.Wait(ctx) }()
			test.end(cancel, trigger, func() { h.Remove(t, at) })
			if err := <-waited; !errors.Is(err, test.want) {
				t.Errorf("got %v", err)
			}
			if err := trigger.Wait(ctx); !errors.Is(err, test.want) {
				t.Errorf("a second time: got %v", err)
			}
		})
	}
}

// A wait that was given up takes nothing from the next one, and nothing is left behind.
func TestPressureLeaksNothing(t *testing.T) {
	_, at := group(t)
	count := func() (files, goroutines int) {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries), runtime.NumGoroutine()
	}
	files, goroutines := 0, 0
	for i := range 200 {
		trigger := trigger(t, at)
		for range 3 {
			ctx, cancel := context.WithCancel(t.Context())
			waited := make(chan error)
			go func() { waited <- trigger.Wait(ctx) }()
			cancel()
			if err := <-waited; !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		if err := trigger.Close(); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			files, goroutines = count()
		}
	}
	runtime.GC()
	if f, g := count(); f > files || g > goroutines {
		t.Errorf("%d files and %d goroutines became %d and %d", files, goroutines, f, g)
	}
}

func TestPressureOfNothing(t *testing.T) {
	_, at := group(t)
	_, err := pressure.OpenTrigger(filepath.Join(mountpoint, at, "none", "memory.pressure"), pressure.Stall{Kind: v1alpha1.StallSome, Stall: time.Millisecond, Window: time.Second})
	if !errors.Is(err, cgroup.ErrGone) {
		t.Errorf("no cgroup: got %v", err)
	}
	if trigger, err := pressure.OpenTrigger("/proc/pressure/memory", pressure.Stall{Kind: v1alpha1.StallFull, Stall: 50 * time.Millisecond, Window: 500 * time.Millisecond}); err != nil {
		t.Errorf("the whole machine's: %v", err)
	} else if err := trigger.Close(); err != nil {
		t.Error(err)
	}
}

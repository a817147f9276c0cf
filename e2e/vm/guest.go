package vm

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/podgrace/podgrace/e2e/vm/task"
)

// GuestOptions say what runs in a bare guest.
type GuestOptions struct {
	// Binary is a static program: CGO_ENABLED=0 go test -c.
	Binary string
	Args   []string
	// Output takes what the program writes, line by line while it runs.
	Output io.Writer
	// MemoryMiB of the machine; 0: 768.
	MemoryMiB int
	// Watchdog of the machine; nil: it has none.
	Watchdog *Watchdog
}

// RunGuest boots a bare guest, runs the program in it and returns its exit code. A machine that ends without one (a panic, a program that
// took the kernel down) is an error, with the end of what the kernel said; one that its watchdog ended is ErrWatchdog.
func RunGuest(ctx context.Context, o GuestOptions) (code int, err error) {
	k, err := debianKernel(ctx, kernelWith(o.Watchdog))
	if err != nil {
		return -1, err
	}
	dir, err := os.MkdirTemp("", "podgrace-guest-")
	if err != nil {
		return -1, fmt.Errorf("making a folder for the guest: %w", err)
	}
	defer os.RemoveAll(dir)
	word := rand.Text()
	files, err := o.files(k, word)
	if err != nil {
		return -1, err
	}
	archive := filepath.Join(dir, "initramfs")
	if err := initramfs(ctx, archive, files); err != nil {
		return -1, err
	}
	out := newOutput(o.Output, word)
	console := filepath.Join(dir, "console")
	// All processors run in one thread. With a thread for each (QEMU 7.2, Linux 6.1) the guest hangs sooner or later when the kernel changes
	// its own code while it runs, as it does for the first quota of the machine's CPUs and after the last one: writing cpu.max back and
	// forth 600 times hung 5 of 5 machines with two threads, and none with one.
	machine := hardware{kernel: k.image, initramfs: archive, console: console, threads: "single", memoryMiB: cmp.Or(o.MemoryMiB, 768), cpus: 2}
	devices := []string{"-serial", "stdio"}
	var told *events
	if o.Watchdog != nil {
		if told, err = listenEvents(filepath.Join(dir, "events")); err != nil {
			return -1, err
		}
		devices = append(devices, append(watchdogDevice, told.arguments()...)...)
	}
	cmd := exec.CommandContext(ctx, qemu, machine.arguments(devices...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	cmd.Stdout = out
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started the child
	defer runtime.UnlockOSThread()
	err = errors.Join(cmd.Run(), told.end())
	if told.has(watchdogEvent) {
		err = errors.Join(ErrWatchdog, err)
	}
	if out.exited && ctx.Err() == nil {
		return out.code, nil
	}
	said, _ := os.ReadFile(console) // none, where QEMU did not start
	err = errors.Join(errors.New("the guest ended without an exit code"), ctx.Err(), err)
	return -1, fmt.Errorf("%w\n%s%s", err, complaints.Bytes(), said[max(0, len(said)-4096):])
}

// files are the program, and what to do.
func (o GuestOptions) files(k kernel, word string) ([]cpioFile, error) {
	program, err := readFile(strings.TrimPrefix(task.Program, "/"), o.Binary)
	if err != nil {
		return nil, err
	}
	todo := task.Task{Args: o.Args, Word: word}
	var modules []cpioFile
	if o.Watchdog != nil {
		todo.Parameters = map[string]string{watchdogDriver: o.Watchdog.parameter()}
		if modules, err = watchdogFiles(k); err != nil {
			return nil, err
		}
	}
	text, err := json.Marshal(todo)
	if err != nil {
		return nil, fmt.Errorf("writing the guest's task: %w", err)
	}
	return append(modules,
		folder("dev"), folder("proc"), folder("sys"), folder("tmp"), program, cpioFile{name: strings.TrimPrefix(task.File, "/"), mode: 0o644, content: text},
	), nil
}

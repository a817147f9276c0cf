package guest

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

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/guest/task"
)

// Options say what runs in the machine.
type Options struct {
	// Binary is a static program: CGO_ENABLED=0 go test -c.
	Binary string
	Args   []string
	// Output takes what the program writes, line by line while it runs.
	Output io.Writer
	// MemoryMiB of the machine; 0: 768.
	MemoryMiB int
}

// Supported says why this machine cannot run a guest, or nil.
func Supported() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("a guest needs linux/amd64, not %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	if _, err := exec.LookPath(qemu); err != nil {
		return errors.New("a guest needs the Debian package qemu-system-x86")
	}
	cache, err := os.UserCacheDir()
	if err == nil && cachedLinux(filepath.Join(cache, "podgrace")) != "" {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return errors.New("a guest needs apt-get, to fetch its kernel")
	}
	return nil
}

const qemu = "qemu-system-x86_64"

// Run boots a machine, runs the program in it and returns its exit code. A machine that ends without one (a panic, a program that
// took the kernel down) is an error, with the end of what the kernel said.
func Run(ctx context.Context, o Options) (code int, err error) {
	kernel, err := linux(ctx)
	if err != nil {
		return -1, err
	}
	dir, err := os.MkdirTemp("", "podgrace-guest-")
	if err != nil {
		return -1, fmt.Errorf("making a folder for the guest: %w", err)
	}
	defer os.RemoveAll(dir)
	word := rand.Text()
	if err := initramfs(ctx, dir, word, o); err != nil {
		return -1, err
	}
	out := newOutput(o.Output, word)
	console := filepath.Join(dir, "console")
	cmd := machine(ctx, kernel, dir, console, cmp.Or(o.MemoryMiB, 768))
	cmd.Stdout = out
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	runtime.LockOSThread() // Pdeathsig is sent when the thread ends that started the child
	defer runtime.UnlockOSThread()
	err = cmd.Run()
	if out.exited && ctx.Err() == nil {
		return out.code, nil
	}
	said, _ := os.ReadFile(console) // none, where QEMU did not start
	return -1, fmt.Errorf("the guest ended without an exit code: %w\n%s%s", errors.Join(ctx.Err(), err), complaints.Bytes(), said[max(0, len(said)-4096):])
}

// machine is QEMU without anything that boots slowly. A reboot, by the init or by a panic, ends it.
//
// All of its processors run in one thread. With a thread for each (QEMU 7.2, Linux 6.1) the guest hangs sooner or later when the
// kernel changes its own code while it runs, as it does for the first quota of the machine's CPUs and after the last one: writing
// cpu.max back and forth 600 times hung 5 of 5 machines with two threads, and none with one.
func machine(ctx context.Context, kernel, dir, console string, memory int) *exec.Cmd {
	cmd := exec.CommandContext(ctx, qemu,
		"-machine", "pc", "-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m", fmt.Sprint(memory),
		"-nodefaults", "-display", "none", "-no-reboot",
		"-kernel", kernel, "-initrd", filepath.Join(dir, "initramfs"),
		"-append", "console=ttyS0 quiet panic=-1 psi=1 mitigations=off nokaslr audit=0 apparmor=0",
		"-serial", "file:"+console, "-serial", "stdio",
	)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = time.Second
	return cmd
}

// initramfs has the init, the program, and what to do.
func initramfs(ctx context.Context, dir, word string, o Options) error {
	if err := cluster.GoBuild(ctx, filepath.Join(dir, "init"), "e2e/guest/init"); err != nil {
		return err
	}
	todo, err := json.Marshal(task.Task{Args: o.Args, Word: word})
	if err != nil {
		return fmt.Errorf("writing the guest's task: %w", err)
	}
	file, err := os.Create(filepath.Join(dir, "initramfs"))
	if err != nil {
		return fmt.Errorf("writing the initramfs: %w", err)
	}
	a := &archive{out: file}
	for _, name := range []string{"dev", "proc", "sys", "tmp"} {
		a.dir(name)
	}
	a.file("init", filepath.Join(dir, "init"))
	a.file(strings.TrimPrefix(task.Program, "/"), o.Binary)
	a.text(strings.TrimPrefix(task.File, "/"), string(todo))
	return errors.Join(a.close(), file.Close())
}

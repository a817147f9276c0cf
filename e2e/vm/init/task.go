package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/e2e/vm/task"
)

const cgroups = "/sys/fs/cgroup"

// runTask does what a bare guest is there for.
func runTask() error {
	if err := mounts(); err != nil {
		return err
	}
	if err := controllers(); err != nil {
		return err
	}
	var todo task.Task
	text, err := os.ReadFile(task.File)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, &todo); err != nil {
		return fmt.Errorf("reading the task: %w", err)
	}
	if err := loadModules(todo.Parameters); err != nil {
		return err
	}
	serial, err := openSerial("/dev/ttyS1")
	if err != nil {
		return err
	}
	defer serial.Close()
	code, err := program(todo.Args, serial)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(serial, "\n%s%s %d\n", task.Marker, todo.Word, code); err != nil {
		return fmt.Errorf("writing the exit code: %w", err)
	}
	return unix.IoctlSetInt(int(serial.Fd()), unix.TCSBRK, 1) // until all is sent
}

func mounts() error {
	for _, m := range []struct{ kind, at string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"cgroup2", cgroups},
	} {
		if err := unix.Mount(m.kind, m.at, m.kind, 0, ""); err != nil && !errors.Is(err, unix.EBUSY) {
			return fmt.Errorf("mounting %s: %w", m.at, err)
		}
	}
	return nil
}

// controllers hands all down to the cgroups below the root.
func controllers() error {
	text, err := os.ReadFile(cgroups + "/cgroup.controllers")
	if err != nil {
		return err
	}
	for controller := range strings.FieldsSeq(string(text)) {
		if err := os.WriteFile(cgroups+"/cgroup.subtree_control", []byte("+"+controller), 0o600); err != nil {
			return fmt.Errorf("enabling controller %s: %w", controller, err)
		}
	}
	return nil
}

// openSerial opens a serial line that passes bytes on as they are.
func openSerial(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	settings, err := unix.IoctlGetTermios(int(file.Fd()), unix.TCGETS)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("setting up %s: %w", path, err), file.Close())
	}
	settings.Oflag &^= unix.OPOST
	settings.Lflag &^= unix.ECHO | unix.ICANON | unix.ISIG
	if err := unix.IoctlSetTermios(int(file.Fd()), unix.TCSETS, settings); err != nil {
		return nil, errors.Join(fmt.Errorf("setting up %s: %w", path, err), file.Close())
	}
	return file, nil
}

// program runs the test binary. The first process is the parent of all that lose theirs, and reaps them.
func program(args []string, out *os.File) (code int, err error) {
	null, err := os.Open("/dev/null")
	if err != nil {
		return 0, err
	}
	process, err := os.StartProcess(task.Program, append([]string{task.Program}, args...), &os.ProcAttr{
		Dir: "/tmp", Env: []string{"HOME=/tmp", "TMPDIR=/tmp", "PATH=/"}, Files: []*os.File{null, out, out},
	})
	if err != nil {
		return 0, fmt.Errorf("starting the program: %w", err)
	}
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("waiting for the program: %w", err)
		case pid == process.Pid && status.Exited():
			return status.ExitStatus(), nil
		case pid == process.Pid:
			return 128 + int(status.Signal()), nil
		}
	}
}

package cgroup

import (
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
)

// hierarchy is one mounted hierarchy: all controllers on v2, one or a few on v1.
type hierarchy struct{ mountpoint string }

// group is an open cgroup. What is read through it is the cgroup that was opened, also when another of the same name has
// taken its place meanwhile.
type group struct {
	of   hierarchy
	path string
	fd   int
}

// open opens a cgroup step by step and follows no symbolic link. openat2 would do it in one call, but it needs Linux 5.6, and
// nodes with cgroup v1 run older ones. It fails with ErrGone where the cgroup does not exist.
func (h hierarchy) open(cgroup string) (*group, error) {
	steps, err := split(cgroup)
	if err != nil {
		return nil, err
	}
	const flags = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
	fd, err := openat(unix.AT_FDCWD, h.mountpoint, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("opening the hierarchy %s: %w", h.mountpoint, err)
	}
	for _, step := range steps {
		next, err := openat(fd, step, flags)
		_ = unix.Close(fd) // nothing was written through it
		if err != nil {
			return nil, h.failed("opening", cgroup, err)
		}
		fd = next
	}
	return &group{of: h, path: cgroup, fd: fd}, nil
}

// exists tells whether the cgroup is there.
func (h hierarchy) exists(cgroup string) (bool, error) {
	g, err := h.open(cgroup)
	if errors.Is(err, ErrGone) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	g.close()
	return true, nil
}

// failed wraps an error, with ErrGone in place of the kernel's two errors for a cgroup that is gone: ENOENT where the cgroup is not there,
// ENODEV for a file that was opened before it went.
func (h hierarchy) failed(doing, name string, err error) error {
	if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("%s %s: %w", doing, name, ErrGone)
	}
	return fmt.Errorf("%s %s: %w", doing, path.Join(h.mountpoint, name), err)
}

func (g *group) close() { _ = unix.Close(g.fd) } // O_PATH: nothing was written through it

// read returns a file's contents as they are. ok is false for a file that is not there, or that the kernel has but can't be
// read: memory.pressure of a kernel without PSI (EOPNOTSUPP), cgroup.procs of a threaded cgroup (EOPNOTSUPP), cgroup.kill (EINVAL).
func (g *group) read(file string) (text string, ok bool, err error) {
	text, err = g.readFile(file)
	switch {
	case err == nil:
		return text, true, nil
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, unix.EINVAL):
		return "", false, nil
	case errors.Is(err, unix.ENOENT):
		return "", false, g.stillThere()
	}
	return "", false, g.of.failed("reading", path.Join(g.path, file), err)
}

func (g *group) readFile(file string) (string, error) {
	if err := checkFile(file); err != nil {
		return "", err
	}
	fd, err := openat(g.fd, file, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return "", err
	}
	defer unix.Close(fd) //nolint:errcheck // read only
	text, buffer := []byte(nil), [4096]byte{}
	for {
		n, err := again(func() (int, error) { return unix.Read(fd, buffer[:]) })
		if err != nil || n == 0 {
			return string(text), err
		}
		text = append(text, buffer[:n]...)
	}
}

// write makes a file hold a value and tells whether it had to. A file that can't be read is written: it is a command, as
// memory.reclaim is.
func (g *group) write(file, value string) (bool, error) {
	have, ok, err := g.read(file)
	if err != nil {
		return false, err
	}
	if ok && cgroupfile.Holds(have, value) {
		return false, nil
	}
	err = g.writeFile(file, value)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.ENOENT):
		if err := g.lives(); err != nil {
			return false, err
		}
		return false, fmt.Errorf("writing %s: %w", path.Join(g.path, file), ErrNoFile)
	}
	return false, g.of.failed(fmt.Sprintf("writing %q to", value), path.Join(g.path, file), err)
}

// writeFile writes in one call, as the kernel's files want it, and never makes a file. O_TRUNC is for trees of ordinary files.
func (g *group) writeFile(file, value string) error {
	if err := checkFile(file); err != nil {
		return err
	}
	fd, err := openat(g.fd, file, unix.O_WRONLY|unix.O_TRUNC|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return err
	}
	n, err := again(func() (int, error) { return unix.Write(fd, []byte(value)) })
	if err == nil && n < len(value) {
		err = fmt.Errorf("only %d of %d bytes were taken", n, len(value))
	}
	return errors.Join(err, unix.Close(fd))
}

// procsFile is in every cgroup: where it is missing the cgroup was removed after it was opened.
const procsFile = "cgroup.procs"

// stillThere is nil, or ErrGone. While the kernel removes a cgroup it takes the controllers' files away before this one, so that
// for a moment a file is missing from a cgroup that is there.
func (g *group) stillThere() error {
	fd, err := openat(g.fd, procsFile, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return g.of.failed("looking at", g.path, err)
	}
	return unix.Close(fd)
}

// lives is stillThere without that moment. It writes a number that is none: the kernel takes the lock that a removal holds, says
// ENODEV if the cgroup was removed, and only then looks at the number, which it refuses. (kernel/cgroup/cgroup.c,
// __cgroup_procs_write; cgroup-v1.c, __cgroup1_procs_write)
func (g *group) lives() error {
	fd, err := openat(g.fd, procsFile, unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC)
	if err != nil {
		return g.of.failed("looking at", g.path, err)
	}
	defer unix.Close(fd) //nolint:errcheck // nothing was written
	if _, err := again(func() (int, error) { return unix.Write(fd, []byte{'\n'}) }); errors.Is(err, unix.ENODEV) {
		return g.of.failed("looking at", g.path, err)
	}
	return nil
}

// children are the names of the cgroups directly below, sorted.
func (g *group) children() ([]string, error) {
	fd, err := openat(g.fd, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC)
	if err != nil {
		return nil, g.of.failed("listing", g.path, err)
	}
	dir := os.NewFile(uintptr(fd), g.path)
	defer dir.Close()
	entries, err := dir.ReadDir(-1)
	if err != nil {
		return nil, g.of.failed("listing", g.path, err)
	}
	var names []string
	for _, entry := range entries {
		if entry.IsDir() {
			names = append(names, entry.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}

// split cuts a cgroup's path into its steps. It refuses what is not spelt as the kernel spells it: a path that leads out of the
// hierarchy must not depend on who made it up.
func split(cgroup string) ([]string, error) {
	if cgroup == "/" {
		return nil, nil
	}
	if !strings.HasPrefix(cgroup, "/") || path.Clean(cgroup) != cgroup || strings.ContainsRune(cgroup, 0) {
		return nil, fmt.Errorf("%q is not the path of a cgroup", cgroup)
	}
	return strings.Split(cgroup[1:], "/"), nil
}

// checkFile refuses what is not the plain name of a file.
func checkFile(file string) error {
	if file == "" || file == "." || file == ".." || strings.ContainsAny(file, "/\x00") {
		return fmt.Errorf("%q is not the name of a cgroup's file", file)
	}
	return nil
}

func openat(dir int, name string, flags int) (int, error) {
	return again(func() (int, error) { return unix.Openat(dir, name, flags, 0) })
}

// again repeats a system call that a signal interrupted: Go's runtime sends itself signals to preempt.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

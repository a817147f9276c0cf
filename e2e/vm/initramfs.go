package vm

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// diskModules are what the kernel needs before it reads a node's disk. In that for clouds ext4 is built in.
var diskModules = []string{"virtio_pci", "virtio_blk", "ext4"}

// initramfs writes the archive that the kernel starts from: the init, and what it works with. It is not compressed: an emulated
// processor would take longer to unpack it than the machine that emulates takes to read it.
func initramfs(ctx context.Context, path string, files []cpioFile) error {
	init, err := os.MkdirTemp("", "podgrace-init-")
	if err != nil {
		return fmt.Errorf("making the initramfs: %w", err)
	}
	defer os.RemoveAll(init)
	if err := cluster.GoBuild(ctx, filepath.Join(init, "init"), "e2e/vm/init"); err != nil {
		return err
	}
	program, err := readFile("init", filepath.Join(init, "init"))
	if err != nil {
		return err
	}
	file, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("making the initramfs: %w", err)
	}
	out := bufio.NewWriter(file)
	if err := errors.Join(writeCPIO(out, append(files, program)), out.Flush(), file.Close()); err != nil {
		return fmt.Errorf("making the initramfs: %w", err)
	}
	return nil
}

// moduleFiles are those of diskModules and of what they depend on, their names in the order in which they load. Below root are the
// kernel's modules, after depmod.
func moduleFiles(ctx context.Context, root, version string) ([]cpioFile, error) {
	var paths []string
	for _, module := range diskModules {
		text, err := cluster.Run(ctx, "modprobe", "--dirname", root, "--set-version", version, "--show-depends", module)
		if err != nil {
			return nil, fmt.Errorf("finding the module %s: %w", module, err)
		}
		for line := range strings.Lines(text) {
			if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "insmod" && !slices.Contains(paths, fields[1]) {
				paths = append(paths, fields[1])
			}
		}
	}
	return numbered(paths)
}

// numbered are modules where the init looks for them, in the order in which they load.
func numbered(paths []string) ([]cpioFile, error) {
	files := []cpioFile{folder("modules")}
	for i, path := range paths {
		file, err := readFile(fmt.Sprintf("modules/%02d-%s", i, filepath.Base(path)), path)
		if err != nil {
			return nil, err
		}
		files = append(files, file)
	}
	return files, nil
}

// cpioFile is a folder or a regular file of root's. A folder stands before what is in it.
type cpioFile struct {
	name    string
	mode    fs.FileMode
	content []byte
}

func folder(name string) cpioFile { return cpioFile{name: name, mode: fs.ModeDir | 0o755} }

// readFile is a file of the host, which may be a program.
func readFile(name, path string) (cpioFile, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return cpioFile{}, fmt.Errorf("making the initramfs: %w", err)
	}
	return cpioFile{name: name, mode: 0o755, content: content}, nil
}

// writeCPIO writes the only format that the kernel reads: newc, Documentation/driver-api/early-userspace/buffer-format.rst.
func writeCPIO(w io.Writer, files []cpioFile) error {
	for i, file := range append(slices.Clip(files), cpioFile{name: "TRAILER!!!"}) {
		kind := uint32(0o100000)
		if file.mode.IsDir() {
			kind = 0o040000
		}
		header := []byte("070701")
		for _, field := range []uint32{
			uint32(i), kind | uint32(file.mode.Perm()), 0, 0, 1, 0, uint32(len(file.content)), 0, 0, 0, 0, uint32(len(file.name) + 1), 0,
		} {
			header = fmt.Appendf(header, "%08x", field)
		}
		header = append(append(header, file.name...), 0)
		for _, part := range [][]byte{header, file.content} {
			if _, err := w.Write(part); err != nil {
				return err
			}
			if _, err := w.Write(make([]byte, -len(part)&3)); err != nil {
				return err
			}
		}
	}
	return nil
}

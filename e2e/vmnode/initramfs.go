package vmnode

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// diskModules are what the kernel needs before it sees the disk; ext4 is built in.
var diskModules = []string{"virtio_pci", "virtio_blk"}

// writeInitramfs writes the archive that the kernel starts from: our init, and the modules that it loads. Below root
// are the kernel's modules, after depmod.
func writeInitramfs(ctx context.Context, path, root, version, init string) error {
	program, err := os.ReadFile(init)
	if err != nil {
		return fmt.Errorf("making the initramfs: %w", err)
	}
	files := []cpioFile{
		{name: "dev", mode: fs.ModeDir | 0o755}, {name: "root", mode: fs.ModeDir | 0o755}, {name: "modules", mode: fs.ModeDir | 0o755},
		{name: "init", mode: 0o755, content: program},
	}
	modules, err := moduleFiles(ctx, root, version)
	if err != nil {
		return err
	}
	for i, module := range modules {
		content, err := os.ReadFile(module)
		if err != nil {
			return fmt.Errorf("making the initramfs: %w", err)
		}
		files = append(files, cpioFile{name: fmt.Sprintf("modules/%02d-%s", i, filepath.Base(module)), mode: 0o644, content: content})
	}
	var archive bytes.Buffer
	compressed := gzip.NewWriter(&archive)
	if err := writeCPIO(compressed, files); err != nil {
		return fmt.Errorf("making the initramfs: %w", err)
	}
	if err := compressed.Close(); err != nil {
		return fmt.Errorf("making the initramfs: %w", err)
	}
	return os.WriteFile(path, archive.Bytes(), 0o644)
}

// moduleFiles lists the files of diskModules and of what they depend on, in the order in which they load.
func moduleFiles(ctx context.Context, root, version string) ([]string, error) {
	var files []string
	for _, module := range diskModules {
		text, err := exec.CommandContext(ctx, "modprobe", "--dirname", root, "--set-version", version, "--show-depends", module).Output()
		if err != nil {
			return nil, fmt.Errorf("finding the module %s: %w", module, err)
		}
		for line := range strings.Lines(string(text)) {
			if fields := strings.Fields(line); len(fields) >= 2 && fields[0] == "insmod" && !slices.Contains(files, fields[1]) {
				files = append(files, fields[1])
			}
		}
	}
	return files, nil
}

// cpioFile is a folder or a regular file of root's. A folder stands before what is in it.
type cpioFile struct {
	name    string
	mode    fs.FileMode
	content []byte
}

// writeCPIO writes the only format that the kernel reads: newc, Documentation/driver-api/early-userspace/buffer-format.rst.
func writeCPIO(w io.Writer, files []cpioFile) error {
	for i, file := range append(slices.Clip(files), cpioFile{name: "TRAILER!!!"}) {
		kind := uint32(0o100000)
		if file.mode.IsDir() {
			kind = 0o040000
		}
		var header strings.Builder
		header.WriteString("070701")
		for _, field := range []uint32{
			uint32(i), kind | uint32(file.mode.Perm()), 0, 0, 1, 0, uint32(len(file.content)), 0, 0, 0, 0, uint32(len(file.name) + 1), 0,
		} {
			fmt.Fprintf(&header, "%08x", field)
		}
		header.WriteString(file.name + "\x00")
		for _, part := range [][]byte{[]byte(header.String()), file.content} {
			padded := append(slices.Clip(part), make([]byte, -len(part)&3)...)
			if _, err := w.Write(padded); err != nil {
				return err
			}
		}
	}
	return nil
}

package guest

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// archive writes an initramfs: cpio in the newc format (Documentation/driver-api/early-userspace/buffer-format.rst). Errors show
// up at close.
type archive struct {
	out     io.Writer
	inode   int
	written int64
	err     error
}

// dir adds a folder; those above it come first.
func (a *archive) dir(name string) { a.entry(name, 0o40755, 0, strings.NewReader("")) }

// file adds a program or a text.
func (a *archive) file(name, path string) {
	file, err := os.Open(path)
	if err != nil {
		a.err = errors.Join(a.err, err)
		return
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		a.err = errors.Join(a.err, err)
		return
	}
	a.entry(name, 0o100755, info.Size(), file)
}

func (a *archive) text(name, text string) {
	a.entry(name, 0o100644, int64(len(text)), strings.NewReader(text))
}

// close ends the archive.
func (a *archive) close() error {
	a.entry("TRAILER!!!", 0, 0, strings.NewReader(""))
	if a.err != nil {
		return fmt.Errorf("writing the initramfs: %w", a.err)
	}
	return nil
}

// entry writes a header of 13 numbers of 8 hexadecimal digits, the name, and the contents, each padded to 4 bytes.
func (a *archive) entry(name string, mode int, size int64, contents io.Reader) {
	a.inode++
	links := 1
	header := []byte("070701")
	for _, field := range []int{a.inode, mode, 0, 0, links, 0, int(size), 0, 0, 0, 0, len(name) + 1, 0} {
		header = fmt.Appendf(header, "%08x", field)
	}
	a.copy(strings.NewReader(string(header) + name + "\x00"))
	a.pad()
	if n := a.copy(contents); n != size && a.err == nil {
		a.err = fmt.Errorf("%s has %d bytes, not %d", name, n, size)
	}
	a.pad()
}

func (a *archive) pad() {
	a.copy(strings.NewReader("\x00\x00\x00"[:(4-a.written%4)%4]))
}

func (a *archive) copy(from io.Reader) int64 {
	if a.err != nil {
		return 0
	}
	n, err := io.Copy(a.out, from)
	a.written, a.err = a.written+n, err
	return n
}

package vm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// HogImage is on every node: the program of e2e/vm/hog, whose path in it is HogProgram. Use it with
// imagePullPolicy Never. cluster.PauseImage is there too.
const (
	HogImage   = "localhost/podgrace/hog:1"
	HogProgram = "/program"
)

// diskSize of a guest; only what is written takes room.
const diskSize = "8G"

// image is a folder with what a guest boots from.
type image struct{ dir string }

func (i image) disk() string      { return filepath.Join(i.dir, "root.ext4") }
func (i image) kernel() string    { return filepath.Join(i.dir, "vmlinuz") }
func (i image) initramfs() string { return filepath.Join(i.dir, "initramfs") }

// base returns Debian's part: a folder with a root file system.
func (b *builder) base(ctx context.Context) (string, error) {
	sum := sha256.New()
	if err := b.hashBase(sum); err != nil {
		return "", err
	}
	dir := filepath.Join(b.cache, fmt.Sprintf("vm-debian-%x", sum.Sum(nil)[:8]))
	if exists(dir) {
		return dir, nil
	}
	return dir, b.atomically(ctx, dir, func(ctx context.Context, temp string) error {
		return makeBase(ctx, filepath.Join(temp, "root"))
	})
}

// build makes an image in dir.
func (b *builder) build(ctx context.Context, dir string) error {
	made, root, start := image{dir}, filepath.Join(dir, "root"), time.Now()
	step := func(what string) {
		fmt.Fprintf(b.progress, "guest image: %s after %.0fs\n", what, time.Since(start).Seconds())
	}
	base, err := b.base(ctx)
	if err != nil {
		return err
	}
	step("Debian")
	k, err := debianKernel(ctx, b.kernel)
	if err != nil {
		return err
	}
	if err := command(ctx, dir, "cp", "--archive", filepath.Join(base, "root"), root); err != nil {
		return err
	}
	if err := finishRoot(ctx, root, k, b.kubelet, filepath.Join(b.source, "e2e/vm/files")); err != nil {
		return err
	}
	if err := cluster.GoBuild(ctx, filepath.Join(root, "usr/local/bin/podgrace-agent"), "e2e/vm/agent"); err != nil {
		return err
	}
	modules, err := moduleFiles(ctx, root, k.version)
	if err != nil {
		return err
	}
	if err := initramfs(ctx, made.initramfs(), append(modules, folder("dev"), folder("root"))); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"cp", k.image, made.kernel()},
		{"truncate", "--size=" + diskSize, made.disk()},
		// No journal: a guest that is not shut down is thrown away.
		{"mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-E", "lazy_itable_init=1,root_owner=0:0", "-m", "0", "-d", root, made.disk()},
		{"rm", "--recursive", "--force", root},
	} {
		if err := command(ctx, dir, args[0], args[1:]...); err != nil {
			return err
		}
	}
	step("disk")
	if err := b.importImages(ctx, made); err != nil {
		return err
	}
	step("container images")
	return nil
}

// importImages boots the guest once, so that its own containerd unpacks the images that every node has.
func (b *builder) importImages(ctx context.Context, made image) (err error) {
	s := seed{environment: environment("image", "10.0.2.16", "10.207.99.0/24")}
	for reference, folder := range map[string]string{cluster.PauseImage: "e2e/cluster/pause", HogImage: "e2e/vm/hog"} {
		archive := filepath.Join(made.dir, filepath.Base(folder)+".tar")
		defer os.RemoveAll(archive)
		if err := cluster.BuildImage(ctx, reference, folder, archive); err != nil {
			return err
		}
		s.images = append(s.images, archive)
	}
	m, err := startMachine(ctx, machineOptions{name: "image", dir: made.dir, image: made, keepDisk: true, seed: s, memoryMiB: 1024, cpus: 2})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.stop(), os.RemoveAll(m.options.console)) }()
	if err := m.awaitShell(ctx); err != nil {
		return err
	}
	// The unit starts by itself; this waits for it, and reports whether it failed.
	if _, err := m.shell.run(ctx, "systemctl start podgrace-images.service || { journalctl --no-pager -u podgrace-images.service; exit 1; }"); err != nil {
		return fmt.Errorf("importing images: %w", err)
	}
	// The agent answers: without default dependencies it is among the last to be stopped.
	if _, err := m.shell.run(ctx, "systemctl --no-block poweroff"); err != nil {
		return err
	}
	return m.process.Wait(ctx)
}

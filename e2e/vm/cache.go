package vm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// builder makes images in the user's cache folder.
type builder struct {
	cache    string // the folder
	source   string // of this repository
	kubelet  string // the program
	kernel   kernelPackage
	progress io.Writer
}

func newBuilder(kubelet string, kernel kernelPackage, progress io.Writer) (*builder, error) {
	cache, err := cacheDir()
	if err != nil {
		return nil, err
	}
	source, err := cluster.ModuleRoot()
	if err != nil {
		return nil, err
	}
	return &builder{cache: cache, source: source, kubelet: kubelet, kernel: kernel, progress: progress}, nil
}

// cacheDir is where kernels and images are kept.
func cacheDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(cache, "podgrace")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	return dir, nil
}

// image returns the image for the present inputs, and makes it if the cache has none: some minutes, once. Two processes
// do not make it at the same time.
func (b *builder) image(ctx context.Context) (image, error) {
	key, err := b.key()
	if err != nil {
		return image{}, fmt.Errorf("naming the guest's image: %w", err)
	}
	made := image{filepath.Join(b.cache, "vm-"+key+"-image")}
	if use(made.dir) {
		return made, nil
	}
	unlock, err := cluster.Lock(ctx, filepath.Join(b.cache, "vm.lock"), b.progress)
	if err != nil {
		return image{}, err
	}
	defer unlock()
	if use(made.dir) {
		return made, nil
	}
	left, _ := filepath.Glob(filepath.Join(b.cache, ".vm-*")) // by a build that was killed: we have the lock
	for _, temp := range left {
		_ = os.RemoveAll(temp)
	}
	if err := b.atomically(ctx, made.dir, b.build); err != nil {
		return image{}, fmt.Errorf("making the guest's image: %w", err)
	}
	b.forgetUnused()
	return made, nil
}

// use notes that an image is used now, and reports whether there is one.
func use(dir string) bool {
	now := time.Now()
	return os.Chtimes(dir, now, now) == nil
}

// unusedFor is how long an image is kept: each change of its inputs leaves one behind, of half a gigabyte.
const unusedFor = 7 * 24 * time.Hour

// forgetUnused removes images that nobody has used for long. A guest that still runs keeps its open file.
func (b *builder) forgetUnused() {
	dirs, _ := filepath.Glob(filepath.Join(b.cache, "vm-*-image"))
	for _, dir := range dirs {
		if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > unusedFor {
			_ = os.RemoveAll(dir)
		}
	}
}

// atomically fills a temporary folder and gives it its name once it is whole.
func (b *builder) atomically(ctx context.Context, dir string, fill func(context.Context, string) error) error {
	temp, err := os.MkdirTemp(b.cache, ".vm-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := errors.Join(os.Chmod(temp, 0o755), fill(ctx, temp)); err != nil {
		return err
	}
	return os.Rename(temp, dir)
}

// key names the inputs of an image: sources, programs, packages. Debian's own versions are not among them: a new one
// is no reason to wait for minutes.
func (b *builder) key() (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, runtime.Version(), diskSize, b.kernel.name)
	if err := b.hashBase(sum); err != nil {
		return "", err
	}
	for _, path := range []string{
		"e2e/vm/image.go", "e2e/vm/rootfs.go", "e2e/vm/initramfs.go", "e2e/vm/kernel.go", "e2e/vm/files", "e2e/vm/agent", "e2e/vm/hog", "e2e/vm/init", "e2e/vm/task", "e2e/cluster/pause", "e2e/cluster/image.go",
	} {
		if err := hashFiles(sum, filepath.Join(b.source, path)); err != nil {
			return "", err
		}
	}
	err := hashFiles(sum, b.kubelet)
	return fmt.Sprintf("%x", sum.Sum(nil)[:8]), err
}

// hashBase adds the inputs of what is Debian's.
func (b *builder) hashBase(sum hash.Hash) error {
	release, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return err
	}
	fmt.Fprintln(sum, releaseName(release))
	return hashFiles(sum, filepath.Join(b.source, "e2e/vm/base.go"))
}

// hashFiles adds the names and contents of a file, or of all files of a folder.
func hashFiles(sum hash.Hash, root string) error {
	return filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		fmt.Fprintln(sum, entry.Name())
		_, err = io.Copy(sum, file)
		return err
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// DebianRoot returns the folder with the root file system of Debian's packages from which the guest's image is made, for
// other images of a node: to be copied, not changed. It is made once, in minutes.
func DebianRoot(ctx context.Context, progress io.Writer) (string, error) {
	b, err := newBuilder("", cloudKernel, progress)
	if err != nil {
		return "", err
	}
	unlock, err := cluster.Lock(ctx, filepath.Join(b.cache, "vm.lock"), progress)
	if err != nil {
		return "", err
	}
	defer unlock()
	base, err := b.base(ctx)
	if err != nil {
		return "", fmt.Errorf("making Debian's root file system: %w", err)
	}
	return filepath.Join(base, "root"), nil
}

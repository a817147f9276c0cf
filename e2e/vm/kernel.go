package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// kernelPackage is a package of Debian's that depends on the newest kernel of its kind.
type kernelPackage struct {
	name  string
	entry string // what the names of its kernels in the cache begin with
}

var (
	// cloudKernel is for virtual machines. A bare guest needs none of its modules.
	cloudKernel = kernelPackage{"linux-image-cloud-amd64", "kernel-"}
	// fullKernel has the drivers of real hardware as well, and four times the size.
	fullKernel = kernelPackage{"linux-image-amd64", "full-kernel-"}
)

// kernel is an unpacked kernel.
type kernel struct {
	version string // as uname -r says
	image   string // the file that boots
	modules string // the folder lib/modules
}

// debianKernel returns the package's newest kernel of the cache: if it has none, out of its Debian package, which is downloaded and
// unpacked there, but not installed: that would put files into the host's /boot.
func debianKernel(ctx context.Context, p kernelPackage) (kernel, error) {
	cache, err := cacheDir()
	if err != nil {
		return kernel{}, err
	}
	if k, err := p.cached(cache); err == nil {
		return k, nil
	}
	temp, err := os.MkdirTemp(cache, ".kernel-")
	if err != nil {
		return kernel{}, fmt.Errorf("fetching a kernel: %w", err)
	}
	defer os.RemoveAll(temp)
	if err := os.Chmod(temp, 0o755); err != nil { // as root apt downloads as user _apt, if that may write here
		return kernel{}, fmt.Errorf("fetching a kernel: %w", err)
	}
	// Lists may be empty, or name a file that is no longer there: then they are updated first.
	if err := p.fetch(ctx, temp); err != nil {
		if err := command(ctx, temp, "apt-get", "update", "--quiet"); err != nil {
			return kernel{}, err
		}
		if err := p.fetch(ctx, temp); err != nil {
			return kernel{}, err
		}
	}
	k, err := findKernel(temp)
	if err != nil {
		return kernel{}, err
	}
	// What is in the cache is whole, since it comes there by renaming. Of two at the same time the first one's is kept.
	if err := os.Rename(temp, filepath.Join(cache, p.entry+k.version)); err != nil && !errors.Is(err, os.ErrExist) {
		return kernel{}, fmt.Errorf("keeping a kernel: %w", err)
	}
	return p.cached(cache)
}

// cached is the one of the last name.
func (p kernelPackage) cached(cache string) (kernel, error) {
	found, _ := filepath.Glob(filepath.Join(cache, p.entry+"*"))
	if len(found) == 0 {
		return kernel{}, fmt.Errorf("the cache has no kernel of %s", p.name)
	}
	return findKernel(slices.Max(found))
}

// fetch downloads what the package stands for and unpacks it into dir.
func (p kernelPackage) fetch(ctx context.Context, dir string) error {
	text, err := cluster.Run(ctx, "apt-cache", "depends", "--important", p.name)
	if err != nil {
		return err
	}
	name := regexp.MustCompile(`Depends: (linux-image-\S+)`).FindStringSubmatch(text)
	if name == nil {
		return fmt.Errorf("%s depends on no kernel:\n%s", p.name, text)
	}
	if err := command(ctx, dir, "apt-get", "download", "--quiet", name[1]); err != nil {
		return err
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	if len(files) != 1 {
		return fmt.Errorf("downloading %s gave %d files", name[1], len(files))
	}
	if err := command(ctx, dir, "dpkg-deb", "--extract", files[0], "."); err != nil {
		return err
	}
	return os.Remove(files[0])
}

// findKernel finds the one kernel below dir. Since Debian 13 lib may be usr/lib.
func findKernel(dir string) (kernel, error) {
	for _, lib := range []string{"lib", "usr/lib"} {
		found, _ := filepath.Glob(filepath.Join(dir, lib, "modules", "*"))
		if len(found) != 1 {
			continue
		}
		version := filepath.Base(found[0])
		k := kernel{version: version, image: filepath.Join(dir, "boot", "vmlinuz-"+version), modules: filepath.Dir(found[0])}
		_, err := os.Stat(k.image)
		return k, err
	}
	return kernel{}, errors.New("the kernel's package has no modules")
}

// command runs a program in dir, as a package manager wants it.
func command(ctx context.Context, dir, name string, args ...string) error {
	_, err := cluster.Command{Dir: dir, Env: []string{"LC_ALL=C", "DEBIAN_FRONTEND=noninteractive"}}.Run(ctx, name, args...)
	return err
}

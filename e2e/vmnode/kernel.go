package vmnode

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// kernelPackage depends on the newest kernel for virtual machines.
const kernelPackage = "linux-image-cloud-amd64"

// kernel is an unpacked kernel.
type kernel struct {
	version string // as uname -r says
	image   string // the file that boots
	modules string // the folder lib/modules
}

// fetchKernel downloads the newest kernel and unpacks it into dir. It installs nothing: that would put files into the
// host's /boot.
func fetchKernel(ctx context.Context, dir string) (kernel, error) {
	// Lists may be empty, or name a file that is no longer there.
	if err := command(ctx, dir, "apt-get", "update", "--quiet"); err != nil {
		return kernel{}, err
	}
	versioned, err := newestKernel(ctx)
	if err != nil {
		return kernel{}, err
	}
	// As root apt downloads as user _apt, if that may write here; it says so, and goes on, if not.
	if err := command(ctx, dir, "apt-get", "download", "--quiet", versioned); err != nil {
		return kernel{}, err
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	if len(files) != 1 {
		return kernel{}, fmt.Errorf("downloading %s gave %d files", versioned, len(files))
	}
	if err := command(ctx, dir, "dpkg-deb", "--extract", files[0], "."); err != nil {
		return kernel{}, err
	}
	return findKernel(dir)
}

// newestKernel asks apt what the kernel's package stands for.
func newestKernel(ctx context.Context) (string, error) {
	text, err := exec.CommandContext(ctx, "apt-cache", "depends", kernelPackage).Output()
	if err != nil {
		return "", fmt.Errorf("asking apt for %s: %w", kernelPackage, err)
	}
	name := regexp.MustCompile(`Depends: (linux-image-\S+)`).FindSubmatch(text)
	if name == nil {
		return "", fmt.Errorf("%s depends on no kernel:\n%s", kernelPackage, text)
	}
	return string(name[1]), nil
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

// command runs a program in dir. The error has the end of what it wrote.
func command(ctx context.Context, dir, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C", "DEBIAN_FRONTEND=noninteractive")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, cluster.Tail(text, 10))
	}
	return nil
}

package guest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// kernelPackage depends on the newest kernel for virtual machines; it has no drivers that need modules here, and is small.
const kernelPackage = "linux-image-cloud-amd64"

// linux returns the kernel's file: from the cache if there is one, else out of its Debian package, which is fetched and unpacked
// there but not installed.
func linux(ctx context.Context) (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding the cache folder: %w", err)
	}
	dir := filepath.Join(cache, "podgrace")
	if found := cachedLinux(dir); found != "" {
		return found, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the cache folder: %w", err)
	}
	name, err := kernelName(ctx)
	if err != nil {
		return "", err
	}
	return unpack(ctx, name, filepath.Join(dir, "guest-"+strings.TrimPrefix(name, "linux-image-")))
}

// cachedLinux is the kernel of the last name: what is in the cache is whole, since it comes there by renaming.
func cachedLinux(dir string) string {
	found, _ := filepath.Glob(filepath.Join(dir, "guest-*", "vmlinuz"))
	if len(found) == 0 {
		return ""
	}
	return slices.Max(found)
}

// kernelName asks apt for the package that has the kernel, and updates its lists where it does not know.
func kernelName(ctx context.Context) (string, error) {
	name, err := dependency(ctx)
	if err == nil {
		return name, nil
	}
	if text, err := exec.CommandContext(ctx, "apt-get", "update").CombinedOutput(); err != nil {
		return "", fmt.Errorf("updating apt's lists to find a kernel: %w\n%s", err, text)
	}
	return dependency(ctx)
}

func dependency(ctx context.Context) (string, error) {
	text, err := exec.CommandContext(ctx, "apt-cache", "depends", "--important", kernelPackage).Output()
	if err != nil {
		return "", fmt.Errorf("finding the kernel of %s: %w", kernelPackage, err)
	}
	for line := range strings.Lines(string(text)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "Depends: "); ok && strings.HasPrefix(name, "linux-image-") {
			return name, nil
		}
	}
	return "", fmt.Errorf("apt knows no kernel for %s", kernelPackage)
}

// unpack fetches and unpacks a package beside dir, and renames. Two at the same time do no harm: the first one's is kept.
func unpack(ctx context.Context, name, dir string) (string, error) {
	temp, err := os.MkdirTemp(filepath.Dir(dir), ".guest-")
	if err != nil {
		return "", fmt.Errorf("unpacking %s: %w", name, err)
	}
	defer os.RemoveAll(temp)
	if err := os.Chmod(temp, 0o755); err != nil { // apt fetches as another user, if it can
		return "", fmt.Errorf("unpacking %s: %w", name, err)
	}
	if err := fetch(ctx, name, temp); err != nil {
		return "", err
	}
	whole := filepath.Join(temp, "whole")
	kernels, _ := filepath.Glob(filepath.Join(temp, "boot", "vmlinuz-*"))
	if len(kernels) != 1 {
		return "", fmt.Errorf("unpacking %s: it has %d kernels", name, len(kernels))
	}
	if err := os.Mkdir(whole, 0o755); err != nil {
		return "", fmt.Errorf("unpacking %s: %w", name, err)
	}
	if err := os.Rename(kernels[0], filepath.Join(whole, "vmlinuz")); err != nil {
		return "", fmt.Errorf("unpacking %s: %w", name, err)
	}
	if err := os.Rename(whole, dir); err != nil && cachedLinux(filepath.Dir(dir)) == "" {
		return "", fmt.Errorf("unpacking %s: %w", name, err)
	}
	return filepath.Join(dir, "vmlinuz"), nil
}

// fetch downloads a package into dir and unpacks it there. The lists may name a file that is no longer there: then they are
// updated first.
func fetch(ctx context.Context, name, dir string) error {
	download := func() ([]byte, error) {
		cmd := exec.CommandContext(ctx, "apt-get", "download", name)
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	if _, err := download(); err != nil {
		if text, err := exec.CommandContext(ctx, "apt-get", "update").CombinedOutput(); err != nil {
			return fmt.Errorf("updating apt's lists to fetch %s: %w\n%s", name, err, text)
		}
		if text, err := download(); err != nil {
			return fmt.Errorf("fetching %s: %w\n%s", name, err, text)
		}
	}
	debs, _ := filepath.Glob(filepath.Join(dir, "*.deb"))
	if len(debs) != 1 {
		return fmt.Errorf("fetching %s: %d files came", name, len(debs))
	}
	if text, err := exec.CommandContext(ctx, "dpkg-deb", "--extract", debs[0], dir).CombinedOutput(); err != nil {
		return fmt.Errorf("unpacking %s: %w\n%s", name, err, text)
	}
	return nil
}

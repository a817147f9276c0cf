package vm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// packages are what a node needs beyond Debian's smallest system.
var packages = []string{
	"systemd", "systemd-sysv", "dbus", "iproute2", "iptables", "kmod", "containerd", "runc", "containernetworking-plugins", "procps",
}

// trimmed is what nobody reads in a guest.
var trimmed = []string{
	"var/cache/apt", "var/lib/apt/lists", "usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/share/zoneinfo", "boot",
}

// makeBase makes a root file system of Debian's packages at root.
func makeBase(ctx context.Context, root string) error {
	release, mirror, err := debian(ctx)
	if err != nil {
		return err
	}
	if err := debootstrap(ctx, release, mirror, root); err != nil {
		return err
	}
	for _, path := range trimmed {
		if err := os.RemoveAll(filepath.Join(root, path)); err != nil {
			return fmt.Errorf("trimming the root file system: %w", err)
		}
	}
	return nil
}

// debootstrap runs in namespaces of its own: what it mounts and starts ends with it, however it ends.
func debootstrap(ctx context.Context, release, mirror, root string) error {
	child, err := cluster.StartProcess("debootstrap", root+".log", "unshare", "--mount", "--pid", "--fork", "--kill-child",
		"debootstrap", "--variant=minbase", "--include="+strings.Join(packages, ","), release, root, mirror)
	if err != nil {
		return err
	}
	return child.Wait(ctx)
}

// debian is this machine's release and the mirror that its apt gets it from.
func debian(ctx context.Context) (release, mirror string, err error) {
	text, err := os.ReadFile("/etc/os-release")
	if err != nil {
		return "", "", fmt.Errorf("finding Debian's release: %w", err)
	}
	release = releaseName(text)
	targets, err := cluster.Run(ctx, "apt-get", "indextargets", "--format", "$(CODENAME) $(SITE)", "Created-By: Packages")
	if err != nil {
		return "", "", fmt.Errorf("finding Debian's mirror: %w", err)
	}
	if mirror = mirrorOf(release, targets); mirror == "" {
		return "", "", fmt.Errorf("apt has no source of release %q", release)
	}
	return release, mirror, nil
}

// releaseName reads the code name from an os-release file.
func releaseName(text []byte) string {
	for line := range bytes.Lines(text) {
		if value, ok := bytes.CutPrefix(line, []byte("VERSION_CODENAME=")); ok {
			return string(bytes.Trim(value, "\"\n"))
		}
	}
	return ""
}

// mirrorOf finds the first source of a release in lines of "CODENAME SITE".
func mirrorOf(release, targets string) string {
	for line := range strings.Lines(targets) {
		if fields := strings.Fields(line); len(fields) == 2 && fields[0] == release {
			return fields[1]
		}
	}
	return ""
}

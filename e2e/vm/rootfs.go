package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

// enabled are our units and what wants them.
var enabled = map[string]string{
	"podgrace-seed.service": "basic.target", "podgrace-agent.service": "multi-user.target",
	"podgrace-network.service": "multi-user.target", "podgrace-images.service": "multi-user.target", "podgrace-imagedisk.service": "multi-user.target",
	"kubelet.service": "multi-user.target",
}

// masked are Debian's units that cost time or disturb measurements, and that a guest of some minutes has no use for.
var masked = []string{
	"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer",
	"systemd-tmpfiles-clean.timer", "getty@tty1.service", "serial-getty@ttyS0.service", "systemd-logind.service", "systemd-pstore.service",
	"systemd-firstboot.service", "systemd-sysusers.service", "systemd-update-utmp.service", "systemd-random-seed.service",
	"systemd-machine-id-commit.service", "systemd-journal-flush.service", "systemd-remount-fs.service",
}

// finishRoot makes a node of Debian's root file system: modules, kubelet, our files and units.
func finishRoot(ctx context.Context, root string, k kernel, kubelet, guestFiles string) error {
	for _, args := range [][]string{
		{"mkdir", "--parents", root + "/lib/modules", root + "/etc/systemd/system", root + "/var/lib/podgrace"},
		{"cp", "--recursive", k.modules + "/" + k.version, root + "/lib/modules/"},
		{"depmod", "--basedir", root, k.version},
		{"cp", "--recursive", guestFiles + "/.", root},
		{"install", "--mode=755", kubelet, root + "/usr/local/bin/kubelet"},
		{"rm", "--force", root + "/etc/resolv.conf"},
		{"truncate", "--size=0", root + "/etc/resolv.conf", root + "/etc/fstab", root + "/etc/machine-id"},
	} {
		if err := command(ctx, "/", args[0], args[1:]...); err != nil {
			return err
		}
	}
	return setUnits(filepath.Join(root, "etc/systemd/system"))
}

// setUnits enables and masks units, as systemctl does with links.
func setUnits(dir string) error {
	links := map[string]string{"default.target": "/lib/systemd/system/multi-user.target"}
	for unit, target := range enabled {
		links[filepath.Join(target+".wants", unit)] = "/etc/systemd/system/" + unit
	}
	for _, unit := range masked {
		links[unit] = "/dev/null"
	}
	for link, target := range links {
		path := filepath.Join(dir, link)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return fmt.Errorf("setting a unit: %w", err)
		}
		if err := os.RemoveAll(path); err != nil {
			return fmt.Errorf("setting a unit: %w", err)
		}
		if err := os.Symlink(target, path); err != nil {
			return fmt.Errorf("setting a unit: %w", err)
		}
	}
	return nil
}

package vmnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// needs are the programs that a guest or its image takes, and the Debian packages that have them.
var needs = []struct{ program, pkg string }{
	{"qemu-system-x86_64", "qemu-system-x86"},
	{"socat", "socat"},
	{"ip", "iproute2"},
	{"debootstrap", "debootstrap"},
	{"depmod", "kmod"},
	{"modprobe", "kmod"},
	{"mke2fs", "e2fsprogs"},
}

// Supported says why this machine cannot run a node in a virtual machine, or nil.
func Supported() error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("a node in a virtual machine needs Linux on amd64, not %s on %s", runtime.GOOS, runtime.GOARCH)
	}
	if os.Geteuid() != 0 {
		return errors.New("a node in a virtual machine needs root, to make its disk and its address")
	}
	missing := missingPackages(func(program string) bool { _, err := exec.LookPath(program); return err == nil })
	if len(missing) > 0 {
		return fmt.Errorf("a node in a virtual machine needs the Debian packages %s", strings.Join(missing, ", "))
	}
	return nil
}

// missingPackages lists the packages of which found lacks a program, each once.
func missingPackages(found func(program string) bool) []string {
	var missing []string
	for _, need := range needs {
		if !found(need.program) && !slices.Contains(missing, need.pkg) {
			missing = append(missing, need.pkg)
		}
	}
	return missing
}

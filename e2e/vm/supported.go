package vm

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// need is a program, and the Debian package that has it.
type need struct{ program, pkg string }

// of a bare guest; a node or its image takes the others as well.
var (
	guestNeeds = []need{{qemu, "qemu-system-x86"}, {"apt-get", "apt"}}
	nodeNeeds  = []need{
		{"socat", "socat"}, {"ip", "iproute2"}, {"debootstrap", "debootstrap"}, {"depmod", "kmod"}, {"modprobe", "kmod"}, {"mke2fs", "e2fsprogs"},
	}
)

// GuestSupported says why this machine cannot run a bare guest, or nil.
func GuestSupported() error { return supported("a guest", guestNeeds) }

// NodeSupported says why this machine cannot run a node in a virtual machine, or nil.
func NodeSupported() error {
	if os.Geteuid() != 0 {
		return errors.New("a node in a virtual machine needs root, to make its disk and its address")
	}
	return supported("a node in a virtual machine", append(guestNeeds, nodeNeeds...))
}

func supported(what string, needs []need) error {
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("%s needs Linux on amd64, not %s on %s", what, runtime.GOOS, runtime.GOARCH)
	}
	var missing []string
	for _, n := range needs {
		if _, err := exec.LookPath(n.program); err != nil && !slices.Contains(missing, n.pkg) {
			missing = append(missing, n.pkg)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("%s needs the Debian packages %s", what, strings.Join(missing, ", "))
	}
	return nil
}

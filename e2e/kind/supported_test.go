package kind

import (
	"os"
	"strings"
	"testing"
)

func TestUnsupportedNamesThePackages(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Log("without root the reason is another")
	}
	t.Setenv("PATH", t.TempDir())
	t.Setenv(imageVariable, "")
	err := Supported()
	if err == nil || os.Geteuid() == 0 && !strings.Contains(err.Error(), "docker.io, git, docker.io, containerd, runc, iproute2, iptables, debootstrap") {
		t.Errorf("got %v", err)
	}
}

// With images from a registry, nothing has to be made here.
func TestARegistryNeedsLess(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	t.Setenv(imageVariable, "default")
	if err := Supported(); err == nil || err.Error() != "the kind cluster needs the Debian packages docker.io, git" {
		t.Errorf("got %v", err)
	}
}

package kind

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// need is a program, and the Debian package that has it.
type need struct{ program, pkg string }

// always are needed with any daemon; alone are those of a private daemon and of our own node image.
var (
	always = []need{{"docker", "docker.io"}, {"git", "git"}}
	alone  = []need{
		{"dockerd", "docker.io"}, {"containerd", "containerd"}, {"runc", "runc"}, {"ip", "iproute2"}, {"iptables", "iptables"},
		{"debootstrap", "debootstrap"},
	}
)

// imageVariable names a node image to use instead of ours; "default" is kind's own. The base images of the Dockerfile are then
// pulled as well.
const imageVariable = "PODGRACE_KIND_IMAGE"

// registryReached reports whether node image and base images come from a registry, as PODGRACE_KIND_IMAGE asks.
func registryReached() bool { return os.Getenv(imageVariable) != "" }

// Programs are those of Kubernetes that a run takes: where the node image comes from a registry it has the others.
func Programs() []string {
	if registryReached() {
		return []string{"kubectl"}
	}
	all := cluster.Options{ControllerManager: true, Scheduler: true}.Programs()
	return append(all, "kubelet", "kubeadm", "kube-proxy")
}

// Supported says why this machine cannot run a kind cluster, or nil.
func Supported() error {
	if registryReached() {
		return requirePrograms(always)
	}
	if runtime.GOOS != "linux" || runtime.GOARCH != "amd64" {
		return fmt.Errorf("the kind cluster needs Linux on amd64, not %s on %s, or a registry (%s)", runtime.GOOS, runtime.GOARCH, imageVariable)
	}
	if os.Geteuid() != 0 {
		return errors.New("the kind cluster needs root, for its Docker daemon and its node image")
	}
	return requirePrograms(append(always, alone...))
}

func requirePrograms(needs []need) error {
	var missing []string
	for _, n := range needs {
		if _, err := exec.LookPath(n.program); err != nil {
			missing = append(missing, n.pkg)
		}
	}
	if len(missing) > 0 {
		return fmt.Errorf("the kind cluster needs the Debian packages %s", strings.Join(missing, ", "))
	}
	return nil
}

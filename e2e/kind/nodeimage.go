package kind

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// imageVariable names a node image to use instead of ours; "default" is kind's own. The base images of the Dockerfile are then
// pulled as well.
const imageVariable = "PODGRACE_KIND_IMAGE"

// nodeRepository is the name of our node images, without their tags.
const nodeRepository = "localhost/podgrace/node"

// nodeImage returns the node image, and if it is ours. Ours is made where the daemon does not have it.
func (l *Lab) nodeImage(ctx context.Context) (reference string, ours bool, err error) {
	if registryReached() {
		return strings.TrimPrefix(os.Getenv(imageVariable), "default"), false, nil
	}
	key, err := l.nodeKey(ctx)
	if err != nil {
		return "", false, err
	}
	reference = nodeRepository + ":" + key
	if l.Docker.hasImage(ctx, reference) {
		return reference, true, nil
	}
	root := filepath.Join(l.Dir, "node")
	defer os.RemoveAll(root)
	if err := l.makeNode(ctx, root); err != nil {
		return "", false, fmt.Errorf("making the node image: %w", err)
	}
	return reference, true, l.Docker.importArchive(ctx, reference,
		[]string{"ENV container=docker", `ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]`}, "--directory="+root, ".")
}

// nodeKey names what a node image is made of.
func (l *Lab) nodeKey(ctx context.Context) (string, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return "", err
	}
	own := filepath.Join(root, "e2e", "kind")
	sum := sha256.New()
	fmt.Fprintln(sum, l.source, l.debian, l.programs)
	files, err := filepath.Glob(filepath.Join(own, "node*.go"))
	if err != nil {
		return "", fmt.Errorf("naming the node image: %w", err)
	}
	for _, file := range append(files, filepath.Join(own, "runc", "main.go")) {
		text, err := os.Open(file)
		if err != nil {
			return "", fmt.Errorf("naming the node image: %w", err)
		}
		_, err = io.Copy(sum, text)
		_ = text.Close()
		if err != nil {
			return "", fmt.Errorf("naming the node image: %w", err)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:6]), nil
}

// makeNode makes a node's root file system as kind's images/base/Dockerfile does: Debian's packages, kind's files,
// Kubernetes' programs, and the images of the control plane in the node's containerd.
func (l *Lab) makeNode(ctx context.Context, root string) error {
	files := filepath.Join(l.source, "images", "base", "files")
	steps := [][]string{
		{"cp", "--archive", l.debian, root},
		{"rm", "--recursive", "--force", root + "/var/lib/containerd"},
		{"mkdir", "--parents", root + "/kind/manifests", root + "/opt/cni/bin", root + "/etc/cni/net.d", root + "/etc/kubernetes/manifests"},
		{"cp", "--recursive", "--no-preserve=mode,ownership", files + "/etc", files + "/kind", files + "/usr", root + "/"},
		{"bash", "-c", `chmod 755 "$1"/usr/local/bin/* "$1"/kind/bin/*`, "chmod", root},
		{"bash", "-c", nodeUnits, "units", root},
		{"bash", "-c", `cp "$1"/usr/lib/cni/{host-local,loopback,ptp,portmap} "$1"/opt/cni/bin/`, "cni", root},
		{"install", "--mode=755", l.programs + "/kubeadm", l.programs + "/kubelet", l.programs + "/kubectl", root + "/usr/bin/"},
	}
	for _, step := range steps {
		if _, err := run(ctx, step[0], step[1:]...); err != nil {
			return err
		}
	}
	if err := cluster.GoBuild(ctx, filepath.Join(root, "usr/local/sbin/runc"), "e2e/kind/runc"); err != nil {
		return err
	}
	version := strings.TrimPrefix(filepath.Base(l.programs), "kubernetes-")
	images, err := l.controlPlaneImages(ctx, root, version)
	if err != nil {
		return err
	}
	l.Logf("node: control plane's images are packed")
	if err := writeNodeFiles(root, version, images); err != nil {
		return err
	}
	if err := preload(ctx, root, filepath.Join(l.Dir, "images.tar")); err != nil {
		return err
	}
	l.Logf("node: control plane's images are preloaded")
	return nil
}

// nodeUnits enables and removes units, as kind's images/base/Dockerfile does.
const nodeUnits = `set -e; cd "$1"
ln -sfn /usr/lib/systemd/systemd sbin/init
rm -f lib/systemd/system/{multi-user,local-fs,basic}.target.wants/* etc/systemd/system/*.wants/* \
  lib/systemd/system/sockets.target.wants/*{udev,initctl}* lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service
mkdir -p etc/systemd/system/multi-user.target.wants
for unit in kubelet containerd undo-mount-hacks; do ln -sf /etc/systemd/system/$unit.service etc/systemd/system/multi-user.target.wants/; done
ln -sf /dev/null etc/systemd/system/systemd-binfmt.service
for program in containerd ctr containerd-shim-runc-v2; do ln -sf /usr/bin/$program usr/local/bin/$program; done`

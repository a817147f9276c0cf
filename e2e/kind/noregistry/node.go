package noregistry

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

// NodeRepository is the name of our node images, without their tags.
const NodeRepository = "localhost/podgrace/node"

// Node returns the node image. It is made where the daemon does not have it.
func (m Maker) Node(ctx context.Context) (reference string, err error) {
	key, err := m.nodeKey()
	if err != nil {
		return "", err
	}
	reference = NodeRepository + ":" + key
	if m.Docker.HasImage(ctx, reference) {
		return reference, nil
	}
	root := filepath.Join(m.Dir, "node")
	defer os.RemoveAll(root)
	if err := m.makeNode(ctx, root); err != nil {
		return "", fmt.Errorf("making the node image: %w", err)
	}
	return reference, m.Docker.ImportArchive(ctx, reference,
		[]string{"ENV container=docker", `ENTRYPOINT ["/usr/local/bin/entrypoint","/sbin/init"]`}, "--directory="+root, ".")
}

// nodeKey names what a node image is made of.
func (m Maker) nodeKey() (string, error) {
	root, err := cluster.ModuleRoot()
	if err != nil {
		return "", err
	}
	own := filepath.Join(root, "e2e", "kind", "noregistry")
	sum := sha256.New()
	fmt.Fprintln(sum, m.Kind, m.Debian, m.Programs)
	files, err := filepath.Glob(filepath.Join(own, "*.go"))
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
func (m Maker) makeNode(ctx context.Context, root string) error {
	files := filepath.Join(m.Kind, "images", "base", "files")
	steps := [][]string{
		{"cp", "--archive", m.Debian, root},
		{"rm", "--recursive", "--force", root + "/var/lib/containerd"},
		{"mkdir", "--parents", root + "/kind/manifests", root + "/opt/cni/bin", root + "/etc/cni/net.d", root + "/etc/kubernetes/manifests"},
		{"cp", "--recursive", "--no-preserve=mode,ownership", files + "/etc", files + "/kind", files + "/usr", root + "/"},
		{"bash", "-c", `chmod 755 "$1"/usr/local/bin/* "$1"/kind/bin/*`, "chmod", root},
		{"bash", "-c", nodeUnits, "units", root},
		{"bash", "-c", `cp "$1"/usr/lib/cni/{host-local,loopback,ptp,portmap} "$1"/opt/cni/bin/`, "cni", root},
		{"install", "--mode=755", m.Programs + "/kubeadm", m.Programs + "/kubelet", m.Programs + "/kubectl", root + "/usr/bin/"},
	}
	for _, step := range steps {
		if _, err := cluster.Run(ctx, step[0], step[1:]...); err != nil {
			return err
		}
	}
	if err := cluster.GoBuild(ctx, filepath.Join(root, "usr/local/sbin/runc"), "e2e/kind/noregistry/runc"); err != nil {
		return err
	}
	version := strings.TrimPrefix(filepath.Base(m.Programs), "kubernetes-")
	images, err := m.controlPlaneImages(ctx, root, version)
	if err != nil {
		return err
	}
	m.Logf("node: control plane's images are packed")
	if err := writeNodeFiles(root, version, images); err != nil {
		return err
	}
	if err := preload(ctx, root, filepath.Join(m.Dir, "images.tar")); err != nil {
		return err
	}
	m.Logf("node: control plane's images are preloaded")
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

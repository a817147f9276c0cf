package noregistry

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// controlPlaneImages makes the images that kubeadm's static pods name, of one program each, and packs them into
// images.tar. There is no CoreDNS: nothing here asks for names of the cluster.
func (m Maker) controlPlaneImages(ctx context.Context, root, version string) ([]string, error) {
	list, err := cluster.Run(ctx, m.Programs+"/kubeadm", "config", "images", "list", "--kubernetes-version="+version)
	if err != nil {
		return nil, err
	}
	var images []string
	for reference := range strings.FieldsSeq(list) {
		name, _, _ := strings.Cut(path.Base(reference), ":")
		if name == "coredns" {
			continue
		}
		stage := filepath.Join(m.Dir, "stage-"+name)
		defer os.RemoveAll(stage)
		if err := m.stage(ctx, root, name, stage); err != nil {
			return nil, err
		}
		instructions := []string{"ENV PATH=/usr/local/bin:/usr/sbin"}
		if name == "pause" {
			instructions = append(instructions, `ENTRYPOINT ["/usr/local/bin/pause"]`)
		}
		if err := m.Docker.ImportArchive(ctx, reference, instructions, "--directory="+stage, "."); err != nil {
			return nil, err
		}
		images = append(images, reference)
	}
	if _, err := m.Docker.Run(ctx, append([]string{"save", "--output=" + filepath.Join(m.Dir, "images.tar")}, images...)...); err != nil {
		return nil, err
	}
	_, err = m.Docker.Run(ctx, append([]string{"rmi"}, images...)...)
	return images, err
}

// stage lays out the files of an image.
func (m Maker) stage(ctx context.Context, root, name, stage string) error {
	bin := filepath.Join(stage, "usr/local/bin")
	steps := [][]string{{"mkdir", "--parents", bin}, {"mkdir", "--mode=1777", stage + "/tmp"}}
	switch name {
	case "pause":
	case "kube-proxy":
		steps = append(steps, []string{"cp", m.Programs + "/" + name, bin}, []string{"bash", "-c", stageIptables, "iptables", root, stage})
	default:
		steps = append(steps, []string{"cp", m.Programs + "/" + name, bin})
	}
	for _, step := range steps {
		if _, err := cluster.Run(ctx, step[0], step[1:]...); err != nil {
			return fmt.Errorf("laying out image %s: %w", name, err)
		}
	}
	if name == "pause" {
		return cluster.GoBuild(ctx, filepath.Join(bin, name), "e2e/cluster/pause")
	}
	return nil
}

// stageIptables copies iptables and the libraries that it loads.
const stageIptables = `set -e -o pipefail; root=$1 stage=$2
mkdir -p "$stage"/usr/{sbin,lib,lib64} "$stage"/run "$stage"/etc
ln -s usr/lib "$stage/lib"; ln -s usr/lib64 "$stage/lib64"; ln -s usr/sbin "$stage/sbin"
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do ln -s xtables-nft-multi "$stage/usr/sbin/$name"; done
cd "$root"
{ echo usr/sbin/xtables-nft-multi; ls -d usr/lib/x86_64-linux-gnu/xtables/*.so
  chroot . sh -c 'ldd /usr/sbin/xtables-nft-multi /usr/lib/x86_64-linux-gnu/xtables/*.so' | grep -o '/[^ ]*\.so[^ ]*' | sed 's,^/lib,usr/lib,' | sort -u
} | grep -v ':$' | sort -u | xargs cp --parents --dereference --target-directory="$stage"`

// preload imports images with the node's own containerd, as kind build node-image does: unpacked are they on the node.
func preload(ctx context.Context, root, archive string) error {
	defer os.RemoveAll(archive)
	script := `set -e; root=$1 archive=$2
mkdir -p "$root/proc" "$root/run"; mount -t proc proc "$root/proc"; mount -t tmpfs tmpfs "$root/run"
touch "$root/run/images.tar"; mount --bind "$archive" "$root/run/images.tar"
chroot "$root" containerd --log-level=warn > "$archive.log" 2>&1 &
for _ in $(seq 300); do chroot "$root" ctr version > /dev/null 2>&1 && break; sleep 0.1; done
chroot "$root" ctr --namespace=k8s.io images import --all-platforms --no-unpack --digests /run/images.tar || { cat "$archive.log"; exit 1; }
kill %1; wait %1 || true`
	_, err := cluster.Run(ctx, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script, "preload", root, archive)
	return err
}

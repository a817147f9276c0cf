package volumelock

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Volume is what is locked.
type Volume struct {
	// Driver is its CSI driver.
	Driver string
	// Key is where it leads, or its handle, as Identity says. PersistentVolumes that have the same are the same volume.
	Key      string
	Identity v1alpha1.VolumeIdentity
}

// export says by some attributes of a PersistentVolume where it leads. False: it can't be told, and the handle is all there is. That two names are of one server, or one path above another, it
// doesn't know.
type export struct {
	attributes []string
	key        func(attributes map[string]string) (string, bool)
}

// exports are those of drivers that leave the handle of a PersistentVolume to whoever writes it: two handles, one export.
var exports = map[string]export{
	"nfs.csi.k8s.io":   {[]string{"server", "share", "subdir"}, nfsExport},
	"iscsi.csi.k8s.io": {[]string{"iqn", "lun"}, iscsiTarget},
}

// VolumeOf is the volume that a PersistentVolume leads to.
func VolumeOf(pv *corev1.PersistentVolume) (Volume, error) {
	source := pv.Spec.CSI
	if source == nil {
		return Volume{}, errors.New("it is not of a CSI driver")
	}
	if source.Driver == "" || source.VolumeHandle == "" {
		return Volume{}, errors.New("it has no driver, or no volumeHandle")
	}
	v := Volume{Driver: source.Driver, Key: source.VolumeHandle, Identity: v1alpha1.VolumeByHandle}
	if export, known := exports[v.Driver]; known {
		attributes, err := lowered(source.VolumeAttributes)
		if err != nil {
			return Volume{}, err
		}
		if key, ok := export.key(attributes); ok {
			v.Key, v.Identity = key, v1alpha1.VolumeByExport
		}
	}
	return v, nil
}

// lowered are attributes as drivers read them: by their names in lower case. Of two that are one then csi-driver-nfs takes either, each time again (pkg/nfs/nodeserver.go
// NodePublishVolume, 059468ae, ranges over a map): nobody can tell what two nodes mount, and with which lock.
func lowered(attributes map[string]string) (map[string]string, error) {
	all := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		lower := strings.ToLower(name)
		if other, there := all[lower]; there && other != attributes[name] {
			return nil, fmt.Errorf("volumeAttributes has %s more than once, in upper and lower case, with different values: which of them its driver takes can't be told", lower)
		}
		all[lower] = attributes[name]
	}
	return all, nil
}

// Leading are those attributes by which VolumeOf tells where a PersistentVolume leads, or all, where these can't be read.
func Leading(source *corev1.CSIPersistentVolumeSource) map[string]string {
	export, known := exports[source.Driver]
	if !known {
		return nil
	}
	all, err := lowered(source.VolumeAttributes)
	if err != nil {
		return source.VolumeAttributes
	}
	leading := map[string]string{}
	for _, name := range export.attributes {
		if value, there := all[name]; there {
			leading[name] = value
		}
	}
	return leading
}

// LockName is the name of the VolumeLock of a volume. It does not say what it is for: that is in the spec.
func (v Volume) LockName() string {
	sum := sha256.Sum256([]byte(v.Driver + "\n" + string(v.Identity) + "\n" + v.Key))
	return "volume-" + hex.EncodeToString(sum[:20])
}

// volumeOfLock is the volume that a lock says it is for.
func volumeOfLock(l *v1alpha1.VolumeLock) Volume {
	return Volume{Driver: l.Spec.Driver, Key: l.Spec.Volume, Identity: l.Spec.Identity}
}

// nfsExport goes by what csi-driver-nfs mounts: SERVER:/SHARE/SUBDIR.
func nfsExport(attributes map[string]string) (string, bool) {
	server, share, sub := attributes["server"], attributes["share"], attributes["subdir"]
	if server == "" || share == "" || strings.Contains(share+sub, "${") { // the driver fills these in by whom it serves
		return "", false
	}
	return host(server) + ":" + path.Clean("/"+share+"/"+sub), true
}

// iscsiTarget goes by the target's name, which is unique in the world, and the unit: the portals are only ways to it.
func iscsiTarget(attributes map[string]string) (string, bool) {
	lun, err := strconv.ParseUint(strings.TrimSpace(attributes["lun"]), 10, 64)
	iqn := strings.ToLower(strings.TrimSpace(attributes["iqn"]))
	return fmt.Sprintf("%s/lun-%d", iqn, lun), iqn != "" && err == nil
}

// host is a server's name or address in one way to write it.
func host(server string) string {
	server = strings.Trim(strings.ToLower(strings.TrimSpace(server)), "[]")
	if ip := net.ParseIP(server); ip != nil {
		return "[" + ip.String() + "]"
	}
	return strings.TrimRight(server, ".")
}

// Exclusive reports whether only one node at a time may mount a volume. It goes by all access modes that the PersistentVolume has, as the attach/detach controller does
// (pkg/volume/util/util.go, IsMultiAttachAllowed, v1.36.3); but one that has none is exclusive here.
func Exclusive(pv *corev1.PersistentVolume) bool {
	return !slices.ContainsFunc(pv.Spec.AccessModes, func(m corev1.PersistentVolumeAccessMode) bool {
		return m == corev1.ReadWriteMany || m == corev1.ReadOnlyMany
	})
}

// InUseName is what a kubelet calls a volume in its node status (pkg/volume/util/util.go, GetUniqueVolumeName, and pkg/volume/csi/csi_plugin.go, GetVolumeName, v1.36.3).
func InUseName(driver, handle string) corev1.UniqueVolumeName {
	return corev1.UniqueVolumeName("kubernetes.io/csi/" + driver + "^" + handle)
}

// AttachmentName is what the attach/detach controller calls the VolumeAttachment of a volume and a node, and what the node's kubelet waits for (pkg/volume/csi/csi_attacher.go,
// getAttachmentName, v1.36.3).
func AttachmentName(driver, handle, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(handle+driver+node)))
}

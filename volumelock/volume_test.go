package volumelock_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/volumelock"
)

func volume(driver, handle string, attributes ...string) *corev1.PersistentVolume {
	source := &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: handle, VolumeAttributes: map[string]string{}}
	for i := 0; i < len(attributes); i += 2 {
		source.VolumeAttributes[attributes[i]] = attributes[i+1]
	}
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: source}}}
}

func TestVolumeOf(t *testing.T) {
	const nfs, iscsi = "nfs.csi.k8s.io", "iscsi.csi.k8s.io"
	for name, c := range map[string]struct {
		pv       *corev1.PersistentVolume
		key      string
		identity v1alpha1.VolumeIdentity
	}{
		"export":                   {volume(nfs, "any", "server", "filer", "share", "/srv"), "filer:/srv", v1alpha1.VolumeByExport},
		"as others write it":       {volume(nfs, "other", "Server", "FILER.", "share", "srv//"), "filer:/srv", v1alpha1.VolumeByExport},
		"folder of an export":      {volume(nfs, "any", "server", "filer", "share", "/srv", "subDir", "a/./b"), "filer:/srv/a/b", v1alpha1.VolumeByExport},
		"IPv6":                     {volume(nfs, "any", "server", "[2001:DB8:0::1]", "share", "/srv"), "[2001:db8::1]:/srv", v1alpha1.VolumeByExport},
		"no share":                 {volume(nfs, "as written", "server", "filer"), "as written", v1alpha1.VolumeByHandle},
		"filled in by the driver":  {volume(nfs, "as written", "server", "filer", "share", "/", "subdir", "${pvc.metadata.name}"), "as written", v1alpha1.VolumeByHandle},
		"target":                   {volume(iscsi, "any", "targetPortal", "10.0.0.1:3260", "iqn", "iqn.2026-11.Example:db", "lun", "01"), "iqn.2026-11.example:db/lun-1", v1alpha1.VolumeByExport},
		"target by another portal": {volume(iscsi, "other", "targetPortal", "10.0.0.2", "iqn", "iqn.2026-11.example:db", "lun", "1"), "iqn.2026-11.example:db/lun-1", v1alpha1.VolumeByExport},
		"target without a unit":    {volume(iscsi, "as written", "iqn", "iqn.x", "lun", "first"), "as written", v1alpha1.VolumeByHandle},
		"of a driver nobody knows": {volume("x.example.com", "vol-1", "server", "filer", "share", "/srv"), "vol-1", v1alpha1.VolumeByHandle},
	} {
		got, err := volumelock.VolumeOf(c.pv)
		if want := (volumelock.Volume{Driver: c.pv.Spec.CSI.Driver, Key: c.key, Identity: c.identity}); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	if _, err := volumelock.VolumeOf(&corev1.PersistentVolume{}); err == nil {
		t.Error("a volume of no CSI driver is known")
	}
	for range 20 { // a map has no order
		if v, err := volumelock.VolumeOf(volume(nfs, "any", "server", "filer", "Server", "other", "share", "/srv")); err == nil {
			t.Fatalf("a volume that leads to two places is %+v", v)
		}
	}
	if v, err := volumelock.VolumeOf(volume(nfs, "any", "server", "filer", "Server", "filer", "share", "/srv")); err != nil || v.Key != "filer:/srv" {
		t.Errorf("the same written twice: %+v, %v", v, err)
	}
	if _, err := volumelock.VolumeOf(volume(nfs, "")); err == nil {
		t.Error("a volume without a handle is known")
	}
}

// TestLockName: a handle that looks like an export is no export, and drivers are apart.
func TestLockName(t *testing.T) {
	names := map[string]bool{}
	for _, v := range []volumelock.Volume{
		{Driver: "a", Key: "x", Identity: v1alpha1.VolumeByHandle}, {Driver: "a", Key: "x", Identity: v1alpha1.VolumeByExport}, {Driver: "b", Key: "x", Identity: v1alpha1.VolumeByHandle},
		{Driver: "a", Key: "y", Identity: v1alpha1.VolumeByHandle},
	} {
		names[v.LockName()] = true
	}
	if len(names) != 4 {
		t.Errorf("volumes share a lock: %v", names)
	}
}

func TestExclusive(t *testing.T) {
	for _, c := range []struct {
		modes []corev1.PersistentVolumeAccessMode
		want  bool
	}{
		{nil, true}, {[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, true}, {[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}, true},
		{[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, false}, {[]corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce, corev1.ReadOnlyMany}, false},
	} {
		if got := volumelock.Exclusive(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{AccessModes: c.modes}}); got != c.want {
			t.Errorf("%v: %t", c.modes, got)
		}
	}
}

// TestAttachmentName: as Kubernetes computes it, SHA-256 of handle, driver and node: another name would have every volume refused.
func TestAttachmentName(t *testing.T) {
	if got := volumelock.AttachmentName("driver", "vol-1", "node"); got != "csi-3ec73c441c417533b1dc0f6fbcab2c9f478c3a1e62da635f5e90f191d2a19c5e" {
		t.Error(got)
	}
}

// TestLeading: where a PersistentVolume leads is told by its leading attributes as by all, and so is that it can't be.
func TestLeading(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		names := rapid.SampledFrom([]string{"server", "Server", "share", "SHARE", "subdir", "subDir", "iqn", "lun", "Lun", "csi.storage.k8s.io/pv/name", "mountOptions", "MountOptions"})
		source := &corev1.CSIPersistentVolumeSource{Driver: rapid.SampledFrom([]string{"nfs.csi.k8s.io", "iscsi.csi.k8s.io", "block.example.org"}).Draw(t, "driver"), VolumeHandle: "handle",
			VolumeAttributes: rapid.MapOfN(names, rapid.SampledFrom([]string{"", "1", "/srv", "${pvc.metadata.name}"}), 0, 6).Draw(t, "attributes")}
		of := func(source *corev1.CSIPersistentVolumeSource) string {
			v, err := volumelock.VolumeOf(&corev1.PersistentVolume{Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: source}}})
			return fmt.Sprint(v, err)
		}
		kept := source.DeepCopy()
		kept.VolumeAttributes = volumelock.Leading(source)
		if whole, less := of(source), of(kept); whole != less {
			t.Fatalf("it leads to %s, and by %v to %s", whole, kept.VolumeAttributes, less)
		}
		if source.Driver == "nfs.csi.k8s.io" && len(source.VolumeAttributes) == 6 && len(kept.VolumeAttributes) > 3 && !strings.Contains(of(source), "more than once") {
			t.Fatalf("it keeps %v", kept.VolumeAttributes)
		}
	})
}

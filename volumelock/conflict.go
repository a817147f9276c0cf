package volumelock

import (
	"fmt"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
)

// attacherFinalizer begins the finalizer of an external-attacher that calls ControllerPublish (kubernetes-csi/external-attacher pkg/controller/util.go, GetFinalizerName).
const attacherFinalizer = "external-attacher/"

// Conflict says why the volumes of the driver of this name can't be gated by the volume lock; empty: they can. A driver that attaches has an attacher of its own, which says attached
// whatever we say. One that was not adopted makes kubelets wait, but what they had mounted before nobody knows: who asks first would have it besides. That is so as well where there is no
// CSIDriver at all, for which kubelets wait, too (pkg/volume/csi/csi_plugin.go, skipAttach, v1.36.3): the one before it may have said attachRequired: false, and an adoption is of a CSIDriver.
// The attachment may be nil.
func Conflict(name string, driver *storagev1.CSIDriver, a *storagev1.VolumeAttachment) string {
	if why := OwnAttacher(a); why != "" {
		return why
	}
	const unknown = "what nodes had mounted before nobody knows"
	switch {
	case driver == nil:
		return fmt.Sprintf("there is no CSIDriver %s, so that it was not adopted: %s: kubectl podgrace volumelock adopt %[1]s goes on if that was interrupted (kubectl podgrace volumelock list); else make the CSIDriver as the driver comes with it, but with attachRequired: true, and give that command", name, unknown)
	case driver.Spec.AttachRequired != nil && !*driver.Spec.AttachRequired:
		return fmt.Sprintf("CSIDriver %s says attachRequired: false, so that kubelets mount its volumes without waiting", name)
	}
	switch mark := driver.Annotations[v1alpha1.AnnotationGated]; {
	case Adopted(driver):
		return ""
	case Adopting(driver):
		return fmt.Sprintf("driver %s is being adopted, and what nodes had mounted before is not known yet: kubectl podgrace volumelock adopt %[1]s goes on", name)
	case strings.HasPrefix(mark, v1alpha1.GatedAdopted), strings.HasPrefix(mark, v1alpha1.GatedAdopting):
		return fmt.Sprintf("CSIDriver %s has the annotation of another one (%s=%s), and was not adopted itself: %s: kubectl podgrace volumelock adopt %[1]s", name, v1alpha1.AnnotationGated, console.Bounded(mark, 80), unknown)
	}
	return fmt.Sprintf("CSIDriver %s was not adopted: %s: kubectl podgrace volumelock adopt %[1]s", name, unknown)
}

// AdoptedMark is the annotation podgrace.dev/gated of the CSIDriver of this UID once it is adopted. It names the UID since annotations are copied: by kubectl replace --force, by tools that put an
// object back from a manifest or a backup. Between the one that was adopted and its copy there may have been one for which kubelets did not wait, and what they mounted then no lock knows.
func AdoptedMark(uid types.UID) string {
	return v1alpha1.GatedAdopted + "/" + string(uid)
}

// Adopted reports whether this very CSIDriver was adopted.
func Adopted(d *storagev1.CSIDriver) bool {
	return d.UID != "" && d.Annotations[v1alpha1.AnnotationGated] == AdoptedMark(d.UID)
}

// AdoptingMark is the annotation of the CSIDriver of this UID while it is being adopted. What nodes have mounted is looked for once kubelets have had time to see that very one: of a copy that somebody made since they
// may not know yet, and there may have been one before for which they did not wait.
func AdoptingMark(uid types.UID) string {
	return v1alpha1.GatedAdopting + "/" + string(uid)
}

// Adopting reports whether this very CSIDriver is being adopted.
func Adopting(d *storagev1.CSIDriver) bool {
	return d.UID != "" && d.Annotations[v1alpha1.AnnotationGated] == AdoptingMark(d.UID)
}

// OwnAttacher says of a VolumeAttachment that an attacher of the driver's own has it in its hands; empty: none has. It may be nil.
func OwnAttacher(a *storagev1.VolumeAttachment) string {
	if a == nil {
		return ""
	}
	for _, f := range a.Finalizers {
		if strings.HasPrefix(f, attacherFinalizer) {
			return fmt.Sprintf("driver %s has an attacher of its own (finalizer %s), which attaches its volumes: leave the volume lock out of it (--drivers), or that attacher", a.Spec.Attacher, f)
		}
	}
	return ""
}

// DriverUID is the UID of the CSIDriver that a lock knows of.
func DriverUID(l *v1alpha1.VolumeLock) types.UID {
	if l.Status.DriverUID != nil {
		return *l.Status.DriverUID
	}
	return l.Spec.DriverUID
}

// Ours reports whether a VolumeAttachment that is attached was attached by the volume lock: it has its mark.
func Ours(a *storagev1.VolumeAttachment) bool {
	return a.Annotations[v1alpha1.AnnotationVolumeLock] != ""
}

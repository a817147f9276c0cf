package volumelock

import (
	"fmt"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// attacherFinalizer begins the finalizer of an external-attacher that calls ControllerPublish (kubernetes-csi/external-attacher pkg/controller/util.go, GetFinalizerName).
const attacherFinalizer = "external-attacher/"

// Conflict says why a driver's volumes can't be gated by the volume lock; empty: they can. A driver that attaches has an attacher of its own, which says attached whatever we say. One that
// has no CSIDriver is gated: kubelets wait (pkg/volume/csi/csi_plugin.go, skipAttach, v1.36.3). The attachment may be nil.
func Conflict(driver *storagev1.CSIDriver, a *storagev1.VolumeAttachment) string {
	if a != nil {
		for _, f := range a.Finalizers {
			if strings.HasPrefix(f, attacherFinalizer) {
				return fmt.Sprintf("driver %s has an attacher of its own (finalizer %s), which attaches its volumes: leave the volume lock out of it (--drivers), or that attacher", a.Spec.Attacher, f)
			}
		}
	}
	if driver != nil && driver.Spec.AttachRequired != nil && !*driver.Spec.AttachRequired {
		return fmt.Sprintf("CSIDriver %s says attachRequired: false, so that kubelets mount its volumes without waiting", driver.Name)
	}
	if driver != nil && driver.Annotations[v1alpha1.AnnotationGated] == v1alpha1.GatedAdopting {
		return fmt.Sprintf("driver %s is being adopted, and what nodes had mounted before is not known yet: kubectl podgrace volumelock adopt %[1]s goes on", driver.Name)
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

// Ours says whether a VolumeAttachment was attached by the volume lock.
func Ours(a *storagev1.VolumeAttachment) bool {
	return a.Annotations[v1alpha1.AnnotationVolumeLock] != ""
}

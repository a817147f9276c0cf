package volumelock

import (
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// What nodes had mounted before is known when the mark says so, and nothing is attached before that.
func TestConflictWhileAdopted(t *testing.T) {
	t.Parallel()
	a := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{Attacher: "nfs.csi.k8s.io"}}
	for mark, says := range map[string]string{v1alpha1.GatedAdopting: "is being adopted", v1alpha1.GatedAdopted: "", "": "CSIDriver nfs.csi.k8s.io was not adopted: what nodes had mounted before nobody knows: kubectl podgrace volumelock adopt nfs.csi.k8s.io"} {
		d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "nfs.csi.k8s.io", Annotations: map[string]string{v1alpha1.AnnotationGated: mark}}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}}
		if why := Conflict(d.Name, d, a); (why == "") != (says == "") || !strings.Contains(why, says) {
			t.Errorf("marked %q: %q", mark, why)
		}
	}
}

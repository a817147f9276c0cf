package volumelock

import (
	"fmt"
	"strings"
	"testing"

	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// TestConflictWithoutDriver: a CSIDriver that is made by hand after an adoption was interrupted has not what the copy has that is kept of it. So that comes first.
func TestConflictWithoutDriver(t *testing.T) {
	t.Parallel()
	why := Conflict("nfs.csi.k8s.io", nil, nil)
	first, byHand := strings.Index(why, "kubectl podgrace volumelock adopt nfs.csi.k8s.io goes on if that was interrupted (kubectl podgrace volumelock list)"), strings.Index(why, "make the CSIDriver")
	if first < 0 || byHand < first {
		t.Error(why)
	}
}

// What nodes had mounted before is known when the mark says so of this very CSIDriver, and nothing is attached before that.
func TestConflictWhileAdopted(t *testing.T) {
	t.Parallel()
	a := &storagev1.VolumeAttachment{Spec: storagev1.VolumeAttachmentSpec{Attacher: "nfs.csi.k8s.io"}}
	const copied = "has the annotation of another one (podgrace.dev/gated=%s), and was not adopted itself: what nodes had mounted before nobody knows: kubectl podgrace volumelock adopt nfs.csi.k8s.io"
	for mark, says := range map[string]string{AdoptingMark("u2"): "is being adopted", AdoptingMark("u1"): fmt.Sprintf(copied, "Adopting/u1"), v1alpha1.GatedAdopting: fmt.Sprintf(copied, "Adopting"), AdoptedMark("u2"): "", AdoptedMark("u1"): fmt.Sprintf(copied, "Adopted/u1"), AdoptedMark(""): fmt.Sprintf(copied, "Adopted/"), v1alpha1.GatedAdopted: fmt.Sprintf(copied, "Adopted"), "": "CSIDriver nfs.csi.k8s.io was not adopted: what nodes had mounted before nobody knows: kubectl podgrace volumelock adopt nfs.csi.k8s.io"} {
		d := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: "nfs.csi.k8s.io", UID: "u2", Annotations: map[string]string{v1alpha1.AnnotationGated: mark}}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(true)}}
		if why := Conflict(d.Name, d, a); (why == "") != (says == "") || !strings.Contains(why, says) {
			t.Errorf("marked %q: %q", mark, why)
		}
	}
}

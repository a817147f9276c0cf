package state_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// By the managed fields of a NodePolicy it is known what is not read of it.
func TestSlimKeepsWhatWasWritten(t *testing.T) {
	p := &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{ManagedFields: make([]metav1.ManagedFieldsEntry, 1)}}
	if _, err := state.Slim(p); err != nil || len(p.ManagedFields) != 1 {
		t.Errorf("got %v, %v", p.ManagedFields, err)
	}
}

func TestSlim(t *testing.T) {
	secret := []corev1.EnvVar{{Name: "PASSWORD", Value: "secret"}}
	full := corev1.Container{
		Name: "c", Image: "i", Env: secret, EnvFrom: make([]corev1.EnvFromSource, 1), VolumeMounts: make([]corev1.VolumeMount, 1),
		VolumeDevices: make([]corev1.VolumeDevice, 1), Command: []string{"secret"}, Args: []string{"secret"},
	}
	p := statetest.Pod("a", "cpu=1")
	p.ManagedFields = make([]metav1.ManagedFieldsEntry, 1)
	p.Annotations = map[string]string{corev1.LastAppliedConfigAnnotation: "secret", v1alpha1.AnnotationEnforcement: "{}"}
	disk := corev1.Volume{Name: "disk", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}
	memory := corev1.Volume{Name: "memory", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}}
	p.Spec.Volumes = []corev1.Volume{{Name: "none"}, disk, memory}
	p.Spec.InitContainers = []corev1.Container{full}
	p.Spec.Containers = append(p.Spec.Containers, full)
	p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(full)}}
	for range 2 { // an informer may do it twice
		got, err := state.Slim(p)
		if err != nil || got != any(p) {
			t.Fatalf("got %v, %v", got, err)
		}
	}
	small := corev1.Container{Name: "c"}
	want := statetest.Pod("a", "cpu=1")
	want.Annotations = map[string]string{v1alpha1.AnnotationEnforcement: "{}"}
	want.Spec.Volumes = []corev1.Volume{disk}
	want.Spec.InitContainers = []corev1.Container{small}
	want.Spec.Containers = append(want.Spec.Containers, small)
	want.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon(small)}}
	if diff := cmp.Diff(want, p); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, other := range []any{nodeWith(nil), nil, "x"} {
		if got, err := state.Slim(other); got != other || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

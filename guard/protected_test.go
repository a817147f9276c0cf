package guard_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/guard"
)

func TestProtected(t *testing.T) {
	t.Parallel()
	const once, oncePod, many, readOnly = corev1.ReadWriteOnce, corev1.ReadWriteOncePod, corev1.ReadWriteMany, corev1.ReadOnlyMany
	for _, tt := range []struct {
		name    string
		options []option
		want    string
	}{
		{"nothing to lose", []option{unowned}, ""},
		{"a StatefulSet's", nil, "it is a pod of StatefulSet db"},
		{"a StatefulSet of another group has an identity as well", []option{func(w *world) { w.req.Pod.OwnerReferences[0].APIVersion = "apps.kruise.io/v1beta1" }}, "it is a pod of StatefulSet db"},
		{"owned by a StatefulSet that is not its controller", []option{func(w *world) { w.req.Pod.OwnerReferences[0].Controller = nil }}, ""},
		{"the controller counts, not the first owner", []option{func(w *world) {
			w.req.Pod.OwnerReferences = append([]metav1.OwnerReference{{Kind: "ConfigMap", Name: "x"}}, w.req.Pod.OwnerReferences...)
		}}, "it is a pod of StatefulSet db"},
		{"a ReplicaSet's", []option{ownedBy("ReplicaSet", "web")}, ""},
		{"ReadWriteOnce", []option{unowned, claims("data"), claimed("data", once)}, "its claim data is ReadWriteOnce"},
		{"ReadWriteOncePod", []option{unowned, claims("data"), claimed("data", oncePod)}, "its claim data is ReadWriteOncePod"},
		{"ReadWriteMany", []option{unowned, claims("data"), claimed("data", many)}, ""},
		{"ReadOnlyMany", []option{unowned, claims("data"), claimed("data", readOnly)}, ""},
		{"of several modes the exclusive one", []option{unowned, claims("data"), claimed("data", many, once)}, "its claim data is ReadWriteOnce"},
		{"an unknown claim counts as exclusive", []option{unowned, claims("data")}, "the access mode of its claim data is not known"},
		{"another claim's mode is no help", []option{unowned, claims("data"), claimed("other", many)}, "the access mode of its claim data is not known"},
		{"the second of two claims", []option{unowned, claims("shared", "data"), claimed("shared", many), claimed("data", once)}, "its claim data is ReadWriteOnce"},
		{"an ephemeral volume says its modes itself", []option{unowned, scratch(once)}, "the claim of its volume scratch is ReadWriteOnce"},
		{"an ephemeral volume that is shared", []option{unowned, scratch(many)}, ""},
		{"an ephemeral volume without a template", []option{unowned, func(w *world) {
			w.req.Pod.Spec.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		}}, ""},
		{"volumes that are no claims", []option{unowned, func(w *world) {
			w.req.Pod.Spec.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, {Name: "y"}}
		}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := dangerous(tt.options...)
			if got := guard.Protected(w.req.Pod, w.facts.Claims); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestClaimNames(t *testing.T) {
	t.Parallel()
	w := dangerous(claims("a", "b"), scratch(corev1.ReadWriteOnce))
	if diff := cmp.Diff([]string{"a", "b"}, guard.ClaimNames(w.req.Pod)); diff != "" {
		t.Error(diff)
	}
}

// What the policy protects decides between a refusal and a warning, on every road of pods.
func TestUnprotected(t *testing.T) {
	t.Parallel()
	var rows []row
	for _, road := range podRoads {
		says := []string{"pod shop/db-0 is removed without waiting for its node: it may still run on n1 (not ready, silent since 11:50:00 UTC, 10m0s ago)"}
		rows = append(rows,
			row{name: string(road) + ": unprotected", world: dangerous(on(road), ownedBy("ReplicaSet", "web")), verdict: guard.Warn, reason: "Unprotected", says: says},
			row{name: string(road) + ": all are protected", world: dangerous(on(road), ownedBy("ReplicaSet", "web"), protectAll), verdict: guard.Deny, reason: "Unsafe", says: []string{"the policy protects all pods"}},
			row{name: string(road) + ": a claim that is not known", world: dangerous(on(road), unowned, claims("data")), verdict: guard.Deny, reason: "Unsafe", says: []string{"the access mode of its claim data is not known"}},
		)
	}
	testRows(t, rows)
}

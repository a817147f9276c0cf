package policy_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// TestStorage: storage that was revoked frees what is protected for its volumes alone, all of which are known.
func TestStorage(t *testing.T) {
	t.Parallel()
	bound := func(name, volume string, modes ...corev1.PersistentVolumeAccessMode) option {
		return func(g *guarded) { Known(&g.claims, name, policy.Claim{Modes: modes, Volume: volume}) }
	}
	besides := func(source corev1.VolumeSource) option {
		return func(g *guarded) {
			g.pod.Spec.Volumes = append(g.pod.Spec.Volumes, corev1.Volume{Name: "x", VolumeSource: source})
		}
	}
	readOnly := func(name string) option {
		return func(g *guarded) {
			for i := range g.pod.Spec.Volumes {
				if c := g.pod.Spec.Volumes[i].PersistentVolumeClaim; c != nil && c.ClaimName == name {
					c.ReadOnly = true
				}
			}
		}
	}
	deny := policy.Removal{Names: []string{"p"}, ForceDelete: v1alpha1.RemovalDeny}
	all := deny
	all.Protect.All = true
	owners := deny
	owners.Protect.Owners = []schema.GroupKind{{Group: "apps", Kind: "ReplicaSet"}}
	laxer := deny
	laxer.Laxer = &policy.Removal{Names: []string{"q"}, ForceDelete: v1alpha1.RemovalWarn, Protect: policy.Protection{All: true}}
	allowed := deny
	allowed.Laxer = &policy.Removal{Names: []string{"q"}, ForceDelete: v1alpha1.RemovalAllow, Protect: policy.Protection{All: true}}
	one := []option{unowned, claims("data"), bound("data", "pv-1", corev1.ReadWriteOnce)}
	with := func(more ...option) []option { return append(slices.Clone(one), more...) }
	for _, tt := range []struct {
		name    string
		removal policy.Removal
		options []option
		volumes []string
		but     string
	}{
		{"one claim", deny, one, []string{"pv-1"}, ""},
		{"two claims, of which many may write to one", deny, with(claims("logs"), bound("logs", "pv-2", corev1.ReadWriteMany)), []string{"pv-1", "pv-2"}, ""},
		{"one that nobody may write to", deny, with(claims("shared"), bound("shared", "pv-3", corev1.ReadOnlyMany), readOnly("shared")), []string{"pv-1"}, ""},
		{"one for readers that it mounts to write", deny, with(claims("shared"), bound("shared", "pv-3", corev1.ReadOnlyMany)), []string{"pv-1", "pv-3"}, ""},
		{"one for a writer that it mounts to read", deny, with(claims("logs"), bound("logs", "pv-2", corev1.ReadWriteOnce), readOnly("logs")), []string{"pv-1", "pv-2"}, ""},
		{"what ends with the pod", deny, with(besides(corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}), besides(corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}})), []string{"pv-1"}, ""},
		{"a laxer level that protects nothing", allowed, one, []string{"pv-1"}, ""},
		{"a hostPath", deny, with(besides(corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}})), nil, "its volume x is no claim's"},
		{"a volume of another kind", deny, with(besides(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}})), nil, "its volume x is no claim's"},
		{"a claim that is made after it", deny, with(scratch(corev1.ReadWriteOnce)), nil, "is no claim's"},
		{"a claim that can't be read", deny, []option{unowned, claims("data")}, nil, "claim data is not known"},
		{"a claim that is not bound", deny, []option{unowned, claims("data"), claimed("data", corev1.ReadWriteOnce)}, nil, "claim data is not known"},
		{"a claim that was made anew", deny, []option{unowned, claims("data"), func(g *guarded) {
			Known(&g.claims, "data", policy.Claim{Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Volume: "pv-1", Recreated: true})
		}}, nil, "claim data is not known"},
		{"an identity", deny, one[1:], nil, "it is a pod of StatefulSet db"},
		{"an identity that is only recorded", deny, with(record("StatefulSet.apps/db")), nil, "it was created as a pod of StatefulSet db"},
		{"an identity by the policy", owners, with(ownedBy("ReplicaSet", "web")), nil, "it is a pod of ReplicaSet web"},
		{"a policy that protects all", all, one, nil, "protect all pods"},
		{"a laxer one that does", laxer, one, nil, "protect all pods"},
		{"no claim", deny, []option{unowned}, nil, "it has no claim"},
		{"unknown policies", policy.Removal{Unknown: true}, one, nil, "policies could not be read"},
	} {
		g := database(tt.options...)
		volumes, but := tt.removal.Storage(g.pod, g.claims)
		if !slices.Equal(volumes, tt.volumes) || (but == "") != (tt.but == "") || !strings.Contains(but, tt.but) {
			t.Errorf("%s: %v, %q, not %v, %q", tt.name, volumes, but, tt.volumes, tt.but)
		}
	}
}

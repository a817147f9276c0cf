package policy_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// guarded is a pod, what a policy protects, and what is known of the pod's claims.
type guarded struct {
	pod     *corev1.Pod
	protect policy.Protection
	claims  policy.Claims
}

type option func(*guarded)

// database is a pod of a StatefulSet, bound to a node.
func database(options ...option) guarded {
	g := guarded{pod: Pod(OwnedBy("apps/v1", "StatefulSet", "db"), OnNode1)}
	g.pod.Name = "db-0"
	for _, o := range options {
		o(&g)
	}
	return g
}

// has is what the pod is besides.
func has(options ...PodOption) option {
	return func(g *guarded) {
		for _, o := range options {
			o(g.pod)
		}
	}
}

func ownedBy(kind, name string) option { return has(OwnedBy("apps/v1", kind, name)) }

func unowned(g *guarded) { g.pod.OwnerReferences = nil }

func record(text string) option { return has(Recorded(text)) }

func claims(names ...string) option { return has(WithClaims(names...)) }

func scratch(modes ...corev1.PersistentVolumeAccessMode) option { return has(Scratch(modes...)) }

func claimed(name string, modes ...corev1.PersistentVolumeAccessMode) option {
	return func(g *guarded) { Known(&g.claims, name, policy.Claim{Modes: modes}) }
}

// blockClaimed is claimed, for a block device.
func blockClaimed(name string, modes ...corev1.PersistentVolumeAccessMode) option {
	return func(g *guarded) { Known(&g.claims, name, policy.Claim{Modes: modes, Block: true}) }
}

func protectAll(g *guarded) { g.protect.All = true }

func protectBlock(g *guarded) { g.protect.BlockClaims = true }

// owners are kinds whose pods the policy protects.
func owners(kinds ...schema.GroupKind) option {
	return func(g *guarded) { g.protect.Owners = kinds }
}

// podSet is the kind of an operator's controller.
var podSet = schema.GroupKind(PodSets)

var ownedByPodSet = has(OfPodSet)

// Pods are not protected for their ResourceClaims, as docs/removal-guard.md says under "What is protected": whether a device has one user is known to its driver alone. A policy that protects all
// pods protects these.
func TestResourceClaimsProtectNoPod(t *testing.T) {
	t.Parallel()
	device := has(func(p *corev1.Pod) {
		p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: new("gpu-0")}, {Name: "nic", ResourceClaimTemplateName: new("nic")}}
		p.Spec.Containers = []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "gpu"}, {Name: "nic"}}}}}
	})
	for name, tt := range map[string]struct {
		options []option
		want    string
	}{
		"a bare pod":      {[]option{unowned, device}, ""},
		"a Job's":         {[]option{ownedBy("Job", "train"), device}, ""},
		"a StatefulSet's": {[]option{device}, "it is a pod of StatefulSet db"},
		"its kind named":  {[]option{owners(schema.GroupKind{Group: "apps", Kind: "Job"}), ownedBy("Job", "train"), device}, "it is a pod of Job train"},
	} {
		g := database(tt.options...)
		if got := g.protect.Why(g.pod, g.claims); got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	g := database(unowned, device, protectAll)
	removal := policy.Removal{Names: []string{"p"}, ForceDelete: v1alpha1.RemovalDeny, Protect: g.protect}
	if got := removal.ProtectedBy(g.pod, g.claims); len(got) != 1 {
		t.Errorf("protect: All: %v", got)
	}
}

func TestWhy(t *testing.T) {
	t.Parallel()
	const once, oncePod, many, readOnly = corev1.ReadWriteOnce, corev1.ReadWriteOncePod, corev1.ReadWriteMany, corev1.ReadOnlyMany
	for _, tt := range []struct {
		name    string
		options []option
		want    string
	}{
		{"nothing to lose", []option{unowned}, ""},
		{"a StatefulSet's", nil, "it is a pod of StatefulSet db"},
		{"a StatefulSet of another group has an identity as well", []option{func(g *guarded) { g.pod.OwnerReferences[0].APIVersion = "apps.kruise.io/v1beta1" }}, "it is a pod of StatefulSet db"},
		{"owned by a StatefulSet that is not its controller", []option{func(g *guarded) { g.pod.OwnerReferences[0].Controller = nil }}, ""},
		{"the controller counts, not the first owner", []option{func(g *guarded) {
			g.pod.OwnerReferences = append([]metav1.OwnerReference{{Kind: "ConfigMap", Name: "x"}}, g.pod.OwnerReferences...)
		}}, "it is a pod of StatefulSet db"},
		{"a ReplicaSet's", []option{ownedBy("ReplicaSet", "web")}, ""},
		{"an operator's, which no policy names", []option{ownedByPodSet}, ""},
		{"an operator's", []option{ownedByPodSet, owners(podSet)}, "it is a pod of StrimziPodSet kafka"},
		{"an operator's, of another version", []option{ownedByPodSet, owners(podSet), func(g *guarded) { g.pod.OwnerReferences[0].APIVersion = "core.strimzi.io/v1" }}, "it is a pod of StrimziPodSet kafka"},
		{"of the same kind in another group", []option{ownedByPodSet, owners(podSet), func(g *guarded) { g.pod.OwnerReferences[0].APIVersion = "x.example/v1" }}, ""},
		{"of another kind in the same group", []option{ownedByPodSet, owners(schema.GroupKind{Group: podSet.Group, Kind: "Kafka"})}, ""},
		{"an operator's that is not its controller", []option{ownedByPodSet, owners(podSet), func(g *guarded) { g.pod.OwnerReferences[0].Controller = nil }}, ""},
		{"of the core group", []option{owners(schema.GroupKind{Kind: "ReplicationController"}), ownedBy("ReplicationController", "web"), func(g *guarded) { g.pod.OwnerReferences[0].APIVersion = "v1" }}, "it is a pod of ReplicationController web"},
		{"one of several", []option{owners(schema.GroupKind{Group: "batch", Kind: "Job"}, schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}), ownedBy("ReplicaSet", "web")}, "it is a pod of ReplicaSet web"},
		{"a StatefulSet's beside them", []option{owners(podSet)}, "it is a pod of StatefulSet db"},
		{"a shared block device", []option{unowned, claims("data"), blockClaimed("data", many)}, ""},
		{"a shared block device that counts as exclusive", []option{unowned, protectBlock, claims("data"), blockClaimed("data", many)}, "its claim data is a block device, which the policy takes for exclusive"},
		{"a block device that is exclusive by itself", []option{unowned, protectBlock, claims("data"), blockClaimed("data", once)}, "its claim data is ReadWriteOnce"},
		{"a shared file system where block devices count as exclusive", []option{unowned, protectBlock, claims("data"), claimed("data", many)}, ""},
		{"an ephemeral block device", []option{unowned, scratchBlock(many)}, ""},
		{"an ephemeral block device that counts as exclusive", []option{unowned, protectBlock, scratchBlock(many)}, "the claim of its volume scratch is a block device, which the policy takes for exclusive"},
		{"an ephemeral file system where block devices count as exclusive", []option{unowned, protectBlock, scratch(many)}, ""},
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
		{"an ephemeral volume without a template", []option{unowned, func(g *guarded) {
			g.pod.Spec.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}}}
		}}, ""},
		{"a StatefulSet's whose owner was taken out", []option{unowned, hostname("db-0")}, "its hostname is its own name, as of a StatefulSet's pod"},
		{"a StatefulSet's by its record", []option{unowned, record("StatefulSet.apps/db")}, "it was created as a pod of StatefulSet db"},
		{"a StatefulSet's that another has taken over", []option{ownedBy("ReplicaSet", "web"), record("StatefulSet.apps/db")}, "it was created as a pod of StatefulSet db"},
		{"one that a StatefulSet has taken over", []option{record("StrimziPodSet.core.strimzi.io/kafka"), owners(podSet)}, "it is a pod of StatefulSet db"},
		{"an operator's by its record", []option{unowned, owners(podSet), record("StrimziPodSet.core.strimzi.io/kafka")}, "it was created as a pod of StrimziPodSet kafka"},
		{"an operator's by its record, which no policy names any more", []option{unowned, record("StrimziPodSet.core.strimzi.io/kafka")}, ""},
		{"of the core group by its record", []option{unowned, owners(schema.GroupKind{Kind: "ReplicationController"}), record("ReplicationController/web")}, "it was created as a pod of ReplicationController web"},
		{"the record of another kind", []option{unowned, owners(podSet), record("Kafka.core.strimzi.io/kafka")}, ""},
		{"the record is read strictly: no name", []option{unowned, record("StatefulSet.apps")}, ""},
		{"an empty name", []option{unowned, record("StatefulSet.apps/")}, ""},
		{"a name that is none", []option{unowned, record("StatefulSet.apps/db\x1b[2J")}, ""},
		{"a group that is none", []option{unowned, record("StatefulSet.apps v1/db")}, ""},
		{"more behind it", []option{unowned, record("StatefulSet.apps/db/x")}, ""},
		{"an empty record", []option{unowned, record("")}, ""},
		{"another hostname", []option{unowned, hostname("db-1")}, ""},
		{"a pod without a name, and so without a hostname", []option{unowned, func(g *guarded) { g.pod.Name = "" }}, ""},
		{"a claim that was recreated", []option{unowned, claims("data"), func(g *guarded) {
			g.claims = policy.Claims{"data": {Modes: []corev1.PersistentVolumeAccessMode{many}, Recreated: true}}
		}}, "its claim data was not there before it started, so that the access mode of the volume that it has is not known"},
		{"a disk that is no claim", []option{unowned, volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{}})}, "its volume x (iscsi) may be written to by one node only"},
		{"a disk that is only read", []option{unowned, volume(corev1.VolumeSource{ISCSI: &corev1.ISCSIVolumeSource{ReadOnly: true}})}, ""},
		{"Fibre Channel", []option{unowned, volume(corev1.VolumeSource{FC: &corev1.FCVolumeSource{}})}, "its volume x (fc) may be written to by one node only"},
		{"Fibre Channel that is only read", []option{unowned, volume(corev1.VolumeSource{FC: &corev1.FCVolumeSource{ReadOnly: true}})}, ""},
		{"Ceph's block device", []option{unowned, volume(corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{}})}, "its volume x (rbd) may be written to by one node only"},
		{"Ceph's block device that is only read", []option{unowned, volume(corev1.VolumeSource{RBD: &corev1.RBDVolumeSource{ReadOnly: true}})}, ""},
		{"a disk of AWS", []option{unowned, volume(corev1.VolumeSource{AWSElasticBlockStore: &corev1.AWSElasticBlockStoreVolumeSource{}})}, "its volume x (awsElasticBlockStore) may be written to by one node only"},
		{"a disk of GCE", []option{unowned, volume(corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{}})}, "its volume x (gcePersistentDisk) may be written to by one node only"},
		{"a disk of GCE that is only read", []option{unowned, volume(corev1.VolumeSource{GCEPersistentDisk: &corev1.GCEPersistentDiskVolumeSource{ReadOnly: true}})}, ""},
		{"a disk of Azure", []option{unowned, volume(corev1.VolumeSource{AzureDisk: &corev1.AzureDiskVolumeSource{}})}, "its volume x (azureDisk) may be written to by one node only"},
		{"a disk of OpenStack", []option{unowned, volume(corev1.VolumeSource{Cinder: &corev1.CinderVolumeSource{}})}, "its volume x (cinder) may be written to by one node only"},
		{"a disk of vSphere", []option{unowned, volume(corev1.VolumeSource{VsphereVolume: &corev1.VsphereVirtualDiskVolumeSource{}})}, "its volume x (vsphereVolume) may be written to by one node only"},
		{"Portworx", []option{unowned, volume(corev1.VolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{}})}, "its volume x (portworxVolume) may be written to by one node only"},
		{"Portworx that is only read", []option{unowned, volume(corev1.VolumeSource{PortworxVolume: &corev1.PortworxVolumeSource{ReadOnly: true}})}, ""},
		{"a driver of one's own", []option{unowned, volume(corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{}})}, "its volume x (flexVolume) may be written to by one node only"},
		{"a driver of one's own that only reads", []option{unowned, volume(corev1.VolumeSource{FlexVolume: &corev1.FlexVolumeSource{ReadOnly: true}})}, ""},
		{"NFS", []option{unowned, volume(corev1.VolumeSource{NFS: &corev1.NFSVolumeSource{}})}, ""},
		{"volumes that are no claims and no disks", []option{unowned, func(g *guarded) {
			g.pod.Spec.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, {Name: "y"}}
		}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := database(tt.options...)
			if got := g.protect.Why(g.pod, g.claims); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// scratchBlock is scratch, a block device.
func scratchBlock(modes ...corev1.PersistentVolumeAccessMode) option {
	return func(g *guarded) {
		scratch(modes...)(g)
		g.pod.Spec.Volumes[0].Ephemeral.VolumeClaimTemplate.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	}
}

func hostname(name string) option {
	return func(g *guarded) { g.pod.Spec.Hostname = name }
}

func volume(source corev1.VolumeSource) option {
	return func(g *guarded) {
		g.pod.Spec.Volumes = []corev1.Volume{{Name: "y", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}, {Name: "x", VolumeSource: source}}
	}
}

// TestClaimOf: a claim that is younger than its pod's start is another one than the pod's. One of the same second may be.
func TestClaimOf(t *testing.T) {
	t.Parallel()
	at := func(minute int) metav1.Time { return metav1.Date(2026, 11, 20, 12, minute, 0, 0, time.UTC) }
	scheduled := func(status corev1.ConditionStatus, when metav1.Time) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(59)}, {Type: corev1.PodScheduled, Status: status, LastTransitionTime: when}}
	}
	for name, tt := range map[string]struct {
		status    corev1.PodStatus
		recreated bool
	}{
		"never started":                                 {corev1.PodStatus{}, false},
		"not scheduled yet":                             {corev1.PodStatus{Conditions: scheduled(corev1.ConditionFalse, at(1))}, false},
		"started later":                                 {corev1.PodStatus{StartTime: new(at(31))}, false},
		"started in that second":                        {corev1.PodStatus{StartTime: new(at(30))}, true},
		"scheduled in that second":                      {corev1.PodStatus{Conditions: scheduled(corev1.ConditionTrue, at(30))}, true},
		"scheduled before, started in that second":      {corev1.PodStatus{StartTime: new(at(30)), Conditions: scheduled(corev1.ConditionTrue, at(29))}, true},
		"scheduled in that second, started later":       {corev1.PodStatus{StartTime: new(at(31)), Conditions: scheduled(corev1.ConditionTrue, at(30))}, false},
		"started before":                                {corev1.PodStatus{StartTime: new(at(29))}, true},
		"scheduled before":                              {corev1.PodStatus{Conditions: scheduled(corev1.ConditionTrue, at(29))}, true},
		"its kubelet's clock is behind":                 {corev1.PodStatus{StartTime: new(at(1)), Conditions: scheduled(corev1.ConditionTrue, at(31))}, false},
		"scheduled and started before, as all pods are": {corev1.PodStatus{StartTime: new(at(3)), Conditions: scheduled(corev1.ConditionTrue, at(2))}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: at(30)}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}}}
			want := policy.Claim{Modes: claim.Spec.AccessModes, Recreated: tt.recreated}
			for mode, block := range map[corev1.PersistentVolumeMode]bool{"": false, corev1.PersistentVolumeFilesystem: false, corev1.PersistentVolumeBlock: true} {
				if claim.Spec.VolumeMode, want.Block = &mode, block; mode == "" {
					claim.Spec.VolumeMode = nil
				}
				if diff := cmp.Diff(want, policy.ClaimOf(claim, &corev1.Pod{Status: tt.status})); diff != "" {
					t.Errorf("%q: %s", mode, diff)
				}
			}
		})
	}
}

// tiedTo is the affinity that the DaemonSet controller writes, for one node.
func tiedTo(nodes ...string) option {
	return func(g *guarded) {
		g.pod.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{Key: "metadata.name", Operator: corev1.NodeSelectorOpIn, Values: nodes}}}},
		}}}
	}
}

// TestHoldsNode: what no other node would get holds no node, unless it has something to lose.
func TestHoldsNode(t *testing.T) {
	t.Parallel()
	daemon := func(g *guarded) {
		ownedBy("DaemonSet", "agent")(g)
		tiedTo(g.pod.Spec.NodeName)(g)
	}
	mirror := has(Mirrored)
	for name, tt := range map[string]struct {
		options []option
		holds   bool
	}{
		"a StatefulSet's":                   {nil, true},
		"a ReplicaSet's":                    {[]option{ownedBy("ReplicaSet", "web")}, true},
		"a DaemonSet's":                     {[]option{daemon}, false},
		"one of somebody else's DaemonSet":  {[]option{daemon, func(g *guarded) { g.pod.OwnerReferences[0].APIVersion = "x.example/v1" }}, true},
		"one that a DaemonSet adopted":      {[]option{daemon, func(g *guarded) { g.pod.Spec.Affinity = nil }}, true},
		"one adopted, tied to another node": {[]option{daemon, tiedTo("node-2")}, true},
		"one adopted, tied to two":          {[]option{daemon, tiedTo("node-1", "node-2")}, true},
		"one adopted, tied by one of two terms": {[]option{daemon, func(g *guarded) {
			required := g.pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
			required.NodeSelectorTerms = append(required.NodeSelectorTerms, corev1.NodeSelectorTerm{})
		}}, true},
		"a DaemonSet's with a claim":              {[]option{daemon, claims("data"), claimed("data", corev1.ReadWriteOnce)}, true},
		"a DaemonSet's with an unknown claim":     {[]option{daemon, claims("data")}, true},
		"a DaemonSet's that a policy names":       {[]option{daemon, owners(schema.GroupKind{Group: "apps", Kind: "DaemonSet"})}, false},
		"a DaemonSet's with a block device":       {[]option{daemon, protectBlock, claims("data"), blockClaimed("data", corev1.ReadWriteMany)}, true},
		"one that took a DaemonSet for its owner": {[]option{daemon, record("StatefulSet.apps/db")}, true},
		"the same, of an operator":                {[]option{daemon, owners(podSet), record("StrimziPodSet.core.strimzi.io/kafka")}, true},
		"a DaemonSet's by its record":             {[]option{daemon, owners(schema.GroupKind{Group: "apps", Kind: "DaemonSet"}), record("DaemonSet.apps/agent")}, false},
		"of the node's files":                     {[]option{unowned, mirror}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := database(append([]option{protectAll}, tt.options...)...)
			denies := Level("p", v1alpha1.RemovalDeny, func(r *policy.Removal) { r.Protect = g.protect })
			if got := denies.HoldsNode(g.pod, g.claims); len(got) > 0 != tt.holds {
				t.Errorf("got %v", got)
			}
			if len(denies.ProtectedBy(g.pod, g.claims)) == 0 {
				t.Error("a force delete of it is not refused")
			}
		})
	}
}

func TestClaimNames(t *testing.T) {
	t.Parallel()
	g := database(claims("a", "b"), scratch(corev1.ReadWriteOnce))
	if diff := cmp.Diff([]string{"a", "b"}, policy.ClaimNames(g.pod)); diff != "" {
		t.Error(diff)
	}
}

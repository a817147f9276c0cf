package fencing_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/guard"
)

// nodeObject is a Node that says nothing of note, but which boot of which machine it is.
func nodeObject(change func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u1"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "b1", SystemUUID: "s1"}}}
	if change != nil {
		change(n)
	}
	return n
}

func TestControlPlane(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*corev1.Node)
		want   bool
	}{
		"neither label nor taint":  {nil, false},
		"the label":                {func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/control-plane": ""} }, true},
		"the label of before 1.24": {func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/master": "true"} }, true},
		"etcd of its own":          {func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/etcd": ""} }, true},
		"the taint alone": {func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "node-role.kubernetes.io/control-plane", Effect: corev1.TaintEffectNoSchedule}}
		}, true},
		"another role": {func(n *corev1.Node) { n.Labels = map[string]string{"node-role.kubernetes.io/worker": ""} }, false},
	} {
		if got := fencing.NodeOf(nodeObject(tt.change), nil).ControlPlane; got != tt.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestMaintenance(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*corev1.Node)
		want   string
	}{
		"nothing announced": {nil, ""},
		"the annotation": {func(n *corev1.Node) {
			n.Annotations = map[string]string{v1alpha1.AnnotationMaintenance: "new\ndisk\x1b[2J"}
		},
			`its annotation podgrace.dev/maintenance says: new disk\x1b[2J`},
		"a condition that is True": {func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: "GracefulNodeShutdownInProgress", Status: corev1.ConditionTrue}}
		}, "its condition GracefulNodeShutdownInProgress is True"},
		"a condition that is over": {func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: "DrainInProgress", Status: corev1.ConditionFalse}}
		}, ""},
		"the autoscaler's taint": {func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler"}} }, "the cluster autoscaler removes it"},
	} {
		if got := fencing.NodeOf(nodeObject(tt.change), nil).Maintenance; got != tt.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// What a node is known by, and what it was told, is taken from the objects as it is there.
func TestNodeOf(t *testing.T) {
	t.Parallel()
	deleted := metav1.NewTime(began)
	renewed := metav1.NewMicroTime(began)
	n := nodeObject(func(n *corev1.Node) {
		n.Labels = map[string]string{corev1.LabelTopologyZone: "a", corev1.LabelFailureDomainBetaZone: "before 1.17"}
		n.Annotations = map[string]string{guard.AnnotationConfirmOff: "confirmed"}
		n.DeletionTimestamp = &deleted
		n.Spec.ProviderID = "p1"
		n.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Value: "by hand"}}
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}, {Type: fencing.ConditionPartitioned, Status: corev1.ConditionFalse}}
	})
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n1", Namespace: corev1.NamespaceNodeLease}, Spec: coordinationv1.LeaseSpec{RenewTime: &renewed, LeaseDurationSeconds: new(int32(80))}}
	want := fencing.Node{
		Name: "n1", UID: "u1", BootID: "b1", SystemUUID: "s1", ProviderID: "p1", Zone: "a", Labels: n.Labels, Ready: true, Deleting: true,
		Sign: guard.ConfirmOff(n, lease), LastRenewal: &renewed, Heartbeat: began, Lease: 80 * time.Second, ConfirmOff: "confirmed", Taint: new("by hand"), Partitioned: &n.Status.Conditions[1],
	}
	if d := cmp.Diff(want, fencing.NodeOf(n, lease)); d != "" {
		t.Error(d)
	}
	bare := fencing.NodeOf(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{corev1.LabelFailureDomainBetaZone: "b"}}}, nil)
	if bare.Zone != "b" || bare.Taint != nil || bare.LastRenewal != nil || bare.Ready || bare.Live || bare.Heard {
		t.Errorf("a Node that says nothing: %+v", bare)
	}
}

// How long a pod tolerates an unreachable node, as the taint eviction controller reckons.
func TestTolerates(t *testing.T) {
	t.Parallel()
	unreachable := func(seconds *int64) corev1.Toleration {
		return corev1.Toleration{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: seconds}
	}
	everything := corev1.Toleration{Operator: corev1.TolerationOpExists}
	for name, tt := range map[string]struct {
		tolerations []corev1.Toleration
		want        *time.Duration // nil: for ever
	}{
		"nothing":                           {nil, new(time.Duration(0))},
		"300 s, as the API server gives":    {[]corev1.Toleration{unreachable(new(int64(300)))}, new(300 * time.Second)},
		"for ever":                          {[]corev1.Toleration{unreachable(nil)}, nil},
		"the shortest of several":           {[]corev1.Toleration{unreachable(new(int64(300))), unreachable(new(int64(20)))}, new(20 * time.Second)},
		"one for ever and one for a while":  {[]corev1.Toleration{everything, unreachable(new(int64(60)))}, new(time.Minute)},
		"everything, as a DaemonSet's":      {[]corev1.Toleration{everything}, nil},
		"less than nothing is not at all":   {[]corev1.Toleration{unreachable(new(int64(-5)))}, new(time.Duration(0))},
		"longer than a Duration can be":     {[]corev1.Toleration{unreachable(new(int64(1 << 62)))}, new(365 * 24 * time.Hour)},
		"another taint":                     {[]corev1.Toleration{{Key: corev1.TaintNodeNotReady, Operator: corev1.TolerationOpExists}}, new(time.Duration(0))},
		"another effect":                    {[]corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}}, new(time.Duration(0))},
		"any effect":                        {[]corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists}}, nil},
		"the key with a value it never has": {[]corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpEqual, Value: "x"}}, new(time.Duration(0))},
		"the key, equal to its empty value": {[]corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpEqual}}, nil},
	} {
		got := fencing.PodOf(&corev1.Pod{Spec: corev1.PodSpec{Tolerations: tt.tolerations}}, true, false).Tolerates
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func TestPodOf(t *testing.T) {
	t.Parallel()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "u"}, Spec: corev1.PodSpec{Priority: new(int32(7))}}
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady}, {Type: fencing.ConditionPartitioned, Status: corev1.ConditionTrue}}
	want := fencing.Pod{Namespace: "shop", Name: "db-0", UID: "u", Protected: true, BrokenBudget: true, Priority: 7, Tolerates: new(time.Duration(0)), Partitioned: &p.Status.Conditions[1]}
	if d := cmp.Diff(want, fencing.PodOf(p, true, true)); d != "" {
		t.Error(d)
	}
	at := metav1.NewTime(began)
	for name, tt := range map[string]struct {
		change                           func(*corev1.Pod)
		deleting, forced, finished, held bool
	}{
		"deleted with its grace":    {func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, new(int64(30)) }, true, false, false, false},
		"deleted with a grace of 0": {func(p *corev1.Pod) { p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, new(int64(0)) }, true, true, false, false},
		"held by finalizers":        {func(p *corev1.Pod) { p.Finalizers = []string{"a/b"} }, false, false, false, true},
		"a grace of 0, not deleted": {func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(0)) }, false, false, false, false},
		"succeeded":                 {func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }, false, false, true, false},
		"running":                   {func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, false, false, false, false},
	} {
		var p corev1.Pod
		tt.change(&p)
		got := fencing.PodOf(&p, true, false)
		if got.Deleting != tt.deleting || got.Forced != tt.forced || got.Finished != tt.finished || got.Held != tt.held {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

func TestSighting(t *testing.T) {
	t.Parallel()
	healthy := fencing.Node{UID: "u", BootID: "b", Sign: "u/b//1", InternalIPs: []string{"10.0.0.1"}, Ready: true, Heard: true, Lease: 40 * time.Second, Silent: 39 * time.Second}
	for name, tt := range map[string]struct {
		change func(*fencing.Node)
		want   bool
	}{
		"ready, with heartbeats":               {func(*fencing.Node) {}, true},
		"not ready":                            {func(n *fencing.Node) { n.Ready = false }, false},
		"no heartbeat since the fencer began":  {func(n *fencing.Node) { n.Heard = false }, false},
		"silent for the duration of its Lease": {func(n *fencing.Node) { n.Silent = 40 * time.Second }, false},
	} {
		n := healthy
		tt.change(&n)
		if s, got := n.Sighting(); got != tt.want || s.UID != n.UID || s.BootID != n.BootID || s.Sign != n.Sign || !slices.Equal(s.InternalIPs, n.InternalIPs) {
			t.Errorf("%s: %+v, healthy: %v", name, s, got)
		}
	}
}

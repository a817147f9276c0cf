package confirm_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/volumelock"
)

// A VolumeLock is found by its name and by its volume, with the pods that use it, and is confirmed for the release that was read. Who confirms for a pod sees who holds its volume.
func TestLockClient(t *testing.T) {
	l := lockFacts().Lock
	l.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "VolumeLock"}
	pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data-db-0"}}}
	ended := pod().Pod.DeepCopy()
	ended.Name, ended.Status.Phase = "ended", corev1.PodSucceeded
	kube, _ := client(append(silentNode(), pod().Pod, ended, pv, claim("shop", "data-db-0", "db", corev1.ReadWriteOnce))...)
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	kube.Dynamic = dynamicfake.NewSimpleDynamicClient(scheme, l)
	c := &confirm.LockClient{Client: kube}
	for _, name := range []string{"volume-1", "db"} {
		f, err := c.Lock(t.Context(), name)
		if err != nil || f.Lock.Name != "volume-1" || f.Node == nil || len(f.Pods) != 1 || f.Pods[0] != "shop/db-0" {
			t.Fatalf("by %s: %+v, %v", name, f, err)
		}
	}
	if _, err := c.Lock(t.Context(), "other"); err == nil || !strings.Contains(err.Error(), "nobody holds it") {
		t.Errorf("another one: %v", err)
	}
	f, err := c.Pod(t.Context(), "shop", "db-0")
	if err != nil || f.Claims[0].Lock != "volume-1" || f.Claims[0].Holder != "worker-3" {
		t.Errorf("the claims are %+v, %v", f.Claims, err)
	}
	if err := c.Release(t.Context(), l, volumelock.Confirmation(l)); err != nil {
		t.Fatal(err)
	}
	now, err := c.Lock(t.Context(), "db")
	if err != nil || confirm.JudgeLock(confirm.LockFacts{Lock: now.Lock}).Verdict != confirm.Already {
		t.Errorf("after it: %+v, %v", now.Lock, err)
	}
}

// Where the Node was recreated, what waits there for the volume does not stand against the confirmation that ends its waiting; what has begun, or was bound before, does.
func TestPodsOfNodeMadeAnew(t *testing.T) {
	made := metav1.NewTime(now.Add(-time.Minute))
	scheduled := func(at time.Time) []corev1.PodCondition {
		return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(at)}}
	}
	for name, tc := range map[string]struct {
		uid     types.UID // of the Node that is there
		status  corev1.PodStatus
		created time.Time
		waits   bool
	}{
		"it waits":                       {"anew", corev1.PodStatus{Phase: corev1.PodPending, Conditions: scheduled(now)}, now.Add(-time.Hour), true},
		"bound by hand":                  {"anew", corev1.PodStatus{Phase: corev1.PodPending}, now, true},
		"bound before":                   {"anew", corev1.PodStatus{Phase: corev1.PodPending, Conditions: scheduled(now.Add(-time.Hour))}, now.Add(-time.Hour), false},
		"bound in that second":           {"anew", corev1.PodStatus{Phase: corev1.PodPending, Conditions: scheduled(made.Time)}, made.Time, false},
		"it runs":                        {"anew", corev1.PodStatus{Phase: corev1.PodRunning, Conditions: scheduled(now)}, now, false},
		"it waits at the node which has": {nodeUID, corev1.PodStatus{Phase: corev1.PodPending, Conditions: scheduled(now)}, now, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := lockFacts().Lock
			l.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "VolumeLock"}
			pv := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "db"}, Spec: corev1.PersistentVolumeSpec{ClaimRef: &corev1.ObjectReference{Namespace: "shop", Name: "data-db-0"}}}
			n, p := node(corev1.ConditionTrue, time.Second).Node, pod().Pod
			n.UID, n.CreationTimestamp = tc.uid, made
			p.Status, p.CreationTimestamp = tc.status, metav1.NewTime(tc.created)
			kube, _ := client(n, p, pv)
			scheme := runtime.NewScheme()
			if err := v1alpha1.AddToScheme(scheme); err != nil {
				t.Fatal(err)
			}
			kube.Dynamic = dynamicfake.NewSimpleDynamicClient(scheme, l)
			f, err := (&confirm.LockClient{Client: kube}).Lock(t.Context(), "db")
			if err != nil {
				t.Fatal(err)
			}
			if waits := len(f.Waiting) == 1 && len(f.Pods) == 0; waits != tc.waits || confirm.JudgeLock(f).Verdict == confirm.Ask != tc.waits {
				t.Errorf("it waits: %q, it uses it: %q, %v", f.Waiting, f.Pods, confirm.JudgeLock(f))
			}
		})
	}
}

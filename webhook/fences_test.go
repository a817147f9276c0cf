package webhook_test

import (
	"encoding/json"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/webhook"
)

// A receipt for just this pod, or for this boot of its node as it was last heard of, lets a force delete through; any other does not, nor one that is void.
func TestFenceReceipts(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "pod-uid"}, Spec: corev1.PodSpec{NodeName: "n1"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "node-uid"}, Status: corev1.NodeStatus{
		NodeInfo:   corev1.NodeSystemInfo{BootID: "boot"},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: metav1.NewTime(time.Now().Add(-time.Hour))}},
	}}
	old, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	force := admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Kind: pods, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"}, Namespace: "shop", Name: "db-0", Operation: admissionv1.Delete,
		OldObject: runtime.RawExtension{Raw: old}, Options: runtime.RawExtension{Raw: []byte(`{"gracePeriodSeconds":0}`)},
	}}
	boot := func(uid, id, heard string) *v1alpha1.FenceReceipt {
		return &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.FenceReceiptSpec{
			Node: &v1alpha1.BootReference{Name: "n1", UID: types.UID(uid), BootID: id}, Class: v1alpha1.EvidencePoweredOff, LastSign: heard}}
	}
	ofPod := func(uid types.UID) *v1alpha1.FenceReceipt {
		return &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "r"}, Spec: v1alpha1.FenceReceiptSpec{
			Pod: &v1alpha1.PodReference{Namespace: "shop", Name: "db-0", UID: uid}, Class: v1alpha1.EvidenceConfirmed}}
	}
	void := &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "v"}, Spec: v1alpha1.FenceReceiptSpec{
		Node: &v1alpha1.BootReference{Name: "n1", UID: "node-uid", BootID: "boot"}, Class: v1alpha1.EvidenceVoid, Voids: "r"}}
	early := void.DeepCopy()
	early.Spec.VoidsUID = "of-another"
	known := boot("node-uid", "boot", guard.ConfirmOff(node, nil))
	known.UID = "receipt-uid"
	heard := guard.ConfirmOff(node, nil)
	for name, tc := range map[string]struct {
		receipts []client.Object
		allowed  bool
	}{
		"none":                     {nil, false},
		"this pod":                 {[]client.Object{ofPod("pod-uid")}, true},
		"its predecessor":          {[]client.Object{ofPod("another")}, false},
		"this boot of its node":    {[]client.Object{boot("node-uid", "boot", heard)}, true},
		"heard of since":           {[]client.Object{boot("node-uid", "boot", "node-uid/boot//")}, false},
		"void":                     {[]client.Object{boot("node-uid", "boot", heard), void}, false},
		"voided before it existed": {[]client.Object{known, early}, true},
		"an earlier boot":          {[]client.Object{boot("node-uid", "earlier", heard)}, false},
		"a node of the same name":  {[]client.Object{boot("another", "boot", heard)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			informers := cluster(append(tc.receipts, namespace("shop"), node)...)
			e := newEngine(t, informers, informers, podPolicy("p", v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{Protect: v1alpha1.ProtectAll}}))
			if got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), force); got.Allowed != tc.allowed {
				t.Errorf("got %v, %s", got.Allowed, message(got))
			}
		})
	}
}

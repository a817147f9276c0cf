package webhook_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/webhook"
)

// receipts is a fake of webhook.Fences.
type receipts struct {
	list []guard.Fence
	err  error
}

func (r receipts) Receipts(_ context.Context, _ *corev1.Pod, node string) ([]guard.Fence, error) {
	if node != "n1" {
		return nil, errors.New("asked for the wrong node")
	}
	return r.list, r.err
}

// A receipt for just this pod, or for this boot of its node, lets a force delete through; any other does not, nor one that
// can't be read.
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
	for name, tc := range map[string]struct {
		fences  receipts
		allowed bool
	}{
		"none":                    {receipts{}, false},
		"this pod":                {receipts{list: []guard.Fence{{PodUID: "pod-uid"}}}, true},
		"its predecessor":         {receipts{list: []guard.Fence{{PodUID: "another"}}}, false},
		"this boot of its node":   {receipts{list: []guard.Fence{{NodeUID: "node-uid", BootID: "boot"}}}, true},
		"an earlier boot":         {receipts{list: []guard.Fence{{NodeUID: "node-uid", BootID: "earlier"}}}, false},
		"a node of the same name": {receipts{list: []guard.Fence{{NodeUID: "another", BootID: "boot"}}}, false},
		"can't be read":           {receipts{list: []guard.Fence{{PodUID: "pod-uid"}}, err: errors.New("away")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			informers := cluster(namespace("shop"), node)
			e := newEngine(t, informers, informers, podPolicy("p", v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{Protect: v1alpha1.ProtectAll}}))
			e.Fences = tc.fences
			if got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), force); got.Allowed != tc.allowed {
				t.Errorf("got %v, %s", got.Allowed, message(got))
			}
		})
	}
}

package cluster

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// After an outage of the API server that is longer than the grace period, the node lifecycle controller makes every node Unknown. Conditions of others stay.
func TestRenewReportsReadyAfterAnOutage(t *testing.T) {
	node := fakeNode("n1", nil, nil, metav1.Now())
	for i := range node.Status.Conditions {
		node.Status.Conditions[i].Status, node.Status.Conditions[i].Reason = corev1.ConditionUnknown, "NodeStatusUnknown"
	}
	node.Status.Conditions = append(node.Status.Conditions, condition("podgrace.dev/Partitioned", corev1.ConditionUnknown, "FencerCutOff", metav1.Now()))
	c := &Cluster{client: fake.NewClientset(node, nodeLease("n1")), options: Options{ControllerManager: true}}
	c.renew(t.Context(), "n1")
	now, err := c.client.CoreV1().Nodes().Get(t.Context(), "n1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range now.Status.Conditions {
		want := corev1.ConditionFalse
		switch got.Type {
		case corev1.NodeReady:
			want = corev1.ConditionTrue
		case "podgrace.dev/Partitioned":
			want = corev1.ConditionUnknown
		}
		if got.Status != want {
			t.Errorf("condition %s is %s, want %s", got.Type, got.Status, want)
		}
	}
}

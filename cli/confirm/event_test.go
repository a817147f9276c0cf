package confirm

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

// A confirmation is told as an Event of the pod or the node.
func TestConfirmationIsAnEvent(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "u"}}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "v"}}
	c := &Client{Kube: fake.NewClientset(pod, node)}
	if err := c.ConfirmPod(t.Context(), pod, "u/now"); err != nil {
		t.Fatal(err)
	}
	if err := c.ConfirmNode(t.Context(), node, "v/b/h/l"); err != nil {
		t.Fatal(err)
	}
	for namespace, want := range map[string]string{"shop": "Pod/db-0", "default": "Node/n1"} {
		list, err := c.Kube.CoreV1().Events(namespace).List(t.Context(), metav1.ListOptions{})
		if err != nil || len(list.Items) != 1 {
			t.Errorf("%s: got %d Events, %v", namespace, len(list.Items), err)
			continue
		}
		e := list.Items[0]
		if got := e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name; got != want || e.Reason != "RemovalConfirmed" {
			t.Errorf("got %s of %s, want one of %s", e.Reason, got, want)
		}
	}
}

package confirm

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// tell leaves an Event of a confirmation, where whoever is on call next will look: a force delete that was confirmed passes
// without a call to the webhook, which could tell otherwise. Who may confirm need not be allowed to write Events; the
// confirmation holds without one, and the API server's audit log has it in any case.
func (c *Client) tell(ctx context.Context, regarding corev1.ObjectReference, message string) {
	c.note(ctx, regarding, "RemovalConfirmed", message)
}

// note leaves an Event with a reason.
func (c *Client) note(ctx context.Context, regarding corev1.ObjectReference, reason, message string) {
	namespace := regarding.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault // where Events of cluster-scoped objects are
	}
	now := metav1.NewTime(time.Now())
	_, _ = c.Kube.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: namespace, GenerateName: regarding.Name + "."},
		InvolvedObject: regarding,
		Type:           corev1.EventTypeWarning,
		Reason:         reason,
		Message:        message,
		Source:         corev1.EventSource{Component: "podgrace"},
		FirstTimestamp: now, LastTimestamp: now, Count: 1,
	}, metav1.CreateOptions{FieldManager: fieldManager})
}

package webhook_test

import (
	"context"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/events"

	"github.com/podgrace/podgrace/webhook"
)

// A recorder counts what is the same as one Event: the same refusal, not that of another user or for other pods.
func TestDifferentRefusalsAreDifferentEvents(t *testing.T) {
	kube := fake.NewClientset()
	broadcaster := events.NewBroadcaster(&events.EventSinkImpl{Interface: kube.EventsV1()})
	if err := broadcaster.StartRecordingToSinkWithContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broadcaster.Shutdown)
	recorder := webhook.NewEvents(broadcaster.NewRecorder(webhook.NewScheme(), "podgrace.dev/webhook"))
	refuse := func(user string, pod *corev1.Pod) {
		e := guardedEngine(t, silentCluster(pod))
		e.Events = recorder
		req := removal(admissionv1.Delete, "nodes", "", "n1", old(silentNode()))
		req.UserInfo.Username = user
		if got := webhook.Handler(e.ValidateRemoval).Handle(t.Context(), req); got.Allowed {
			t.Fatalf("%s: allowed", user)
		}
	}
	var list *eventsv1.EventList
	until := func(what string, condition func() bool) {
		t.Helper()
		err := wait.PollUntilContextTimeout(t.Context(), 10*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			var err error
			list, err = kube.EventsV1().Events(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
			return err == nil && condition(), err
		})
		if err != nil {
			t.Fatalf("%s: %v in %d Events", what, err, len(list.Items))
		}
	}
	other := dbPod(func(p *corev1.Pod) { p.Name, p.UID = "db-1", "other" })
	refuse("jane", dbPod())
	until("the first", func() bool { return len(list.Items) == 1 })
	refuse("jane", other)
	until("for another pod", func() bool { return len(list.Items) == 2 })
	refuse("a-controller", other)
	until("for another user", func() bool { return len(list.Items) == 3 })
	refuse("a-controller", other)
	until("the same again", func() bool {
		for i := range list.Items {
			if s := list.Items[i].Series; s != nil && list.Items[i].Related.Name == "a-controller" {
				return len(list.Items) == 3
			}
		}
		return false
	})
}

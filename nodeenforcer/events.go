package nodeenforcer

import (
	"strings"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podgrace/podgrace/nodeenforcer/drift"
)

// Recorder writes Events (k8s.io/client-go/tools/events.EventRecorder).
type Recorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Events tells what happened on the node. A node that is in trouble has much to tell and must not flood the cluster with it:
// what is beyond the limit is in the metrics and in the log all the same. A nil *Events tells nothing.
type Events struct {
	recorder Recorder
	limit    *rate.Limiter
}

// The limit of Events of one node.
const (
	eventsPerSecond = 0.5
	eventsBurst     = 20
)

// maxNote is the longest note that the API server takes (k8s.io/kubernetes/pkg/apis/core/validation/events.go, 1.36.3).
const maxNote = 1024

// NewEvents limits a recorder.
func NewEvents(recorder Recorder) *Events {
	return &Events{recorder: recorder, limit: rate.NewLimiter(eventsPerSecond, eventsBurst)}
}

func (e *Events) tell(about runtime.Object, kind, reason, action, note string) {
	if e == nil || !e.limit.Allow() {
		return
	}
	e.recorder.Eventf(about, nil, kind, reason, action, "%s", clip(note))
}

// clip cuts a note to maxNote bytes.
func clip(note string) string {
	if len(note) <= maxNote {
		return note
	}
	return strings.ToValidUTF8(note[:maxNote-3], "") + "..."
}

func (e *Events) givenUp(node *corev1.Node, v drift.Revert) {
	e.tell(nodeReference(node), corev1.EventTypeWarning, "CgroupFileContested", "Repair",
		v.File+" of "+v.String()+" was set to "+v.Wrote+" and reverted to "+v.Found+" again and again; it is left alone now")
}

func (e *Events) evicting(p *corev1.Pod, reason string) {
	e.tell(podReference(p), corev1.EventTypeWarning, "Evicted", "Evict", reason)
}

func (e *Events) pressure(node *corev1.Node, short []string, message string) {
	if len(short) == 0 {
		e.tell(nodeReference(node), corev1.EventTypeNormal, "PressureOver", "Observe", "no threshold of the NodePolicy is met any more, and the transition period is over")
		return
	}
	e.tell(nodeReference(node), corev1.EventTypeWarning, "UnderPressure", "Observe", "short of "+strings.Join(short, " and ")+": "+message)
}

// nodeReference names a Node as the kubelet's own events do, so that kubectl describe node shows ours beside them.
func nodeReference(node *corev1.Node) runtime.Object {
	return &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{Name: node.Name, UID: node.UID}}
}

func podReference(p *corev1.Pod) runtime.Object {
	return &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name, UID: p.UID}}
}

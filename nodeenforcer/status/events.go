package status

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// EventRecorder writes Events (k8s.io/client-go/tools/events.EventRecorder).
type EventRecorder interface {
	Eventf(regarding, related runtime.Object, eventType, reason, action, note string, args ...any)
}

// Events records Events about the node and its pods, at a limited rate: a node in trouble must not flood the cluster. What is beyond the
// limit is dropped; metrics and log have it all the same. A nil *Events records nothing.
type Events struct {
	recorder EventRecorder
	limit    *rate.Limiter
}

// The limit of Events of one node.
const (
	eventsPerSecond = 0.5
	eventsBurst     = 20
)

// NewEvents limits a recorder.
func NewEvents(recorder EventRecorder) *Events {
	return &Events{recorder: recorder, limit: rate.NewLimiter(eventsPerSecond, eventsBurst)}
}

func (e *Events) tell(about runtime.Object, kind, reason, action, note string) {
	if e == nil || !e.limit.Allow() {
		return
	}
	e.recorder.Eventf(about, nil, kind, reason, action, "%s", console.Note(note))
}

// GivenUp records that a file is given up.
func (e *Events) GivenUp(node *corev1.Node, v drift.Revert) {
	e.tell(nodeReference(node), corev1.EventTypeWarning, "CgroupFileContested", "Repair",
		v.File+" of "+v.String()+" was set to "+v.Wrote+" and reverted to "+v.Found+" again and again; it is left alone now")
}

// Evicting records that a pod is evicted.
func (e *Events) Evicting(p *corev1.Pod, reason string) {
	e.tell(podReference(p), corev1.EventTypeWarning, "Evicted", "Evict", reason)
}

// WouldEvict records that a pod would be evicted, if the NodePolicy's eviction were not in mode Observe.
func (e *Events) WouldEvict(p *corev1.Pod, reason string) {
	e.tell(podReference(p), corev1.EventTypeNormal, "WouldEvict", "Observe", "Not evicted, in mode Observe. "+reason)
}

// Held records why no pod is evicted though a threshold is met.
func (e *Events) Held(node *corev1.Node, reason, message string) {
	e.tell(nodeReference(node), corev1.EventTypeWarning, reason, "Observe", message)
}

// Pressure records the resources under pressure, sorted; empty: that the pressure is over.
func (e *Events) Pressure(node *corev1.Node, short []string, message string) {
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

// reporter is the reportingController.
const reporter = enforcement.NodeEnforcer

// eventsQueue is how many Events are queued while the API server is unavailable; Events itself lets no more than eventsBurst through at once.
const eventsQueue = 100

// EventWriter is an EventRecorder that writes to the API server, one Event after the other. client-go's recorder (tools/events) does the
// same and joins what repeats into a series, which Events' limit makes needless here; with it comes the whole clientset (see
// state.Clients).
type EventWriter struct {
	client rest.Interface
	clock  clock.PassiveClock
	log    logr.Logger
	host   string
	queue  chan *eventsv1.Event
	retry  wait.Backoff
}

// NewEventWriter writes nothing before Start.
func NewEventWriter(client rest.Interface, clock clock.PassiveClock, log logr.Logger) (*EventWriter, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name the reporter of events: %w", err)
	}
	return &EventWriter{
		client: client, clock: clock, log: log, host: host, queue: make(chan *eventsv1.Event, eventsQueue),
		retry: wait.Backoff{Duration: time.Second, Factor: 3, Jitter: 0.1, Steps: 4},
	}, nil
}

// Eventf is for EventRecorder. It never blocks: if the queue is full the Event is dropped.
func (w *EventWriter) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	about, err := meta.Accessor(regarding)
	if err != nil {
		w.log.Error(err, "failed to record event, its object has no metadata", "reason", reason)
		return
	}
	version, of := regarding.GetObjectKind().GroupVersionKind().ToAPIVersionAndKind()
	now := w.clock.Now()
	// Events of what is in no namespace are in default (k8s.io/client-go/tools/events/event_recorder.go, 0.36.3).
	namespace := about.GetNamespace()
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	event := &eventsv1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%x", about.GetName(), now.UnixNano())},
		EventTime:  metav1.NewMicroTime(now), ReportingController: reporter, ReportingInstance: reporter + "-" + w.host,
		Regarding: corev1.ObjectReference{APIVersion: version, Kind: of, Namespace: about.GetNamespace(), Name: about.GetName(), UID: about.GetUID()},
		Type:      kind, Reason: reason, Action: action, Note: fmt.Sprintf(note, args...),
	}
	select {
	case w.queue <- event:
	default:
		w.log.Info("dropping event, the queue is full", "reason", reason, "object", about.GetName())
	}
}

// eventTimeout is for one request.
const eventTimeout = 10 * time.Second

// Start writes Events until the context ends. One that the API server refuses is dropped; one that it did not answer is retried.
func (w *EventWriter) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-w.queue:
			if err := w.write(ctx, event); err != nil && ctx.Err() == nil {
				w.log.Error(err, "failed to write event")
			}
		}
	}
}

func (w *EventWriter) write(ctx context.Context, event *eventsv1.Event) error {
	var last error
	err := wait.ExponentialBackoffWithContext(ctx, w.retry, func(ctx context.Context) (bool, error) {
		ctx, cancel := context.WithTimeout(ctx, eventTimeout)
		defer cancel()
		last = w.client.Post().Namespace(event.Namespace).Resource("events").Body(event).Do(ctx).Error()
		return last == nil || refused(last), nil
	})
	if last == nil {
		last = err
	}
	if last == nil || apierrors.IsAlreadyExists(last) { // an answer was lost
		return nil
	}
	return fmt.Errorf("write event %s of %s %s: %w", event.Reason, event.Regarding.Kind, event.Regarding.Name, last)
}

// refused reports whether a retry would be refused again.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}

package nodeenforcer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/cmd/version"
)

// reporter is who tells, in the words of events.k8s.io/v1.
const reporter = version.NodeEnforcer

// eventsQueue is how many Events wait for an API server that is away; Events itself lets no more than eventsBurst through at once.
const eventsQueue = 100

// EventWriter is a Recorder that writes to the API server, one Event after the other. client-go's recorder (tools/events) does the
// same and joins what repeats into a series, which Events' limit makes needless here; with it comes the whole clientset (see
// Clients).
type EventWriter struct {
	client rest.Interface
	clock  clock.PassiveClock
	log    logr.Logger
	host   string
	queue  chan *eventsv1.Event
	retry  wait.Backoff
}

// NewEventWriter writes nothing yet.
func NewEventWriter(client rest.Interface, clock clock.PassiveClock, log logr.Logger) (*EventWriter, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("name who tells Events: %w", err)
	}
	return &EventWriter{
		client: client, clock: clock, log: log, host: host, queue: make(chan *eventsv1.Event, eventsQueue),
		retry: wait.Backoff{Duration: time.Second, Factor: 3, Jitter: 0.1, Steps: 4},
	}, nil
}

// Eventf is for Recorder. It never waits: what the queue does not hold is dropped.
func (w *EventWriter) Eventf(regarding, _ runtime.Object, kind, reason, action, note string, args ...any) {
	about, err := meta.Accessor(regarding)
	if err != nil {
		w.log.Error(err, "an Event is about nothing", "reason", reason)
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
		w.log.Info("an Event is dropped: the API server takes none", "reason", reason, "about", about.GetName())
	}
}

// eventTimeout is for one request.
const eventTimeout = 10 * time.Second

// Start writes until the context ends. What the API server refuses is dropped, what it did not answer is tried again.
func (w *EventWriter) Start(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case event := <-w.queue:
			if err := w.write(ctx, event); err != nil && ctx.Err() == nil {
				w.log.Error(err, "an Event is not told")
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
	return fmt.Errorf("tell %s of %s %s: %w", event.Reason, event.Regarding.Kind, event.Regarding.Name, last)
}

// refused says that the API server would say the same again.
func refused(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apierrors.IsTooManyRequests(err) {
		return false
	}
	code := status.Status().Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError
}

// Package intake is the webhook's way in: the handler that reads AdmissionReviews within bounds of size, memory and time, and what is measured of the
// connections and of the certificate that they see.
package intake

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	encodingjson "encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"golang.org/x/sync/semaphore"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	admissionmetrics "sigs.k8s.io/controller-runtime/pkg/webhook/admission/metrics"
	"sigs.k8s.io/json"
)

// Limits on the reviews that a replica reads and decodes, in bytes. Its memory is limited to 512 MiB (deploy/webhook/deployment.yaml), of which the informers of a
// large cluster take a part.
const (
	// maxBody is the longest review that is read. An API server takes requests of 3 MiB (k8s.io/apiserver/pkg/server/config.go
	// MaxRequestBodyBytes, 0.36.3), writes each <, > and & as six bytes, and sends an updated object twice.
	maxBody = 40 << 20
	// maxWeight is the heaviest review that is decoded, as weigh estimates it.
	maxWeight = 96 << 20
	// smallBody and smallWeight bound small reviews, which nearly all are. Larger ones queue for each other, and do not hold up small ones.
	smallBody, smallWeight = 256 << 10, 4 << 20
	// smallRead and smallWork bound all small reviews that are read, and judged, at the same time. Large ones together get as much as a single one
	// may take.
	smallRead, smallWork = 32 << 20, 64 << 20
)

const (
	// defaultPatience is for a caller that tells no timeout; an API server does.
	defaultPatience = 5 * time.Second
	maxPatience     = 30 * time.Second
	// answering is how much of the caller's timeout is reserved for sending a refusal.
	answering = time.Second
)

// Why a review is refused before its object is judged.
const (
	reasonTooLarge = "TooLarge"
	reasonTooDear  = "TooDear"
	reasonBusy     = "Busy"
)

// Intake makes the HTTP handlers of one replica, which share its bounds.
type Intake struct {
	smallRead, largeRead, smallWork, largeWork *semaphore.Weighted

	refused func(path, reason string, uid types.UID)
}

// New returns an intake. It calls refused for each review that it refuses, with its UID if that was found.
func New(refused func(path, reason string, uid types.UID)) *Intake {
	return &Intake{
		smallRead: semaphore.NewWeighted(smallRead), largeRead: semaphore.NewWeighted(maxBody),
		smallWork: semaphore.NewWeighted(smallWork), largeWork: semaphore.NewWeighted(maxWeight),
		refused: refused,
	}
}

// Handler returns the HTTP handler in front of an admission handler: it reads and decodes reviews within bounds. A review beyond them is refused in a response that
// has its UID. The API server takes a response without the UID for a failed call, and the webhooks for pods fail open, so that a pod which is large enough would
// get round every limit.
func (in *Intake) Handler(path string, handler admission.Handler) http.Handler {
	return in.reader(path, handler)
}

// PodHandler is Handler for a path that is asked about pods alone. The pod is decoded with its review, and the handler finds it in the Object of the request's object,
// whose Raw is empty. Decoding the one after the other would go through the pod's text four times instead of twice, which is a quarter of all that answering takes. A
// review whose object is none, or no pod, comes as it does to other handlers.
func (in *Intake) PodHandler(path string, handler admission.Handler) http.Handler {
	r := in.reader(path, handler)
	r.pods = true
	return r
}

func (in *Intake) reader(path string, handler admission.Handler) *reader {
	return &reader{Intake: in, path: path, decode: json.UnmarshalCaseSensitivePreserveInts, hook: &admission.Webhook{Handler: handler, LogConstructor: logAs(path)}}
}

// reader reads the reviews of one path.
type reader struct {
	*Intake
	path   string
	decode func(review []byte, into any) error
	hook   *admission.Webhook
	// pods: their objects are pods, which are decoded with them.
	pods bool
}

// logAs returns a log constructor that adds the path and no values of the request: controller-runtime calls it three times a request, so that the logger is made
// only once.
func logAs(path string) func(logr.Logger, *admission.Request) logr.Logger {
	var once sync.Once
	var named logr.Logger
	return func(base logr.Logger, _ *admission.Request) logr.Logger {
		once.Do(func() { named = base.WithValues("path", path) }) // the server's base is always the same
		return named
	}
}

// ServeHTTP answers one review before the caller's timeout.
func (in *reader) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	deadline := time.Now().Add(patience(r) - answering)
	ctx, cancel := context.WithDeadline(r.Context(), deadline)
	defer cancel()
	response := in.answer(ctx, http.NewResponseController(w), r)
	review := admissionv1.AdmissionReview{Response: &response.AdmissionResponse}
	review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
	w.Header().Set("Content-Type", "application/json")
	if err := encodingjson.NewEncoder(w).Encode(review); err != nil {
		logf.Log.V(1).Info("response not sent: the caller closed the connection", "path", in.path, "err", err)
	}
}

func (in *reader) answer(ctx context.Context, connection *http.ResponseController, r *http.Request) (response admission.Response) {
	if contentType := r.Header.Get("Content-Type"); contentType != "application/json" {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("Content-Type is %q: an AdmissionReview is application/json", contentType))
	}
	// Half of the timeout is left to the API server for encoding and sending a large object.
	half := time.Now().Add(patience(r) / 2)
	// A caller that sends slowly must not keep other reviews from being read.
	deadline, _ := ctx.Deadline()
	if err := connection.SetReadDeadline(deadline); err != nil && !errors.Is(err, http.ErrNotSupported) { // httptest's recorder, which has read all of it
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("bound the time in which the review is read: %w", err))
	}
	defer func() { _ = connection.SetReadDeadline(time.Time{}) }()
	raw, uid, release, refusal := in.read(ctx, r)
	// Refusals of what can't be read or decoded have the UID as well.
	defer func() { response.UID = cmp.Or(response.UID, uid) }()
	if refusal != nil {
		return *refusal
	}
	weight := weigh(raw)
	if weight > maxWeight {
		release()
		return in.refuse(uid, reasonTooDear, tooDear)
	}
	if len(raw) > smallBody || weight > smallWeight {
		ctx, cancel := context.WithDeadline(ctx, half)
		defer cancel()
		return in.judgeLarge(ctx, raw, uid, weight, release)
	}
	defer release()
	if in.smallWork.Acquire(ctx, weight) != nil {
		return in.refuse(uid, reasonBusy, busy)
	}
	defer in.smallWork.Release(weight)
	return in.judge(ctx, raw)
}

type settledKey struct{}

// Settle reports whether the decision about the review of a context is still its answer, and makes it so: where false, the review was refused already because time was over, and what was
// decided of it is nobody's.
func Settle(ctx context.Context) bool {
	settled, ok := ctx.Value(settledKey{}).(*atomic.Bool)
	return !ok || settled.CompareAndSwap(false, true)
}

// judgeLarge judges a large review until the context ends. A review that is not decided by then is refused, whatever it still waits for: the caller would
// not read a later answer. (Small reviews need no such limit: they cost little.)
func (in *reader) judgeLarge(ctx context.Context, raw []byte, uid types.UID, weight int64, release func()) admission.Response {
	if in.largeWork.Acquire(ctx, weight) != nil {
		release()
		return in.refuse(uid, reasonBusy, busy)
	}
	settled, answered := &atomic.Bool{}, make(chan admission.Response, 1)
	ctx = context.WithValue(ctx, settledKey{}, settled)
	go func() {
		defer release()
		defer in.largeWork.Release(weight)
		answered <- in.judge(ctx, raw)
	}()
	select {
	case response := <-answered:
		if ctx.Err() == nil || settled.Load() {
			return response
		}
	case <-ctx.Done():
		if !settled.CompareAndSwap(false, true) { // it was decided just now, and logged
			return <-answered
		}
	}
	return in.refuse(uid, reasonTooDear, tooDear)
}

// bodies are readers that see where a review's UID is before it is read.
var bodies = sync.Pool{New: func() any { return bufio.NewReaderSize(nil, uidWithin) }}

// read returns the body of a review and its UID. The caller calls release when it needs the body no more.
func (in *reader) read(ctx context.Context, r *http.Request) (raw []byte, uid types.UID, release func(), refusal *admission.Response) {
	body := bodies.Get().(*bufio.Reader)
	body.Reset(http.MaxBytesReader(nil, r.Body, maxBody))
	defer func() {
		body.Reset(nil) // it keeps nothing of the request
		bodies.Put(body)
	}()
	start, _ := body.Peek(uidWithin) // an error is met again below
	uid = uidOf(start)
	size := r.ContentLength
	switch {
	case size > maxBody:
		_, _ = io.Copy(io.Discard, body) // an answer before the end of the request may not be read
		return nil, uid, nil, new(in.refuse(uid, reasonTooLarge, tooLarge))
	case size < 0:
		size = maxBody
	}
	reading := in.smallRead
	if size > smallBody {
		reading = in.largeRead
	}
	if !reading.TryAcquire(size) && reading.Acquire(ctx, size) != nil { // Acquire fails at once where the context has ended, even if nobody else holds any
		return nil, uid, nil, new(in.refuse(uid, reasonBusy, busy))
	}
	// A caller that tells its length, as an API server does, has been granted as much: the buffer need not grow.
	buffer := bytes.NewBuffer(make([]byte, 0, min(max(r.ContentLength, 0), smallBody)+bytes.MinRead))
	_, err := buffer.ReadFrom(body)
	raw = buffer.Bytes()
	if err == nil && ctx.Err() == nil {
		return raw, uid, func() { reading.Release(size) }, nil
	}
	reading.Release(size)
	if err == nil { // it was read completely, but too late
		return nil, uid, nil, new(in.refuse(uid, reasonBusy, late))
	}
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, uid, nil, new(in.refuse(uid, reasonTooLarge, tooLarge))
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil, uid, nil, new(in.refuse(uid, reasonBusy, late))
	}
	return nil, uid, nil, new(admission.Errored(http.StatusBadRequest, fmt.Errorf("read the review: %w", err)))
}

// judge decodes a review and hands it to the handler. A panic is answered, counted and logged with its stack, as the hook does with those of the handler
// (controller-runtime/pkg/webhook/admission/webhook.go Handle, 0.24.1): one in the goroutine of a large review would end the process, and of the others
// net/http would close the connection, with a line in its own log.
func (in *reader) judge(ctx context.Context, raw []byte) (response admission.Response) {
	defer func() {
		if r := recover(); r != nil {
			admissionmetrics.WebhookPanics.WithLabelValues().Inc()
			for _, handle := range utilruntime.PanicHandlers {
				handle(ctx, r)
			}
			response = admission.Errored(http.StatusInternalServerError, fmt.Errorf("panic: %v [recovered]", r))
		}
	}()
	if in.pods {
		if request, ok := in.podRequest(raw); ok {
			return in.hook.Handle(ctx, request)
		}
	}
	var review admissionv1.AdmissionReview
	if err := in.decode(raw, &review); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("decode the review: %w", err))
	}
	if review.Request == nil {
		return admission.Errored(http.StatusBadRequest, errors.New("there is no request in it: is this an AdmissionReview?"))
	}
	return in.hook.Handle(ctx, admission.Request{AdmissionRequest: *review.Request})
}

// podRequest decodes the request of a review together with its pod; false: there is none that can be decoded so. Of a field that is there twice, which no API server writes,
// both would be merged, and not the last one taken.
func (in *reader) podRequest(raw []byte) (admission.Request, bool) {
	var review struct {
		Request *struct {
			admissionv1.AdmissionRequest
			Object *corev1.Pod `json:"object"` // hides the embedded one, as package encoding/json says of fields that are less deep
		} `json:"request"`
	}
	err := in.decode(raw, &review)
	if err != nil || review.Request == nil || review.Request.Object == nil {
		return admission.Request{}, false
	}
	request := admission.Request{AdmissionRequest: review.Request.AdmissionRequest}
	request.Object.Object = review.Request.Object
	return request, true
}

const (
	tooDear = "the object has more parts (containers, env, tolerations, terms, annotations) than Podgrace judges in the memory and the time that it has: make it smaller; " +
		"long lists of env belong into a ConfigMap (envFrom)"
	tooLarge = "the review of this object is larger than the 40 MiB that Podgrace reads: make the object smaller; long values of env and annotations belong into a ConfigMap"
	late     = "Podgrace could not read the review in the time that it has: try again"
	busy     = "Podgrace judges other reviews as large as this one: try again"
)

// refuse denies with the review's UID. Being busy is temporary: clients of Kubernetes retry by themselves after
// retryAfterSeconds (k8s.io/client-go/rest/with_retry.go, 0.36.3).
func (in *reader) refuse(uid types.UID, reason, message string) admission.Response {
	in.refused(in.path, reason, uid)
	status := &metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReason(reason), Message: message}
	if reason == reasonBusy {
		status.Code, status.Details = http.StatusTooManyRequests, &metav1.StatusDetails{RetryAfterSeconds: 1}
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{UID: uid, Result: status, AuditAnnotations: map[string]string{"denied": reason}}}
}

// patience is the caller's timeout, as an API server tells it (k8s.io/apiserver/pkg/admission/plugin/webhook/request, 0.36.3: the
// configuration's timeoutSeconds as the parameter timeout).
func patience(r *http.Request) time.Duration {
	d, err := time.ParseDuration(r.URL.Query().Get("timeout"))
	if err != nil || d <= answering || d > maxPatience {
		return defaultPatience
	}
	return d
}

// uidWithin is in how many bytes of a review its UID is looked for: an API server writes it first.
const uidWithin = 4 << 10

// uidField is the first field of the request of a review (k8s.io/api/admission/v1/types.go, 0.36.3).
var uidField = regexp.MustCompile(`"request"\s*:\s*{\s*"uid"\s*:\s*"([-0-9A-Za-z]{1,64})"`)

// uidOf returns the UID of the review that begins with these bytes, without decoding it. Empty: not found, which does not happen with an API server's review.
func uidOf(start []byte) types.UID {
	if m := uidField.FindSubmatch(start); m != nil {
		return types.UID(m[1])
	}
	return ""
}

// What a part of a review takes in memory once it is decoded. No element of a pod takes more than a container (TestWeightOfParts).
const (
	objectWeight  = 1 << 10
	elementWeight = 128
)

// weigh estimates the memory that a review takes once it is decoded. Its length says little: of "tolerations":[{},{},... three bytes
// become 72, and of "containers" a thousand. For text that is no JSON the result means nothing, and does no harm.
func weigh(review []byte) int64 {
	weight := int64(len(review))
	inString := false
	for i := 0; i < len(review); i++ {
		switch c := review[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case inString:
		case c == '{':
			weight += objectWeight
		case c == ',', c == '[':
			weight += elementWeight
		}
	}
	return weight
}

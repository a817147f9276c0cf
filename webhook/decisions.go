package webhook

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/decisionlog"
	"github.com/podgrace/podgrace/webhook/intake"
	"github.com/podgrace/podgrace/webhook/ratelimit"
)

// The rate limit of a replica's decision log: lines a second and at once, for each decision and reason in a namespace, with dry runs apart; for objects without a namespace, for each user instead. It holds for the kinds that were
// logged last, as many as package ratelimit keeps.
const perSecond, burst = 1, 20

// maxPending is how many lines wait to be written. Nobody waits for them: whoever reads the log may be slow, or stand still, and answers must not. More than
// these are left out. They take little over 1 MiB at most (decisionlog.Entry.Bounded).
const maxPending = 256

// Decisions is the decision log of a replica. A nil *Decisions logs nothing.
type Decisions struct {
	log     logr.Logger
	percent int

	limits     *ratelimit.Limiters
	suppressed *prometheus.CounterVec

	mu      sync.Mutex
	pending []decisionlog.Entry
	writing chan struct{} // closed once none is pending any more; nil: none is
}

// NewDecisions returns a log of refusals and warnings, and of so many of 100 decisions that allow. It registers the counter of what it leaves out.
func NewDecisions(log logr.Logger, allowedPercent int, registry prometheus.Registerer) *Decisions {
	l := &Decisions{
		log: log, percent: allowedPercent,
		limits: ratelimit.New(perSecond, burst),
		suppressed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "podgrace_decision_log_suppressed_total", Help: "Lines that the decision log left out because of its rate limits, or because those before them were not taken, by decision (Deny, Warn, Allow). What is allowed and not in the sample is not counted.",
		}, []string{"decision"}),
	}
	for _, d := range []decisionlog.Decision{decisionlog.Allow, decisionlog.Warn, decisionlog.Deny} {
		l.suppressed.WithLabelValues(string(d))
	}
	registry.MustRegister(l.suppressed)
	return l
}

// Logged is the handler of a path, of which each decision is logged that is its answer: of a large review that was refused meanwhile because time was over, that refusal is.
func (l *Decisions) Logged(path string, handler Handler) Handler {
	if l == nil {
		return handler
	}
	return func(ctx context.Context, req admission.Request) (Decision, error) {
		began := time.Now()
		d, err := handler(ctx, req)
		if outcome, logged := l.outcome(req, d, err); logged && intake.Settle(ctx) {
			l.decided(path, req, d, err, outcome, time.Since(began))
		}
		return d, err
	}
}

// outcome is what becomes of a request; false: it is not to be logged.
func (l *Decisions) outcome(req admission.Request, d Decision, err error) (decisionlog.Decision, bool) {
	switch {
	case err != nil, len(d.Denials) > 0:
		return decisionlog.Deny, true
	case len(d.Warnings) > 0:
		return decisionlog.Warn, true
	case d.Removal != nil && vouched(d.Removal.Reason.Code):
		return decisionlog.Allow, true
	case d.Removal != nil, len(d.Policies) > 0:
		return decisionlog.Allow, l.sampled(req.UID)
	}
	return "", false // there was nothing to decide
}

// vouched reports whether a removal was allowed on somebody's word, of which no sample is taken: without it, it would have been refused.
func vouched(reason string) bool {
	return slices.Contains([]string{guard.Confirmed.Code, guard.NodeStopped.Code, guard.NodeOutOfService.Code, guard.AllowedActor.Code}, reason)
}

// sampled chooses by the UID of the review, which the API server makes at random for each.
func (l *Decisions) sampled(uid types.UID) bool {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(uid))
	return int(hash.Sum32()%100) < l.percent
}

// decided logs one decision, if the limits let it through.
func (l *Decisions) decided(path string, req admission.Request, d Decision, err error, outcome decisionlog.Decision, took time.Duration) {
	dryRun := req.DryRun != nil && *req.DryRun
	reason, by := reasonsOf(d, err)
	limit, ok := l.admit(outcome, scopeOf(req, dryRun), reason)
	if !ok {
		return
	}
	e := decisionlog.Entry{
		Component: decisionlog.Webhook, Decision: outcome, Reason: reason, Message: messageOf(d, err), Policy: by, Policies: strings.Join(policiesOf(d), ","),
		User: req.UserInfo.Username, UID: string(req.UID), Path: path, Operation: string(req.Operation), Resource: resourceOf(req), Namespace: req.Namespace, Name: req.Name,
		DryRun: dryRun, Defaults: defaultsOf(d.Changes), Seconds: took.Seconds(),
	}
	switch {
	case d.Pod != nil: // one that a controller creates is not named in the request
		e.Name, e.Owner = cmp.Or(req.Name, d.Pod.Name, d.Pod.GenerateName), ownerOf(d.Pod)
	case d.Removal != nil && d.Removal.Pod != nil:
		e.Owner, e.Node = ownerOf(d.Removal.Pod), d.Removal.Pod.Spec.NodeName
	case d.Removal != nil && d.Removal.VolumeAttachment != nil:
		e.Node = d.Removal.VolumeAttachment.Spec.NodeName
	case d.Removal != nil && d.Removal.Request.Node != nil:
		e.Node = d.Removal.Request.Node.Name
	}
	l.write(limit, e)
}

// unread logs a review that was refused before anything was known of it but its UID.
func (l *Decisions) unread(path, reason string, uid types.UID) {
	if l == nil {
		return
	}
	if limit, ok := l.admit(decisionlog.Deny, "unread"+path, reason); ok {
		l.write(limit, decisionlog.Entry{Component: decisionlog.Webhook, Decision: decisionlog.Deny, Reason: reason, UID: string(uid), Path: path})
	}
}

// write has a line written by and by, with how many of its kind were left out before it.
func (l *Decisions) write(limit *ratelimit.Limit, e decisionlog.Entry) {
	e.Suppressed = limit.Dropped.Swap(0)
	e = e.Bounded()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pending) >= maxPending {
		limit.Dropped.Add(e.Suppressed)
		l.suppress(e.Decision, limit)
		return
	}
	l.pending = append(l.pending, e)
	if l.writing == nil {
		l.writing = make(chan struct{})
		go l.writePending()
	}
}

// writePending writes lines until none is pending.
func (l *Decisions) writePending() {
	for {
		l.mu.Lock()
		if len(l.pending) == 0 {
			close(l.writing)
			l.writing, l.pending = nil, nil
			l.mu.Unlock()
			return
		}
		e := l.pending[0]
		l.pending = l.pending[1:]
		l.mu.Unlock()
		decisionlog.Log(l.log, e)
	}
}

// Flush returns once all is written that was decided before, or after so long.
func (l *Decisions) Flush(within time.Duration) {
	if l == nil {
		return
	}
	l.mu.Lock()
	writing := l.writing
	l.mu.Unlock()
	if writing == nil {
		return
	}
	select {
	case <-writing:
	case <-time.After(within):
	}
}

// suppress counts a line that is left out.
func (l *Decisions) suppress(d decisionlog.Decision, limit *ratelimit.Limit) {
	limit.Dropped.Add(1)
	l.suppressed.WithLabelValues(string(d)).Inc()
}

// scopeOf is what a request shares its limit with. No text of a review makes one the other, or that of reviews that were not read.
func scopeOf(req admission.Request, dryRun bool) string {
	if req.Namespace == "" {
		return fmt.Sprintf("user/%t/%s", dryRun, req.UserInfo.Username)
	}
	return fmt.Sprintf("namespace/%t/%s", dryRun, req.Namespace)
}

// admit reports whether the limit lets a line through, and returns the limit, which counts those that it kept.
func (l *Decisions) admit(decision decisionlog.Decision, scope, reason string) (limit *ratelimit.Limit, ok bool) {
	limit = l.limits.Of(strings.Join([]string{string(decision), scope, reason}, "\x00"))
	if !limit.Allow() {
		l.suppress(decision, limit)
		return limit, false
	}
	return limit, true
}

// becauseUnjudged is the reason where there is no decision.
const becauseUnjudged = "Unjudged"

// reasonsOf are the codes of why it was decided so, and the policies that it follows from, each once.
func reasonsOf(d Decision, err error) (reasons, policies string) {
	var codes, by []string
	switch {
	case err != nil:
		return becauseUnjudged, ""
	case len(d.Denials) > 0:
		for _, denial := range d.Denials {
			codes, by = append(codes, denial.Reason.Code), append(by, denial.Policy)
		}
	case len(d.Warnings) > 0:
		for _, w := range d.Warnings {
			codes, by = append(codes, w.Reason.Code), append(by, w.Policy)
		}
	case d.Removal != nil:
		return d.Removal.Reason.Code, ""
	case len(d.Changes) > 0:
		return "Defaulted", ""
	default:
		return "WithinLimits", ""
	}
	return once(codes), once(by)
}

// once joins texts, those that are empty or were there before left out.
func once(texts []string) string {
	var kept []string
	for _, text := range texts {
		if text != "" && !slices.Contains(kept, text) {
			kept = append(kept, text)
		}
	}
	return strings.Join(kept, ",")
}

// messageOf is what the user was told.
func messageOf(d Decision, err error) string {
	var said []string
	switch {
	case err != nil:
		return err.Error()
	case len(d.Denials) > 0:
		for _, denial := range d.Denials {
			said = append(said, denial.Message)
		}
	default:
		for _, w := range d.Warnings {
			said = append(said, w.Message)
		}
	}
	return strings.Join(said, "; ")
}

// policiesOf are those that hold: for the pod, or in the pod's namespace for its removal.
func policiesOf(d Decision) []string {
	if d.Removal != nil {
		return d.Removal.Policy.AllNames()
	}
	return d.Policies
}

func resourceOf(req admission.Request) string {
	if req.SubResource != "" {
		return req.Resource.Resource + "/" + req.SubResource
	}
	return req.Resource.Resource
}

func ownerOf(pod *corev1.Pod) string {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return ""
	}
	return owner.Kind + "/" + owner.Name
}

// defaultsOf are the fields that policies gave: numbers and names with their value, of lists how many there are, of all else the name alone.
func defaultsOf(changes []defaulting.Change) string {
	var given []string
	for _, c := range changes {
		if c.Policy == "" {
			continue
		}
		text := c.Name()
		switch value := c.Value.(type) {
		case nil:
			text += "=" + c.Text()
		case int64, int32:
			text += fmt.Sprintf("=%d", value)
		case string:
			if c.Section == string(v1alpha1.SectionPriority) {
				text += "=" + value
			}
		case []corev1.TopologySpreadConstraint:
			text += fmt.Sprintf("=%d", len(value))
		}
		given = append(given, text)
	}
	return strings.Join(given, ",")
}

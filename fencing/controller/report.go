package controller

import (
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/decisionlog"
)

// step is one step of a Fence that was done, for those who read logs, Events and metrics.
type step struct {
	// event, decision, reason, message, policy and values are a line of the decision log. No event: no line.
	event           string
	decision        decisionlog.Decision
	reason, message string
	policy          string
	values          []any
	// call is the call of an agent that the metrics count. Empty: none. err is what it returned, which is the message of the line.
	call string
	err  error
	// tell are Events.
	tell []fencing.Told
}

// report records one step of a Fence, after it was done or stored. The Fence is nil if the step belongs to none.
func (f *Fencer) report(log logr.Logger, fence *v1alpha1.Fence, s step) {
	if s.err != nil {
		s.message = s.err.Error()
	}
	if s.event != "" {
		decisionlog.Log(log, decisionlog.Entry{
			Event: s.event, Component: decisionlog.Fencer, Decision: s.decision, Reason: s.reason, Message: s.message, Policy: s.policy, Node: fence.Spec.Node.Name, Fence: fence.Name,
		}, s.values...)
	}
	if s.call != "" {
		f.Metrics.call(s.call, s.err)
	}
	f.tell(log, fence, s.tell)
}

// judged logs what becomes of a silent node when that changes.
func (f *Fencer) judged(log logr.Logger, verdicts []fencing.Verdict) {
	now := map[string]string{}
	for _, v := range verdicts {
		key := string(v.Node.UID) + "/" + v.Fence
		now[key] = string(v.Do) + " " + v.Reason.Code
		if f.told[key] != now[key] {
			decisionlog.Log(log, decisionlog.Entry{
				Event: "node judged", Component: decisionlog.Fencer, Decision: decisionlog.Decision(v.Do), Reason: v.Reason.Code, Message: v.Message, Policy: v.Policy, Node: v.Node.Name, Fence: v.Fence,
			})
		}
	}
	f.told = now
}

// tell records Events on the Fence and on its Node, and alarms.
func (f *Fencer) tell(log logr.Logger, fence *v1alpha1.Fence, told []fencing.Told) {
	for _, t := range told {
		kind := corev1.EventTypeNormal
		if t.Warning || t.Alarm {
			kind = corev1.EventTypeWarning
		}
		if t.Alarm {
			log.Error(nil, "ALARM: "+t.Message, "reason", t.Reason)
			f.Metrics.alarm(t.Reason)
		}
		if f.Recorder == nil || fence == nil {
			continue
		}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fence.Spec.Node.Name, UID: fence.Spec.Node.UID}}
		f.Recorder.Eventf(fence, node, kind, t.Reason, "Fence", "%s", console.Note(t.Message))
		f.Recorder.Eventf(node, fence, kind, t.Reason, "Fence", "%s", console.Note(t.Message))
	}
}

package explain

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// Ended is who ended the pod before its time, and how long it had to stop.
type Ended struct {
	// By is who ended it and how, such as "preempted by the scheduler".
	By string `json:"by"`
	// For is the pod that took its place, as namespace/name, or its UID; empty: none did, or it is not known.
	For string `json:"for,omitempty"`
	// Message of who ended it.
	Message string `json:"message,omitempty"`
	// Time when it was decided; nil: not known.
	Time *time.Time `json:"time,omitempty"`
	// GraceSeconds that it had; nil: not known. Grace says why.
	GraceSeconds *int64 `json:"graceSeconds"`
	Grace        string `json:"grace"`
}

// authors are who sets the condition DisruptionTarget, by its reason (pkg/apis/core/types.go, PodReason..., 1.36.3; the last is the node enforcer's).
var authors = map[string]string{
	"PreemptionByScheduler":   "preempted by the scheduler",
	"EvictionByEvictionAPI":   "evicted by the eviction API (kubectl drain, an autoscaler)",
	"DeletionByTaintManager":  "deleted because it does not tolerate a NoExecute taint of its node",
	"DeletionByPodGC":         "deleted by the pod garbage collector",
	"TerminationByKubelet":    "terminated by the kubelet",
	enforcement.ReasonEvicted: "evicted by the node enforcer",
}

// What status.reason of a pod that its kubelet ended says (pkg/kubelet/eviction/helpers.go, nodeshutdown/nodeshutdown_manager.go and events/event.go, 1.36.3).
const (
	reasonEvicted    = "Evicted"
	reasonShutdown   = "Terminated"
	reasonPreempting = "Preempting"
)

// ended is nil for a pod that nobody ended before its time, as far as that is known.
func ended(v *view) *Ended {
	var e *Ended
	reason := ""
	for _, c := range v.pod.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			reason = c.Reason
			e = &Ended{By: or(authors[c.Reason], "ended by "+c.Reason), Message: c.Message}
			if !c.LastTransitionTime.IsZero() {
				e.Time = &c.LastTransitionTime.Time
			}
		}
	}
	if by := byKubelet[v.pod.Status.Reason]; by != "" && v.pod.Status.Phase == corev1.PodFailed {
		if e == nil {
			e = &Ended{} // over a limit of its own: no disruption
		}
		reason = "TerminationByKubelet"
		e.By, e.Message = by, or(v.pod.Status.Message, e.Message)
	}
	if e == nil {
		return nil
	}
	e.Message = strings.TrimSuffix(strings.TrimSpace(e.Message), ".")
	if reason == "PreemptionByScheduler" {
		e.For = v.preemptor()
	}
	e.GraceSeconds, e.Grace = v.graceGiven(reason)
	return e
}

var byKubelet = map[string]string{
	reasonEvicted:    "evicted by the kubelet",
	reasonShutdown:   "terminated by the kubelet, because its node was shut down",
	reasonPreempting: "terminated by the kubelet, to admit a critical pod",
}

// preemptor is the pod that took its place, of the Event that the scheduler writes: Preempted by pod UID on node NAME
// (pkg/scheduler/framework/preemption/executor.go, 1.36.3). Whoever may create Events in the namespace can write one as well, so that
// the text names its source.
func (v *view) preemptor() string {
	for i := range v.in.Events {
		event := &v.in.Events[i]
		words := strings.Fields(event.Message)
		if event.Reason != "Preempted" || len(words) < 4 {
			continue
		}
		if r := event.Related; r != nil && r.Name != "" {
			return r.Namespace + "/" + r.Name
		}
		for _, p := range v.in.Neighbours {
			if string(p.UID) == words[3] {
				return p.Namespace + "/" + p.Name
			}
		}
		return console.OneLine(words[3])
	}
	return ""
}

// graceGiven is how long the pod had to stop.
func (v *view) graceGiven(reason string) (given *int64, why string) {
	own := graceperiod.Of(&v.pod.Spec)
	switch {
	case v.pod.DeletionGracePeriodSeconds != nil:
		return v.pod.DeletionGracePeriodSeconds, "by the deletion that was asked for"
	case reason != "TerminationByKubelet":
		return &own, "its own grace period, if the request did not ask for less"
	case v.pod.Status.Reason == reasonPreempting:
		return &own, "its own grace period"
	case v.pod.Status.Reason == reasonShutdown:
		for _, d := range v.in.Deadlines {
			if strings.HasPrefix(d.Of, "a shutdown") {
				return new(min(own, d.Seconds)), "by " + d.Of
			}
		}
		return nil, "the kubelet's shutdownGracePeriod is not known"
	}
	return v.graceOfEviction(own)
}

// graceOfEviction is what the kubelet left a pod that it evicted: 1 s, but by a soft threshold (evictPod and synchronize, pkg/kubelet/eviction/eviction_manager.go, 1.36.3). Its message has
// the threshold, by which the two differ.
func (v *view) graceOfEviction(own int64) (given *int64, why string) {
	const immediate = int64(1)
	if !strings.Contains(v.pod.Status.Message, "The node ") {
		return new(immediate), "a limit of its own was exceeded, where the kubelet leaves 1 s"
	}
	k := v.in.Kubelet
	switch {
	case k == nil:
		return nil, "1 s by a hard threshold, its own grace period and at most evictionMaxPodGracePeriod by a soft one. The kubelet's configuration is not known, and the pod's status does not say which it was"
	case len(k.EvictionSoft) == 0:
		return new(immediate), "the kubelet has hard thresholds alone, which leave 1 s whatever the pod's grace period is"
	case len(k.EvictionHard) == 0:
		return new(min(own, int64(k.EvictionMaxPodGracePeriod))), "the kubelet has soft thresholds alone, which leave at most evictionMaxPodGracePeriod"
	}
	_, after, found := strings.Cut(v.pod.Status.Message, "Threshold quantity: ")
	quantity, _, _ := strings.Cut(after, ",")
	if found {
		soft, hard := hasQuantity(k.EvictionSoft, quantity), hasQuantity(k.EvictionHard, quantity)
		switch {
		case soft && !hard:
			return new(min(own, int64(k.EvictionMaxPodGracePeriod))), "by a soft threshold, which leaves at most evictionMaxPodGracePeriod"
		case hard && !soft:
			return new(immediate), "by a hard threshold, which leaves 1 s whatever the pod's grace period is"
		}
	}
	return nil, fmt.Sprintf("1 s by a hard threshold, at most %s by a soft one: the pod's status does not say which it was", seconds(int64(k.EvictionMaxPodGracePeriod)))
}

// hasQuantity reports whether one of the kubelet's thresholds is this amount. A percentage is of an amount that is not known here.
func hasQuantity(thresholds map[string]string, quantity string) bool {
	for _, t := range thresholds {
		if t == quantity || sameQuantity(t, quantity) {
			return true
		}
	}
	return false
}

func sameQuantity(a, b string) bool {
	x, err := resource.ParseQuantity(a)
	if err != nil {
		return false
	}
	y, err := resource.ParseQuantity(b)
	return err == nil && x.Cmp(y) == 0
}

func (t *text) ended() {
	e := t.e.Ended
	if e == nil {
		return
	}
	t.Gap()
	how := e.By
	if e.For != "" {
		how += ", for " + e.For + " (as its Event says)"
	}
	if e.Time != nil {
		how += ", at " + e.Time.UTC().Format(time.RFC3339)
	}
	had := "how long it had to stop is not known: " + e.Grace
	if e.GraceSeconds != nil {
		had = fmt.Sprintf("it had %s to stop: %s", seconds(*e.GraceSeconds), e.Grace)
	}
	t.Marked(console.Red, "Ended", sentence(how), sentence(e.Message, had))
}

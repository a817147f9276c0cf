package explain

import (
	"fmt"
	"maps"
	"slices"

	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy"
)

func removal(v *view) Removal {
	facts := v.guardFacts()
	r := Removal{User: v.in.User.Username, Policies: facts.Policy.AllNames(), Protected: protected(v, facts)}
	for _, claim := range slices.Sorted(maps.Keys(v.in.Ungated)) {
		r.Ungated = append(r.Ungated, "claim "+claim+": "+Ungated(v.in.Ungated[claim]))
	}
	if !v.created() {
		r.None = "it does not exist yet"
		return r
	}
	r.ForceDelete = v.judge(guard.RoadDelete, new(int64(0)), facts)
	r.Delete = v.judge(guard.RoadDelete, nil, facts)
	r.Eviction = v.evictionVerdict(facts)
	return r
}

// Ungated says what it means that a driver attaches nothing, for a claim that is for one node at a time.
func Ungated(driver string) string {
	return "CSI driver " + driver + " attaches nothing (attachRequired: false), so that nothing keeps a second node from mounting it while this one does: the volume lock would (docs/volume-lock.md)"
}

// guardFacts are what the guard would know; without them, what is known here. A node without its lease is unknown: it may have been
// heard of a moment ago.
func (v *view) guardFacts() guard.Facts {
	if v.in.Removal != nil {
		return *v.in.Removal
	}
	facts := guard.Facts{Now: v.in.Now, Claims: v.in.Facts.Claims, Policy: v.in.Policies.Removal(v.in.Namespace, v.in.Exempt)}
	if v.in.PoliciesUnknown {
		facts.Policy = policy.Removal{Unknown: true}
	}
	facts.Node.Name = v.pod.Spec.NodeName
	if v.created() {
		v.note("whether its node answers was not asked: removals are judged on the safe side")
	}
	return facts
}

// protected says why the pod is, under the policies.
func protected(v *view, facts guard.Facts) string {
	pod := v.pod
	if !v.created() {
		pod = policy.Unrecorded(pod)
	}
	why := facts.Policy.Why(pod, facts.Claims)
	switch {
	case why != "":
		return why
	case facts.Policy.Unknown:
		return "which policies guard it could not be read"
	case len(facts.Policy.ProtectedBy(pod, facts.Claims)) > 0:
		return "the policies protect all pods"
	}
	return ""
}

func (v *view) judge(road guard.Road, grace *int64, facts guard.Facts) *Verdict {
	d := guard.Decide(guard.Request{Road: road, User: v.in.User, Pod: v.pod, GracePeriodSeconds: grace}, facts)
	return &Verdict{Decision: string(d.Verdict), Reason: d.Reason.Code, Message: or(d.Message(), or(d.Reason.Short, d.Reason.Code))}
}

// evictionVerdict is of an eviction without options, as kubectl drain sends it.
func (v *view) evictionVerdict(facts guard.Facts) *Verdict {
	verdict, raised := v.judge(guard.RoadEviction, nil, facts), v.raised(nil, facts)
	switch {
	case raised != "":
		return &Verdict{Decision: string(guard.Allow), Reason: "Raised", Message: "its own grace period is 0: an eviction is " + raised + "; budgets count"}
	case verdict.Decision == string(guard.Allow):
		verdict.Message += fmt.Sprintf("; budgets count; with grace 0 %s", v.withoutGrace(facts))
	}
	return verdict
}

// raised says to what an eviction is; empty: it is not.
func (v *view) raised(grace *int64, facts guard.Facts) string {
	req := guard.Request{Road: guard.RoadEviction, User: v.in.User, Pod: v.pod, GracePeriodSeconds: grace}
	seconds, raised := guard.Raise(req, facts, guard.Decide(req, facts))
	switch {
	case !raised:
		return ""
	case seconds == graceperiod.Of(&v.pod.Spec):
		return "raised to its own"
	}
	return fmt.Sprintf("raised to %d s", seconds)
}

// withoutGrace is what becomes of an eviction with grace 0.
func (v *view) withoutGrace(facts guard.Facts) string {
	if raised := v.raised(new(int64(0)), facts); raised != "" {
		return raised
	}
	switch v.judge(guard.RoadEviction, new(int64(0)), facts).Decision {
	case string(guard.Deny):
		return "refused"
	case string(guard.Warn):
		return "warned about"
	}
	return "allowed"
}

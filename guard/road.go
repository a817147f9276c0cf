package guard

import (
	"maps"
	"slices"
	"time"
)

// Roads are all of them, in the order of their names.
func Roads() []Road { return slices.Sorted(maps.Keys(roads)) }

// Decide judges a request. Each level of policies judges it, and the strictest verdict holds: a user whom the policies that deny allow by name may
// still get a warning by those that warn.
func Decide(req Request, facts Facts) Decision {
	strictest := judge(req, facts)
	for level := facts.Policy.Laxer; level != nil && strictest.Verdict != Deny; level = level.Laxer {
		facts.Policy = *level
		if d := judge(req, facts); d.weight() > strictest.weight() {
			strictest = d
		}
	}
	return strictest
}

// ByItself judges a request that can be decided without facts, but for the time; nil: it takes facts. Decide returns the same for it, whatever the facts are, so
// that they need not be looked up.
func ByItself(req Request, now time.Time) *Decision {
	if !complete(req) {
		return &Decision{Verdict: Deny, Reason: becauseIncomplete, What: "the review lacks the object that is to be removed (" + string(req.Road) + "): it can't be judged"}
	}
	for _, r := range roads[req.Road].byItself {
		if d := r(req, now); d != nil {
			return d
		}
	}
	return nil
}

// judge judges a request by the first level of the facts' policy.
func judge(req Request, facts Facts) Decision {
	if d := ByItself(req, facts.Now); d != nil {
		return *d
	}
	for _, r := range roads[req.Road].rules {
		if d := r(req, facts); d != nil {
			return *d
		}
	}
	// An unknown road: the webhook configuration has rules that this package does not know.
	return Decision{Verdict: Deny, Reason: becauseUnknownRoad, What: "Podgrace does not know how to judge this request (" + string(req.Road) + "): check the rules of its webhook configuration"}
}

// complete reports whether the request has the object of its road.
func complete(req Request) bool {
	switch req.Road {
	case RoadDelete, RoadEviction, RoadStatus, RoadFinalizer:
		return req.Pod != nil
	case RoadVolumeAttachment:
		return req.VolumeAttachment != nil
	case RoadNode, RoadOutOfService:
	}
	return true
}

// rule returns a decision, or nil to leave it to the next rule.
type rule func(Request, Facts) *Decision

// The rules of each road, in order: first those that look at the request alone.
var roads = map[Road]struct {
	byItself []func(Request, time.Time) *Decision
	rules    []rule
}{
	RoadDelete:           {podByItself, podRules},
	RoadEviction:         {podByItself, podRules},
	RoadStatus:           {podByItself, podRules},
	RoadFinalizer:        {podByItself, podRules},
	RoadNode:             {[]func(Request, time.Time) *Decision{heldNode}, []rule{unguarded, allowedActor, nodeStopped, nothingProtectedOnNode, refuseNode}},
	RoadOutOfService:     {nil, []rule{unguarded, allowedActor, nodeStopped, refuseNode}},
	RoadVolumeAttachment: {nil, []rule{unguarded, notAttached, attachDetachController, allowedActor, nodeStopped, nodeGone, storageRevoked, refuseAttachment}},
}

var podByItself = []func(Request, time.Time) *Decision{
	enforcerOfAnotherNode,
	notForced, neverScheduled, finished,
	ownKubelet,
}

var podRules = []rule{
	podGarbageCollector,
	unguarded, allowedActor,
	nodeGone, fenced, confirmed,
	unprotected, refusePod,
}

package plan

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Verb is what a user asks for.
type Verb string

// What goes on whatever becomes of the webhook (docs/operations.md, "When something is down"): only the control plane's own faults can hold it up.
const (
	ScaleStateful Verb = "scale a StatefulSet"
	RollStateful  Verb = "roll a StatefulSet"
	ScaleDeployed Verb = "scale a Deployment"
	RollDeployed  Verb = "roll a Deployment"
	MakeJob       Verb = "make a Job"
	DeleteJob     Verb = "delete a Job"
	DeletePod     Verb = "delete a pod"
	Drain         Verb = "drain a node"
	ChangePolicy  Verb = "change the PodPolicy"
	Confirmed     Verb = "force-delete a pod that was confirmed"
)

// What the webhook has to judge, and allows.
const (
	ForceUnprotected Verb = "force-delete an unprotected pod"
)

// What is to be refused, whatever is away: each would remove what runs and must not run twice.
const (
	ForceProtected Verb = "force-delete a protected pod"
	EvictAtOnce    Verb = "evict a protected pod without grace"
	EndByStatus    Verb = "write that a protected pod has ended"
	DeleteNode     Verb = "delete a node with protected pods"
	OutOfService   Verb = "taint such a node out of service"
	AskAgain       Verb = "ask again for what was refused"
)

// Class is what is expected of an operation.
type Class int

// The classes.
const (
	Ordinary Class = iota // it is done, unless the control plane is hit
	Judged                // it is done, unless the control plane or the webhook is hit
	Never                 // it is refused, or nobody answers
)

// weighed is a verb with how often it is drawn, beside others.
type weighed struct {
	verb   Verb
	class  Class
	weight int
}

var verbs = []weighed{
	{ScaleStateful, Ordinary, 3}, {RollStateful, Ordinary, 1}, {ScaleDeployed, Ordinary, 2}, {RollDeployed, Ordinary, 1},
	{MakeJob, Ordinary, 2}, {DeleteJob, Ordinary, 1}, {DeletePod, Ordinary, 3}, {Drain, Ordinary, 2}, {ChangePolicy, Ordinary, 1}, {Confirmed, Ordinary, 1},
	{ForceUnprotected, Judged, 3},
	{ForceProtected, Never, 6}, {EvictAtOnce, Never, 3}, {EndByStatus, Never, 3}, {DeleteNode, Never, 2}, {OutOfService, Never, 2}, {AskAgain, Never, 6},
}

// Verbs are all that there are.
func Verbs() []Verb {
	var all []Verb
	for _, v := range allVerbs() {
		all = append(all, v.verb)
	}
	return all
}

func allVerbs() []weighed { return slices.Concat(verbs, machineVerbs, enforcedVerbs) }

// ClassOf is what is expected of one.
func ClassOf(v Verb) Class {
	for _, known := range allVerbs() {
		if known.verb == v {
			return known.class
		}
	}
	return Never
}

// Operation is what somebody asks for at a time after the beginning of the round.
type Operation struct {
	At time.Duration
	Do Verb
	// Which of those that there are then, modulo their number, and a choice besides, such as of how many replicas.
	Which, How int
}

// An operation begins about every second: there are always some under way when a fault begins.
const leastPause, mostPause = 200 * time.Millisecond, 1600 * time.Millisecond

func operations(r *rand.Rand, verbs []weighed, leastPause, mostPause, storm time.Duration) []Operation {
	sum := 0
	for _, v := range verbs {
		sum += v.weight
	}
	var drawn []Operation
	for at := between(r, 0, mostPause); at < storm; at += between(r, leastPause, mostPause) {
		n, o := r.IntN(sum), Operation{At: at, Which: r.IntN(1 << 20), How: r.IntN(1 << 20)}
		for _, v := range verbs {
			if n -= v.weight; n < 0 {
				o.Do = v.verb
				break
			}
		}
		drawn = append(drawn, o)
	}
	return drawn
}

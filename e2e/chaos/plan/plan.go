// Package plan draws what chaos does, and when: faults, and beside them what users ask for. It is pure: the same seed is the same plan, on every machine.
//
// A plan is rounds without end. In each there is a storm, in which faults begin and end and operations go on, and then a calm, which is as long as the cluster needs to be well again and be looked at.
package plan

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"
)

// Fault is a kind of what goes wrong.
type Fault string

// The faults. What each is mended by is in the same place as what makes it: runner's faults.go.
const (
	KillReplica  Fault = "kill-replica"  // SIGKILL; its kubelet starts it again
	PauseReplica Fault = "pause-replica" // SIGSTOP: its port is open, and nothing is answered
	CutReplica   Fault = "cut-replica"   // it reaches no API server, which still reaches it
	SlowReplica  Fault = "slow-replica"  // what it and the API server say to each other takes long
	RollReplica  Fault = "roll-replica"  // SIGTERM, and it is started with other flags
	SwapReplica  Fault = "swap-replica"  // SIGTERM, and it is started with the program of another version
	CutWebhook   Fault = "cut-webhook"   // no replica is reached, nothing refuses a connection
	ReplaceCA    Fault = "replace-ca"    // somebody asks for another CA

	PauseAPIServer Fault = "pause-apiserver"
	KillAPIServer  Fault = "kill-apiserver"
	PauseEtcd      Fault = "pause-etcd"
	KillEtcd       Fault = "kill-etcd"
	KillManager    Fault = "kill-controller-manager"

	CutNode Fault = "cut-node" // its kubelet reaches no API server; containers go on

	JumpClock Fault = "jump-clock" // one replica's time of day jumps forth, back, and right again
	FastClock Fault = "fast-clock" // all of one replica's clocks are fast, and then its time of day is put right
)

// Scope is what a fault hits.
type Scope int

// The scopes.
const (
	Replica          Scope = iota // one replica of the webhook, the target
	Webhook                       // all replicas, or what is between them and the API server
	ControlPlane                  // Kubernetes' own
	Node                          // the target
	Clock                         // of one replica of the webhook, the target
	Nothing                       // everything goes on: it is an order
	Watcher                       // one replica of the volume lock or of the fencer, the target
	Machine                       // one that has volumes, the target
	Confirmation                  // what was confirmed, by a clock that is wrong by so much: it comes of some faults of Clock
	PausedWebhook                 // what may lead is stopped, one of the webhook: it comes of some faults of Replica
	PausedVolumeLock              // and of the volume lock: of Watcher
	PausedFencer                  // and of the fencer
	Enforcer                      // the node enforcer of the real node
	Kubelet                       // the real node's, or its runtime
	Cgroup                        // one of the real node's
)

// What there is of each.
const (
	Replicas = 2
	Nodes    = 4
)

// kind is how a fault is drawn. It takes a time of at least min and at most max.
type kind struct {
	fault    Fault
	scope    Scope
	weight   int
	min, max time.Duration
}

var kinds = []kind{
	{KillReplica, Replica, 4, 200 * time.Millisecond, 8 * time.Second},
	{PauseReplica, Replica, 3, 2 * time.Second, 20 * time.Second},
	{CutReplica, Replica, 3, 3 * time.Second, 25 * time.Second},
	{SlowReplica, Replica, 2, 5 * time.Second, 20 * time.Second},
	{RollReplica, Replica, 2, 200 * time.Millisecond, 2 * time.Second},
	{SwapReplica, Replica, 2, 200 * time.Millisecond, 2 * time.Second},
	{CutWebhook, Webhook, 2, 2 * time.Second, 12 * time.Second},
	{ReplaceCA, Nothing, 1, 0, 0},
	{PauseAPIServer, ControlPlane, 2, 2 * time.Second, 15 * time.Second},
	{KillAPIServer, ControlPlane, 1, 0, 0}, // for as long as it takes to start
	{PauseEtcd, ControlPlane, 2, 2 * time.Second, 15 * time.Second},
	{KillEtcd, ControlPlane, 1, 0, 0},
	{KillManager, ControlPlane, 2, 0, 0},
	{CutNode, Node, 4, 15 * time.Second, 50 * time.Second},
	{JumpClock, Clock, 3, 8 * time.Second, 20 * time.Second},
	{FastClock, Clock, 2, 10 * time.Second, 30 * time.Second},
}

// Faults are all that there are.
func Faults() []Fault {
	var all []Fault
	for _, k := range allKinds() {
		all = append(all, k.fault)
	}
	return all
}

func allKinds() []kind { return slices.Concat(kinds, machineKinds, enforcedKinds) }

// Of is what a fault hits.
func Of(f Fault) Scope {
	all := allKinds()
	return all[slices.IndexFunc(all, func(k kind) bool { return k.fault == f })].scope
}

// Step is a fault with its times after the beginning of its round.
type Step struct {
	At     time.Duration
	For    time.Duration
	Fault  Fault
	Target int // of those of its scope; else 0
}

// End is when it is mended.
func (s Step) End() time.Duration { return s.At + s.For }

// What never lasts longer than a time, so that a cluster is what it is promised to be in all the while.
const (
	// AllAway is how long no replica may answer: longer than a call of the API server waits (5 s), and shorter than anybody would call it an outage.
	AllAway = 12 * time.Second
	// Rest is how long what was hit is left alone.
	Rest = 5 * time.Second
	// NodesCut is how many nodes are cut off at once at most.
	NodesCut = Nodes / 2
	// EraRounds is for how many rounds one of the replicas is neither killed nor started again, so that there is a process whose memory can be followed.
	EraRounds = 8
)

// Options of a round.
type Options struct {
	// Storm is how long faults happen; all are mended at its end.
	Storm time.Duration
	// Only are the faults that may happen; none: all.
	Only []Fault
}

// Round is one storm.
type Round struct {
	Number     int
	Steps      []Step
	Operations []Operation
}

// Draw is the round of a number. It depends on nothing but the seed and the options.
func Draw(seed uint64, number int, o Options) Round {
	r := rand.New(rand.NewPCG(seed, uint64(number))) //nolint:gosec // a plan is to be drawn again, not to be secret
	round := Round{Number: number, Steps: steps(r, kinds, 6*time.Second, number, o), Operations: operations(r, verbs, leastPause, mostPause, o.Storm)}
	for _, apart := range []func(uint64, int, Options) ([]Step, []Operation){beside, enforced} {
		steps, with := apart(seed, number, o)
		round.Steps, round.Operations = append(round.Steps, steps...), append(round.Operations, with...)
	}
	return round
}

// tries is how often another fault is drawn where one may not happen beside the others, before it is left at those.
const tries = 3

func steps(r *rand.Rand, kinds []kind, mostGap time.Duration, number int, o Options) []Step {
	allowed := slices.DeleteFunc(slices.Clone(kinds), func(k kind) bool { return len(o.Only) > 0 && !slices.Contains(o.Only, k.fault) })
	if len(allowed) == 0 {
		return nil
	}
	var drawn []Step
	for at := between(r, 0, 2*time.Second); at < o.Storm; at += between(r, time.Second, mostGap) {
		for range tries {
			k := pick(r, allowed)
			s := Step{At: at, For: between(r, k.min, k.max), Fault: k.fault, Target: target(r, k.scope)}
			if lasts(s.Fault) {
				s.For = o.Storm - s.At
			}
			if s.End() <= o.Storm && fits(s, drawn, Spared(number)) {
				drawn = append(drawn, s)
				break
			}
		}
	}
	return drawn
}

// StartsAnew reports whether a fault ends the process that it hits. A clock that jumps may: the liveness probe restarts a replica whose certificate has not begun.
func StartsAnew(f Fault) bool {
	return slices.Contains([]Fault{KillReplica, RollReplica, SwapReplica, JumpClock}, f)
}

// Pauses reports whether a step stops a process that may lead, and goes on later as if no time had passed, and which scope that is besides.
func (s Step) Pauses() (of Scope, is bool) {
	switch {
	case s.Fault == PauseReplica:
		return PausedWebhook, true
	case s.Fault == PauseWatcher && s.Target < VolumeLocks: // its replicas are the first
		return PausedVolumeLock, true
	case s.Fault == PauseWatcher:
		return PausedFencer, true
	default:
		return Nothing, false
	}
}

// Spared is the replica that is not started again in the era of a round.
func Spared(number int) int { return number / EraRounds % Replicas }

func target(r *rand.Rand, of Scope) int {
	switch of {
	case Replica, Clock:
		return r.IntN(Replicas)
	case Node:
		return r.IntN(Nodes)
	case Watcher:
		return r.IntN(VolumeLocks + Fencers)
	case Machine:
		return r.IntN(Machines)
	default:
		return 0
	}
}

// fits reports whether a fault may happen beside those that were drawn before it.
func fits(s Step, drawn []Step, spared int) bool {
	if StartsAnew(s.Fault) && s.Target == spared {
		return false
	}
	cut := 0
	for _, d := range drawn {
		if !meet(s, d) {
			continue
		}
		if excludes(s, d) {
			return false
		}
		if Of(s.Fault) == Node && Of(d.Fault) == Node {
			cut++
		}
	}
	return cut < NodesCut
}

// excludes reports whether of two faults that meet only one may happen.
func excludes(s, d Step) bool {
	a, b := Of(s.Fault), Of(d.Fault)
	if ofReplica(a) == ofReplica(b) && s.Target == d.Target && (a == b || ofReplica(a)) || lasts(s.Fault) && lasts(d.Fault) {
		return true
	}
	if !hitsWebhook(a) || !hitsWebhook(b) {
		return false
	}
	// Of all replicas and of one, the two that follow each other would be one that is longer.
	return ofReplica(a) != ofReplica(b) || min(s.End(), d.End())-max(s.At, d.At) > AllAway
}

// ofReplica reports whether a fault hits one replica, also by its clock only: API servers may refuse its certificate.
func ofReplica(s Scope) bool { return s == Replica || s == Clock }

func hitsWebhook(s Scope) bool { return ofReplica(s) || s == Webhook }

// meet reports whether one begins before the other has ended and what it hit had its rest.
func meet(a, b Step) bool { return a.At < b.End()+Rest && b.At < a.End()+Rest }

// pick draws one by the weights.
func pick(r *rand.Rand, of []kind) kind {
	sum := 0
	for _, k := range of {
		sum += k.weight
	}
	n := r.IntN(sum)
	for _, k := range of {
		if n -= k.weight; n < 0 {
			return k
		}
	}
	return of[len(of)-1]
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)+1))
}

// Near are the steps of a round that are in force, or were a moment before, at a time after its beginning.
func (r Round) Near(at, moment time.Duration) []Step {
	near := slices.DeleteFunc(slices.Clone(r.Steps), func(s Step) bool { return s.At > at+moment || s.End() < at-moment })
	slices.SortStableFunc(near, func(a, b Step) int { return cmp.Compare(a.At, b.At) })
	return near
}

package plan

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Faults of the node that has a real kubelet, and of the node enforcer on it.
const (
	KillEnforcer  Fault = "kill-enforcer"  // SIGKILL; its kubelet starts it again
	PauseEnforcer Fault = "pause-enforcer" // SIGSTOP
	CutEnforcer   Fault = "cut-enforcer"   // it reaches no API server
	SlowEnforcer  Fault = "slow-enforcer"  // what it and the API server say to each other takes long
	RollEnforcer  Fault = "roll-enforcer"  // SIGTERM, and it is started with other flags
	SwapEnforcer  Fault = "swap-enforcer"  // SIGTERM, and it is started with the program of another version

	KillKubelet     Fault = "kill-kubelet"     // SIGKILL, and it is started again; containers go on
	PauseKubelet    Fault = "pause-kubelet"    // SIGSTOP
	CutKubelet      Fault = "cut-kubelet"      // it reaches no API server; containers go on
	SlowKubelet     Fault = "slow-kubelet"     // what it and the API server say to each other takes long
	KillContainerd  Fault = "kill-containerd"  // SIGKILL, and it is started again; containers go on
	PauseContainerd Fault = "pause-containerd" // SIGSTOP

	ChangeCgroup Fault = "change-cgroup" // somebody writes another value into a file of a pod's cgroups
)

// enforcedKinds are drawn apart, as those of the machines are. The kubelet and its runtime are of one scope: a kubelet whose runtime hangs while it starts gives up. A pod of the node stays on it
// while the node is not heard of: the taint ends it after five minutes, and nothing lasts as long.
var enforcedKinds = []kind{
	{KillEnforcer, Enforcer, 3, 200 * time.Millisecond, 8 * time.Second},
	{PauseEnforcer, Enforcer, 2, 2 * time.Second, 10 * time.Second},
	{CutEnforcer, Enforcer, 2, 3 * time.Second, 15 * time.Second},
	{SlowEnforcer, Enforcer, 2, 3 * time.Second, 10 * time.Second},
	{RollEnforcer, Enforcer, 2, 200 * time.Millisecond, 2 * time.Second},
	{SwapEnforcer, Enforcer, 2, 200 * time.Millisecond, 2 * time.Second},
	{KillKubelet, Kubelet, 2, 200 * time.Millisecond, 5 * time.Second},
	{PauseKubelet, Kubelet, 2, 2 * time.Second, 10 * time.Second},
	{CutKubelet, Kubelet, 2, 3 * time.Second, 15 * time.Second},
	{SlowKubelet, Kubelet, 2, 3 * time.Second, 10 * time.Second},
	{KillContainerd, Kubelet, 2, 200 * time.Millisecond, 3 * time.Second},
	{PauseContainerd, Kubelet, 2, 2 * time.Second, 8 * time.Second},
	{ChangeCgroup, Cgroup, 5, 0, 0},
}

// What goes on whatever becomes of the enforcer.
const (
	DeleteEnforced Verb = "delete a pod of the real node"
	ResizeEnforced Verb = "resize a pod of the real node in place"
)

// A pod of the real node starts as slowly as containers do: there are fewer operations than on the others.
var enforcedVerbs = []weighed{{DeleteEnforced, Ordinary, 1}, {ResizeEnforced, Ordinary, 1}}

// leastEnforcedPause and mostEnforcedPause are between two of them.
const leastEnforcedPause, mostEnforcedPause = 3 * time.Second, 12 * time.Second

// OfEnforced reports whether a verb is about pods of the real node.
func OfEnforced(v Verb) bool {
	return slices.ContainsFunc(enforcedVerbs, func(w weighed) bool { return w.verb == v })
}

// EndsEnforcer reports whether a fault ends the process of the enforcer that it hits.
func EndsEnforcer(f Fault) bool {
	return slices.Contains([]Fault{KillEnforcer, RollEnforcer, SwapEnforcer}, f)
}

// SparesEnforcer reports whether the enforcer is not ended in the era of a round, so that there is a process whose memory can be followed: in every other one, because a node has one enforcer.
func SparesEnforcer(number int) bool { return number/EraRounds%2 == 1 }

// enforcedStream is that of what happens to the real node, chosen as stream is.
const enforcedStream = 253

// enforced draws what happens to the real node.
func enforced(seed uint64, number int, o Options) ([]Step, []Operation) {
	r := rand.New(rand.NewPCG(seed^enforcedStream<<40, uint64(number))) //nolint:gosec // as Draw
	kinds := slices.DeleteFunc(slices.Clone(enforcedKinds), func(k kind) bool { return SparesEnforcer(number) && EndsEnforcer(k.fault) })
	return steps(r, kinds, 3*time.Second, number, o), operations(r, enforcedVerbs, leastEnforcedPause, mostEnforcedPause, o.Storm)
}

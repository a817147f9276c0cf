package plan

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Faults of the machines that have volumes, and of the programs that decide about them.
const (
	KillWatcher  Fault = "kill-watcher"  // SIGKILL; its kubelet starts it again
	PauseWatcher Fault = "pause-watcher" // SIGSTOP
	CutWatcher   Fault = "cut-watcher"   // it reaches no API server
	SlowWatcher  Fault = "slow-watcher"  // what it and the API server say to each other takes long

	CutMachine    Fault = "cut-machine"    // its kubelet reaches no API server; what is mounted stays so
	FenceMachine  Fault = "fence-machine"  // it is cut off until it was fenced, and boots again then
	RebootMachine Fault = "reboot-machine" // its power fails
	HangUnmount   Fault = "hang-unmount"   // what it is to unmount it does not
	StartKubelet  Fault = "start-kubelet"  // its kubelet starts again, within the boot
)

// Their targets.
const (
	// VolumeLocks is how many replicas of the volume lock there are: they are the targets from 0 on.
	VolumeLocks = 2
	// Fencers is how many of the fencer there are: they follow.
	Fencers = 2
	// Machines are those that have volumes.
	Machines = 3
)

// machineKinds happen beside the others, and are drawn apart: what hits webhook, control plane and nodes is the same by a seed, whether or not there are these.
var machineKinds = []kind{
	{KillWatcher, Watcher, 4, 200 * time.Millisecond, 8 * time.Second},
	{PauseWatcher, Watcher, 4, 2 * time.Second, 25 * time.Second},
	{CutWatcher, Watcher, 3, 3 * time.Second, 25 * time.Second},
	{SlowWatcher, Watcher, 2, 5 * time.Second, 20 * time.Second},
	{CutMachine, Machine, 3, 10 * time.Second, 40 * time.Second},
	{FenceMachine, Machine, 3, 0, 0}, // until it was fenced, after the storm
	{RebootMachine, Machine, 2, 500 * time.Millisecond, 12 * time.Second},
	{HangUnmount, Machine, 2, 5 * time.Second, 25 * time.Second},
	{StartKubelet, Machine, 2, 0, 0},
}

// lasts reports whether a fault is mended only after the storm.
func lasts(f Fault) bool { return f == FenceMachine }

// What goes on whatever becomes of the volume lock and the fencer.
const (
	MoveVolume       Verb = "have a pod with a volume move"
	DeleteWithVolume Verb = "delete a pod with a volume"
	DrainMachine     Verb = "drain a machine"
	ConfirmedVolume  Verb = "force-delete one with a volume that was confirmed"
)

// What is never let go.
const (
	ForceWithVolume Verb = "force-delete a pod with a volume"
	SayAttached     Verb = "say of a volume that it is attached"
	DropAttachment  Verb = "delete a VolumeAttachment that is in use"
)

var machineVerbs = []weighed{
	{MoveVolume, Ordinary, 4}, {DeleteWithVolume, Ordinary, 2}, {DrainMachine, Ordinary, 1}, {ConfirmedVolume, Ordinary, 1},
	{ForceWithVolume, Never, 3}, {SayAttached, Never, 2}, {DropAttachment, Never, 2},
}

// OfMachines reports whether a verb is about pods with volumes.
func OfMachines(v Verb) bool {
	return slices.ContainsFunc(machineVerbs, func(w weighed) bool { return w.verb == v })
}

// stream is that of what is drawn apart. Which one it is matters to nobody but the brief run, whose seed is to have each fault of both.
const stream = 10

// beside draws what happens to the machines with volumes.
func beside(seed uint64, number int, o Options) ([]Step, []Operation) {
	r := rand.New(rand.NewPCG(seed^stream<<32, uint64(number))) //nolint:gosec // as Draw
	return steps(r, machineKinds, 3*time.Second, number, o), operations(r, machineVerbs, leastPause, mostPause, o.Storm)
}

package terminate

import (
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// Event is something that happened to a victim. Results of actions are among them.
type Event interface {
	learn(s *State, now time.Duration) []Action
}

// Asked is a request to evict. A second one can only tighten the first: from Soft to Hard, or to a shorter grace period.
type Asked struct {
	Kind         eviction.Kind
	GraceSeconds int64
	// Kubelet is its whole time for this pod at that grace period: KubeletTime.
	Kubelet time.Duration
	Contain bool
	// Slack is by how many bytes it may grow once its deletion is accepted, for its hooks.
	Slack int64
	// Freeze: its processes may be stopped until it gets its stop signal. Room is by how many bytes it may grow then.
	Freeze bool
	Room   int64
}

// Answered is the result of the request to the API server with that number.
type Answered struct {
	Call int
	Answer
	// Unmarked is why the condition DisruptionTarget could not be set first; nil where it was, or was not wanted.
	Unmarked error
}

// Contained is the result of Contain. Wrote is empty where nothing was written because the limit was as low already.
type Contained struct {
	Was, Wrote string
	Err        error
}

// Loosened is the result of Loosen. Wrote is empty where nothing was written, because it has room. Done: there is no more to give.
type Loosened struct {
	Wrote string
	Done  bool
	Err   error
}

// Froze is the result of Freeze. Asked: the kernel was asked to freeze the pod, or may have been: it has to be thawed.
type Froze struct {
	Asked bool
	Err   error
}

// Peeked is the result of Peek. Signalled: a container was sent a signal that it has yet to handle, or that can't be known.
type Peeked struct{ Signalled bool }

// Thawed is the result of Thaw.
type Thawed struct{ Err error }

// Restored is the result of Restore.
type Restored struct{ Err error }

// Saw is the result of Look.
type Saw struct {
	// PodGone: the pod's cgroup has no process, the sandbox's included, or does not exist.
	PodGone bool
	// Containers that have a process.
	Containers []Seen
	// Err: nothing is known.
	Err error
}

// Seen is a container with at least one process.
type Seen struct {
	// ID is the name of its cgroup, which is never used again.
	ID string
	// Order of stopping: 0 first, sidecars after that from the last to the first.
	Order int
}

// Termed is the result of Term. Gone: there was no process to signal.
type Termed struct {
	ID   string
	Gone bool
	Err  error
}

// Killed is the result of Kill. Gone: the container was gone before.
type Killed struct {
	ID   string
	Gone bool
	Err  error
}

// Removed says that the pod's object is gone from the API, or has another UID.
type Removed struct{}

// Released says that the pressure is over: an eviction that the API server has not accepted is withdrawn.
type Released struct{}

// Stopped says that the agent ends.
type Stopped struct{}

// Tick says that the time of State.Wake has come.
type Tick struct{}

func (Tick) learn(*State, time.Duration) []Action { return nil }

// Action is something to do. Each but Report and Forget has a result, which comes back as an Event.
type Action interface{ isAction() }

// Evict asks the Eviction API for the pod's end.
type Evict struct {
	Call         int
	GraceSeconds int64
}

// Delete deletes the pod. Mark: sets the condition DisruptionTarget first.
type Delete struct {
	Call         int
	GraceSeconds int64
	Mark         bool
}

// Contain stops the growth of the pod's memory, at Room bytes above what it uses.
type Contain struct{ Room int64 }

// Freeze stops the pod's processes.
type Freeze struct{}

// Peek looks whether a frozen pod was sent its stop signal.
type Peek struct{}

// Thaw has a frozen pod go on.
type Thaw struct{}

// Loosen lets a contained pod grow by an instalment of Slack bytes over what it uses, if the limit is still what was written last
// (Wrote). It never gets more than Slack over what Contain wrote (First).
type Loosen struct {
	Was, First, Wrote string
	Slack             int64
}

// Restore undoes Contain, if the limit is still what it wrote.
type Restore struct{ Was, Wrote string }

// Forget drops what the ledger has of Contain: the cgroup goes with the pod.
type Forget struct{}

// Look reads which containers of the pod have processes.
type Look struct{}

// Term sends the stop signal to the container's main process.
type Term struct{ ID string }

// Kill sends SIGKILL to all processes of the container.
type Kill struct{ ID string }

// Report tells the Recorder.
type Report struct{ Record }

func (Evict) isAction()   {}
func (Delete) isAction()  {}
func (Contain) isAction() {}
func (Freeze) isAction()  {}
func (Peek) isAction()    {}
func (Thaw) isAction()    {}
func (Loosen) isAction()  {}
func (Restore) isAction() {}
func (Forget) isAction()  {}
func (Look) isAction()    {}
func (Term) isAction()    {}
func (Kill) isAction()    {}
func (Report) isAction()  {}

// Recorder gets every step, in order for each victim. It must not block, nor call the Terminator.
type Recorder interface {
	Record(ref Ref, r Record)
}

// Record is one step.
type Record struct {
	Step Step
	Kind eviction.Kind
	// After is the time since this kind of eviction was requested.
	After time.Duration
	// Container is the name of its cgroup, for steps of containers.
	Container string
	// Try counts requests, restarts and kills from 1.
	Try int
	// RetryAfter of Refused and Forbidden: how long not to ask again.
	RetryAfter time.Duration
	// Message for a person. Err is what failed.
	Message string
	Err     error
}

// Step is what happened.
type Step string

// The steps.
const (
	// StepContained: growth is stopped. StepNotContained: it could not be; the eviction goes on.
	StepContained    Step = "Contained"
	StepNotContained Step = "NotContained"
	// StepFrozen: its processes are stopped. StepNotFrozen: they are not, or not yet; the eviction goes on.
	StepFrozen    Step = "Frozen"
	StepNotFrozen Step = "NotFrozen"
	// StepThawed: they go on. StepNotThawed: they do not; it is tried again, and the ledger keeps it for Recover.
	StepThawed    Step = "Thawed"
	StepNotThawed Step = "NotThawed"
	// StepLoosened: it may grow, for its hooks; told once. StepNotLoosened: it may not, or no further.
	StepLoosened    Step = "Loosened"
	StepNotLoosened Step = "NotLoosened"
	// StepRestored: memory.high is what it was. StepNotRestored: it is not; the ledger keeps it for Recover.
	StepRestored    Step = "Restored"
	StepNotRestored Step = "NotRestored"
	// StepAccepted by the API server: the kubelet stops the pod. With an error the condition DisruptionTarget could not be set.
	StepAccepted Step = "Accepted"
	// StepTrouble: the request failed; it is retried.
	StepTrouble Step = "Trouble"
	// StepRefused by a disruption budget: no harm was done. StepForbidden by the API server, for good: nor was any.
	StepRefused   Step = "Refused"
	StepForbidden Step = "Forbidden"
	// StepLate: the kubelet did not stop the pod in its time. For Hard, StepLocal follows.
	StepLate Step = "Late"
	// StepLocal: the local sequence begins.
	StepLocal Step = "Local"
	// StepBlind: the victim's cgroups can't be read.
	StepBlind Step = "Blind"
	// StepSignalled: a container got its stop signal. StepNotSignalled: it could not be sent, so nothing is killed.
	StepSignalled    Step = "Signalled"
	StepNotSignalled Step = "NotSignalled"
	// StepKilled: a container's processes got SIGKILL.
	StepKilled    Step = "Killed"
	StepNotKilled Step = "NotKilled"
	// StepRestarted: the kubelet started a container again.
	StepRestarted Step = "Restarted"
	// StepEmpty: no container has a process any more.
	StepEmpty Step = "Empty"

	// The last step of each victim is one of these.

	// StepGone: the pod was stopped.
	StepGone Step = "Gone"
	// StepVanished: the pod ended before anything was done to it.
	StepVanished Step = "Vanished"
	// StepGaveUp: the API server could not be reached in time for a soft eviction.
	StepGaveUp Step = "GaveUp"
	// StepForgotten: a refused eviction was not requested again.
	StepForgotten Step = "Forgotten"
	// StepReleased: the caller withdrew it. StepAbandoned: the agent ended.
	StepReleased  Step = "Released"
	StepAbandoned Step = "Abandoned"
)

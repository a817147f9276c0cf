package terminate

import (
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// Recorder hears every step, in order for each victim. It must not block, nor call the Terminator.
type Recorder interface {
	Record(ref Ref, r Record)
}

// Record is one step.
type Record struct {
	Step Step
	Kind eviction.Kind
	// After is the time since this kind of eviction was asked for.
	After time.Duration
	// Container is the name of its cgroup, for steps of containers.
	Container string
	// Try counts requests, restarts and kills from 1.
	Try int
	// RetryAfter of Refused: not before that it makes sense to ask again.
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
	// StepLoosened: it may grow, for its hooks; told once. StepNotLoosened: it may not, or no further.
	StepLoosened    Step = "Loosened"
	StepNotLoosened Step = "NotLoosened"
	// StepRestored: memory.high is what it was. StepNotRestored: it is not; the ledger keeps it for Recover.
	StepRestored    Step = "Restored"
	StepNotRestored Step = "NotRestored"
	// StepAccepted by the API server: the kubelet stops the pod. With an error the condition DisruptionTarget could not be set.
	StepAccepted Step = "Accepted"
	// StepTrouble with the API server; it is tried again.
	StepTrouble Step = "Trouble"
	// StepRefused by a disruption budget: no harm was done.
	StepRefused Step = "Refused"
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
	// StepVanished: it ended without us.
	StepVanished Step = "Vanished"
	// StepGaveUp: the API server could not be reached in time for a soft eviction.
	StepGaveUp Step = "GaveUp"
	// StepForgotten: a refused eviction was not asked for again.
	StepForgotten Step = "Forgotten"
	// StepReleased: the caller withdrew it. StepAbandoned: the agent ended.
	StepReleased  Step = "Released"
	StepAbandoned Step = "Abandoned"
)

package terminate

import (
	"time"

	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// Event is something that happened to a victim. Results of actions are among them.
type Event interface {
	learn(s *State, now time.Duration) []Action
}

// Asked is a request. A second one can only tighten: from Soft to Hard, or to a shorter grace period.
type Asked struct {
	Kind         eviction.Kind
	GraceSeconds int64
	// Kubelet is its whole time for this pod at that grace period: KubeletTime.
	Kubelet time.Duration
	Contain bool
	// Slack in bytes is what it may grow by once it is being deleted, for its hooks.
	Slack int64
}

// Answered is what became of the request to the API server with that number.
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

// Released says that the reason is over: what was not accepted by the API server is given up.
type Released struct{}

// Stopped says that the agent ends.
type Stopped struct{}

// Tick says that it is time to decide anew.
type Tick struct{}

func (Tick) learn(*State, time.Duration) []Action { return nil }

package terminate

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

// Contain stops the growth of the pod's memory.
type Contain struct{}

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
func (Loosen) isAction()  {}
func (Restore) isAction() {}
func (Forget) isAction()  {}
func (Look) isAction()    {}
func (Term) isAction()    {}
func (Kill) isAction()    {}
func (Report) isAction()  {}

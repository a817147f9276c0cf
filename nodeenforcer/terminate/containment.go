package terminate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/graceperiod"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
)

// holding is what became of the pod's memory.high.
type holding struct {
	stage holdStage
	// first is what Contain wrote. due: it may be time to loosen. loose: there is no more to give. told: it was told.
	first            string
	due, loose, told bool
	was, wrote       string
}

type holdStage int

const (
	free holdStage = iota
	containing
	held
	loosening
	restoring
	over // not contained, or restored: not tried again
)

// containment stops the victim's growth once, when a hard eviction asks for it. When the API server has let the pod go, and not
// before, the kubelet starts its hooks: then it gets their slack, an instalment with each look. What grows takes of it too, and the
// hooks would find nothing if it were there at once.
func (s *State) containment(time.Duration) []Action {
	h := &s.holding
	switch {
	case s.phase != active || !s.contain:
	case h.stage == free:
		h.stage = containing
		return []Action{Contain{}}
	case h.stage == held && h.due && !h.loose && s.dying && s.slack > 0:
		h.stage, h.due = loosening, false
		return []Action{Loosen{Was: h.was, First: h.first, Wrote: h.wrote, Slack: s.slack}}
	}
	return nil
}

func (e Contained) learn(s *State, now time.Duration) []Action {
	switch {
	case e.Err != nil:
		s.holding = holding{stage: over}
		return []Action{s.report(now, Record{Step: StepNotContained, Err: e.Err})}
	case e.Wrote == "":
		s.holding = holding{stage: over}
		return []Action{s.report(now, Record{Step: StepContained, Message: "memory.high is not above its usage already"})}
	}
	s.holding = holding{stage: held, was: e.Was, wrote: e.Wrote, first: e.Wrote, due: true}
	return []Action{s.report(now, Record{Step: StepContained, Message: "memory.high " + e.Wrote})}
}

func (e Loosened) learn(s *State, now time.Duration) []Action {
	h := &s.holding
	h.stage, h.loose = held, e.Done || e.Err != nil
	if e.Err != nil {
		return []Action{s.report(now, Record{Step: StepNotLoosened, Err: e.Err})}
	}
	if e.Wrote == "" {
		return nil
	}
	h.wrote = e.Wrote
	if h.told {
		return nil
	}
	h.told = true
	return []Action{s.report(now, Record{Step: StepLoosened, Message: "memory.high " + e.Wrote})}
}

func (e Restored) learn(s *State, now time.Duration) []Action {
	s.holding.stage = over
	if e.Err != nil {
		return []Action{s.report(now, Record{Step: StepNotRestored, Err: e.Err})}
	}
	return []Action{s.report(now, Record{Step: StepRestored})}
}

const (
	fileHigh    = "memory.high"
	fileCurrent = "memory.current"
)

// containPod sets memory.high of the pod to what it uses. The ledger knows before the kernel does.
func (v *victim) containPod(ctx context.Context) Contained {
	files, err := v.t.cgroups.Read(v.path, fileHigh, fileCurrent)
	if err != nil {
		return Contained{Err: fmt.Errorf("contain pod %s: %w", v.ref, err)}
	}
	was, usage := files[fileHigh], files[fileCurrent]
	bytes, err := strconv.ParseInt(usage, 10, 64)
	if was == "" || err != nil {
		return Contained{Err: fmt.Errorf("contain pod %s: %s %q, %s %q: %w", v.ref, fileHigh, was, fileCurrent, usage, cgroup.ErrNoFile)}
	}
	if limit, err := strconv.ParseInt(was, 10, 64); err == nil && limit <= bytes {
		return Contained{}
	}
	entry := v.entry(was, usage, "")
	if err := v.t.ledger.Put(entry); err != nil {
		return Contained{Err: err}
	}
	if _, err := v.t.cgroups.Write(ctx, v.path, []cgroup.File{{Name: fileHigh, Value: usage}}); err != nil {
		// The write may have been made: what is not undone here stays in the ledger.
		return Contained{Err: errors.Join(fmt.Errorf("contain pod %s: %w", v.ref, err), v.t.undo(context.WithoutCancel(ctx), entry))}
	}
	return Contained{Was: was, Wrote: usage}
}

// loosen lets a pod that was contained grow by the slack. The ledger knows both limits before the kernel does.
func (v *victim) loosen(ctx context.Context, a Loosen) Loosened {
	files, err := v.t.cgroups.Read(v.path, fileHigh, fileCurrent)
	if errors.Is(err, cgroup.ErrGone) || err == nil && files[fileHigh] != a.Wrote {
		return Loosened{Done: true} // it ended, or somebody else has written it since
	}
	usage, parseErr := strconv.ParseInt(files[fileCurrent], 10, 64)
	if err = errors.Join(err, parseErr); err != nil {
		return Loosened{Err: fmt.Errorf("loosen pod %s: %w", v.ref, err)}
	}
	to, done := looser(a.Was, a.First, a.Wrote, usage, a.Slack)
	if to == "" {
		return Loosened{Done: done}
	}
	if err := v.t.ledger.Put(v.entry(a.Was, a.Wrote, to)); err != nil {
		return Loosened{Err: err}
	}
	if _, err := v.t.cgroups.Write(ctx, v.path, []cgroup.File{{Name: fileHigh, Value: to}}); err != nil && !errors.Is(err, cgroup.ErrGone) {
		return Loosened{Err: fmt.Errorf("loosen pod %s: %w", v.ref, err)}
	}
	return Loosened{Wrote: to, Done: done}
}

// Ledger remembers which memory.high was written (ledger.Ledger).
type Ledger interface {
	Put(...ledger.Entry) error
	Drop(...ledger.Key) error
	All() ([]ledger.Entry, error)
}

// entry is what is to be remembered of a pod's memory.high.
func (v *victim) entry(was, wrote, then string) ledger.Entry {
	return ledger.Entry{Key: ledger.Key{Path: v.path, File: fileHigh}, Pod: v.ref.UID, Was: was, Wrote: wrote, Then: then}
}

// undo writes what memory.high was, unless somebody else has written it since, and drops the entry.
func (t *Terminator) undo(ctx context.Context, e ledger.Entry) error {
	if _, err := e.Restore(ctx, t.cgroups, e.Was); err != nil && !errors.Is(err, cgroup.ErrGone) {
		return fmt.Errorf("restore %s of %s: %w", fileHigh, e.Path, err)
	}
	return t.ledger.Drop(e.Key)
}

// Recover undoes what an agent that was killed left behind. It is for the start, before the first Ask. A pod that the API server
// has let go (terminating) keeps its limit: the cgroup goes with it.
func (t *Terminator) Recover(ctx context.Context, terminating func(types.UID) bool) error {
	entries, err := t.ledger.All()
	for _, e := range entries {
		if terminating(e.Pod) {
			err = errors.Join(err, t.ledger.Drop(e.Key))
			continue
		}
		err = errors.Join(err, t.undo(ctx, e))
	}
	return err
}

const (
	// execNeed is what a hook that execs takes before it does anything, twice, because what grows takes its share: the runtime starts
	// it through a program of its own in the container's cgroup (runc init, about 10 MiB until it becomes the hook), and a shell.
	execNeed = int64(32 << 20)
	// answerNeed is what a server takes to answer a hook's request.
	answerNeed = int64(4 << 20)
	// instalments of the slack: at ten looks a second they last for the second of a hard eviction, and its start.
	instalments = 16
	// leftShare of what the node has left is the most that one pod's hooks get of it.
	leftShare = 4
	// slackUnit is a multiple of every page size: what is written is what is read back.
	slackUnit = int64(64 << 10)
)

// Slack returns the bytes that a contained pod may grow by once it is being deleted, so that its preStop hooks can begin: they run in
// the cgroup that memory.high slows down. left is what the node has left of its memory in bytes; less than 0: not known. Hooks that
// only sleep need nothing.
func Slack(pod *corev1.Pod, left int64) int64 {
	need := int64(0)
	for i := range pod.Spec.Containers {
		need += hookNeed(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; graceperiod.IsSidecar(c) {
			need += hookNeed(c)
		}
	}
	if left >= 0 {
		need = min(need, left/leftShare)
	}
	return need / slackUnit * slackUnit
}

func hookNeed(c *corev1.Container) int64 {
	switch {
	case c.Lifecycle == nil || c.Lifecycle.PreStop == nil:
		return 0
	case c.Lifecycle.PreStop.Exec != nil:
		return execNeed
	case c.Lifecycle.PreStop.HTTPGet != nil, c.Lifecycle.PreStop.TCPSocket != nil:
		return answerNeed
	}
	return 0
}

// looser is the memory.high of a pod that uses so much: an instalment of the slack over that, no more than the whole slack over what
// it was contained to (first), nor than what it had before (was: bytes, or max). Empty where it has so much room already (wrote). done:
// there will be no more.
func looser(was, first, wrote string, usage, slack int64) (to string, done bool) {
	begin, err := strconv.ParseInt(first, 10, 64)
	held, err2 := strconv.ParseInt(wrote, 10, 64)
	if err != nil || err2 != nil {
		return "", true
	}
	bound := begin + slack
	if limit, err := strconv.ParseInt(was, 10, 64); err == nil {
		bound = min(bound, limit)
	}
	high := min(usage+max(slack/instalments/slackUnit*slackUnit, slackUnit), bound)
	if high <= held {
		return "", held >= bound
	}
	return strconv.FormatInt(high, 10), high >= bound
}

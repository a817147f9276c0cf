package nodeenforcer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/decisionlog"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/repair"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/status"
)

// Agent reconciles the cgroups of one node with their plan: all of them at every resync, and those whose plan changes at once.
type Agent struct {
	Source  state.Source
	Machine state.Machine
	// Mode instead of the policy's; empty: the policy's.
	Mode v1alpha1.NodeMode
	// Resync is how often all cgroups are reconciled.
	Resync time.Duration
	// Bus is the socket of systemd.
	Bus    string
	DryRun bool
	Clock  clock.WithTicker
	Log    logr.Logger

	Metrics *status.Metrics
	Events  *status.Events
	// Status updates the Node object; nil: it is not updated.
	Status *status.NodeUpdater
	// UndoFile is the file of the ledger of what the enforcer wrote (ledger.Ledger).
	UndoFile string
	// Contained is for repair.Enforcer.
	Contained func(path string) bool
	// Rounding is called when a round begins, and what it returns when that ends; nil: nothing is.
	Rounding func() (done func())

	mu       sync.Mutex
	driver   plan.Driver
	enforcer *repair.Enforcer
	ready    bool
	lastErr  string             // of the last round
	inForce  *inForce           // as last logged; nil: nothing was
	unusable map[plan.Note]bool // as last logged
	saving   state.Saving
}

// inForce is what decides how far the enforcer goes.
type inForce struct {
	policy string // the NodePolicy's name; empty: the node has none
	mode   v1alpha1.NodeMode
}

// settle is how long changes are batched before a round: a pod that starts changes a few times in a row.
const settle = 100 * time.Millisecond

// Run reconciles until the context ends.
func (a *Agent) Run(ctx context.Context) error {
	tick := a.Clock.NewTicker(a.Resync)
	defer tick.Stop()
	defer func() { a.saving.Save(a.Source, a.Clock, true, a.Log) }()
	var settled <-chan time.Time
	for full := true; ; {
		switch r := a.round(ctx, full); {
		case r.Again > 0:
			settled = a.Clock.After(r.Again)
		case r.Full: // a partial round does not look at the repairs that are held back
			settled = nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-settled:
			settled, full = nil, true
		case <-a.saving.Due(a.Clock):
			full = false
		case <-tick.C():
			full = true
		case <-a.Source.Changed():
			full = false
			select {
			case <-ctx.Done():
				return nil
			case <-a.Clock.After(settle):
			}
		}
	}
}

// Ready fails until the first round is done.
func (a *Agent) Ready() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.ready {
		return errors.New("node state not synced: neither the API server nor a checkpoint says what runs here")
	}
	return nil
}

func (a *Agent) round(ctx context.Context, full bool) repair.Round {
	if a.Rounding != nil {
		defer a.Rounding()()
	}
	state, ok := a.Source.State()
	if !ok {
		a.Log.V(1).Info("node state not synced yet")
		return repair.Round{}
	}
	node := a.Machine.Node(state)
	enforcer, err := a.enforcerFor(node.Driver)
	if err != nil {
		a.reportError(fmt.Errorf("open the cgroups: %w", err))
		return repair.Round{}
	}
	enforcer.Hold = state.PolicyUnknown
	r, err := enforcer.Round(ctx, node, state.Spec(), state.Mode(a.Mode), state.Pods, full)
	if ctx.Err() == nil { // else the round was cancelled, which is no failure
		a.reportError(err)
	}
	a.report(state, r, err)
	if r.Full {
		a.Metrics.ObserveStatistics(countClasses(enforcer.Cgroups, r.Tree))
	}
	a.saving.Offer(state, r.Changed)
	a.saving.Save(a.Source, a.Clock, false, a.Log)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.ready = true
	return r
}

// reportPlan logs what cannot be used when it is new, and reports it, and who protects memory, in the Node's conditions.
func (a *Agent) reportPlan(state state.State, tree *plan.Tree) {
	if state.Config != nil && !state.Guessed { // else it is only assumed what the kubelet writes
		a.Status.SetMemoryProtector(tree.MemoryProtector)
	}
	now := map[plan.Note]bool{}
	for _, n := range tree.Unusable() {
		if now[n] = true; !a.unusable[n] {
			pod := ""
			if n.Pod.Name != "" {
				pod = n.Pod.String()
			}
			a.Log.Info("cannot use what was given", "pod", pod, "reason", n.Message)
		}
	}
	a.unusable = now
	a.Status.SetUnusable(status.Unusable(tree))
	a.Status.SetKernel(status.Kernel(tree))
}

// countClasses are the kernel's statistics of all pods and of the QoS classes. Those that can't be read are left out: the round told why.
func countClasses(tree cgroup.Counter, planned *plan.Tree) map[string]cgroup.Statistics {
	counted := map[string]cgroup.Statistics{}
	for _, g := range planned.Groups {
		label := string(plan.LevelKubepods)
		switch g.Level {
		case plan.LevelKubepods:
		case plan.LevelQOS:
			label = strings.ToLower(string(g.QOS))
		default:
			continue
		}
		if s, err := tree.Stat(g.Path); err == nil {
			counted[label] = s
		}
	}
	return counted
}

// reportError logs an error when it differs from the last round's, and reports it in the Node's condition.
func (a *Agent) reportError(err error) {
	text := ""
	if err != nil {
		text = err.Error()
		a.Status.SetEnforced(text)
	}
	if text != a.lastErr && err != nil {
		a.Log.Error(err, "failed to reconcile cgroups")
	}
	if text == "" && a.lastErr != "" {
		a.Log.Info("cgroups are reconciled again")
	}
	a.lastErr = text
}

// enforcerFor opens the cgroups, and again if the kubelet's driver has changed.
func (a *Agent) enforcerFor(driver plan.Driver) (*repair.Enforcer, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.enforcer != nil && a.driver == driver {
		return a.enforcer, nil
	}
	tree, err := a.Machine.Cgroups(driver, a.Bus)
	if err != nil {
		return nil, err
	}
	if a.enforcer != nil {
		if connected, ok := a.enforcer.Cgroups.(interface{ Close() }); ok {
			connected.Close()
		}
	}
	a.driver = driver
	a.enforcer = &repair.Enforcer{Cgroups: tree, ProcRoot: a.Machine.ProcRoot, DryRun: a.DryRun, Clock: a.Clock, Rivals: drift.NewRivals(drift.RivalLimit, drift.RivalWindow), Settling: drift.NewSettling(drift.SettleTime), Contained: a.Contained, Undo: &ledger.Ledger{File: a.UndoFile}}
	return a.enforcer, nil
}

// report reports what a round found and did: log, metrics, Events and the Node's condition.
func (a *Agent) report(state state.State, r repair.Round, err error) {
	a.Metrics.ObserveRound(r, err)
	a.Metrics.ObserveRefused(state.TooOld() != "", state.Guessed)
	for i := 0; i < len(r.Written); {
		op, n := r.Written[i], 1
		for op.File == plan.OOMScoreFile && i+n < len(r.Written) && r.Written[i+n].Path == op.Path && r.Written[i+n].File == op.File {
			n++ // one line for all processes of a container, which may be thousands
		}
		i += n
		line := []any{"cgroup", op.Path, "object", op.String(), "file", op.File, "from", op.From, "to", op.To}
		if n > 1 {
			line = append(line, "processes", n)
		}
		a.tell("wrote", state, decisionlog.Write, "Drift", op.Where, line...)
	}
	if a.DryRun {
		for _, op := range r.Diff.Operations {
			a.tell("would write", state, decisionlog.Write, "Drift", op.Where, "cgroup", op.Path, "object", op.String(), "file", op.File, "from", op.From, "to", op.To)
		}
		for _, op := range r.Processes.Operations {
			a.tell("would write", state, decisionlog.Write, "Drift", op.Where, "cgroup", op.Path, "object", op.String(), "process", op.PID, "oomScoreAdj", op.To)
		}
	}
	for _, v := range r.Reverts {
		a.tell("giving up cgroup file, another writer keeps reverting it", state, decisionlog.GiveUp, "Reverted", v.Where, "cgroup", v.Path, "file", v.File, "wrote", v.Wrote, "found", v.Found, "times", v.Times)
		a.Events.GivenUp(state.Node, v)
	}
	a.reportMode(state, r.Mode)
	if r.Full && err == nil {
		a.Status.SetEnforced(status.Unenforced(r))
	}
	a.reportPlan(state, r.Tree)
}

// tell logs what was decided about a cgroup file, or would be done.
func (a *Agent) tell(event string, state state.State, decision decisionlog.Decision, reason string, at drift.Where, more ...any) {
	e := decisionlog.Entry{
		Event: event, Component: decisionlog.NodeEnforcer, Decision: decision, Reason: reason, Policy: state.PolicyName(),
		Namespace: at.Pod.Namespace, Name: at.Pod.Name, DryRun: a.DryRun,
	}
	if state.Node != nil {
		e.Node = state.Node.Name
	}
	decisionlog.Log(a.Log, e, more...)
}

// reportMode logs the node's policy and the mode of the round when they are others than before, and reports in the Node's conditions where nothing is written.
func (a *Agent) reportMode(state state.State, mode v1alpha1.NodeMode) {
	if state.PolicyUnknown {
		return
	}
	now := inForce{mode: mode}
	if state.Policy != nil {
		now.policy = state.Policy.Name
	}
	if a.inForce == nil || *a.inForce != now {
		a.Log.Info("NodePolicy in force", "nodePolicy", now.policy, "mode", mode)
	}
	a.inForce = &now
	a.Status.SetUnwritten(status.UnwrittenIn(state.Policy, mode, a.Mode == v1alpha1.NodeModeObserve, state.Guessed))
}

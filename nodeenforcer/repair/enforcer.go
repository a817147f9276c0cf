package repair

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// Enforcer reconciles a node's cgroups with their plan, as the mode allows.
type Enforcer struct {
	Cgroups  cgroup.Tree
	ProcRoot string
	// DryRun computes what would be written, and writes nothing.
	DryRun bool
	Clock  clock.PassiveClock
	// Rivals counts reverts by other writers, and gives files up.
	Rivals *drift.Rivals
	// Settling holds repairs back while the file's owner may still be writing it; nil: none are.
	Settling *drift.Settling
	// Undo is the ledger of what is to be restored when no policy asks for it any more; nil: nothing is.
	Undo *ledger.Ledger
	// Hold: the policy is not known yet, and nothing is restored.
	Hold bool
	// Contained reports whether memory.high of a pod's cgroup is lowered at present because the pod is being evicted; nil: no pod's is.
	Contained func(path string) bool

	versions map[types.NamespacedName]version // of the last full round

	last   *plan.Tree
	mode   v1alpha1.NodeMode // of the last round
	missed bool              // the last round failed to read or write something
	// nextProcess is the index of the container whose processes are looked at first.
	nextProcess int
}

// Round is the result of one reconciliation.
type Round struct {
	Tree      *plan.Tree
	Have      drift.Have
	Mode      v1alpha1.NodeMode
	Diff      drift.Difference
	Processes drift.ProcessDifference
	// Written are the operations that were performed.
	Written []drift.Operation
	// Reverts are files that are given up from now on.
	Reverts []drift.Revert
	// Full: all cgroups were compared, and not only those whose plan changed.
	Full bool
	// Again is after what time to make a full round, because a repair is held back until then (drift.Settling); 0: none is.
	Again time.Duration
	// Changed: the plan differs from the last round's.
	Changed bool
	Took    time.Duration

	unanswered bool // systemd, when something was to be restored: it is not waited for again
}

// Round compares all cgroups with their plan (full), or those whose plan changed since the last round and their ancestors, and writes what
// differs. It is full after a round that failed in part, and after a change of mode. The error has all that could not be read or written;
// the rest was done. The mode may be a lesser one (plan.Tree's Permit).
func (e *Enforcer) Round(ctx context.Context, node plan.Node, policy *v1alpha1.NodePolicySpec, mode v1alpha1.NodeMode, pods []*corev1.Pod, full bool) (Round, error) {
	began := e.Clock.Now()
	tree := e.plan(node, policy, pods)
	mode = tree.Permit(node, mode)
	r := Round{Tree: tree, Mode: mode, Full: full || e.last == nil || e.missed || mode != e.mode}
	if e.last == nil {
		e.last = &plan.Tree{}
	}
	look := func(string) bool { return true }
	news := changed(e.last, r.Tree)
	r.Changed = len(news) > 0 || len(e.last.Groups) != len(r.Tree.Groups) // a pod that went is no group to look at
	if !r.Full {
		if !r.Changed {
			r.Took = e.Clock.Since(began)
			return r, nil
		}
		look = func(path string) bool { return news[path] }
	}
	var undone error
	if !e.DryRun && e.Undo != nil && !e.Hold { // before anything is compared, so that what is restored is no drift
		undone = e.takeBack(ctx, &r)
	}
	have, adjustments, err := e.observe(r.Tree, look)
	err = errors.Join(undone, err)
	r.Have = have
	options := drift.Options{PageSize: node.PageSize, GivenUp: e.Rivals.GivenUp}
	if r.Full { // in a partial round a cgroup that was not read would count as gone
		options.Resized = e.resized(pods)
		r.Reverts = append(e.Rivals.Observe(began, r.Tree, have, options), e.Rivals.ObserveProcesses(began, r.Tree, adjustments)...)
	}
	r.Diff = drift.Diff(r.Tree, have, mode, options)
	r.Processes = drift.ProcessOperations(r.Tree, adjustments, mode, options)
	held, again := e.Settling.Observe(began, r.Full, slices.Concat(r.Diff.Drift, r.Processes.Drift), workOn(pods))
	if r.Again = again; held {
		options.Fresh = e.Settling.Fresh
		r.Diff = drift.Diff(r.Tree, have, mode, options)
		r.Processes = drift.ProcessOperations(r.Tree, adjustments, mode, options)
	}
	if !e.DryRun {
		err = errors.Join(err, e.apply(ctx, &r))
	}
	e.last, e.mode, e.missed = r.Tree, mode, err != nil
	r.Took = e.Clock.Since(began)
	return r, err
}

// workOn returns a function that says what the kubelet does with a pod's cgroups.
func workOn(pods []*corev1.Pod) func(types.NamespacedName) drift.Work {
	var names map[types.NamespacedName]drift.Work // built at the first call, which is rare
	return func(name types.NamespacedName) drift.Work {
		if names == nil {
			names = map[types.NamespacedName]drift.Work{}
			for _, p := range pods {
				names[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = drift.WorkOn(p)
			}
		}
		return names[name]
	}
}

// version is what a full round saw of a pod's spec, and of what the kubelet made of it.
type version struct {
	generation, observed int64
	resizing             bool
}

// resized returns a function that reports whether the kubelet may have resized a pod since the last full round, and notes what this one sees.
func (e *Enforcer) resized(pods []*corev1.Pod) func(types.NamespacedName) bool {
	before := e.versions
	e.versions = make(map[types.NamespacedName]version, len(pods))
	for _, p := range pods {
		e.versions[types.NamespacedName{Namespace: p.Namespace, Name: p.Name}] = version{p.Generation, p.Status.ObservedGeneration, plan.Resizing(p)}
	}
	return func(name types.NamespacedName) bool {
		was, is := before[name], e.versions[name]
		return was != is || is.resizing
	}
}

// plan leaves out memory.high of pods that are being evicted: the terminator writes it for now.
func (e *Enforcer) plan(node plan.Node, policy *v1alpha1.NodePolicySpec, pods []*corev1.Pod) *plan.Tree {
	tree := plan.Build(node, policy, pods)
	for i := range tree.Groups {
		if g := &tree.Groups[i]; g.Level == plan.LevelPod && e.Contained != nil && e.Contained(g.Path) {
			delete(g.Files, "memory.high")
		}
	}
	return tree
}

// changed are the groups whose plan of files or processes has changed, and their ancestors.
func changed(before, after *plan.Tree) map[string]bool {
	type content struct {
		files     map[string]plan.Value
		processes []plan.Process
	}
	index := func(t *plan.Tree) map[string]content {
		all := make(map[string]content, len(t.Groups))
		for _, g := range t.Groups {
			all[g.Path] = content{files: g.Files}
		}
		for _, p := range t.Processes {
			c := all[p.Path]
			c.processes = append(c.processes, p)
			all[p.Path] = c
		}
		return all
	}
	old, news := index(before), map[string]bool{}
	for path, c := range index(after) {
		was, ok := old[path]
		if ok && maps.Equal(was.files, c.files) && slices.Equal(was.processes, c.processes) {
			continue
		}
		for ; path != "" && !news[path]; path = path[:strings.LastIndexByte(path, '/')] {
			news[path] = true
		}
	}
	return news
}

// usageFiles hold how much memory a group uses, in v2 and in v1.
var usageFiles = []string{"memory.current", "memory.usage_in_bytes"}

// observe reads the files that the plan is compared with. A group that is gone is not in the result. One that can't be read for another reason
// is in the error, and not in the result either, so that nothing is written there.
func (e *Enforcer) observe(tree *plan.Tree, look func(path string) bool) (drift.Have, map[string]map[int]int, error) {
	have, adjustments := drift.Have{}, map[string]map[int]int{}
	var errs []error
	for _, g := range tree.Groups {
		if !look(g.Path) {
			continue
		}
		files, err := e.Cgroups.Read(g.Path, append(slices.Sorted(maps.Keys(g.Files)), usageFiles...)...)
		if errors.Is(err, cgroup.ErrGone) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		have[g.Path] = drift.Observed{Files: files, MemoryUsage: usage(files)}
	}
	left := maxProcesses
	for i := range tree.Processes {
		p := tree.Processes[(e.nextProcess+i)%len(tree.Processes)]
		if _, ok := have[p.Path]; !ok {
			continue
		}
		if left <= 0 {
			e.nextProcess = (e.nextProcess + i) % len(tree.Processes) // the next round begins with those that this one did not come to
			break
		}
		of, err := e.adjustments(p.Path)
		if err != nil {
			errs = append(errs, err)
		}
		adjustments[p.Path] = of
		left -= len(of)
	}
	return have, adjustments, errors.Join(errs...)
}

func usage(files map[string]string) int64 {
	for _, f := range usageFiles {
		if n, err := strconv.ParseInt(files[f], 10, 64); err == nil {
			return n
		}
	}
	return -1
}

// How many processes of one container, and in one round, have their oom_score_adj read and written: whoever may start processes must not make a
// round longer for others. Of a container with more, those with the lowest ids are.
const (
	maxProcessesOfContainer = 4096
	maxProcesses            = 8 * maxProcessesOfContainer
)

// adjustments reads oom_score_adj of a group's processes. One that ends meanwhile is no error.
func (e *Enforcer) adjustments(path string) (map[int]int, error) {
	pids, err := e.Cgroups.Processes(path)
	if err != nil && !errors.Is(err, cgroup.ErrGone) && !errors.Is(err, cgroup.ErrTooMany) { // who hides his processes must not fail the round
		return nil, err
	}
	of := make(map[int]int, len(pids))
	for _, pid := range pids[:min(len(pids), maxProcessesOfContainer)] {
		adj, err := cgroup.OOMScoreAdj(e.ProcRoot, pid)
		if errors.Is(err, cgroup.ErrGone) {
			continue
		}
		if err != nil {
			return of, err
		}
		of[pid] = adj
	}
	return of, nil
}

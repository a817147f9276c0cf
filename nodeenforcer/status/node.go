package status

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/repair"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// NodeStatus is what the enforcer reports in the Node object.
type NodeStatus struct {
	// PressureUnknown and EnforcedUnknown: not observed yet, and the Node keeps the condition (and the taint) that it has.
	PressureUnknown, EnforcedUnknown bool
	// Pressure is the resources under pressure: memory, disk, pid; sorted. Empty: none.
	Pressure []string
	// Message says which thresholds are met, for people.
	Message string
	// Untainted: the Node gets no taint, because the policy only observes.
	Untainted bool
	// Unenforced is why a file does not hold its planned value; empty: all do.
	Unenforced string
	// Unusable is what was given and cannot be used, which is no drift; empty: nothing.
	Unusable string
	// Kernel is which of the kernel's parameters are not as the kubelet sets them; empty: all are.
	Kernel string
	// Unwritten is why nothing that policies ask for is written; zero: it is.
	Unwritten Unwritten
	// MemoryProtector says who protects memory; empty: it is not known, and the Node keeps the condition that it has.
	MemoryProtector enforcement.MemoryProtector
}

// apply updates a Node object, and reports whether its spec and its status changed.
func (s NodeStatus) apply(node *corev1.Node, now time.Time) (spec, status bool) {
	before := node.DeepCopy()
	if !s.PressureUnknown {
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == enforcement.TaintPressure })
		if len(s.Pressure) > 0 && !s.Untainted {
			node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: enforcement.TaintPressure, Value: strings.Join(s.Pressure, "-"), Effect: corev1.TaintEffectNoSchedule})
		}
		setCondition(node, condition(enforcement.NodeConditionPressure, len(s.Pressure) > 0, "PressureFree", "UnderPressure", "no threshold of the NodePolicy is met", s.Message), now)
	}
	if !s.EnforcedUnknown {
		setCondition(node, s.enforced(), now)
	}
	if s.MemoryProtector != "" {
		setCondition(node, s.memoryProtection(), now)
	}
	return !apiequality.Semantic.DeepEqual(before.Spec.Taints, node.Spec.Taints), !apiequality.Semantic.DeepEqual(before.Status.Conditions, node.Status.Conditions)
}

// enforced is the condition of the cgroup files. It is True only while a policy's values are written and hold.
func (s NodeStatus) enforced() corev1.NodeCondition {
	const kind = enforcement.NodeConditionEnforced
	if s.Unenforced != "" {
		return corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: "Drift", Message: s.Unenforced}
	}
	c := corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: "AsPlanned", Message: "every file that the mode covers holds what was planned"}
	if u := s.Unwritten; u != (Unwritten{}) {
		c.Status, c.Reason, c.Message = corev1.ConditionFalse, u.Reason, "nothing that policies ask for is written: "+u.Why
	}
	if s.Unusable != "" {
		c.Message += "; not used: " + s.Unusable
	}
	if s.Kernel != "" {
		c.Message += enforcement.KernelChanged + s.Kernel
	}
	return c
}

// memoryProtection is the condition of memory protection. It is True only while policies protect memory and their values are written.
func (s NodeStatus) memoryProtection() corev1.NodeCondition {
	const kind = enforcement.NodeConditionMemoryProtection
	p := s.MemoryProtector
	switch u := s.Unwritten; {
	case p != enforcement.ProtectorPodgrace:
		return corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: string(p), Message: "nothing is done for memory.protection: " + p.Why() + "; to have it, " + p.Remedy()}
	case u != (Unwritten{}):
		return corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: u.Reason, Message: "the kubelet leaves the protection of memory to policies, but nothing that these ask for is written: " + u.Why}
	}
	return corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: string(p), Message: "memory is protected as policies ask, within their bounds"}
}

func condition(kind corev1.NodeConditionType, holds bool, unless, reason, otherwise, message string) corev1.NodeCondition {
	if !holds {
		return corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse, Reason: unless, Message: otherwise}
	}
	return corev1.NodeCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message}
}

// setCondition does not touch a condition that is the same: a new heartbeat would be a write in every round, for nothing.
func setCondition(node *corev1.Node, c corev1.NodeCondition, now time.Time) {
	c.Message = console.Note(c.Message)
	c.LastHeartbeatTime, c.LastTransitionTime = metav1.NewTime(now), metav1.NewTime(now)
	i := slices.IndexFunc(node.Status.Conditions, func(old corev1.NodeCondition) bool { return old.Type == c.Type })
	if i < 0 {
		node.Status.Conditions = append(node.Status.Conditions, c)
		return
	}
	old := node.Status.Conditions[i]
	if old.Status == c.Status && old.Reason == c.Reason && old.Message == c.Message {
		return
	}
	if old.Status == c.Status {
		c.LastTransitionTime = old.LastTransitionTime
	}
	node.Status.Conditions[i] = c
}

// Unenforced is why a file that the mode covers does not hold its planned value; empty if all do.
func Unenforced(r repair.Round) string {
	first, others := "", 0
	for _, d := range slices.Concat(r.Diff.Drift, r.Processes.Drift) {
		switch {
		case d.Why == "" || d.Why == drift.WhyFresh: // written, or soon
		case d.Why == drift.WhyObserve || d.Why == drift.WhyOwned: // not the mode's matter
		case first == "":
			d.Detail = "" // such as the usage, with which the Node would change in every round
			first = d.String()
		default:
			others++
		}
	}
	if r.Tree != nil && len(r.Tree.Groups) == 0 { // nothing could be planned, which is not as planned
		return told(r.Tree.Unusable())
	}
	if others > 0 {
		first += fmt.Sprintf(" (and %d more)", others)
	}
	return first
}

// Unusable is what was given and cannot be used; empty: nothing.
func Unusable(tree *plan.Tree) string { return told(tree.Unusable()) }

// Kernel is which of the kernel's parameters are not as the kubelet sets them; empty: all are, as far as they are known.
func Kernel(tree *plan.Tree) string { return told(tree.OfKernel()) }

// Unwritten is why nothing that policies ask for is written on a node, as a condition's reason and in words. The zero value: it is written.
type Unwritten struct{ Reason, Why string }

// UnwrittenIn returns why nothing is written in a mode. The policy is the node's; nil: it has none. readOnly: the program was started with --mode=Observe. guessed: the
// kubelet's configuration is not known.
func UnwrittenIn(policy *v1alpha1.NodePolicy, mode v1alpha1.NodeMode, readOnly, guessed bool) Unwritten {
	switch {
	case enforcement.Writes(mode):
		return Unwritten{}
	case policy == nil:
		return Unwritten{enforcement.ReasonObserveOnly, "no NodePolicy selects the node"}
	case readOnly && enforcement.AsksToAct(&policy.Spec):
		what := "evictions"
		if enforcement.Writes(policy.Spec.Mode) {
			what = fmt.Sprintf("mode %s", policy.Spec.Mode)
		}
		return Unwritten{enforcement.ReasonReadOnly, fmt.Sprintf("NodePolicy %s asks for %s, and the node enforcer is installed read-only (%s)", policy.Name, what, enforcement.ReadOnlyRemedy)}
	case !enforcement.Writes(policy.Spec.Mode):
		return Unwritten{enforcement.ReasonObserveOnly, fmt.Sprintf("NodePolicy %s is in mode %s", policy.Name, mode)}
	case guessed:
		return Unwritten{enforcement.ReasonKubeletUnknown, "the kubelet has not told its configuration (nodes/configz), and what it does may not be its defaults"}
	}
	return Unwritten{enforcement.ReasonObserveOnly, fmt.Sprintf("the node enforcer runs in mode %s", mode)}
}

func told(notes []plan.Note) string {
	switch len(notes) {
	case 0:
		return ""
	case 1:
		return notes[0].String()
	default:
		return fmt.Sprintf("%s (and %d more)", notes[0], len(notes)-1)
	}
}

// Nodes are the Node objects of the API server.
type Nodes interface {
	Get(ctx context.Context, name string) (*corev1.Node, error)
	// Patch changes the Node, or a subresource of it.
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, subresources ...string) error
}

// Writer writes NodeStatus to the API server.
type Writer struct {
	Nodes Nodes
	Name  string
	// ConditionsOnly: the taint is not written. A read-only enforcer has no right to it.
	ConditionsOnly bool
	Now            func() time.Time
}

// Write updates the Node, if it differs. Other writers' changes are never overwritten: a conflict is an error, and is retried.
func (w *Writer) Write(ctx context.Context, s NodeStatus) error {
	node, err := w.Nodes.Get(ctx, w.Name)
	if err != nil {
		return fmt.Errorf("read node %s: %w", w.Name, err)
	}
	before := node.DeepCopy()
	spec, status := s.apply(node, w.Now())
	if spec && !w.ConditionsOnly {
		if err := w.setTaints(ctx, before, node.Spec.Taints); err != nil {
			return fmt.Errorf("taint node %s: %w", w.Name, err)
		}
	}
	if status {
		// Conditions are merged by type: the kubelet's are not touched.
		said := slices.DeleteFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return slices.Contains(before.Status.Conditions, c) })
		if err := w.patch(ctx, types.StrategicMergePatchType, map[string]any{"status": map[string]any{"conditions": said}}, "status"); err != nil {
			return fmt.Errorf("write the conditions of node %s: %w", w.Name, err)
		}
	}
	return nil
}

// setTaints replaces the list of taints as a whole, so that it must be the one that was read.
func (w *Writer) setTaints(ctx context.Context, read *corev1.Node, taints []corev1.Taint) error {
	return w.patch(ctx, types.MergePatchType, map[string]any{"metadata": map[string]any{"resourceVersion": read.ResourceVersion}, "spec": map[string]any{"taints": taints}})
}

// Remove removes the taint and the conditions from the Node. A Node that is gone has none.
func (w *Writer) Remove(ctx context.Context) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return w.removeTaint(ctx) })
	if apierrors.IsNotFound(err) {
		return nil
	}
	var removed []map[string]string
	for _, kind := range enforcement.NodeConditions {
		removed = append(removed, map[string]string{"type": string(kind), "$patch": "delete"})
	}
	if failed := w.patch(ctx, types.StrategicMergePatchType, map[string]any{"status": map[string]any{"conditions": removed}}, "status"); failed != nil && !apierrors.IsNotFound(failed) {
		err = errors.Join(err, fmt.Errorf("remove the conditions of node %s: %w", w.Name, failed))
	}
	return err
}

func (w *Writer) removeTaint(ctx context.Context) error {
	node, err := w.Nodes.Get(ctx, w.Name)
	if err != nil {
		return fmt.Errorf("read node %s: %w", w.Name, err)
	}
	ours := func(t corev1.Taint) bool { return t.Key == enforcement.TaintPressure }
	if !slices.ContainsFunc(node.Spec.Taints, ours) {
		return nil
	}
	if err := w.setTaints(ctx, node, slices.DeleteFunc(slices.Clone(node.Spec.Taints), ours)); err != nil {
		return fmt.Errorf("remove taint %s of node %s: %w", enforcement.TaintPressure, w.Name, err)
	}
	return nil
}

func (w *Writer) patch(ctx context.Context, kind types.PatchType, patch map[string]any, subresources ...string) error {
	text, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	return w.Nodes.Patch(ctx, w.Name, kind, text, subresources...)
}

// NodeUpdater keeps the Node object up to date. A failed write is retried, with the latest status. What was not observed yet stays as the
// Node has it: a taint from before a restart stays until it is known that the pressure is over. A nil *NodeUpdater does nothing.
type NodeUpdater struct {
	writer *Writer
	clock  clock.WithTicker
	log    logr.Logger
	news   chan struct{}

	mu     sync.Mutex
	status NodeStatus
}

// NewNodeUpdater writes nothing before Start.
func NewNodeUpdater(writer *Writer, clock clock.WithTicker, log logr.Logger) *NodeUpdater {
	return &NodeUpdater{
		writer: writer, clock: clock, log: log, news: make(chan struct{}, 1), status: NodeStatus{PressureUnknown: true, EnforcedUnknown: true},
	}
}

// SetEnforced sets why a file does not hold its planned value; empty: all do.
func (k *NodeUpdater) SetEnforced(unless string) {
	k.set(func(s *NodeStatus) { s.Unenforced, s.EnforcedUnknown = unless, false })
}

// SetUnusable sets what was given and cannot be used; empty: nothing.
func (k *NodeUpdater) SetUnusable(what string) {
	k.set(func(s *NodeStatus) { s.Unusable = what })
}

// SetKernel sets which of the kernel's parameters are not as the kubelet sets them; empty: all are.
func (k *NodeUpdater) SetKernel(what string) {
	k.set(func(s *NodeStatus) { s.Kernel = what })
}

// SetUnwritten sets why nothing that policies ask for is written; zero: it is.
func (k *NodeUpdater) SetUnwritten(why Unwritten) {
	k.set(func(s *NodeStatus) { s.Unwritten = why })
}

// SetMemoryProtector sets who protects memory on the node; empty: it is not known.
func (k *NodeUpdater) SetMemoryProtector(p enforcement.MemoryProtector) {
	k.set(func(s *NodeStatus) { s.MemoryProtector = p })
}

// SetPressure sets the resources under pressure, sorted; empty: no pressure.
func (k *NodeUpdater) SetPressure(short []string, message string) {
	k.set(func(s *NodeStatus) { s.Pressure, s.Message, s.PressureUnknown = slices.Clone(short), message, false })
}

// SetUntainted sets whether the Node gets no taint under pressure.
func (k *NodeUpdater) SetUntainted(untainted bool) {
	k.set(func(s *NodeStatus) { s.Untainted = untainted })
}

// Status is what the Node is to report.
func (k *NodeUpdater) Status() NodeStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.status
}

func (k *NodeUpdater) set(change func(*NodeStatus)) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	before := k.status
	change(&k.status)
	if apiequality.Semantic.DeepEqual(before, k.status) {
		return // else every round would read the Node for nothing
	}
	select {
	case k.news <- struct{}{}:
	default:
	}
}

// statusEvery is how often the Node object is checked without news: somebody may have removed our taint.
const statusEvery = time.Minute

// Start writes until the context ends.
func (k *NodeUpdater) Start(ctx context.Context) error {
	retry := wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.1, Steps: 7, Cap: statusEvery}
	for backoff := retry; ; {
		pause := statusEvery
		if err := k.write(ctx, k.Status()); err != nil && ctx.Err() == nil {
			k.log.Error(err, "failed to update the Node's conditions and taint, retrying")
			pause = backoff.Step()
		} else {
			backoff = retry
		}
		select {
		case <-ctx.Done():
			return nil
		case <-k.news:
		case <-k.clock.After(pause):
		}
	}
}

// statusTimeout is for one write; the taint must not wait for an API server that hangs.
const statusTimeout = 10 * time.Second

func (k *NodeUpdater) write(ctx context.Context, s NodeStatus) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	return k.writer.Write(ctx, s)
}

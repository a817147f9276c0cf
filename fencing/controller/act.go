package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/fencing/agents"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/decisionlog"
)

// act carries out the actions of one Fence. Agents are called in goroutines of their own, and so are writes.
func (f *Fencer) act(ctx context.Context, log logr.Logger, fence *v1alpha1.Fence, known *tracked, actions []fencing.Action, calls *sync.WaitGroup) error {
	fence = fence.DeepCopy()
	var writes []fencing.Action
	for _, action := range actions {
		log.V(1).Info("fence acts", "fence", fence.Name, "action", action.String())
		switch a := action.(type) {
		case fencing.ReadPower:
			f.call(ctx, log, fence, known, a, a.Call, calls)
		case fencing.OrderOff:
			f.call(ctx, log, fence, known, a, a.Call, calls)
		case fencing.AskPerson:
			f.call(ctx, log, fence, known, a, a.Call, calls)
		default:
			writes = append(writes, action)
		}
	}
	return f.write(ctx, log, fence, known, writes, calls)
}

// call calls the agent of one action and reports it. It does not wait, so that an agent that hangs delays no other fence.
func (f *Fencer) call(ctx context.Context, log logr.Logger, fence *v1alpha1.Fence, known *tracked, action fencing.Action, call fencing.Call, calls *sync.WaitGroup) {
	began := f.now()
	known.do(func(p *fencing.Progress) { p.Begin(call, began) })
	calls.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, call.Timeout)
		defer cancel()
		done, note := f.callAgent(ctx, fence, action, call, began)
		f.report(log, fence, done)
		known.do(note)
	})
}

// callAgent returns what to report of a call, and how to note it in the Fence's progress. A person is asked by an Event: the answer is a FenceReceipt, which the next rounds find.
func (f *Fencer) callAgent(ctx context.Context, fence *v1alpha1.Fence, action fencing.Action, call fencing.Call, began fencing.Moment) (done step, note func(*fencing.Progress)) {
	if a, ok := action.(fencing.AskPerson); ok {
		name := fence.Spec.Node.Name
		text := fmt.Sprintf("power the machine of node %s off, and say so: kubectl podgrace confirm node/%s", name, name)
		return step{tell: []fencing.Told{{Warning: true, Reason: "FenceNeedsPerson", Message: text}}}, func(p *fencing.Progress) { p.Ordered(a.Call, nil) }
	}
	agent, err := f.Agents.Agent(ctx, fence, call.Agent)
	done = step{decision: decisionlog.Power, values: []any{"agent", call.Agent.Name, "attempt", call.Attempt}}
	if _, ok := action.(fencing.OrderOff); ok {
		if err == nil {
			err = agent.Off(ctx, call.Machine)
		}
		done.event, done.reason, done.call, done.err = "power off ordered", "Ordered", "off", err
		return done, func(p *fencing.Progress) { p.Ordered(call, err) }
	}
	var reading fencing.Reading
	if err == nil {
		reading, err = agent.Power(ctx, call.Machine)
	}
	done.event, done.reason, done.call, done.err = "power read", "Read", "power", err
	done.values = append(done.values, "state", reading.State)
	return done, func(p *fencing.Progress) { p.Read(call, reading, err, began, f.now()) }
}

// write carries out what is written to the API server for one Fence, in its order, each whether or not the one before it worked: what is still to be done the next round says
// again. It does so aside, and once at a time: a request can hang for as long as an admission webhook does, whose pods may be on the very node that is off, and a round that
// waits for it is one in which no silence is counted. It stops when the Fence wants nothing written any more. The error is that of the time before.
func (f *Fencer) write(ctx context.Context, log logr.Logger, fence *v1alpha1.Fence, known *tracked, actions []fencing.Action, calls *sync.WaitGroup) error {
	if len(actions) == 0 {
		return known.stop()
	}
	ctx, begun, failed := known.begin(ctx)
	if !begun {
		return failed
	}
	calls.Go(func() {
		var errs []error
		for _, action := range actions {
			if ctx.Err() != nil {
				break
			}
			err := f.writeOne(ctx, action)
			if err == nil {
				if a, ok := action.(fencing.CreateReceipt); ok {
					f.report(log, fence, step{event: "FenceReceipt written", decision: decisionlog.Receipt, reason: string(a.Receipt.Spec.Class), values: []any{"receipt", a.Receipt.Name}})
				}
				continue
			}
			errs = append(errs, fmt.Errorf("fence %s: %s: %w", fence.Name, action, err))
			if confirm, ok := action.(fencing.ConfirmOff); ok && !f.asConfirmed(ctx, confirm) {
				break // it was refused, perhaps because the node was heard of: nothing is released by what was so before
			}
		}
		known.end(errors.Join(errs...))
	})
	return failed
}

func (f *Fencer) writeOne(ctx context.Context, action fencing.Action) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	switch a := action.(type) {
	case fencing.CreateReceipt:
		return f.create(ctx, a)
	case fencing.ConfirmOff:
		return f.confirmOff(ctx, a)
	case fencing.DeletePod:
		return f.deletePod(ctx, a)
	case fencing.AddTaint:
		return f.taint(ctx, a.Node.Name, a.Node.UID, addTaint)
	case fencing.RemoveTaint:
		return f.taint(ctx, a.Name, a.UID, removeTaint)
	}
	return errors.New("an action that this fencer does not know")
}

// tracked is the Progress of one Fence, which agents' answers reach from goroutines of their own, and what is being written for it.
type tracked struct {
	mu       sync.Mutex
	progress fencing.Progress
	cancel   context.CancelFunc // of what is being written; nil: nothing is
	failed   error              // of what was written last
}

func (t *tracked) get() fencing.Progress {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.progress
}

func (t *tracked) do(f func(*fencing.Progress)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.progress)
}

// begin begins to write, unless that goes on. The error is that of the time before, once.
func (t *tracked) begin(ctx context.Context) (_ context.Context, begun bool, failed error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	failed, t.failed = t.failed, nil
	if t.cancel != nil {
		return ctx, false, failed
	}
	ctx, t.cancel = context.WithCancel(ctx)
	return ctx, true, failed
}

func (t *tracked) end(failed error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel()
	t.cancel, t.failed = nil, failed
}

// stop has nothing more written.
func (t *tracked) stop() (failed error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.cancel != nil {
		t.cancel()
	}
	failed, t.failed = t.failed, nil
	return failed
}

// create creates a receipt. That there is one of that name already is no error: its name is that of what it proves.
func (f *Fencer) create(ctx context.Context, a fencing.CreateReceipt) error {
	receipt := a.Receipt.DeepCopy()
	err := f.Client.Create(ctx, receipt)
	if err == nil {
		f.Metrics.receipt(receipt.Spec.Class)
	}
	return client.IgnoreAlreadyExists(err)
}

// patch is a merge patch of an object that has this UID: the API server refuses it where another one has the name.
func (f *Fencer) patch(ctx context.Context, o client.Object, uid types.UID, annotation, value string) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid, "annotations": map[string]string{annotation: value}}})
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	return f.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, body))
}

func (f *Fencer) confirmOff(ctx context.Context, a fencing.ConfirmOff) error {
	return f.patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: a.Node.Name}}, a.Node.UID, guard.AnnotationConfirmOff, a.Value)
}

// asConfirmed reports whether the node's last sign of life is still the one that was to be confirmed.
func (f *Fencer) asConfirmed(ctx context.Context, a fencing.ConfirmOff) bool {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var node corev1.Node
	lease := &coordinationv1.Lease{}
	if err := f.Live.Get(ctx, types.NamespacedName{Name: a.Node.Name}, &node); err != nil {
		return false
	}
	switch err := f.Live.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: a.Node.Name}, lease); {
	case apierrors.IsNotFound(err):
		lease = nil
	case err != nil:
		return false
	}
	return guard.ConfirmOff(&node, lease) == a.Value
}

// deletePod deletes by the removal guard's own road. It is confirmed first, in the fencer's name: by that the API server lets it through while no webhook answers, which
// could look the receipt up. Where one answers, that is void once the node is heard of: this fencer may have been paused since it decided, and what is confirmed lasts for 55 minutes.
// Where it can't be confirmed it is deleted all the same, by the receipt: whoever may write to the pod can fill its annotations up to the limit. One that its confirmation removes is deleted by the receipt first.
func (f *Fencer) deletePod(ctx context.Context, a fencing.DeletePod) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: a.Pod.Namespace, Name: a.Pod.Name, UID: a.Pod.UID}}
	confirmation := guard.ConfirmPod(pod, guard.Node{State: guard.NodePresent, Heartbeat: a.Heartbeat}, f.Clock.Now())
	remove := func() error {
		err := f.Client.Delete(ctx, pod.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &a.Pod.UID})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone, or another one has its name
			return nil
		}
		return err
	}
	if a.CutOff && remove() == nil {
		return nil
	}
	refused := f.patch(ctx, pod.DeepCopy(), a.Pod.UID, guard.AnnotationConfirmForceDelete, confirmation)
	err := remove()
	if err != nil && refused != nil {
		return errors.Join(err, fmt.Errorf("confirm it: %w", refused))
	}
	return err
}

// taint changes the taints of a Node that has this UID.
func (f *Fencer) taint(ctx context.Context, name string, uid types.UID, change func([]corev1.Taint) []corev1.Taint) error {
	var node corev1.Node
	if err := f.Live.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		return client.IgnoreNotFound(err)
	}
	if node.UID != uid {
		return nil // another one has its name
	}
	before := node.DeepCopy()
	node.Spec.Taints = change(node.Spec.Taints)
	return f.Client.Patch(ctx, &node, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

func ours(t corev1.Taint) bool {
	return t.Key == corev1.TaintNodeOutOfService && t.Value == fencing.TaintValue
}

func addTaint(taints []corev1.Taint) []corev1.Taint {
	if slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.Key == corev1.TaintNodeOutOfService }) {
		return taints
	}
	return append(taints, corev1.Taint{Key: corev1.TaintNodeOutOfService, Value: fencing.TaintValue, Effect: corev1.TaintEffectNoExecute})
}

func removeTaint(taints []corev1.Taint) []corev1.Taint { return slices.DeleteFunc(taints, ours) }

// retire deletes what nobody needs any more.
func (f *Fencer) retire(ctx context.Context, log logr.Logger, facts fencing.Facts) error {
	var errs []error
	fences, receipts := fencing.Retire(facts)
	for _, x := range fences {
		errs = append(errs, f.remove(ctx, log, x))
	}
	for _, r := range receipts {
		errs = append(errs, f.remove(ctx, log, r))
	}
	return errors.Join(errs...)
}

// lift has the storage given back to machines that have booted again.
func (f *Fencer) lift(ctx context.Context, log logr.Logger, facts fencing.Facts) error {
	var errs []error
	lifts, waiting := fencing.Lifts(facts)
	if !slices.Equal(waiting, f.waiting) {
		for _, text := range waiting {
			log.Info("storage is not given back", "why", text)
		}
	}
	f.waiting = waiting
	for _, action := range lifts {
		ctx, cancel := context.WithTimeout(ctx, writeTimeout)
		var err error
		switch a := action.(type) {
		case fencing.LiftFence:
			err = agents.Lift(ctx, f.Client, a.Name, a.UID)
		case fencing.DeleteLifted:
			err = agents.DeleteLifted(ctx, f.Client, a.Name, a.UID)
		}
		cancel()
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", action, err))
			continue
		}
		log.Info("storage is given back: the machine has booted anew", "action", action.String())
	}
	return errors.Join(errs...)
}

// remove deletes an object that has this UID.
func (f *Fencer) remove(ctx context.Context, log logr.Logger, o client.Object) error {
	uid := o.GetUID()
	switch err := f.Client.Delete(ctx, o, client.Preconditions{UID: &uid}); {
	case apierrors.IsNotFound(err) || apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete %s, which is over: %w", o.GetName(), err)
	}
	log.Info("deleted what was over for a week", "name", o.GetName())
	return nil
}

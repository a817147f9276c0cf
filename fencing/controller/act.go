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

// act carries out the actions of one Fence: agents are called aside, and so is what is written.
func (f *Fencer) act(ctx context.Context, log logr.Logger, fence *v1alpha1.Fence, known *tracked, actions []fencing.Action, calls *sync.WaitGroup) error {
	var writes []fencing.Action
	for _, action := range actions {
		log.V(1).Info("fence acts", "fence", fence.Name, "action", action.String())
		switch a := action.(type) {
		case fencing.ReadPower:
			f.readPower(ctx, log, fence, known, a, calls)
		case fencing.OrderOff:
			f.orderOff(ctx, log, fence, known, a, calls)
		case fencing.AskPerson:
			f.askPerson(log, fence, known, a)
		default:
			writes = append(writes, action)
		}
	}
	return f.write(ctx, log, fence.DeepCopy(), known, writes, calls)
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
			err := f.writeOne(ctx, log, fence, action)
			if err == nil {
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

func (f *Fencer) writeOne(ctx context.Context, log logr.Logger, fence *v1alpha1.Fence, action fencing.Action) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	switch a := action.(type) {
	case fencing.CreateReceipt:
		err := f.create(ctx, a)
		if err == nil {
			f.report(log, fence, step{event: "FenceReceipt written", decision: decisionlog.Receipt, reason: string(a.Receipt.Spec.Class), values: []any{"receipt", a.Receipt.Name}})
		}
		return err
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

// readPower calls the agent aside, so that one that hangs holds up nobody else's fence.
func (f *Fencer) readPower(ctx context.Context, log logr.Logger, fence *v1alpha1.Fence, known *tracked, a fencing.ReadPower, calls *sync.WaitGroup) {
	began := f.now()
	f.call(ctx, fence, known, a.Call, calls, func(ctx context.Context, agent fencing.Agent, err error) {
		var reading fencing.Reading
		if err == nil {
			reading, err = agent.Power(ctx, a.Machine)
		}
		f.report(log, fence, step{event: "power read", decision: decisionlog.Power, reason: "Read", call: "power", err: err, values: []any{"agent", a.Agent.Name, "attempt", a.Attempt, "state", reading.State}})
		known.do(func(p *fencing.Progress) { p.Read(a.Call, reading, err, began, f.now()) })
	})
}

func (f *Fencer) orderOff(ctx context.Context, log logr.Logger, fence *v1alpha1.Fence, known *tracked, a fencing.OrderOff, calls *sync.WaitGroup) {
	f.call(ctx, fence, known, a.Call, calls, func(ctx context.Context, agent fencing.Agent, err error) {
		if err == nil {
			err = agent.Off(ctx, a.Machine)
		}
		f.report(log, fence, step{event: "power off ordered", decision: decisionlog.Power, reason: "Ordered", call: "off", err: err, values: []any{"agent", a.Agent.Name, "attempt", a.Attempt}})
		known.do(func(p *fencing.Progress) { p.Ordered(a.Call, err) })
	})
}

// askPerson tells by an Event that somebody has to confirm that the machine is off. The answer is a FenceReceipt, which the next rounds find.
func (f *Fencer) askPerson(log logr.Logger, fence *v1alpha1.Fence, known *tracked, a fencing.AskPerson) {
	known.do(func(p *fencing.Progress) { p.Begin(a.Call, f.now()) })
	f.report(log, fence, step{tell: []fencing.Told{{Warning: true, Reason: "FenceNeedsPerson", Message: fmt.Sprintf("power the machine of node %[1]s off, and say so: kubectl podgrace confirm node/%[1]s", fence.Spec.Node.Name)}}})
	known.do(func(p *fencing.Progress) { p.Ordered(a.Call, nil) })
}

// call has an agent called within its timeout.
func (f *Fencer) call(ctx context.Context, fence *v1alpha1.Fence, known *tracked, call fencing.Call, calls *sync.WaitGroup, do func(context.Context, fencing.Agent, error)) {
	known.do(func(p *fencing.Progress) { p.Begin(call, f.now()) })
	fence = fence.DeepCopy()
	calls.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, call.Timeout)
		defer cancel()
		agent, err := f.Agents.Agent(ctx, fence, call.Agent)
		do(ctx, agent, err)
	})
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

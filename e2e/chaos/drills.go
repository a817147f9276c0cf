package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/wire"
)

// refusalsAsked is more than PodgraceRemovalsRefused takes for normal (20).
const refusalsAsked = 30

// beginDrill makes its fault. Of one replica it is that which an era does not spare.
func (l *lab) beginDrill(ctx context.Context, name string, round int) (mend func() error, err error) {
	one := l.replicas.all[(plan.Spared(round)+1)%len(l.replicas.all)]
	switch name {
	case plan.Outage:
		return kill(l.programs()...)
	case plan.OneAway:
		return kill(one)
	case plan.Leaderless:
		return cut(l.links()...), nil
	case plan.Unrenewed:
		return cut(one.link), nil
	case plan.Unfenced:
		return l.unfenced(ctx, l.machines[0])
	case plan.Unreleased:
		return l.unreleased(ctx)
	case plan.Refusals:
		var asked sync.WaitGroup // beside each other, so that all are within the rule's range also where each takes long
		for range refusalsAsked {
			asked.Go(func() { l.attack(ctx, plan.Operation{Do: plan.ForceProtected}) })
		}
		asked.Wait()
		return func() error { return nil }, nil
	default:
		return nil, fmt.Errorf("nobody knows how to begin it")
	}
}

// killable is a replica of a program: of the webhook, or a watcher.
type killable interface {
	kill() error
	again() error
}

// programs are all replicas of all of them, and links their ways to the API server.
func (l *lab) programs() (all []killable) {
	for _, r := range l.replicas.all {
		all = append(all, r)
	}
	for _, w := range l.watchers {
		all = append(all, w)
	}
	return all
}

func (l *lab) links() (all []*wire.Balancer) {
	for _, r := range l.replicas.all {
		all = append(all, r.link)
	}
	for _, w := range l.watchers {
		all = append(all, w.link)
	}
	return all
}

// kill ends replicas until it is mended.
func kill(all ...killable) (mend func() error, err error) {
	for _, r := range all {
		if err := r.kill(); err != nil {
			return nil, err
		}
	}
	return func() error {
		for _, r := range all {
			if err := r.again(); err != nil {
				return err
			}
		}
		return nil
	}, nil
}

// cut holds what replicas and the API server say to each other until it is mended.
func cut(links ...*wire.Balancer) (mend func() error) {
	for _, link := range links {
		link.Hold()
	}
	return func() error {
		for _, link := range links {
			link.Release()
		}
		return nil
	}
}

// unfenced has a fence of a machine go on that can't end, since its BMC does not answer. Once that does it is fenced.
func (l *lab) unfenced(ctx context.Context, m *machine) (mend func() error, err error) {
	boot := m.kubelet.BootID()
	fenced, err := l.fenceMachine(ctx, m, dead, byAsking)
	if err != nil {
		return nil, err
	}
	if err := cluster.UntilWithin(ctx, wellWithin, "the fence of "+m.name+" to begin", func(ctx context.Context) (bool, error) {
		f, err := l.fenceOf(ctx, boot)
		return err == nil && f != nil && slices.Contains([]v1alpha1.FencePhase{v1alpha1.FenceDecided, v1alpha1.FenceActing}, f.Status.Phase), nil
	}); err != nil {
		return nil, err
	}
	return func() error {
		m.behave(prompt)
		return fenced(ctx)
	}, nil
}

// givenBackTries is how often a volume is taken away from a machine before it can be cut off in time.
const givenBackTries = 5

// unreleased has a volume wait for a machine that is cut off while it gives it back. A machine that is always faster is no reason to end the run.
func (l *lab) unreleased(ctx context.Context) (mend func() error, err error) {
	const volume = 0
	for range givenBackTries {
		pod, err := l.podOf(ctx, volume)
		if err != nil {
			return nil, err
		}
		m := machineOf(l.machines, pod.Spec.NodeName)
		if m == nil {
			return nil, fmt.Errorf("pod %s is on %q, which is no machine", pod.Name, pod.Spec.NodeName)
		}
		mend = func() error {
			m.setCut(false)
			return l.cordon(ctx, m.name, false)
		}
		waits, err := l.cutGivingBack(ctx, m, pod, volumeName(volume))
		if err != nil {
			return nil, errors.Join(err, mend())
		}
		if waits {
			return mend, nil
		}
		if err := mend(); err != nil {
			return nil, err
		}
		if err := cluster.UntilWithin(ctx, wellWithin, "all volumes to be where they are used", func(ctx context.Context) (bool, error) {
			return l.volumesUnwell(ctx) == nil, nil
		}); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("%w: %d times a machine had given a volume back before it was cut off", errNotMade, givenBackTries)
}

// cutGivingBack has a pod go from its machine, and cuts that off as soon as its volume is being released. It reports whether another machine waits for that: where the kubelet had not said yet that it is rid
// of it, it can have done so once since, and that is not often enough (volumelock/release.go, answersNeeded).
func (l *lab) cutGivingBack(ctx context.Context, m *machine, pod *corev1.Pod, volume string) (waits bool, err error) {
	if err := l.cordon(ctx, m.name, true); err != nil { // else its next pod may come back to it
		return false, err
	}
	if err := l.kube.Delete(ctx, pod, client.Preconditions{UID: &pod.UID}); err != nil {
		return false, fmt.Errorf("delete pod %s: %w", pod.Name, err)
	}
	if err := cluster.UntilWithin(ctx, wellWithin, volume+" to be given back", func(ctx context.Context) (bool, error) {
		lock, err := l.lockOf(ctx, volume)
		return err == nil && (lock == nil || lock.Spec.Node.Name != m.name || lock.Status.Release != nil), nil
	}); err != nil {
		return false, err
	}
	m.setCut(true)
	if lock, err := l.lockOf(ctx, volume); err != nil || lock == nil || lock.Spec.Node.Name != m.name || lock.Status.Release == nil || lock.Status.Release.Answers > 0 {
		return false, err
	}
	return true, cluster.UntilWithin(ctx, wellWithin, volume+" to be waited for", func(ctx context.Context) (bool, error) {
		waiting, err := l.attachments(ctx, false)
		return err == nil && slices.ContainsFunc(waiting, func(a storagev1.VolumeAttachment) bool { return *a.Spec.Source.PersistentVolumeName == volume }), nil
	})
}

// lockOf is the VolumeLock of a volume; nil: there is none.
func (l *lab) lockOf(ctx context.Context, volume string) (*v1alpha1.VolumeLock, error) {
	var locks v1alpha1.VolumeLockList
	if err := l.kube.List(ctx, &locks); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(locks.Items, func(k v1alpha1.VolumeLock) bool { return k.Spec.PersistentVolume == volume })
	if i < 0 {
		return nil, nil //nolint:nilnil // as it says
	}
	return &locks.Items[i], nil
}

// cordon has no pod come to a node, or has some come again.
func (l *lab) cordon(ctx context.Context, node string, is bool) error {
	text := fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, is)
	if err := l.kube.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, client.RawPatch(types.MergePatchType, text)); err != nil {
		return fmt.Errorf("cordon %s: %w", node, err)
	}
	return nil
}

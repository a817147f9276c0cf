package lookup

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/kube"
	"github.com/podgrace/podgrace/policy"
)

// Locks are the VolumeLocks that the informer has, by their PersistentVolumes. They only go into what a refusal says, so that one who is late is no harm.
type Locks struct {
	indexer toolscache.Indexer
	synced  func() bool
	// own has that informer and no other.
	own cache.Cache
}

// byVolume is the index of VolumeLocks by the names of their PersistentVolumes.
const byVolume = "volume"

var locksByVolume = toolscache.Indexers{byVolume: func(o any) ([]string, error) {
	if l, is := o.(*v1alpha1.VolumeLock); is {
		return []string{l.Spec.PersistentVolume}, nil
	}
	return nil, nil
}}

// FollowLocks makes the informer for VolumeLocks, which Start runs. It is in a cache of its own, since a manager waits for all informers of its cache: nobody waits for this one, and a role that may not
// read VolumeLocks keeps no replica from being ready. Of the options those count that say how the API server is reached. nil where the kind is not installed: nothing is watched then, until the next start.
func FollowLocks(ctx context.Context, config *rest.Config, options cache.Options) (*Locks, error) {
	options.ByObject = map[client.Object]cache.ByObject{&v1alpha1.VolumeLock{}: kube.Trimmed(trimmedLock)}
	own, err := cache.New(config, options)
	if meta.IsNoMatchError(err) { // it asks for the kind's scope
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("make the cache of VolumeLocks: %w", err)
	}
	started, err := own.GetInformer(ctx, &v1alpha1.VolumeLock{}, cache.BlockUntilSynced(false))
	if meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("start the informer for VolumeLocks: %w", err)
	}
	shared, is := started.(toolscache.SharedIndexInformer)
	if !is {
		return nil, nil
	}
	if err := shared.AddIndexers(locksByVolume); err != nil {
		return nil, fmt.Errorf("index VolumeLocks by their volumes: %w", err)
	}
	return &Locks{shared.GetIndexer(), shared.HasSynced, own}, nil
}

// Start runs the informer until the context ends.
func (l *Locks) Start(ctx context.Context) error { return l.own.Start(ctx) }

// NeedLeaderElection is false: every replica refuses.
func (l *Locks) NeedLeaderElection() bool { return false }

// trimmedLock is what an informer stores of a VolumeLock.
func trimmedLock(l *v1alpha1.VolumeLock) *v1alpha1.VolumeLock {
	return &v1alpha1.VolumeLock{ObjectMeta: kube.Identity(l.ObjectMeta), Spec: v1alpha1.VolumeLockSpec{PersistentVolume: l.Spec.PersistentVolume, Node: v1alpha1.BootReference{Name: l.Spec.Node.Name}}}
}

// HeldBy are the PersistentVolumes of claims that a node of this name holds, sorted. A nil *Locks knows of none.
func (l *Locks) HeldBy(node string, claims policy.Claims) (volumes []string) {
	if l == nil || !l.synced() {
		return nil
	}
	for _, c := range claims {
		if c.Volume == "" || c.Recreated {
			continue
		}
		locks, err := l.indexer.ByIndex(byVolume, c.Volume)
		if err == nil && slices.ContainsFunc(locks, func(o any) bool { return o.(*v1alpha1.VolumeLock).Spec.Node.Name == node }) {
			volumes = append(volumes, c.Volume)
		}
	}
	slices.Sort(volumes)
	return slices.Compact(volumes)
}

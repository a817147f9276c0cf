package attacks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// stored follows what is stored, without losing a change: a watch of each resource from the version of its first list on.
type stored struct {
	kube    kubernetes.Interface
	streams []*stream
	// early are changes after those that another stream has been read up to.
	early []event
}

// stream is one resource. Its mark is an object that nobody attacks: the version of a write to it is one up to which all that was stored
// before comes before it in the watch. All resources of one etcd share the versions.
type stream struct {
	// changes are taken from the watch as they come, since an API server breaks one that nobody reads.
	changes <-chan watch.Event
	mark    func(ctx context.Context, patch []byte) (metav1.Object, error)
	at      uint64
}

// marker is the name of the marks, and the namespace of that of the pods.
const marker = "marker"

// follow lists and watches. The marks must be there.
func follow(ctx context.Context, kube kubernetes.Interface) (*stored, []event, error) {
	s := &stored{kube: kube}
	var first []event
	pods, nodes, attachments := kube.CoreV1().Pods(""), kube.CoreV1().Nodes(), kube.StorageV1().VolumeAttachments()
	leases := kube.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	merge := types.MergePatchType
	for _, r := range []struct {
		list  func(context.Context, metav1.ListOptions) (runtime.Object, error)
		watch func(context.Context, metav1.ListOptions) (watch.Interface, error)
		mark  func(context.Context, []byte) (metav1.Object, error)
	}{
		{func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return nodes.List(ctx, o) }, nodes.Watch,
			func(ctx context.Context, p []byte) (metav1.Object, error) {
				return nodes.Patch(ctx, marker, merge, p, metav1.PatchOptions{})
			}},
		{func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return leases.List(ctx, o) }, leases.Watch,
			func(ctx context.Context, p []byte) (metav1.Object, error) {
				return leases.Patch(ctx, marker, merge, p, metav1.PatchOptions{})
			}},
		{func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return attachments.List(ctx, o)
		}, attachments.Watch,
			func(ctx context.Context, p []byte) (metav1.Object, error) {
				return attachments.Patch(ctx, marker, merge, p, metav1.PatchOptions{})
			}},
		{func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) }, pods.Watch,
			func(ctx context.Context, p []byte) (metav1.Object, error) {
				return kube.CoreV1().Pods(marker).Patch(ctx, marker, merge, p, metav1.PatchOptions{})
			}},
	} {
		list, err := r.list(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, nil, err
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, nil, err
		}
		for _, item := range items {
			e, err := eventOf(watch.Event{Type: watch.Added, Object: item})
			if err != nil {
				return nil, nil, err
			}
			first = append(first, e)
		}
		from, err := meta.NewAccessor().ResourceVersion(list)
		if err != nil {
			return nil, nil, err
		}
		watcher, err := watchtools.NewRetryWatcherWithContext(ctx, from, &cache.ListWatch{WatchFuncWithContext: r.watch})
		if err != nil {
			return nil, nil, err
		}
		s.streams = append(s.streams, &stream{changes: kept(watcher), mark: r.mark})
	}
	slices.SortFunc(first, byVersion)
	return s, first, nil
}

// kept is a watch that waits for nobody, for as many changes as a round makes many times over.
func kept(watcher watch.Interface) <-chan watch.Event {
	changes := make(chan watch.Event, 100_000)
	go func() {
		defer close(changes)
		for e := range watcher.ResultChan() {
			changes <- e
		}
	}()
	return changes
}

func byVersion(a, b event) int { return cmp.Compare(a.version, b.version) }

func eventOf(e watch.Event) (event, error) {
	if e.Type == watch.Error {
		return event{}, fmt.Errorf("watch: %v", e.Object)
	}
	switch e.Object.(type) {
	case *corev1.Pod, *corev1.Node, *coordinationv1.Lease, *storagev1.VolumeAttachment:
	default:
		return event{}, fmt.Errorf("watch: unexpected %T", e.Object)
	}
	version, err := strconv.ParseUint(e.Object.(metav1.Object).GetResourceVersion(), 10, 64)
	return event{version: version, deleted: e.Type == watch.Deleted, object: e.Object}, err
}

// until returns all changes up to a moment after the call, in the order in which they were stored, and the version of that moment.
func (s *stored) until(ctx context.Context) (changes []event, version uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"at":%q}}}`, time.Now().Format(time.RFC3339Nano))
	for _, stream := range s.streams {
		marked, err := stream.mark(ctx, patch)
		if err != nil {
			return nil, 0, fmt.Errorf("mark: %w", err)
		}
		upTo, err := strconv.ParseUint(marked.GetResourceVersion(), 10, 64)
		if err != nil {
			return nil, 0, err
		}
		if version == 0 {
			version = upTo // the first mark is the earliest
		}
		for stream.at < upTo {
			select {
			case e, open := <-stream.changes:
				if !open {
					return nil, 0, errors.New("a watch ended")
				}
				if e.Type == watch.Bookmark {
					continue
				}
				change, err := eventOf(e)
				if err != nil {
					return nil, 0, err
				}
				stream.at = change.version
				s.early = append(s.early, change)
			case <-ctx.Done():
				return nil, 0, fmt.Errorf("wait for version %d: %w", upTo, ctx.Err())
			}
		}
	}
	slices.SortStableFunc(s.early, byVersion)
	later, _ := slices.BinarySearchFunc(s.early, version+1, func(e event, v uint64) int { return cmp.Compare(e.version, v) })
	changes = slices.Clone(s.early[:later])
	s.early = slices.Delete(s.early, 0, later)
	return changes, version, nil
}

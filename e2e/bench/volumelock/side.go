package volumelock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/podgrace/podgrace/volumelock"
)

// atOnce is how many requests are under way, and how many the trivial attacher handles: as many as the volume lock.
const atOnce = 16

// watcher knows when VolumeAttachments were attached.
type watcher struct {
	mu      sync.Mutex
	waiting map[string]chan time.Time
}

// attached waits until one is.
func (w *watcher) attached(ctx context.Context, name string) (time.Time, error) {
	select {
	case at := <-w.of(name):
		return at, nil
	case <-ctx.Done():
		return time.Time{}, fmt.Errorf("VolumeAttachment %s is not attached: %w", name, ctx.Err())
	}
}

func (w *watcher) of(name string) chan time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.waiting[name] == nil {
		w.waiting[name] = make(chan time.Time, 1)
	}
	return w.waiting[name]
}

// see takes what a watch says.
func (w *watcher) see(o any) {
	if a, ok := o.(*storagev1.VolumeAttachment); ok && a.Status.Attached {
		select {
		case w.of(a.Name) <- time.Now():
		default: // it is known
		}
	}
}

// watch tells somebody what there is of VolumeAttachments, until the context ends.
func watch(ctx context.Context, kube kubernetes.Interface, see func(any)) error {
	factory := informers.NewSharedInformerFactory(kube, 0)
	if _, err := factory.Storage().V1().VolumeAttachments().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: see, UpdateFunc: func(_, o any) { see(o) }}); err != nil {
		return fmt.Errorf("watch VolumeAttachments: %w", err)
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	return ctx.Err()
}

// trivial says attached of whatever is not, with one write.
func trivial(ctx context.Context, kube kubernetes.Interface) (see func(any)) {
	due := make(chan string, 100_000)
	for range atOnce {
		go func() {
			for {
				select {
				case <-ctx.Done():
					return
				case name := <-due:
					// One that fails is not attached, and its measurement ends the run.
					_, _ = kube.StorageV1().VolumeAttachments().Patch(ctx, name, types.MergePatchType, []byte(`{"status":{"attached":true}}`), metav1.PatchOptions{}, "status")
				}
			}
		}()
	}
	return func(o any) {
		if a, ok := o.(*storagev1.VolumeAttachment); ok && a.Spec.Attacher == beside && !a.Status.Attached {
			due <- a.Name
		}
	}
}

// volume is one of a side: it has a PersistentVolume, and a node whose kubelet lists it.
type volume struct{ driver, name, node string }

func (v volume) attachment() *storagev1.VolumeAttachment {
	return &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: volumelock.AttachmentName(v.driver, v.name, v.node)},
		Spec: storagev1.VolumeAttachmentSpec{Attacher: v.driver, NodeName: v.node, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &v.name}}}
}

func (v volume) persistentVolume() *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: v.name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource:        corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: v.driver, VolumeHandle: v.name}},
	}}
}

func (v volume) inUse() corev1.UniqueVolumeName { return volumelock.InUseName(v.driver, v.name) }

// each does something for many, some at once.
func each[T any](ctx context.Context, all []T, do func(context.Context, T) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(atOnce)
	for _, one := range all {
		group.Go(func() error { return do(ctx, one) })
	}
	return group.Wait()
}

// make makes the PersistentVolumes of volumes, and Nodes that have them in use and attached, as they are by the time that a kubelet waits for the attacher. Their boots are named after them.
func (b *bench) make(ctx context.Context, volumes []volume) error {
	if err := each(ctx, volumes, func(ctx context.Context, v volume) error {
		_, err := b.kube.CoreV1().PersistentVolumes().Create(ctx, v.persistentVolume(), metav1.CreateOptions{})
		return err
	}); err != nil {
		return fmt.Errorf("make PersistentVolumes: %w", err)
	}
	nodes := map[string]*corev1.Node{}
	for _, v := range volumes {
		n := nodes[v.node]
		if n == nil {
			n = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: v.node}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot-of-" + v.node},
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: b.began, LastTransitionTime: b.began}}}}
			nodes[v.node] = n
			b.nodes = append(b.nodes, v.node)
		}
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, v.inUse())
		n.Status.VolumesAttached = append(n.Status.VolumesAttached, corev1.AttachedVolume{Name: v.inUse()})
	}
	for _, n := range nodes {
		if _, err := b.kube.CoreV1().Nodes().Create(ctx, n, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("make Nodes: %w", err)
		}
	}
	return nil
}

// attach makes the VolumeAttachment of a volume, and returns how long it took until it was attached.
func (b *bench) attach(ctx context.Context, v volume) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	a := v.attachment()
	begin := time.Now()
	if _, err := b.kube.StorageV1().VolumeAttachments().Create(ctx, a, metav1.CreateOptions{}); err != nil {
		return 0, fmt.Errorf("make a VolumeAttachment: %w", err)
	}
	at, err := b.watcher.attached(ctx, a.Name)
	return at.Sub(begin), err
}

// attachAll attaches volumes at once, and returns how long it took until all were.
func (b *bench) attachAll(ctx context.Context, volumes []volume) (time.Duration, error) {
	begin := time.Now()
	if err := each(ctx, volumes, func(ctx context.Context, v volume) error {
		_, err := b.kube.StorageV1().VolumeAttachments().Create(ctx, v.attachment(), metav1.CreateOptions{})
		return err
	}); err != nil {
		return 0, fmt.Errorf("make VolumeAttachments: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	var errs []error
	for _, v := range volumes {
		_, err := b.watcher.attached(ctx, v.attachment().Name)
		errs = append(errs, err)
	}
	return time.Since(begin), errors.Join(errs...)
}

// some are volumes of a driver, a hundred a node.
func some(driver, kind string, n int) []volume {
	all := make([]volume, n)
	for i := range all {
		all[i] = volume{driver: driver, name: fmt.Sprintf("%s-%s-%d", driver, kind, i), node: fmt.Sprintf("%s-%s-node-%d", driver, kind, i/100)}
	}
	return all
}

package partition

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/volumelock"
)

// kubelets stand in for those of all nodes that are not cut off, and for the external-attacher of the CSI driver: they say at once that it is done, and do nothing.
type kubelets struct {
	kube client.Client

	mu     sync.Mutex
	silent map[string]bool
}

func newKubelets(kube client.Client) *kubelets {
	return &kubelets{kube: kube, silent: map[string]bool{}}
}

// silence cuts a node off.
func (k *kubelets) silence(node string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.silent[node] = true
}

func (k *kubelets) heard(node string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return !k.silent[node]
}

// run works until the context ends.
func (k *kubelets) run(ctx context.Context) error {
	for {
		begin := time.Now()
		if err := errors.Join(k.attach(ctx), k.start(ctx)); err != nil && ctx.Err() == nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(cluster.Pause(time.Since(begin))):
		}
	}
}

// attach says of each VolumeAttachment that it is attached. One that is deleted is gone at once: it has no finalizer of the driver's.
func (k *kubelets) attach(ctx context.Context) error {
	var all storagev1.VolumeAttachmentList
	if err := k.kube.List(ctx, &all); err != nil {
		return fmt.Errorf("list VolumeAttachments: %w", err)
	}
	patch, err := cluster.MergePatch("status", map[string]any{"attached": true})
	if err != nil {
		return err
	}
	for i := range all.Items {
		if a := &all.Items[i]; !a.Status.Attached {
			if err := k.kube.Status().Patch(ctx, a, patch); client.IgnoreNotFound(err) != nil {
				return fmt.Errorf("attach %s: %w", a.Name, err)
			}
		}
	}
	return nil
}

// start says of each pod whose volume is attached to its node that it runs there.
func (k *kubelets) start(ctx context.Context) error {
	var pods corev1.PodList
	if err := k.kube.List(ctx, &pods); err != nil {
		return fmt.Errorf("list pods: %w", err)
	}
	for i := range pods.Items {
		p := &pods.Items[i]
		if p.Spec.NodeName == "" || p.Status.Phase != corev1.PodPending || p.DeletionTimestamp != nil || !k.heard(p.Spec.NodeName) {
			continue
		}
		if err := k.startOne(ctx, p); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("start pod %s/%s: %w", p.Namespace, p.Name, err)
		}
	}
	return nil
}

func (k *kubelets) startOne(ctx context.Context, p *corev1.Pod) error {
	volume := volumelock.InUseName(driver, p.Namespace)
	var n corev1.Node
	if err := k.kube.Get(ctx, types.NamespacedName{Name: p.Spec.NodeName}, &n); err != nil {
		return err
	}
	if !cluster.AttachedTo(&n, volume) {
		return nil
	}
	inUse, err := cluster.MergePatch("status", map[string]any{"volumesInUse": []corev1.UniqueVolumeName{volume}})
	if err != nil {
		return err
	}
	if err := k.kube.Status().Patch(ctx, &n, inUse); err != nil {
		return err
	}
	runs, err := cluster.MergePatch("status", cluster.RunningStatus())
	if err != nil {
		return err
	}
	return k.kube.Status().Patch(ctx, p, runs)
}

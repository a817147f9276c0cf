package confirm

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/adoption"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy"
)

// LockClient is a Client that reads VolumeLocks and confirms releases.
type LockClient struct {
	*Client
}

var (
	_ Releaser       = (*LockClient)(nil)
	_ HolderReleaser = (*LockClient)(nil)
)

var volumeLocks = v1alpha1.GroupVersion.WithResource("volumelocks")

// Lock is of Releaser. Who may confirm need not be allowed to read nodes, volumes and pods.
func (c *LockClient) Lock(ctx context.Context, name string) (LockFacts, error) {
	l, err := c.find(ctx, name)
	if err != nil {
		return LockFacts{}, err
	}
	node, unknown := c.nodeOf(ctx, l)
	return c.facts(ctx, l, node, unknown), nil
}

// nodeOf is the Node of the name that a lock has; nil: there is none, or it can't be read, and why.
func (c *LockClient) nodeOf(ctx context.Context, l *v1alpha1.VolumeLock) (*corev1.Node, string) {
	node, err := c.Kube.CoreV1().Nodes().Get(ctx, l.Spec.Node.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		return node, ""
	case apierrors.IsNotFound(err):
		return nil, ""
	}
	return nil, why(err)
}

func (c *LockClient) facts(ctx context.Context, l *v1alpha1.VolumeLock, node *corev1.Node, unknown string) LockFacts {
	f := LockFacts{Now: c.Clock.Now(), Lock: l, Node: node, NodeUnknown: unknown}
	pods, err := c.using(ctx, l)
	if err != nil {
		f.PodsUnknown = why(err)
	}
	for i := range pods {
		if p := &pods[i]; ofAnother(l, node, p) {
			f.Waiting = append(f.Waiting, podName(p))
		} else {
			f.Pods = append(f.Pods, podName(p))
		}
	}
	return f
}

// ofAnother reports whether a pod is of a Node that was recreated under the holder's name, and has not begun: it waits for the very volume that is to be confirmed, and what it is not of is the
// machine that has it. One that was bound before that Node was made may be of the earlier one, and be about to mount.
func ofAnother(l *v1alpha1.VolumeLock, n *corev1.Node, p *corev1.Pod) bool {
	if n == nil || n.UID == l.Spec.Node.UID || adoption.Begun(p) {
		return false
	}
	bound := p.CreationTimestamp
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue {
			bound = c.LastTransitionTime
		}
	}
	return n.CreationTimestamp.Before(&bound) // times have whole seconds: in the same one it may be of the earlier Node
}

// find reads the VolumeLock of the name, or that of the PersistentVolume.
func (c *LockClient) find(ctx context.Context, name string) (*v1alpha1.VolumeLock, error) {
	u, err := c.Dynamic.Resource(volumeLocks).Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		return lockOf(u.Object)
	}
	if !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("read VolumeLock %s: %w", name, err)
	}
	locks, err := c.locks(ctx)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(locks, func(l *v1alpha1.VolumeLock) bool { return l.Spec.PersistentVolume == name }); i >= 0 {
		return locks[i], nil
	}
	return nil, fmt.Errorf("there is no VolumeLock %s, and none by a PersistentVolume of that name: nobody holds it", name)
}

// locks are all VolumeLocks, by the names of their PersistentVolumes.
func (c *LockClient) locks(ctx context.Context) (all []*v1alpha1.VolumeLock, err error) {
	list, err := c.Dynamic.Resource(volumeLocks).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list VolumeLocks: %w", err)
	}
	for i := range list.Items {
		if l, err := lockOf(list.Items[i].Object); err == nil {
			all = append(all, l)
		}
	}
	slices.SortFunc(all, func(a, b *v1alpha1.VolumeLock) int {
		return cmp.Or(strings.Compare(a.Spec.PersistentVolume, b.Spec.PersistentVolume), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

// Holder is of HolderReleaser.
func (c *LockClient) Holder(ctx context.Context, uid types.UID) (HolderFacts, error) {
	locks, err := c.locks(ctx)
	if err != nil {
		return HolderFacts{}, err
	}
	var others []string // UIDs of Nodes of that name
	for _, l := range locks {
		if n := l.Spec.Node; n.Name == string(uid) && !slices.Contains(others, string(n.UID)) {
			others = append(others, string(n.UID))
		}
	}
	locks = slices.DeleteFunc(locks, func(l *v1alpha1.VolumeLock) bool { return l.Spec.Node.UID != uid })
	switch {
	case len(locks) == 0 && len(others) > 0:
		return HolderFacts{}, fmt.Errorf("%s is the name of a Node, which others may have had or get: give the UID of the one that holds volumes, %s", uid, strings.Join(others, " or "))
	case len(locks) == 0:
		return HolderFacts{}, fmt.Errorf("no Node of UID %s holds a volume: kubectl podgrace volumelock list shows who does", uid)
	}
	f := HolderFacts{Now: c.Clock.Now(), Name: locks[0].Spec.Node.Name, UID: uid}
	f.Node, f.NodeUnknown = c.nodeOf(ctx, locks[0])
	for _, l := range locks {
		f.Held = append(f.Held, c.facts(ctx, l, f.Node, f.NodeUnknown))
	}
	return f, nil
}

func lockOf(object map[string]any) (*v1alpha1.VolumeLock, error) {
	l := &v1alpha1.VolumeLock{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object, l); err != nil {
		return nil, fmt.Errorf("decode a VolumeLock: %w", err)
	}
	return l, nil
}

// using are the pods of the holder's name that name the volume, by the PersistentVolume that the lock names.
func (c *LockClient) using(ctx context.Context, l *v1alpha1.VolumeLock) ([]corev1.Pod, error) {
	pv, err := c.Kube.CoreV1().PersistentVolumes().Get(ctx, l.Spec.PersistentVolume, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && pv.Spec.ClaimRef == nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	claim := pv.Spec.ClaimRef
	pods, err := c.Kube.CoreV1().Pods(claim.Namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("spec.nodeName", l.Spec.Node.Name).String()})
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
		return p.Spec.NodeName != l.Spec.Node.Name || graceperiod.Finished(&p) || !slices.Contains(policy.AllClaimNames(&p), claim.Name)
	}), nil
}

// Release is of Releaser.
func (c *LockClient) Release(ctx context.Context, l *v1alpha1.VolumeLock, text string) error {
	patch, err := annotation(map[string]any{"uid": l.UID, "resourceVersion": l.ResourceVersion}, v1alpha1.AnnotationConfirmRelease, text)
	if err != nil {
		return err
	}
	_, err = c.Dynamic.Resource(volumeLocks).Patch(ctx, l.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case err == nil:
		c.note(ctx, corev1.ObjectReference{APIVersion: v1alpha1.GroupVersion.String(), Kind: "VolumeLock", Name: l.Name, UID: l.UID}, "ReleaseConfirmed",
			fmt.Sprintf("it was confirmed that node %s does not use volume %s any more", l.Spec.Node.Name, l.Spec.PersistentVolume))
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("VolumeLock %s is gone meanwhile: the volume is released", l.Name)
	case apierrors.IsConflict(err):
		return fmt.Errorf("VolumeLock %s is not what was shown any more: nothing was confirmed, look again", l.Name)
	}
	return fmt.Errorf("write the confirmation to VolumeLock %s: %w", l.Name, err)
}

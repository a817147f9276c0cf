package confirm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/policy"
)

// Client reads and writes a cluster.
type Client struct {
	Kube kubernetes.Interface
	// Dynamic reads and writes Podgrace's own kinds, and what is put back whole. nil: a confirmed node gets no FenceReceipt.
	Dynamic dynamic.Interface
	Clock   clock.PassiveClock
}

var (
	_ Reader = (*Client)(nil)
	_ Writer = (*Client)(nil)
)

// Pod is of Reader.
func (c *Client) Pod(ctx context.Context, namespace, name string) (PodFacts, error) {
	pod, err := c.Kube.CoreV1().Pods(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return PodFacts{}, fmt.Errorf("there is no pod %s/%s (if you mean a node: node/%s)", namespace, name, name)
	}
	if err != nil {
		return PodFacts{}, fmt.Errorf("read pod %s/%s: %w", namespace, name, err)
	}
	f := PodFacts{Now: c.Clock.Now(), Pod: pod, Claims: c.claims(ctx, pod)}
	c.holders(ctx, f.Claims)
	if pod.Spec.NodeName != "" {
		f.Node, f.NodeUnknown = c.podsNode(ctx, pod.Spec.NodeName)
	}
	return f, nil
}

// podsNode returns what is known of a pod's node. Who may confirm for a pod need not be allowed to read nodes.
func (c *Client) podsNode(ctx context.Context, name string) (guard.Node, string) {
	node, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return guard.Node{Name: name, State: guard.NodeGone}, ""
	}
	if err != nil {
		return guard.Node{Name: name}, why(err)
	}
	state := c.withLease(ctx, node)
	if state.LeaseUnknown != "" && !state.state().Ready {
		// Without the lease the node may have been heard of a moment ago.
		return guard.Node{Name: name}, "it is not ready, and its lease could not be read: " + state.LeaseUnknown
	}
	return state.state(), ""
}

// Node is of Reader.
func (c *Client) Node(ctx context.Context, name string) (NodeState, error) {
	node, err := c.Kube.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return NodeState{}, fmt.Errorf("there is no node %s", name)
	}
	if err != nil {
		return NodeState{}, fmt.Errorf("read node %s: %w", name, err)
	}
	s := c.withLease(ctx, node)
	s.Fence = c.fence(ctx, node)
	return s, nil
}

// fence is the Fence that is at work for this boot of a node, and goes on by its confirmation. It is not asked for what the confirmation takes: an error is as none.
func (c *Client) fence(ctx context.Context, node *corev1.Node) string {
	if c.Dynamic == nil {
		return ""
	}
	list, err := c.Dynamic.Resource(fences).List(ctx, metav1.ListOptions{})
	if err != nil {
		return ""
	}
	for i := range list.Items {
		var f v1alpha1.Fence
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.Items[i].Object, &f); err != nil {
			continue
		}
		goesOn := f.Status.Phase == v1alpha1.FenceDecided || f.Status.Phase == v1alpha1.FenceActing || f.Status.Phase == v1alpha1.FenceVerified || f.Status.Phase == v1alpha1.FenceReleased
		if n := f.Spec.Node; goesOn && n.UID == node.UID && n.BootID == node.Status.NodeInfo.BootID && f.Status.Target != nil && f.Status.Target.Release != v1alpha1.ReleaseNothing {
			return f.Name
		}
	}
	return ""
}

func (c *Client) withLease(ctx context.Context, node *corev1.Node) NodeState {
	s := NodeState{Node: node}
	lease, err := c.Kube.CoordinationV1().Leases(corev1.NamespaceNodeLease).Get(ctx, node.Name, metav1.GetOptions{})
	switch {
	case err == nil:
		s.Lease = lease
	case !apierrors.IsNotFound(err):
		s.LeaseUnknown = why(err)
	}
	s.Now = c.Clock.Now()
	return s
}

// claims returns the claims that a pod names, and those that were made for its ephemeral volumes.
func (c *Client) claims(ctx context.Context, pod *corev1.Pod) []Claim {
	var claims []Claim
	for _, name := range policy.AllClaimNames(pod) {
		claim := Claim{Name: name}
		switch pvc, err := c.Kube.CoreV1().PersistentVolumeClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{}); {
		case err != nil:
			claim.Unknown = why(err)
		default:
			claim.Claim = policy.ClaimOf(pvc, pod)
		}
		claims = append(claims, claim)
	}
	return claims
}

// holders fills in who holds the volumes of claims. Who confirms need not be allowed to read VolumeLocks: an error is as none.
func (c *Client) holders(ctx context.Context, claims []Claim) {
	if c.Dynamic == nil || len(claims) == 0 {
		return
	}
	list, err := c.Dynamic.Resource(volumeLocks).List(ctx, metav1.ListOptions{})
	if err != nil {
		return
	}
	for i := range list.Items {
		l, err := lockOf(list.Items[i].Object)
		if err != nil {
			continue
		}
		for j := range claims {
			if claims[j].Volume != "" && claims[j].Volume == l.Spec.PersistentVolume {
				claims[j].Lock, claims[j].Holder = l.Name, l.Spec.Node.Name
			}
		}
	}
}

// Burden is of Reader.
func (c *Client) Burden(ctx context.Context, node string) Burden {
	var b Burden
	selector := fields.OneTermEqualSelector("spec.nodeName", node).String()
	pods, err := c.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{FieldSelector: selector})
	if err != nil {
		b.PodsUnknown = why(err)
	} else {
		b.Pods = c.bound(ctx, pods.Items)
	}
	attachments, err := c.Kube.StorageV1().VolumeAttachments().List(ctx, metav1.ListOptions{})
	if err != nil {
		b.AttachmentsUnknown = why(err)
		return b
	}
	for _, a := range attachments.Items {
		if a.Spec.NodeName == node {
			volume := "inline"
			if a.Spec.Source.PersistentVolumeName != nil {
				volume = *a.Spec.Source.PersistentVolumeName
			}
			shown := Attachment{Name: a.Name, Volume: volume, Attached: a.Status.Attached}
			if a.Status.Attached { // else another node may have been faster, and hold what is named there
				shown.Lock = a.Annotations[v1alpha1.AnnotationVolumeLock]
			}
			b.Attachments = append(b.Attachments, shown)
		}
	}
	slices.SortFunc(b.Attachments, func(a, b Attachment) int { return cmp.Compare(a.Volume, b.Volume) })
	return b
}

func (c *Client) bound(ctx context.Context, pods []corev1.Pod) []BoundPod {
	var bound []BoundPod
	for i := range pods {
		p := &pods[i]
		if graceperiod.Finished(p) {
			continue
		}
		why := policy.AsRecorded(p).Why(p, nil)
		if why != "" && len(policy.ClaimNames(p)) > 0 { // it may be for want of the claims' modes
			why = policy.AsRecorded(p).Why(p, PodFacts{Claims: c.claims(ctx, p)}.known())
		}
		bound = append(bound, BoundPod{Namespace: p.Namespace, Name: p.Name, Why: why})
	}
	return bound
}

// May is of Reader. Every authenticated user may ask about themselves (ClusterRole system:basic-user).
func (c *Client) May(ctx context.Context, rights []Right) (Permission, error) {
	self, err := c.Kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return Permission{}, fmt.Errorf("ask the API server who you are: %w", err)
	}
	p := Permission{User: self.Status.UserInfo.Username, Needed: rights}
	for _, r := range rights {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: r.Verb, Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Namespace: r.Namespace, Name: r.Name},
		}}
		review, err := c.Kube.AuthorizationV1().SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return Permission{}, fmt.Errorf("ask the API server whether you may %s: %w", r, err)
		}
		if !review.Status.Allowed {
			p.Missing = append(p.Missing, r)
		}
	}
	return p, nil
}

// ConfirmPod is of Writer. What it writes is for this very pod, also where that is removed by it, and another one takes its name meanwhile.
func (c *Client) ConfirmPod(ctx context.Context, pod *corev1.Pod, text string) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return c.confirmPod(ctx, pod, text) })
	switch another := (replacedError{}); {
	case err == nil:
		c.tell(ctx, corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, "it was confirmed that this pod may be force-deleted, although it may run twice then")
		return nil
	case apierrors.IsNotFound(err):
		return fmt.Errorf("pod %s is gone meanwhile: nothing was changed", podName(pod))
	case errors.As(err, &another):
		return fmt.Errorf("pod %s was replaced meanwhile, it is another one now (UID %s): nothing was changed", podName(pod), another.uid)
	}
	return fmt.Errorf("write the confirmation to pod %s: %w", podName(pod), err)
}

// replacedError says that another pod has the name.
type replacedError struct{ uid types.UID }

func (e replacedError) Error() string { return "another pod has its name, of UID " + string(e.uid) }

// confirmPod writes what a pod says as it is now. A patch names the version that it is for: one that removes the pod has to be a PUT (guard.RemovedByUpdate), which puts back what was read, whatever this program knows of it.
func (c *Client) confirmPod(ctx context.Context, pod *corev1.Pod, text string) error {
	now, err := c.Kube.CoreV1().Pods(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case now.UID != pod.UID:
		return replacedError{now.UID}
	case guard.RemovedByUpdate(now):
		return c.replacePod(ctx, now, text)
	}
	metadata := map[string]any{"uid": pod.UID, "resourceVersion": now.ResourceVersion}
	patch, err := annotation(metadata, guard.AnnotationConfirmForceDelete, text)
	if err != nil {
		return err
	}
	kind, options := types.MergePatchType, metav1.PatchOptions{FieldManager: fieldManager}
	if len(now.ManagedFields) == 0 {
		// The API server takes no confirmation whose time it does not note. If somebody has emptied managedFields, only an apply is noted
		// (k8s.io/apimachinery pkg/util/managedfields/internal/skipnonapplied.go, 0.36.3).
		kind, options.Force = types.ApplyPatchType, new(true)
		metadata["namespace"], metadata["name"] = pod.Namespace, pod.Name
		if patch, err = json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": metadata}); err != nil {
			return fmt.Errorf("make the patch: %w", err)
		}
	}
	_, err = c.Kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, kind, patch, options)
	return err
}

func (c *Client) replacePod(ctx context.Context, pod *corev1.Pod, text string) error {
	all := c.Dynamic.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(pod.Namespace)
	now, err := all.Get(ctx, pod.Name, metav1.GetOptions{})
	switch {
	case err != nil:
		return err
	case now.GetUID() != pod.UID:
		return replacedError{now.GetUID()}
	}
	if err := unstructured.SetNestedField(now.Object, text, "metadata", "annotations", guard.AnnotationConfirmForceDelete); err != nil {
		return fmt.Errorf("annotate it: %w", err)
	}
	_, err = all.Update(ctx, now, metav1.UpdateOptions{FieldManager: fieldManager})
	return err
}

// ConfirmNode is of Writer.
func (c *Client) ConfirmNode(ctx context.Context, node *corev1.Node, text string) error {
	preconditions := map[string]any{"uid": node.UID, "resourceVersion": node.ResourceVersion}
	patch, err := annotation(preconditions, guard.AnnotationConfirmOff, text)
	if err != nil {
		return err
	}
	_, err = c.Kube.CoreV1().Nodes().Patch(ctx, node.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: fieldManager})
	switch {
	case err == nil:
		c.tell(ctx, corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}, "it was confirmed that this boot of the node is off: "+text)
		return c.receipt(ctx, node, text)
	case apierrors.IsNotFound(err):
		return fmt.Errorf("node %s is gone meanwhile: it was not confirmed", node.Name)
	case apierrors.IsConflict(err):
		return fmt.Errorf("node %s was written to meanwhile, perhaps by its kubelet: it was not confirmed, look again", node.Name)
	}
	return fmt.Errorf("write the confirmation to node %s: %w", node.Name, err)
}

// receipt writes the FenceReceipt by which a Fence of the node goes on, as one that waits for a person does. Where fencing is not installed there is none; the annotation
// holds in any case. So it does for who may not write receipts, with roles of an earlier version or of their own.
func (c *Client) receipt(ctx context.Context, node *corev1.Node, text string) error {
	if c.Dynamic == nil {
		return nil
	}
	p, err := c.May(ctx, nil)
	if err != nil {
		return err
	}
	receipt := &v1alpha1.FenceReceipt{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "FenceReceipt"},
		ObjectMeta: metav1.ObjectMeta{GenerateName: "confirmed-"},
		Spec: v1alpha1.FenceReceiptSpec{
			Node:  &v1alpha1.BootReference{Name: node.Name, UID: node.UID, BootID: node.Status.NodeInfo.BootID},
			Class: v1alpha1.EvidenceConfirmed, By: p.User, LastSign: text,
			Message: console.Shorten(p.User+" confirmed that this boot of node "+node.Name+" is off", 1000),
		},
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(receipt)
	if err != nil {
		return fmt.Errorf("encode the FenceReceipt: %w", err)
	}
	_, err = c.Dynamic.Resource(receipts).Create(ctx, &unstructured.Unstructured{Object: object}, metav1.CreateOptions{FieldManager: fieldManager})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("node %s is confirmed to be off, but a Fence that waits for it will not see it: write its FenceReceipt: %w", node.Name, err)
	}
	return nil
}

func annotation(metadata map[string]any, key, value string) ([]byte, error) {
	metadata["annotations"] = map[string]string{key: value}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return nil, fmt.Errorf("make the patch: %w", err)
	}
	return patch, nil
}

// Complete returns what a shell can offer after a prefix: pods of the namespace, and nodes as node/NAME.
func (c *Client) Complete(ctx context.Context, namespace, prefix string) ([]string, error) {
	const most = 500
	options := metav1.ListOptions{Limit: most}
	var names []string
	var errs []error
	if kind := "node/"; strings.HasPrefix(prefix, kind) || strings.HasPrefix(kind, prefix) {
		nodes, err := c.Kube.CoreV1().Nodes().List(ctx, options)
		errs = append(errs, err)
		for i := 0; err == nil && i < len(nodes.Items); i++ {
			names = append(names, kind+nodes.Items[i].Name)
		}
	}
	if !strings.HasPrefix(prefix, "node/") {
		pods, err := c.Kube.CoreV1().Pods(namespace).List(ctx, options)
		errs = append(errs, err)
		for i := 0; err == nil && i < len(pods.Items); i++ {
			names = append(names, pods.Items[i].Name)
		}
	}
	return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, prefix) }), errors.Join(errs...)
}

// why is an error in the few words that fit into a row.
func why(err error) string {
	switch {
	case apierrors.IsForbidden(err):
		return "you may not read it"
	case apierrors.IsNotFound(err):
		return "it does not exist"
	}
	return err.Error()
}

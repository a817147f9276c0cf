package podgrace

import (
	"context"
	"fmt"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/webhook"
)

// WriteReceipt writes what a fencer writes once the boot that a Node has, or had, is off or can't reach volumes, in the fencer's name and with its rights (AllowFencer).
func WriteReceipt(ctx context.Context, c *cluster.Cluster, node *corev1.Node, class v1alpha1.EvidenceClass, volumes ...string) (*v1alpha1.FenceReceipt, error) {
	kube, err := client.New(c.Config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	config, err := c.User(fencerUser, groups...)
	if err != nil {
		return nil, err
	}
	fencer, err := client.New(config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("make the fencer's client: %w", err)
	}
	var lease coordinationv1.Lease
	if err := kube.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, &lease); err != nil {
		return nil, fmt.Errorf("read the Lease of node %s: %w", node.Name, err)
	}
	read := v1alpha1.PowerReadBack{Time: metav1.NowMicro(), State: "Off"}
	r := &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{GenerateName: "receipt-"}, Spec: v1alpha1.FenceReceiptSpec{
		Node:  &v1alpha1.BootReference{Name: node.Name, UID: node.UID, BootID: node.Status.NodeInfo.BootID},
		Class: class, LastSign: guard.ConfirmOff(node, &lease), ReadBacks: []v1alpha1.PowerReadBack{read, read}, Volumes: volumes,
	}}
	if err := fencer.Create(ctx, r); err != nil {
		return nil, fmt.Errorf("write a FenceReceipt: %w", err)
	}
	return r, nil
}

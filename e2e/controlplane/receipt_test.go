package controlplane

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/guard"
)

// To void a receipt, and to take that back, needs the right to write it: a user who may write FenceReceipts of any kind stops no fencing. A receipt of class Void that names a receipt which does not
// exist, or is for another node, voids nothing.
func TestVoidReceipts(t *testing.T) {
	s := start(t)
	node := partition(t, s)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{}})
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
		Template: template("db", func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"e2e": node.Name} }),
	}})
	bound(t, s, ns, 1)
	silence(t, s, node)
	var lease coordinationv1.Lease
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, &lease); err != nil {
		t.Fatal(err)
	}

	receipts := rbacv1.PolicyRule{APIGroups: []string{"podgrace.dev"}, Resources: []string{"fencereceipts"}, Verbs: []string{"create", "delete", "deletecollection", "list"}}
	s.Bind(t, rbacv1.UserKind, "confirmer", "", "podgrace-confirm-node")
	s.Grant(t, rbacv1.UserKind, "writer", "", receipts)
	s.Grant(t, rbacv1.UserKind, "other-nodes", "", receipts, rbacv1.PolicyRule{APIGroups: []string{"podgrace.dev"}, Resources: []string{"nodes"}, ResourceNames: []string{"node-0"}, Verbs: []string{"force-delete"}})
	user := func(name string) client.Client { kube, _ := s.Warned(t, name); return kube }
	confirmer, writer, other := user("confirmer"), user("writer"), user("other-nodes")

	boot := v1alpha1.BootReference{Name: node.Name, UID: node.UID, BootID: node.Status.NodeInfo.BootID}
	receipt := &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: "of-" + node.Name}, Spec: v1alpha1.FenceReceiptSpec{
		Node: &boot, Class: v1alpha1.EvidenceConfirmed, By: "confirmer", LastSign: guard.ConfirmOff(node, &lease),
	}}
	void := func(name string, uid types.UID, boot v1alpha1.BootReference) *v1alpha1.FenceReceipt {
		return &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: name + "-" + node.Name}, Spec: v1alpha1.FenceReceiptSpec{
			Node: &boot, Class: v1alpha1.EvidenceVoid, Voids: receipt.Name, VoidsUID: uid,
		}}
	}
	create := func(kube client.Client, r *v1alpha1.FenceReceipt) {
		t.Helper()
		if err := kube.Create(t.Context(), r); err != nil {
			t.Fatalf("%s: %v", r.Name, err)
		}
		t.Cleanup(func() { _ = s.Client.Delete(context.Background(), r) })
	}
	// The Node may be deleted while a receipt that counts proves that it is off. Each replica reads receipts by a watch.
	allowed := func(what string, want bool) {
		t.Helper()
		suite.Eventually(t, what, func(ctx context.Context) (bool, error) {
			err := s.Client.Delete(ctx, node.DeepCopy(), client.DryRunAll)
			if !want {
				return suite.RefusedBy(err, "node.removal.podgrace.dev"), nil
			}
			return err == nil, err
		})
	}

	allowed("the Node kept without a receipt", false)
	early := void("early", "of-none-yet", boot)
	create(confirmer, early)
	create(confirmer, receipt)
	allowed("the Node let go by its receipt, beside one of class Void from before", true)

	wantForbidden(t, writer.Create(t.Context(), void("mine", receipt.UID, boot)), "or to void that, you need the verb force-delete on nodes.podgrace.dev")
	wantForbidden(t, confirmer.Create(t.Context(), void("by-name", "", boot)), "spec.voidsUID must be the UID of the receipt")
	elsewhere := void("elsewhere", receipt.UID, v1alpha1.BootReference{Name: "node-0", UID: boot.UID, BootID: boot.BootID})
	create(other, elsewhere)
	allowed("the Node let go beside one of class Void for another node", true)

	wrong := void("wrong", receipt.UID, boot)
	create(confirmer, wrong)
	allowed("the Node kept once its receipt is void", false)
	const keeps = "without it that one counts again: to delete it you need the verb force-delete on nodes.podgrace.dev"
	wantForbidden(t, writer.Delete(t.Context(), wrong.DeepCopy()), keeps)
	wantForbidden(t, other.Delete(t.Context(), wrong.DeepCopy()), keeps)
	wantForbidden(t, writer.DeleteAllOf(t.Context(), &v1alpha1.FenceReceipt{}, client.MatchingFields{"metadata.name": wrong.Name}), keeps)
	if err := confirmer.Delete(t.Context(), wrong.DeepCopy()); err != nil {
		t.Errorf("taking it back: %v", err)
	}
	allowed("the Node let go once that was taken back", true)
}

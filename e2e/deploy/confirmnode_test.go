package deploy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/guard"
)

// Who is bound to podgrace-confirm-node can confirm that a node is off, and sees what there is to see but its pods. Nobody else can.
func TestRoleConfirmsNodes(t *testing.T) {
	s := shared.Get(t)
	silent := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: metav1.NewTime(time.Now().Add(-10 * time.Minute))}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "off-1"}, Status: corev1.NodeStatus{
		NodeInfo: corev1.NodeSystemInfo{BootID: "boot"}, Conditions: []corev1.NodeCondition{silent},
	}}
	s.Create(t, node)
	s.Bind(t, rbacv1.GroupKind, "oncall", "", "podgrace-confirm-node")
	oncall, other := confirmer(t, s, "ann", "oncall"), confirmer(t, s, "bob", "others")
	rights := []confirm.Right{{Verb: "force-delete", Group: "podgrace.dev", Resource: "nodes", Name: node.Name}, {Verb: "patch", Resource: "nodes", Name: node.Name}}
	if may, err := oncall.May(t.Context(), rights); err != nil || len(may.Missing) > 0 {
		t.Errorf("the role lacks %v, %v", may.Missing, err)
	}
	if may, err := other.May(t.Context(), rights); err != nil || len(may.Missing) != len(rights) {
		t.Errorf("another one lacks %v, %v", may.Missing, err)
	}
	if burden := oncall.Burden(t.Context(), node.Name); burden.AttachmentsUnknown != "" || burden.PodsUnknown == "" {
		t.Errorf("what is on the node: %+v", burden)
	}
	// Who confirms must have seen the node as it is. Controllers write to one that is new and silent: then a person looks again.
	suite.Eventually(t, "the confirmation", func(ctx context.Context) (bool, error) {
		state, err := oncall.Node(ctx, node.Name)
		if err != nil || state.LeaseUnknown != "" {
			return false, fmt.Errorf("the node: %w %s", err, state.LeaseUnknown)
		}
		err = oncall.ConfirmNode(ctx, state.Node, guard.ConfirmOff(state.Node, state.Lease))
		if err != nil && strings.Contains(err.Error(), "was written to meanwhile") {
			return false, nil
		}
		return err == nil, err
	})
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil || !strings.HasPrefix(node.Annotations["podgrace.dev/confirm-off"], string(node.UID)+"/boot/") {
		t.Errorf("the node has %v, %v", node.Annotations, err)
	}
	suite.Eventually(t, "the Event of it", func(ctx context.Context) (bool, error) {
		events, err := administrator(t, s).CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=RemovalConfirmed,involvedObject.name=" + node.Name})
		return err == nil && len(events.Items) == 1, err
	})
}

// Receipts are what the removal guard lets pods go by, fencer or not: who may confirm writes them in their own name, of what they were told and not of what was read.
func TestReceiptsWithoutAFencer(t *testing.T) {
	s := shared.Get(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "off-2"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot"}}}
	s.Create(t, node)
	s.Bind(t, rbacv1.GroupKind, "night", "", "podgrace-confirm-node")
	config, err := s.User("eve", "night")
	if err != nil {
		t.Fatal(err)
	}
	eve, err := client.New(config, client.Options{Scheme: s.Client.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	receipt := func(name string, change func(*v1alpha1.FenceReceiptSpec)) *v1alpha1.FenceReceipt {
		r := &v1alpha1.FenceReceipt{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FenceReceiptSpec{
			Node: &v1alpha1.BootReference{Name: node.Name, UID: node.UID, BootID: "boot"}, Class: v1alpha1.EvidenceConfirmed, By: "eve", LastSign: string(node.UID) + "/boot//", Message: "eve saw it",
		}}
		if change != nil {
			change(&r.Spec)
		}
		return r
	}
	mine := receipt("mine", nil)
	if err := eve.Create(t.Context(), mine.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*v1alpha1.FenceReceiptSpec){
		"spec.by must be you (eve)": func(r *v1alpha1.FenceReceiptSpec) { r.By = "bob" },
		"only the fencer can say what was read": func(r *v1alpha1.FenceReceiptSpec) {
			r.Class, r.By, r.ReadBacks = v1alpha1.EvidencePoweredOff, "", []v1alpha1.PowerReadBack{{Time: metav1.NowMicro(), State: "Off"}, {Time: metav1.NowMicro(), State: "Off"}}
		},
		"you need the verb force-delete on pods.podgrace.dev": func(r *v1alpha1.FenceReceiptSpec) {
			r.Node, r.LastSign, r.Pod = nil, "", &v1alpha1.PodReference{Namespace: "shop", Name: "db-0", UID: "u"}
		},
	} {
		suite.InForce(t, "fence-receipts.podgrace.dev", func(ctx context.Context) error { return eve.Create(ctx, receipt("forged", change), client.DryRunAll) }, name)
	}
	if err := s.Client.Delete(t.Context(), mine); err != nil {
		t.Error(err)
	}
}

func administrator(t *testing.T, s *suite.Suite) kubernetes.Interface {
	t.Helper()
	kube, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return kube
}

// confirmer is what kubectl podgrace confirm is for a user.
func confirmer(t *testing.T, s *suite.Suite, user, group string) *confirm.Client {
	t.Helper()
	config, err := s.User(user, group)
	if err != nil {
		t.Fatal(err)
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	return &confirm.Client{Kube: kube, Clock: clock.RealClock{}}
}

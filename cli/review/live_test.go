package review

import (
	"context"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/policyfile"
	"github.com/podgrace/podgrace/webhook"
)

// oneNode is a cluster of one node, its Lease and its Namespace. (client-go's fake does not keep managedFields as they are given.)
type oneNode struct {
	client.Reader
	node  corev1.Node
	lease coordinationv1.Lease
}

func (c *oneNode) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	switch l := list.(type) {
	case *corev1.NodeList:
		l.Items = []corev1.Node{*c.node.DeepCopy()}
	case *coordinationv1.LeaseList:
		l.Items = []coordinationv1.Lease{*c.lease.DeepCopy()}
	case *corev1.NamespaceList:
		l.Items = []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "shop", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}}}
	}
	return nil
}

// A kubelet whose clock is behind says that it was heard of long ago; the API server says when it really was, in managedFields. The webhook
// reads both, so that a review of the cluster must, too: a confirmation that the node is off would hold offline alone.
func TestSignsOfLifeOfACluster(t *testing.T) {
	now := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	long := now.Add(-time.Hour)
	written := func(at time.Time) []metav1.ManagedFieldsEntry {
		return []metav1.ManagedFieldsEntry{{Manager: "kubelet", Operation: metav1.ManagedFieldsOperationUpdate, Subresource: "status", Time: &metav1.Time{Time: at}}}
	}
	for name, test := range map[string]struct {
		node, lease time.Time
		want        Decision
	}{
		"silent":             {long, long, Allowed},
		"the Node is fresh":  {now, long, Denied},
		"the Lease is fresh": {long, now, Denied},
	} {
		t.Run(name, func(t *testing.T) {
			c := &oneNode{
				node: corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", UID: "u", ManagedFields: written(test.node)}, Status: corev1.NodeStatus{
					NodeInfo:   corev1.NodeSystemInfo{BootID: "boot"},
					Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: metav1.Time{Time: long}}},
				}},
				lease: coordinationv1.Lease{
					ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n1", ManagedFields: written(test.lease)},
					Spec:       coordinationv1.LeaseSpec{RenewTime: &metav1.MicroTime{Time: long}},
				},
			}
			c.node.Annotations = map[string]string{guard.AnnotationConfirmOff: guard.ConfirmOff(&c.node, &c.lease)}
			state, err := FromCluster(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			policies, err := policyfile.Parse("policy.yaml", []byte(web))
			if err != nil {
				t.Fatal(err)
			}
			e, err := NewEngine(state, policies...)
			if err != nil {
				t.Fatal(err)
			}
			e.Clock = clocktesting.NewFakePassiveClock(now)
			r := mustReview(t, e, running, Question{Operation: OperationDelete, GracePeriodSeconds: new(int64(0))})
			if r.Decision != test.want {
				t.Errorf("%s: %s %s", r.Decision, r.Reason, r.Message)
			}
			if len(all[*corev1.Namespace](state)[0].ManagedFields) > 0 {
				t.Error("managedFields that nobody reads are kept")
			}
		})
	}
}

// A policy of a cluster with a field that is not read, as where this program is older, is judged by as the webhook does: it fails no review, and is told.
func TestPoliciesOfAClusterAreHalfRead(t *testing.T) {
	stored := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "guard", ManagedFields: []metav1.ManagedFieldsEntry{{
		Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, APIVersion: v1alpha1.GroupVersion.String(), FieldsType: "FieldsV1",
		FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:removal":{"f:roads":{}}}}`),
	}}}, Spec: v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, AllowedActors: []string{"repair"}}}}
	reader := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(stored).WithReturnManagedFields().Build()
	policies, err := PoliciesOf(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	e, err := NewEngine(NewState(), policies...)
	if err != nil {
		t.Fatal(err)
	}
	var list v1alpha1.PodPolicyList
	if err := reader.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	ns := policy.Namespace{Name: "shop"}
	if got, want := e.Policies.Policies().Removal(ns, e.Exempt), policy.InForce(list.Items).Removal(ns, e.Exempt); !got.Protect.All || !equality.Semantic.DeepEqual(got, want) {
		t.Errorf("removals are judged by %+v, and by the webhook by %+v", got, want)
	}
	if e.Unread == nil || !strings.Contains(e.Unread.Error(), "PodPolicy guard: spec.removal.roads") || !strings.Contains(e.Unread.Error(), "it is in force, but for") {
		t.Errorf("told: %v", e.Unread)
	}
}

// What is not read of exceptions and of NodePolicies is known by their managed fields, which are kept for that.
func TestManagedFieldsByWhichOneKnowsWhatIsNotRead(t *testing.T) {
	fields := []metav1.ManagedFieldsEntry{{Manager: "kubectl", Operation: metav1.ManagedFieldsOperationApply, APIVersion: v1alpha1.GroupVersion.String(), FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:newer":{}}}`)}}
	reader := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithReturnManagedFields().WithObjects(
		&v1alpha1.PolicyException{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "e", ManagedFields: fields}},
		&v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "n", ManagedFields: fields}},
	).Build()
	state, err := FromCluster(t.Context(), reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []client.Object{all[*v1alpha1.PolicyException](state)[0], all[*v1alpha1.NodePolicy](state)[0]} {
		if len(o.GetManagedFields()) == 0 {
			t.Errorf("%T has lost its managed fields", o)
		}
	}
}

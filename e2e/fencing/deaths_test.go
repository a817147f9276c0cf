package fencing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/fencing/agents/agentstest"
)

// Of two silent nodes one may be fenced at a time. The fencer is killed with the order to be off, which is lost, and as it releases, when the API server is killed as well: the next one goes on from
// what is stored. The second node waits until the first one's machine, which is "powering off" for long, is off. Its namespace is deleted while it is silent, and ends by the fence.
func TestDeaths(t *testing.T) {
	l := startAlone(t)
	const first, second = 5, 6
	kept, doomed := l.Namespace(t), l.Namespace(t)
	for _, namespace := range []string{kept, doomed} {
		l.Policy(t, namespace, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}})
	}
	one, other := agentstest.NewMachine(machineUUID(first)), l.machine(t, second, machineUUID(second))
	one.SetAfterOff("PoweringOff")
	system, killed := one.System("1"), make(chan error, 1)
	leader, orders := l.fencer, 0
	var ordered time.Time
	system.ForceOff = func() error {
		if orders++; orders > 1 {
			return one.Off()
		}
		ordered = time.Now()
		killed <- leader.kill()
		return nil
	}
	l.behind(t, first, system)
	policy := policyOf("one-at-a-time", v1alpha1.FenceModeFence, 1, nodeName(first), nodeName(second))
	for _, i := range []int{first, second} {
		policy.Spec.Agents = append(policy.Spec.Agents, v1alpha1.FencePolicyAgent{Name: "bmc-" + nodeName(i), Timeout: metav1.Duration{Duration: 5 * time.Minute}, Attempts: 5})
	}
	const patience = 2 * time.Minute // longer than anything else that an order waits for here
	policy.Spec.JustifiedBy.Patience.Duration = patience
	l.Create(t, policy)
	pod, caught := l.database(t, kept, first), l.database(t, doomed, second)
	stop := l.watchBudget(t)

	l.StopHeartbeat(nodeName(first))
	select { // the order to be off comes with the decision, or a round later
	case err := <-killed:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(soon):
		t.Fatal("nobody orders the power off")
	}
	if after := passed(l.lastSign(t, nodeName(first)), ordered); after < patience {
		t.Errorf("the power was ordered off %s after the last sign of life, and the policy's patience is %s", after, patience)
	}
	if fence, err := l.fenceOf(t.Context(), nodeName(first)); err != nil || fence == nil || fence.Status.Attempt == nil {
		t.Errorf("the attempt was not written before the order: %+v, %v", fence, err)
	}
	l.startFencer(t)
	suite.EventuallyWithin(t, soon, "the order that was lost to be given again", func(context.Context) (bool, error) { return one.Offs() > 0, nil })

	// It is not off, and may never be: nobody is released by that, and the second node waits for it.
	l.StopHeartbeat(nodeName(second))
	if err := l.Client.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: doomed}}); err != nil {
		t.Fatal(err)
	}
	suite.EventuallyWithin(t, soon, "the second node to wait for the budget", func(context.Context) (bool, error) {
		c := l.condition(t, nodeName(second))
		if c == nil || !strings.Contains(c.Message, "as many nodes are being fenced") {
			return false, fmt.Errorf("%+v", c)
		}
		return true, nil
	})
	if receipts := l.receipts(t); len(receipts) > 0 || other.Offs() > 0 {
		t.Errorf("receipts %+v, and the second machine was told %d times to be off", receipts, other.Offs())
	}
	for _, p := range []*corev1.Pod{pod, caught} {
		var now corev1.Pod
		if err := l.Client.Get(t.Context(), client.ObjectKeyFromObject(p), &now); err != nil || now.UID != p.UID {
			t.Errorf("pod %s: %v", p.Name, err)
		}
	}

	one.SetState("Off")
	suite.EventuallyWithin(t, soon, "the receipt", func(context.Context) (bool, error) { return len(l.receipts(t)) > 0, nil })
	if err := l.RestartAPIServer(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := l.fencer.kill(); err != nil {
		t.Fatal(err)
	}
	l.startFencer(t)
	l.phase(t, nodeName(first), v1alpha1.FenceReleased)
	suite.Eventually(t, "the database to be bound elsewhere", func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(pod), &now)
		return now.UID != pod.UID && now.Spec.NodeName != "" && now.Spec.NodeName != nodeName(first), client.IgnoreNotFound(err)
	})

	l.phase(t, nodeName(second), v1alpha1.FenceReleased)
	suite.EventuallyWithin(t, soon, "the end of the namespace", func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, types.NamespacedName{Name: doomed}, &corev1.Namespace{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if receipts := l.receipts(t); len(receipts) != 2 || receipts[0] == receipts[1] {
		t.Errorf("the receipts are of %v", receipts)
	}
	stop()
}

// receipts are the nodes that have one.
func (l *lab) receipts(t *testing.T) []string {
	t.Helper()
	var all v1alpha1.FenceReceiptList
	if err := l.Client.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	var nodes []string
	for i := range all.Items {
		nodes = append(nodes, all.Items[i].Spec.Node.Name)
	}
	slices.Sort(nodes)
	return nodes
}

// watchBudget fails the test once two nodes are in the course of being fenced, until it is stopped.
func (l *lab) watchBudget(t *testing.T) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for ; ctx.Err() == nil; <-tick.C {
			var all v1alpha1.FenceList
			if err := l.Client.List(ctx, &all); err != nil {
				continue // the API server is away
			}
			var acting []string
			for i := range all.Items {
				if p := all.Items[i].Status.Phase; p == v1alpha1.FenceDecided || p == v1alpha1.FenceActing {
					acting = append(acting, all.Items[i].Spec.Node.Name)
				}
			}
			if len(acting) > 1 {
				t.Errorf("%v are being fenced at once", acting)
				return
			}
		}
	}()
	return func() {
		cancel()
		<-done
	}
}

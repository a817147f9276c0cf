package fencing

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/fencing/agents/agentstest"
)

// lastSign is when the Lease of a node was renewed last.
func (l *lab) lastSign(t *testing.T, node string) time.Time {
	t.Helper()
	var lease coordinationv1.Lease
	if err := l.Client.Get(t.Context(), types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: node}, &lease); err != nil {
		t.Fatal(err)
	}
	return lease.Spec.RenewTime.Time
}

// The fencer's clock jumps by hours in both directions: while a node falls silent, when its power is ordered off, between the readings that prove it, and
// while a user asks for another node, which sent a heartbeat a moment ago. A clock of the same speed that does not jump measures: the power is ordered off only
// after the policy's silentFor, a receipt exists only after two readings 5 s apart and 40 s without a heartbeat, and both incidents end.
func TestClockThatJumps(t *testing.T) {
	l := prepare(t)
	namespace := l.Namespace(t)
	l.Policy(t, namespace, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}})
	const silent, asked = 8, 9
	const hour = time.Hour
	l.startFencer(t)

	// Each order has the clock jump, and so does the second time that the power is read to be off.
	type machine struct {
		*agentstest.Machine
		ordered, offTwice atomic.Pointer[time.Time]
		readOff           atomic.Int32
	}
	machines := map[int]*machine{}
	for i, jumps := range map[int][2]time.Duration{silent: {-5 * hour, 7 * hour}, asked: {4 * hour, 3 * hour}} {
		m := &machine{Machine: agentstest.NewMachine(machineUUID(i))}
		machines[i] = m
		system := m.System("1")
		system.ForceOff = func() error {
			if m.ordered.CompareAndSwap(nil, new(time.Now())) {
				l.clock.jump(jumps[0])
			}
			return m.Off()
		}
		system.Power = func() string {
			state := m.State()
			if state == "Off" && m.readOff.Add(1) == 2 {
				m.offTwice.Store(new(l.clock.jump(jumps[1])))
			}
			return state
		}
		l.behind(t, i, system)
		l.policy(t, i, v1alpha1.FenceModeFence)
	}
	pods := map[int]*corev1.Pod{silent: l.database(t, namespace, silent), asked: l.database(t, namespace, asked)}

	l.StopHeartbeat(nodeName(silent))
	l.notReady(t, nodeName(silent))
	if err := l.Client.Delete(t.Context(), pods[silent].DeepCopy()); err != nil { // for a pod that is being deleted the policy has no patience, and its silence alone counts
		t.Fatal(err)
	}
	forth := l.clock.jump(3 * hour) // it has been silent for some 50 s

	var n corev1.Node
	if err := l.Client.Get(t.Context(), types.NamespacedName{Name: nodeName(asked)}, &n); err != nil {
		t.Fatal(err)
	}
	l.StopHeartbeat(nodeName(asked))
	l.ask(t, "clock", &n)

	proved := map[int]time.Time{}
	suite.EventuallyWithin(t, soon, "both receipts", func(ctx context.Context) (bool, error) {
		var all v1alpha1.FenceReceiptList
		err := l.Client.List(ctx, &all)
		for i := range machines {
			if proved[i].IsZero() && slices.ContainsFunc(all.Items, func(r v1alpha1.FenceReceipt) bool { return r.Spec.Node.Name == nodeName(i) }) {
				proved[i] = time.Now()
			}
		}
		return len(proved) == len(machines) && !proved[silent].IsZero() && !proved[asked].IsZero(), err
	})
	for i, m := range machines {
		ordered, twice := m.ordered.Load(), m.offTwice.Load()
		if ordered == nil || twice == nil {
			t.Fatalf("node %s: there is a receipt, and its power was not ordered off or not read twice", nodeName(i))
		}
		last := l.lastSign(t, nodeName(i))
		t.Logf("node %s: ordered off %s, proved %s after its last sign of life; %d readings", nodeName(i), passed(last, *ordered).Round(time.Second/10), passed(last, proved[i]).Round(time.Second/10), m.readOff.Load())
		if early := 40*time.Second - passed(last, proved[i]); early > 0 {
			t.Errorf("node %s: its receipt was made %s too early after its last sign of life", nodeName(i), early)
		}
		if m.readOff.Load() < 4 { // those before a jump prove nothing
			t.Errorf("node %s: there is a receipt by %d readings, of which two began before the clock jumped", nodeName(i), m.readOff.Load())
		}
	}
	if early := time.Minute - passed(forth, *machines[silent].ordered.Load()); early > 0 {
		t.Errorf("the power of the silent node was ordered off %s before it was watched to be silent for a minute", early)
	}
	for i, pod := range pods {
		suite.EventuallyWithin(t, soon, "the database of node "+nodeName(i)+" to be bound elsewhere", func(ctx context.Context) (bool, error) {
			var now corev1.Pod
			err := l.Client.Get(ctx, client.ObjectKeyFromObject(pod), &now)
			if now.UID == pod.UID || now.Spec.NodeName == "" {
				return false, client.IgnoreNotFound(err)
			}
			if now.Spec.NodeName == nodeName(i) {
				err = fmt.Errorf("it is bound to %s again", now.Spec.NodeName)
			}
			return true, err
		})
		l.renew(t, i)
	}
}

// ask has the tests' user ask for a fence.
func (l *lab) ask(t *testing.T, name string, node *corev1.Node) {
	t.Helper()
	l.Create(t, &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FenceSpec{
		Node:   v1alpha1.BootReference{Name: node.Name, UID: node.UID, BootID: node.Status.NodeInfo.BootID},
		Reason: v1alpha1.FenceRequested, RequestedBy: l.user(t),
	}})
}

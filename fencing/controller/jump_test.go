package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
)

// bmc is before the machine of n1.
type bmc struct {
	off    bool
	orders int
}

func (b *bmc) Agent(context.Context, *v1alpha1.Fence, v1alpha1.FenceTargetAgent) (fencing.Agent, error) {
	return b, nil
}

func (b *bmc) Off(context.Context, v1alpha1.FenceMachine) error {
	b.off = true
	b.orders++
	return nil
}

func (b *bmc) Power(context.Context, v1alpha1.FenceMachine) (fencing.Reading, error) {
	read := fencing.Reading{Power: fencing.PowerOn, State: "On", SystemUUID: node("n1").Status.NodeInfo.SystemUUID}
	if b.off {
		read.Power, read.State = fencing.PowerOff, "Off"
	}
	return read, nil
}

const (
	aRound = 2 * time.Second
	// heardLast is for how long n1 is heard of.
	heardLast = 20 * time.Second
)

// incident is one in which the fencer's clock jumps once, at the beginning of a round or amid its look-ups.
type incident struct {
	*cluster
	bmc    *bmc
	jump   time.Duration
	midway bool
}

// kind of an incident.
type kind string

const (
	silent   kind = "silent"
	asked    kind = "asked for by a person, at the beginning"
	watchdog kind = "silent, with a watchdog that resets it" // the receipt rests on silence alone
)

func newIncident(t *testing.T, k kind) *incident {
	t.Helper()
	i := &incident{bmc: &bmc{}}
	half := intstr.FromString("50%")
	policy := &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.FencePolicySpec{
		Mode: v1alpha1.FenceModeFence, SilentFor: metav1.Duration{Duration: time.Minute}, JustifiedBy: &v1alpha1.FenceJustification{Patience: &metav1.Duration{Duration: time.Minute}},
		Budget: v1alpha1.FenceBudget{MaxConcurrent: 1, MaxUnhealthy: half, MaxUnhealthyInZone: half}, Release: v1alpha1.ReleasePods,
		Agents: []v1alpha1.FencePolicyAgent{{Name: "bmc", Timeout: metav1.Duration{Duration: time.Minute}, Attempts: 3}},
	}}
	agent := &v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: "bmc", UID: "agent"}, Spec: v1alpha1.FenceAgentSpec{
		Type: v1alpha1.AgentRedfish, Identity: v1alpha1.IdentityVerified, Machines: []v1alpha1.FenceMachine{{SystemUUID: node("n1").Status.NodeInfo.SystemUUID, Address: "https://192.0.2.1"}},
	}}
	if k == watchdog {
		policy.Spec.Agents[0].Evidence = []v1alpha1.EvidenceClass{v1alpha1.EvidenceWatchdogExpired}
		agent.Spec = v1alpha1.FenceAgentSpec{Type: v1alpha1.AgentWatchdog, Identity: v1alpha1.IdentityVerified}
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-0", UID: "p"}, Spec: corev1.PodSpec{NodeName: "n1", Hostname: "db-0"}}
	objects := []client.Object{guarded(), policy, agent, pod, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
	if k == asked {
		objects = append(objects, &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: "asked", UID: "f"}, Spec: v1alpha1.FenceSpec{
			Node: v1alpha1.BootReference{Name: "n1", UID: "uid-n1", BootID: "boot-n1"}, Reason: v1alpha1.FenceRequested, RequestedBy: "alice",
		}})
	}
	i.cluster = newCluster(t, interceptor.Funcs{List: func(ctx context.Context, kube client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
		if _, ok := list.(*v1alpha1.FenceReceiptList); ok && i.midway {
			i.clock.SetTime(i.clock.Now().Add(i.jump))
			i.midway = false
		}
		return kube.List(ctx, list, opts...)
	}}, objects...)
	i.Agents = i.bmc
	if k == watchdog {
		var n corev1.Node
		if err := i.Get(t.Context(), types.NamespacedName{Name: "n1"}, &n); err != nil {
			t.Fatal(err)
		}
		n.Annotations = map[string]string{v1alpha1.AnnotationSelfFence: `{"nodeUID":"uid-n1","bootID":"boot-n1","patience":"30s","timeout":"10s","watchdog":"iTCO_wdt","pausable":false}`}
		if err := i.Update(t.Context(), &n); err != nil {
			t.Fatal(err)
		}
	}
	return i
}

// pass is a round: all nodes but n1 renew their Leases by their own clocks, and the node lifecycle controller has n1 not ready once it was silent for 50 s.
func (i *incident) pass(t *testing.T, at time.Duration) {
	t.Helper()
	i.clock.Step(aRound)
	for _, name := range []string{"n1", "n2", "n3"} {
		if name == "n1" && at > heardLast {
			continue
		}
		lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: name}}
		if err := i.Get(t.Context(), client.ObjectKeyFromObject(lease), lease); err != nil {
			t.Fatal(err)
		}
		lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC).Add(at)}
		if err := i.Update(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	}
	if at == heardLast+50*time.Second {
		var n corev1.Node
		if err := i.Get(t.Context(), types.NamespacedName{Name: "n1"}, &n); err != nil {
			t.Fatal(err)
		}
		for c := range n.Status.Conditions {
			if n.Status.Conditions[c].Type == corev1.NodeReady {
				n.Status.Conditions[c].Status = corev1.ConditionUnknown
			}
		}
		if err := i.Status().Update(t.Context(), &n); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := i.round(t.Context(), logr.Discard(), &i.calls); err != nil {
		t.Fatal(err)
	}
	i.calls.Wait()
}

// run returns when, by a clock that never jumps, the power was ordered off, the receipt was there and the pod was released; 0: it was not within ten minutes.
func (i *incident) run(t *testing.T, jumpAt, jump time.Duration, midway bool) (ordered, proved, released time.Duration) {
	t.Helper()
	for at := aRound; at <= 10*time.Minute; at += aRound {
		if at == jumpAt {
			i.jump, i.midway = jump, midway
			if !midway {
				i.clock.SetTime(i.clock.Now().Add(jump))
			}
		}
		i.pass(t, at)
		if ordered == 0 && i.bmc.orders > 0 {
			ordered = at
		}
		var receipts v1alpha1.FenceReceiptList
		if err := i.List(t.Context(), &receipts); err != nil {
			t.Fatal(err)
		}
		if proved == 0 && len(receipts.Items) > 0 {
			proved = at
		}
		err := i.Get(t.Context(), types.NamespacedName{Namespace: "shop", Name: "db-0"}, &corev1.Pod{})
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		if err != nil {
			return ordered, proved, at
		}
	}
	return ordered, proved, 0
}

// A clock that jumps by hours, whenever it does, has no order given and no receipt made earlier than one that does not, and no incident is lost: the jump costs no more than what a new leader waits for.
func TestClockThatJumps(t *testing.T) {
	for _, k := range []kind{silent, asked, watchdog} {
		wantOrder, wantProof, wantRelease := newIncident(t, k).run(t, 0, 0, false)
		if (wantOrder == 0) != (k == watchdog) || wantProof == 0 || wantRelease == 0 {
			t.Fatalf("%s, without a jump: ordered after %s, proved after %s, released after %s", k, wantOrder, wantProof, wantRelease)
		}
		for _, jump := range []time.Duration{3 * time.Hour, -3 * time.Hour} {
			for at := 2 * aRound; at <= wantRelease; at += 5 * aRound {
				for _, midway := range []bool{false, true} {
					name := fmt.Sprintf("%s, %s after %s, amid look-ups: %v", k, jump, at, midway)
					ordered, proved, released := newIncident(t, k).run(t, at, jump, midway)
					if ordered < wantOrder || proved < wantProof || released < wantRelease {
						t.Errorf("%s: ordered after %s (%s without a jump), proved after %s (%s), released after %s (%s)", name, ordered, wantOrder, proved, wantProof, released, wantRelease)
					}
					if most := wantRelease + 2*time.Minute; released > most {
						t.Errorf("%s: released after %s, and %s without a jump", name, released, wantRelease)
					}
				}
			}
		}
	}
}

// A cooldown that goes on while the fencer is paused begins again: it did not see that the nodes were well.
func TestCooldownsAreWatched(t *testing.T) {
	policy := &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: v1alpha1.FencePolicySpec{Budget: v1alpha1.FenceBudget{Cooldown: metav1.Duration{Duration: 5 * time.Minute}}}}
	c := newCluster(t, interceptor.Funcs{}, policy)
	c.later(t, 20*time.Second)
	c.storms = map[string]time.Duration{"all": c.now().Led}
	c.later(t, 20*time.Second)
	c.clock.Step(time.Hour)
	c.later(t, aRound)
	if at, cools := c.storms["all"]; !cools || c.now().Led-at > aRound {
		t.Errorf("it cooled down unwatched: %v", c.storms)
	}
	c.later(t, 6*time.Minute)
	if len(c.storms) > 0 {
		t.Errorf("it does not cool down: %v", c.storms)
	}
}

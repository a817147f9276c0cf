package main

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
)

// fencedWithin is how long after a storm a machine that is to be fenced is, with all that its pods had running elsewhere: a minute's silence, which begins again with each leader, 40 s of it once
// the power is off, and a BMC that takes its time.
const fencedWithin = 5 * time.Minute

// addFencer adds the fencer, and a BMC before each machine.
func (l *lab) addFencer(ctx, working context.Context) error {
	if err := podgrace.AllowFencer(ctx, l.Cluster); err != nil {
		return err
	}
	kube, err := kubernetes.NewForConfig(l.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	self, err := kube.AuthenticationV1().SelfSubjectReviews().Create(ctx, &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("ask who asks for fences: %w", err)
	}
	l.user = self.Status.UserInfo.Username
	policy := fencePolicy()
	for _, m := range l.machines {
		server := httptest.NewUnstartedServer(m.bmc())
		server.Config.ErrorLog = log.New(io.Discard, "", 0) // who hangs up is part of it
		server.StartTLS()
		l.ends = append(l.ends, func() error {
			server.CloseClientConnections()
			server.Close()
			return nil
		})
		ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
		secret, agent := podgrace.BMC("bmc-"+m.name, m.uuid, server.URL, ca)
		if err := errors.Join(l.kube.Create(ctx, secret), l.kube.Create(ctx, agent)); err != nil {
			return fmt.Errorf("make the FenceAgent of %s: %w", m.name, err)
		}
		policy.Spec.Agents = append(policy.Spec.Agents, v1alpha1.FencePolicyAgent{Name: agent.Name, Timeout: metav1.Duration{Duration: 30 * time.Second}, Attempts: 3})
	}
	if err := l.kube.Create(ctx, policy); err != nil {
		return fmt.Errorf("make the FencePolicy: %w", err)
	}
	program, err := podgrace.BuildFencer(ctx, filepath.Join(l.Dir, "bin"))
	if err != nil {
		return err
	}
	kubeconfig, err := podgrace.FencerKubeconfig(l.Cluster)
	if err != nil {
		return err
	}
	var all []*watcher
	for i := range plan.Fencers {
		w, err := newWatcher(l.Cluster, "fencer", program, kubeconfig, i)
		if err != nil {
			return err
		}
		all = append(all, w)
	}
	return l.watch(working, all...)
}

// fencePolicy has the machines fenced as soon as the API allows, one at a time. It has no agents yet.
func fencePolicy() *v1alpha1.FencePolicy {
	return &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "machines"}, Spec: v1alpha1.FencePolicySpec{
		NodeSelector: v1alpha1.SetAsLabelSelector(map[string]string{hostLabel: hostMachine}),
		Mode:         v1alpha1.FenceModeFence, SilentFor: metav1.Duration{Duration: fencedAfter},
		JustifiedBy: &v1alpha1.FenceJustification{Patience: &metav1.Duration{Duration: fencedAfter}},
		Budget:      v1alpha1.FenceBudget{MaxConcurrent: 1, MaxUnhealthyInZone: intstr.FromString("100%"), MaxUnhealthy: intstr.FromString("100%")},
		Release:     v1alpha1.ReleasePodsAndTaint,
	}}
}

// hitMachine makes a fault of a machine.
func (l *lab) hitMachine(ctx context.Context, m *machine, s plan.Step) (mend func(context.Context) error, err error) {
	switch s.Fault {
	case plan.CutMachine:
		m.setCut(true)
		return mended(func() { m.setCut(false) }), nil
	case plan.RebootMachine:
		m.powerOff(m.kubelet.BootID())
		return mended(m.powerOn), nil
	case plan.HangUnmount:
		m.kubelet.SetHung(true)
		return mended(func() { m.kubelet.SetHung(false) }), nil
	case plan.StartKubelet:
		if err := m.kubelet.Restart(ctx); err != nil {
			return nil, fmt.Errorf("%w: %w", errNotMade, err) // the API server is away, without which it does not start
		}
		return nil, nil
	default:
		return l.fenceMachine(ctx, m, mannerOf(s), fenceByOf(s))
	}
}

// why a machine is fenced.
type fenceBy int

const (
	bySilence fenceBy = iota // it is cut off, and nobody asks for it
	byAsking                 // it is cut off, and somebody asks
	byMistake                // it is heard of, and somebody asks
	fenceBys
)

// fenceByOf is why a machine is fenced, by the plan.
func fenceByOf(s plan.Step) fenceBy { return fenceBy(s.Target+int(s.At.Seconds())) % fenceBys }

// fenceMachine has a machine fenced, whose BMC behaves in a manner. It is mended once the machine was fenced and what it had runs elsewhere: then it boots again.
func (l *lab) fenceMachine(ctx context.Context, m *machine, how manner, by fenceBy) (mend func(context.Context) error, err error) {
	boot, node := m.kubelet.BootID(), &corev1.Node{}
	if err := cluster.UntilWithin(ctx, settles, m.name+" to tell its boot", func(ctx context.Context) (bool, error) {
		err := l.kube.Get(ctx, client.ObjectKey{Name: m.name}, node)
		return err == nil && node.Status.NodeInfo.BootID == boot, nil
	}); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotMade, err)
	}
	of := v1alpha1.BootReference{Name: m.name, UID: node.UID, BootID: boot}
	m.behave(how)
	if by != byMistake {
		m.setCut(true)
	}
	asks := by != bySilence
	if asks {
		m.ask(boot)
	}
	return func(ctx context.Context) error {
		l.awaitFence(ctx, m, of, asks)
		if m.isOff() {
			m.powerOn()
		} else {
			m.setCut(false)
		}
		return nil
	}, l.askFence(ctx, of, asks)
}

// askFence asks for a fence, if it is to be asked for, until somebody answers.
func (l *lab) askFence(ctx context.Context, of v1alpha1.BootReference, asks bool) error {
	if !asks {
		return nil
	}
	f := &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: "asked-" + of.BootID}, Spec: v1alpha1.FenceSpec{Node: of, Reason: v1alpha1.FenceRequested, RequestedBy: l.user}}
	var last error
	if err := cluster.UntilWithin(ctx, refusedAtMost, "somebody to take the order of a fence", func(ctx context.Context) (bool, error) {
		last = l.kube.Create(ctx, f.DeepCopy())
		return last == nil || apierrors.IsAlreadyExists(last), nil
	}); err != nil {
		l.violated("a fence of %s can't be asked for: %v", of.Name, last)
	}
	return nil
}

// awaitFence returns when a boot was fenced, and all volumes are where somebody uses them. Of a machine that has nothing that is worth a fence one is asked for.
func (l *lab) awaitFence(ctx context.Context, m *machine, of v1alpha1.BootReference, asked bool) {
	began, last := time.Now(), error(nil)
	err := cluster.UntilWithin(ctx, fencedWithin, m.name+" to be fenced", func(ctx context.Context) (bool, error) {
		f, err := l.fenceOf(ctx, of.BootID)
		switch {
		case err != nil:
			last = err
			return false, nil
		case f == nil:
			last = errors.New("there is no Fence")
			if pods, err := l.podsOn(ctx, m.name); err == nil && len(pods) == 0 && !asked {
				asked = true
				m.ask(of.BootID)
				return false, l.askFence(ctx, of, true)
			}
			return false, nil
		case f.Status.Phase == v1alpha1.FenceOver:
			return false, fmt.Errorf("its Fence is over: %s", f.Status.Message)
		case f.Status.Phase != v1alpha1.FenceReleased:
			last = fmt.Errorf("its Fence is %s: %s", f.Status.Phase, f.Status.Message)
			return false, nil
		}
		l.tend(ctx)
		last = l.volumesUnwell(ctx)
		return last == nil, nil
	})
	if err != nil {
		l.violated("%s is not fenced %s after the storm, or what it had does not run elsewhere: %v; %v", m.name, time.Since(began).Round(time.Second), err, last)
		return
	}
	l.counts.add("machines that were fenced, and booted anew once what they had ran elsewhere", 1)
	l.say("%s was fenced, and what it had runs elsewhere, %.0f s after the storm", m.name, time.Since(began).Seconds())
}

// fenceOf is the Fence of a boot that is not over, or else one that is; nil: there is none.
func (l *lab) fenceOf(ctx context.Context, boot string) (of *v1alpha1.Fence, err error) {
	var all v1alpha1.FenceList
	if err := l.kube.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if f := &all.Items[i]; f.Spec.Node.BootID == boot && (of == nil || of.Status.Phase == v1alpha1.FenceOver) {
			of = f
		}
	}
	return of, nil
}

// machinesUnwell is which machine is off, or which Fence is not over.
func (l *lab) machinesUnwell(ctx context.Context) error {
	for _, m := range l.machines {
		if m.isOff() {
			return fmt.Errorf("%s is off, and nobody is to be fenced", m.name)
		}
	}
	var all v1alpha1.FenceList
	if err := l.kube.List(ctx, &all); err != nil {
		return err
	}
	for i := range all.Items {
		if f := &all.Items[i]; f.Status.Phase != v1alpha1.FenceOver {
			return fmt.Errorf("the Fence %s of %s is %s: %s", f.Name, f.Spec.Node.Name, f.Status.Phase, f.Status.Message)
		}
	}
	return nil
}

// untrue says what of a receipt is not so; empty: all is. That a boot is off must be so when that was read, by the machine's own record.
func untrue(r *v1alpha1.FenceReceipt, machines []*machine) string {
	s := &r.Spec
	if s.Class != v1alpha1.EvidencePoweredOff || s.Node == nil {
		return fmt.Sprintf("it is of the class %s, and nobody has anything to say but that a machine is off: %s", s.Class, s.Message)
	}
	m := machineOf(machines, s.Node.Name)
	if m == nil {
		return "there is no machine " + s.Node.Name
	}
	at, over := m.endedAt(s.Node.BootID)
	if !over {
		return fmt.Sprintf("it says that %s is off, whose %s runs", m.name, s.Node.BootID)
	}
	for _, read := range s.ReadBacks {
		if read.Time.Time.Before(at.Truncate(time.Microsecond)) { // as receipts have it
			return fmt.Sprintf("it says that %s was off at %s, and it was so from %s on", m.name, read.Time.Format(time.StampMicro), at.Format(time.StampMicro))
		}
	}
	return ""
}

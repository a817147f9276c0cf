package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
)

// slowness is what each piece waits for between a replica and the API server that are slow.
const slowness = 300 * time.Millisecond

// errNotMade is of a fault that could not be made, because of what else was away.
var errNotMade = errors.New("not made")

// hit makes a fault, and returns what mends it; nil: it is mended already.
func (l *lab) hit(ctx context.Context, s plan.Step) (mend func(context.Context) error, err error) {
	switch s.Fault {
	case plan.PauseAPIServer:
		return pause(l.APIServerPID)
	case plan.PauseEtcd:
		return pause(l.EtcdPID)
	case plan.KillAPIServer:
		return nil, l.RestartAPIServer(ctx)
	case plan.KillEtcd:
		return nil, l.RestartEtcd(ctx)
	case plan.KillManager:
		return nil, l.RestartControllerManager(ctx)
	case plan.CutNode:
		return l.cutNode(s.Target), nil
	case plan.ReplaceCA:
		return nil, l.replaceCA(ctx, refusedAtMost)
	case plan.JumpClock, plan.FastClock:
		return l.moveClock(l.replicas.all[s.Target], s)
	case plan.SwapReplica:
		return l.swap(l.replicas.all[s.Target])
	case plan.CutWebhook:
		l.replicas.service.Hold()
		return mended(l.replicas.service.Release), nil
	}
	switch plan.Of(s.Fault) {
	case plan.Watcher:
		return hitWatcher(l.watchers[s.Target], s.Fault)
	case plan.Machine:
		return l.hitMachine(ctx, l.machines[s.Target], s)
	case plan.Enforcer, plan.Kubelet, plan.Cgroup:
		if l.enforced == nil {
			return nil, fmt.Errorf("%w: there is no real node", errNotMade)
		}
		return l.hitEnforced(ctx, l.enforced, s)
	default:
		return hitReplica(l.replicas.all[s.Target], s.Fault)
	}
}

// mended is what can't fail.
func mended(do func()) func(context.Context) error {
	return func(context.Context) error {
		do()
		return nil
	}
}

func hitReplica(r *replica, f plan.Fault) (mend func(context.Context) error, err error) {
	again := func(context.Context) error { return r.again() }
	switch f {
	case plan.KillReplica:
		return again, r.kill()
	case plan.RollReplica:
		r.reflag()
		return again, r.stop((*podgrace.Webhook).Stop)
	case plan.PauseReplica:
		pid := r.process().PID // whoever is paused is not started again
		return pause(func() (int, error) { return pid, nil })
	case plan.CutReplica:
		r.link.Hold()
		return mended(r.link.Release), nil
	case plan.SlowReplica:
		r.link.Delay(slowness)
		return mended(func() { r.link.Delay(0) }), nil
	default:
		return nil, fmt.Errorf("nobody knows how to make the fault %s", f)
	}
}

// pause stops a process where it is. One that has just ended by itself, as a replica does without an API server when it starts, is not there to be stopped, and whoever keeps it running tells of it. Its
// end may be known to the kernel before it is to its parent: then it is gone when it is to go on.
func pause(find func() (int, error)) (mend func(context.Context) error, err error) {
	pid, err := find()
	if err != nil {
		return nil, err
	}
	if err := syscall.Kill(pid, syscall.SIGSTOP); errors.Is(err, syscall.ESRCH) {
		return nil, fmt.Errorf("%w: process %d has just ended by itself", errNotMade, pid)
	} else if err != nil {
		return nil, fmt.Errorf("pause process %d: %w", pid, err)
	}
	return func(context.Context) error {
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("let process %d go on: %w", pid, err)
		}
		return nil
	}, nil
}

// cutNode cuts a node off from the API server.
func (l *lab) cutNode(i int) (mend func(context.Context) error) {
	l.kubelets[i].setCut(true)
	l.StopHeartbeat(nodeName(i))
	return func(ctx context.Context) error {
		l.kubelets[i].setCut(false)
		return cluster.Until(ctx, "the heartbeat of "+nodeName(i), func(ctx context.Context) (bool, error) {
			return l.StartHeartbeat(ctx, nodeName(i)) == nil, nil // the API server may be away
		})
	}
}

// replaceCA asks for another CA, as docs/certificates.md says, until somebody answers: while the API server is away nobody does.
func (l *lab) replaceCA(ctx context.Context, within time.Duration) error {
	ask := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, certs.AnnotationReplace, time.Now().Format(time.RFC3339Nano))
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "podgrace-system", Name: certs.SecretName}}
	var last error
	if err := cluster.UntilWithin(ctx, within, "somebody to take the order of another CA", func(ctx context.Context) (bool, error) {
		last = l.kube.Patch(ctx, secret, client.RawPatch(types.MergePatchType, ask))
		return last == nil, nil
	}); err != nil {
		return fmt.Errorf("%w: %w", errNotMade, last)
	}
	return nil
}

// until waits for a time of the plan.
func until(ctx context.Context, t time.Time) {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}

// happen makes a fault of a round that began at a time, and mends it, whatever becomes of the context.
func (l *lab) happen(ctx context.Context, began time.Time, s plan.Step) error {
	until(ctx, began.Add(s.At))
	if ctx.Err() != nil {
		return nil
	}
	end := l.weather.begin(plan.Of(s.Fault))
	defer end()
	if program, is := s.Pauses(); is {
		defer l.weather.begin(program)()
	}
	l.say("%s %d for %s", s.Fault, s.Target, s.For.Round(100*time.Millisecond))
	hit := time.Now()
	always := context.WithoutCancel(ctx)
	mend, err := l.hit(always, s)
	if errors.Is(err, errNotMade) {
		l.counts.add("faults that could not be made: "+string(s.Fault), 1)
		l.say("%s: %v", s.Fault, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s: %w", s.Fault, err)
	}
	if mend != nil {
		until(ctx, began.Add(s.End()))
		if err := mend(always); err != nil {
			return fmt.Errorf("mend %s: %w", s.Fault, err)
		}
	}
	l.counts.fault(s.Fault, time.Since(hit))
	return nil
}

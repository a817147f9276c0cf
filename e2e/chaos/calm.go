package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/measure"
)

// wellWithin is how long the cluster may take after a storm until all is as was asked for. Controllers wait for up to a minute before they try again what failed.
const wellWithin = 4 * time.Minute

// calm returns when all is well again after the faults were mended, and looks at what can only be seen then. What is not as it must be is a violation, not an error.
func (l *lab) calm(ctx context.Context) error {
	began, last := time.Now(), error(nil)
	if err := cluster.UntilWithin(ctx, wellWithin, "all to be well", func(ctx context.Context) (bool, error) {
		l.tend(ctx)
		last = l.unwell(ctx)
		return last == nil, nil
	}); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		l.violated("not well again %s after the storm: %v", time.Since(began).Round(time.Second), last)
	}
	l.counts.well(time.Since(began))
	repaired := make(chan struct{}) // which takes some seconds
	go func() {
		defer close(repaired)
		l.repairs(ctx, repairedWithin)
	}()
	defer func() { <-repaired }()
	if err := l.certificatesHold(ctx); err != nil {
		return err
	}
	l.askAll(ctx)
	l.askVolumes(ctx)
	l.defaults(ctx)
	if err := errors.Join(l.panicked(), l.watchersPanicked()); err != nil {
		return err
	}
	return errors.Join(l.measure(ctx), l.measureEnforced(ctx))
}

// unwell is what is not yet as was asked for.
func (l *lab) unwell(ctx context.Context) error {
	if !l.replicas.areReady() {
		return fmt.Errorf("not all replicas are ready")
	}
	for _, k := range l.kubelets {
		if err := k.failing(); err != nil {
			return fmt.Errorf("the kubelet of %s: %w", k.node, err)
		}
	}
	for _, look := range []func(context.Context) error{l.nodesUnwell, l.statefulUnwell, l.deployedUnwell, l.podsUnwell, l.watchersUnwell, l.machinesUnwell, l.volumesUnwell, l.enforcedUnwell} {
		if err := look(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (l *lab) nodesUnwell(ctx context.Context) error {
	var nodes corev1.NodeList
	if err := l.kube.List(ctx, &nodes); err != nil {
		return err
	}
	want := plan.Nodes + plan.Machines
	if l.enforced != nil {
		want++
	}
	if len(nodes.Items) != want {
		return fmt.Errorf("there are %d nodes", len(nodes.Items))
	}
	for _, n := range nodes.Items {
		if len(n.Spec.Taints) > 0 {
			return fmt.Errorf("node %s has the taints %v", n.Name, n.Spec.Taints)
		}
	}
	return nil
}

func (l *lab) statefulUnwell(ctx context.Context) error {
	var sets appsv1.StatefulSetList
	if err := l.kube.List(ctx, &sets); err != nil {
		return err
	}
	for _, s := range sets.Items {
		if st, want := s.Status, *s.Spec.Replicas; st.ObservedGeneration != s.Generation || st.Replicas != want || st.ReadyReplicas != want || st.UpdatedReplicas != want {
			return fmt.Errorf("StatefulSet %s/%s is to have %d pods: %d of them are there, %d ready, %d updated", s.Namespace, s.Name, want, st.Replicas, st.ReadyReplicas, st.UpdatedReplicas)
		}
	}
	return nil
}

func (l *lab) deployedUnwell(ctx context.Context) error {
	var sets appsv1.DeploymentList
	if err := l.kube.List(ctx, &sets); err != nil {
		return err
	}
	for _, d := range sets.Items {
		if st, want := d.Status, *d.Spec.Replicas; st.ObservedGeneration != d.Generation || st.Replicas != want || st.ReadyReplicas != want || st.UpdatedReplicas != want {
			return fmt.Errorf("of Deployment %s/%s %d pods are to be there: %d are, %d ready, %d updated", d.Namespace, d.Name, want, st.Replicas, st.ReadyReplicas, st.UpdatedReplicas)
		}
	}
	return nil
}

// podsUnwell: no Job is left, nothing is left of what ended, and what runs is what the API server has.
func (l *lab) podsUnwell(ctx context.Context) error {
	var jobs batchv1.JobList
	if err := l.kube.List(ctx, &jobs); err != nil {
		return err
	}
	if len(jobs.Items) > 0 {
		return fmt.Errorf("%d Jobs are there, such as %s/%s: %+v", len(jobs.Items), jobs.Items[0].Namespace, jobs.Items[0].Name, jobs.Items[0].Status)
	}
	var pods corev1.PodList
	if err := l.kube.List(ctx, &pods); err != nil {
		return err
	}
	for _, p := range pods.Items {
		if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s/%s on %s is %s, deleted at %v", p.Namespace, p.Name, p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp)
		}
	}
	// What is mounted machines say, and what runs on the real node the kernel.
	there := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Namespace == volumesNamespace || p.Namespace == keptNamespace })
	if run := l.copies.in(""); len(run) != len(there) {
		return fmt.Errorf("%d pods run, and there are %d", len(run), len(there))
	}
	return nil
}

// askAll asks for the removal of all that is protected: now somebody answers, refuses, and counts it.
func (l *lab) askAll(ctx context.Context) {
	before, err := l.denied(ctx)
	if err != nil {
		l.violated("the metrics of removals: %v", err)
	}
	asked := 0
	for _, c := range l.copies.protected() {
		err := l.remove(ctx, removal{verb: plan.ForceProtected, of: c})
		switch asked++; {
		case err == nil:
			l.violated("in the calm a force delete of %s on %s was let go", c.key(), c.node)
		case !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "denied the request"):
			l.violated("in the calm nobody judges a force delete of %s on %s: %v", c.key(), c.node, err)
		default:
			l.counts.operation(plan.ForceProtected, refused)
		}
	}
	after, err := l.denied(ctx)
	if err != nil {
		l.violated("the metrics of removals: %v", err)
	}
	if counted := after - before; counted < float64(asked) {
		l.violated("%d removals were refused, and the metrics tell of %.0f more", asked, counted)
	}
}

// denied is how many removals all replicas count as refused.
func (l *lab) denied(ctx context.Context) (float64, error) {
	total := 0.0
	for _, r := range l.replicas.all {
		text, err := metricsOf(ctx, r.process().MetricsURL)
		if err != nil {
			return 0, err
		}
		series, err := measure.Series(text, "podgrace_removals_total")
		if err != nil {
			return 0, err
		}
		for name, n := range series {
			if strings.Contains(name, `verdict="Deny"`) {
				total += n
			}
		}
	}
	return total, nil
}

// defaults looks that new pods get what the policy says now.
func (l *lab) defaults(ctx context.Context) {
	var got, want int64
	err := cluster.UntilWithin(ctx, refusedAtMost, "the policy to be in force", func(ctx context.Context) (bool, error) {
		var p v1alpha1.PodPolicy
		if err := l.kube.Get(ctx, client.ObjectKey{Name: policyName}, &p); err != nil {
			return false, err
		}
		t := template("probe")
		probe := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: guardedNamespace, Name: "probe"}, Spec: t.Spec}
		if err := l.kube.Create(ctx, probe, client.DryRunAll); err != nil {
			return false, err
		}
		got, want = *probe.Spec.TerminationGracePeriodSeconds, *p.Spec.GracePeriod.DefaultSeconds
		return got == want, nil
	})
	if err != nil && ctx.Err() == nil {
		l.violated("in the calm a new pod gets %d s of grace, and the policy says %d: %v", got, want, err)
	}
}

// panicked looks whether a process of a replica told of a panic since the calm before, also one that has ended, on purpose or by itself.
func (l *lab) panicked() error {
	for _, r := range l.replicas.all {
		for _, path := range r.logs() {
			log, err := os.ReadFile(path)
			if err != nil {
				return fmt.Errorf("read the log of replica %d: %w", r.index, err)
			}
			if line := panicked(log); line != "" && !l.replicas.told[path] {
				l.replicas.told[path] = true
				l.violated("replica %d panicked (%s): %s", r.index, filepath.Base(path), line)
			}
		}
	}
	return nil
}

// measure looks what each replica has, whether that grows, and whether it recovered from panics.
func (l *lab) measure(ctx context.Context) error {
	for _, r := range l.replicas.all {
		samples, err := r.measured(ctx, time.Since(l.began))
		if err != nil {
			return err
		}
		l.counts.sampled("webhook", samples)
		what := grows(samples)
		if n := panickedSince(samples); n > 0 {
			what = append(what, fmt.Sprintf("%.0f panics that were recovered since the calm before", n))
		}
		for _, what := range what {
			l.violated("replica %d, over %d calms: %s", r.index, len(samples), what)
		}
	}
	return nil
}

// panickedSince is how many panics the last sample of a process has that the one before had not.
func panickedSince(samples []sample) float64 {
	n := samples[len(samples)-1].panics
	if len(samples) > 1 {
		n -= samples[len(samples)-2].panics
	}
	return n
}

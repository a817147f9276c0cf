package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/guard"
)

// Bounds of liveness. What is promised (docs/operations.md, "When something is down") are calls of at most 5 s, of which a pod's creation makes three, and that another leader is there after 15 s; a
// machine that does other things besides has several times that.
const (
	// settles is how long after a fault was mended a refusal may still be of it, also of what is asked for only then.
	settles = 25 * time.Second
	// refusedAtMost is how long after that what is ordinary may be refused.
	refusedAtMost = 75 * time.Second
	// tryAgainAfter is when a user tries again what was refused.
	tryAgainAfter = 500 * time.Millisecond
)

// holdUp are the scopes that may hold an operation up. A confirmation ends by the clock of the replica that judges: by one that is wrong by so much it has, or is of a time to come (plan.Step.Voids).
func holdUp(v plan.Verb) []plan.Scope {
	switch {
	case v == plan.Confirmed || v == plan.ConfirmedVolume:
		return []plan.Scope{plan.ControlPlane, plan.Confirmation}
	case plan.ClassOf(v) == plan.Ordinary:
		return []plan.Scope{plan.ControlPlane}
	default:
		return []plan.Scope{plan.ControlPlane, plan.Replica, plan.Clock, plan.Webhook}
	}
}

// errMoot is what is nobody's fault: what it was about is gone, or was never there.
var errMoot = errors.New("there is no such thing any more")

// isMoot also finds that another one has the name by now.
func isMoot(err error) bool {
	return errors.Is(err, errMoot) || apierrors.IsNotFound(err) || apierrors.IsConflict(err) ||
		apierrors.IsInvalid(err) && strings.Contains(err.Error(), "metadata.uid")
}

// operate does what a user does.
func (l *lab) operate(ctx context.Context, began time.Time, id string, o plan.Operation) {
	until(ctx, began.Add(o.At))
	if ctx.Err() != nil {
		return
	}
	if plan.OfMachines(o.Do) {
		l.operateMachines(ctx, o)
		return
	}
	if plan.OfEnforced(o.Do) {
		l.operateEnforced(ctx, o)
		return
	}
	if plan.ClassOf(o.Do) == plan.Never {
		l.attack(ctx, o)
		return
	}
	l.insist(ctx, o.Do, l.request(id, o))
}

// insist tries until it is done, or was refused for longer than is promised.
func (l *lab) insist(ctx context.Context, verb plan.Verb, request func(context.Context) error) {
	scopes, earliest := holdUp(verb), time.Now().Add(-settles)
	for tries := 1; ; tries++ {
		tried := time.Now()
		err := request(ctx)
		switch quiet := l.weather.quietSince(earliest, scopes); {
		case ctx.Err() != nil:
			return
		case err == nil && tries == 1:
			l.counts.operation(verb, done)
			return
		case err == nil:
			l.counts.operation(verb, doneLater)
			return
		case isMoot(err):
			l.counts.operation(verb, moot)
			return
		case quiet.Equal(earliest) || tried.Sub(quiet) > settles && deliberate(err):
			l.counts.operation(verb, failed)
			l.violated("%s: refused while nothing was hit that may hold it up: %v", verb, err)
			return
		case time.Since(quiet) > refusedAtMost:
			l.counts.operation(verb, failed)
			l.violated("%s: refused for %s after the last fault that may hold it up: %v", verb, time.Since(quiet).Round(time.Second), err)
			return
		}
		until(ctx, time.Now().Add(tryAgainAfter))
	}
}

// deliberate reports whether somebody answered, and refused: it is not that nobody was there in time.
func deliberate(err error) bool {
	return apierrors.IsForbidden(err) || strings.Contains(err.Error(), "failed calling webhook")
}

// choose picks one of those that there are now.
func choose[T any](of []T, which int) (one T, err error) {
	if len(of) == 0 {
		return one, errMoot
	}
	return of[which%len(of)], nil
}

// request is what a user asks for who is not to be refused. It is chosen when it is first asked for, and stays the same.
func (l *lab) request(id string, o plan.Operation) func(context.Context) error {
	namespace := []string{guardedNamespace, openNamespace}[o.Which%2]
	workload := func(path, name, patch string) func(context.Context) error {
		return func(ctx context.Context) error { return l.patchWorkload(ctx, path, namespace, name, patch) }
	}
	scaled := fmt.Sprintf(`{"spec":{"replicas":%d}}`, 1+o.How%mostScaled)
	rolled := fmt.Sprintf(`{"spec":{"template":{"metadata":{"annotations":{"chaos.example/roll":%q}}}}}`, id)
	switch o.Do {
	case plan.ScaleStateful:
		return workload("statefulsets", stateful, scaled)
	case plan.RollStateful:
		return workload("statefulsets", stateful, rolled)
	case plan.ScaleDeployed:
		return workload("deployments", deployed, scaled)
	case plan.RollDeployed:
		return workload("deployments", deployed, rolled)
	case plan.MakeJob:
		return func(ctx context.Context) error { return l.makeJob(ctx, namespace, "job-"+id) }
	case plan.DeleteJob:
		return func(ctx context.Context) error { return l.deleteJob(ctx, namespace, o.Which) }
	case plan.Drain:
		return func(ctx context.Context) error { return l.drain(ctx, nodeName(o.Which%plan.Nodes)) }
	case plan.ChangePolicy:
		return func(ctx context.Context) error {
			patch := fmt.Appendf(nil, `{"spec":{"gracePeriod":{"defaultSeconds":%d}}}`, graceLeast+o.How%graceChoice)
			return l.kube.Patch(ctx, &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: policyName}}, client.RawPatch(types.MergePatchType, patch))
		}
	default:
		return l.requestOfPod(o)
	}
}

// requestOfPod is what a user asks of one pod that runs when it is first asked for.
func (l *lab) requestOfPod(o plan.Operation) func(context.Context) error {
	var of []podCopy
	var options []client.DeleteOption
	switch o.Do {
	case plan.DeletePod:
		of = l.copies.in("")
	case plan.ForceUnprotected:
		of, options = l.copies.in(openNamespace), []client.DeleteOption{client.GracePeriodSeconds(0)}
	case plan.Confirmed:
		of, options = l.copies.protected(), []client.DeleteOption{client.GracePeriodSeconds(0)}
	}
	c, err := choose(of, o.Which)
	return func(ctx context.Context) error {
		if err != nil {
			return err
		}
		if o.Do == plan.Confirmed {
			if err := l.confirm(ctx, c); err != nil {
				return err
			}
		}
		return l.kube.Delete(ctx, c.pod(), append(options, client.Preconditions{UID: &c.uid})...)
	}
}

// pod is the object of a copy, as far as requests need it.
func (c podCopy) pod() *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: c.name, UID: c.uid}}
}

// confirm is what kubectl podgrace confirm writes.
func (l *lab) confirm(ctx context.Context, c podCopy) error {
	l.copies.confirm(c.uid)
	text := fmt.Appendf(nil, `{"metadata":{"uid":%q,"annotations":{%q:%q}}}`, c.uid, guard.AnnotationConfirmForceDelete, guard.ConfirmPod(c.pod(), guard.Node{}, time.Now()))
	return l.kube.Patch(ctx, c.pod(), client.RawPatch(types.MergePatchType, text))
}

func (l *lab) patchWorkload(ctx context.Context, resource, namespace, name, patch string) error {
	o := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	o.APIVersion, o.Kind = "apps/v1", map[string]string{"statefulsets": "StatefulSet", "deployments": "Deployment"}[resource]
	return l.kube.Patch(ctx, o, client.RawPatch(types.MergePatchType, []byte(patch)))
}

// makeJob makes one that is gone a moment after it is done. That it is there already is what an answer that was lost left.
func (l *lab) makeJob(ctx context.Context, namespace, name string) error {
	pod := template(name)
	pod.Labels, pod.Spec.RestartPolicy = nil, corev1.RestartPolicyNever
	return client.IgnoreAlreadyExists(l.kube.Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: batchv1.JobSpec{
		Parallelism: new(int32(2)), Completions: new(int32(2)), BackoffLimit: new(int32(1000)), TTLSecondsAfterFinished: new(int32(5)), Template: pod,
	}}))
}

func (l *lab) deleteJob(ctx context.Context, namespace string, which int) error {
	var jobs batchv1.JobList
	if err := l.kube.List(ctx, &jobs, client.InNamespace(namespace)); err != nil {
		return err
	}
	job, err := choose(jobs.Items, which)
	if err != nil {
		return err
	}
	return l.kube.Delete(ctx, &job, client.PropagationPolicy(metav1.DeletePropagationBackground), client.Preconditions{UID: &job.UID})
}

// drain evicts all pods that run on a node, as kubectl drain does, but leaves it schedulable.
func (l *lab) drain(ctx context.Context, node string) error {
	var errs []error
	for _, c := range l.copies.in("") {
		if c.node != node {
			continue
		}
		if err := l.evict(ctx, c, nil); !isMoot(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (l *lab) evict(ctx context.Context, c podCopy, grace *int64) error {
	return l.kube.SubResource("eviction").Create(ctx, c.pod(), &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{
		GracePeriodSeconds: grace, Preconditions: &metav1.Preconditions{UID: &c.uid}}})
}

// removal is one that must not be.
type removal struct {
	verb plan.Verb
	of   podCopy
}

// attack asks for what must never be.
func (l *lab) attack(ctx context.Context, o plan.Operation) {
	r := removal{verb: o.Do}
	var err error
	if o.Do == plan.AskAgain {
		r, err = choose(l.refusals(), o.Which)
	} else {
		r.of, err = choose(l.copies.protected(), o.Which)
	}
	if err != nil {
		l.counts.operation(o.Do, untried)
		return
	}
	l.counts.operation(o.Do, l.tryRemoval(ctx, r))
}

// tryRemoval tries once, and looks what came of it: unless it was refused, it may have been carried out, whatever was answered.
func (l *lab) tryRemoval(ctx context.Context, r removal) result {
	err := l.remove(ctx, r)
	switch {
	case ctx.Err() != nil:
		return unanswered
	case apierrors.IsForbidden(err):
		l.refusedMu.Lock()
		l.refused[r.of.uid] = r
		l.refusedMu.Unlock()
		return refused
	case err != nil && onlyTried(r.verb): // nothing is carried out
	case l.removed(ctx, r):
		l.violated("%s: %s (%s) on %s, whose containers run, was let go: %v", r.verb, r.of.key(), r.of.uid, r.of.node, err)
		return failed
	}
	if err == nil || isMoot(err) {
		return moot // it had ended by then
	}
	return unanswered
}

// onlyTried reports whether a removal is a dry run: without the nodes nothing would be left to run on.
func onlyTried(v plan.Verb) bool { return v == plan.DeleteNode || v == plan.OutOfService }

// remove asks for a removal.
func (l *lab) remove(ctx context.Context, r removal) error {
	switch r.verb {
	case plan.EvictAtOnce:
		return l.evict(ctx, r.of, new(int64(0)))
	case plan.EndByStatus:
		text := fmt.Appendf(nil, `{"metadata":{"uid":%q},"status":{"phase":"Failed"}}`, r.of.uid)
		return l.kube.Status().Patch(ctx, r.of.pod(), client.RawPatch(types.MergePatchType, text))
	case plan.DeleteNode:
		return l.kube.Delete(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.of.node}}, client.DryRunAll)
	case plan.OutOfService:
		taint := []byte(`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}`)
		return l.kube.Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.of.node}}, client.RawPatch(types.StrategicMergePatchType, taint), client.DryRunAll)
	default:
		return l.kube.Delete(ctx, r.of.pod(), client.GracePeriodSeconds(0), client.Preconditions{UID: &r.of.uid})
	}
}

// removed reports whether what was not refused has let something go while containers run. A pod that is only told to stop, with grace, was not. Where nobody answered, it may be carried out still later: if
// another copy starts then, the machines tell.
func (l *lab) removed(ctx context.Context, r removal) bool {
	if onlyTried(r.verb) {
		return l.copies.runs(r.of.uid)
	}
	for ctx.Err() == nil && l.copies.runs(r.of.uid) {
		var now corev1.Pod
		err := l.kube.Get(ctx, client.ObjectKeyFromObject(r.of.pod()), &now)
		if client.IgnoreNotFound(err) != nil { // nobody answers
			until(ctx, time.Now().Add(tryAgainAfter))
			continue
		}
		gone := err != nil || now.UID != r.of.uid || now.Status.Phase == corev1.PodFailed || now.Status.Phase == corev1.PodSucceeded
		return gone && l.copies.runs(r.of.uid)
	}
	return false
}

// refusals are those that were refused, of pods that still run.
func (l *lab) refusals() []removal {
	l.refusedMu.Lock()
	defer l.refusedMu.Unlock()
	var all []removal
	for uid, r := range l.refused {
		if l.copies.runs(uid) {
			all = append(all, r)
		} else {
			delete(l.refused, uid)
		}
	}
	slices.SortFunc(all, func(a, b removal) int { return strings.Compare(string(a.of.uid), string(b.of.uid)) })
	return all
}

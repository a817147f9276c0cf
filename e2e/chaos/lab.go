package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/volumelock"
	"github.com/podgrace/podgrace/webhook"
)

// The namespaces: a policy protects what is stateful in one, and none is for the other.
const (
	guardedNamespace = "guarded"
	openNamespace    = "open"
	policyName       = "chaos"
)

// What runs in each, and how many of it at most.
const (
	stateful    = "db"
	deployed    = "web"
	mostScaled  = 3
	beginsWith  = 2
	graceLeast  = 31 // seconds
	graceChoice = 20
)

// monitorGrace is how long the node lifecycle controller waits for a node's heartbeat, which comes every 10 s, and notReadyFor how long pods stay on one of which it has none: both are shorter than
// usual (50 s and 300 s), so that pods of a node that is cut off are Terminating within a storm.
const (
	monitorGrace = 22 * time.Second
	notReadyFor  = 3 // seconds
)

// requestTimeout is what users wait for an answer. With a webhook that hangs a pod's creation takes three calls of 5 s (docs/operations.md).
const requestTimeout = 30 * time.Second

// lab is the cluster with all that is in it.
type lab struct {
	*cluster.Cluster
	kube     client.Client // of users
	replicas *replicas
	kubelets []*kubelet
	copies   *copies
	weather  *weather
	counts   *counts
	rules    []rule
	recorded *recording
	progress io.Writer
	began    time.Time
	end      context.CancelFunc

	builds   map[string]programs // of both versions
	withNode bool                // there is to be a real node
	enforced *enforcedNode       // that one; nil: there is none
	pods     corev1listers.PodLister

	machines []*machine // that have volumes
	storage  *volumelock.Witness
	watchers []*watcher // the volume lock's replicas, then the fencer's
	user     string     // who asks for fences

	refusedMu sync.Mutex
	refused   map[types.UID]removal

	violationsMu sync.Mutex
	violations   []string
	round        plan.Round // that is under way
	roundBegan   time.Time

	working sync.WaitGroup
	ends    []func() error // in the order in which they were begun
}

func newLab(ctx context.Context, progress io.Writer, withNode bool) (_ *lab, err error) {
	l := &lab{progress: progress, withNode: withNode, weather: &weather{}, counts: newCounts(), refused: map[types.UID]removal{}, began: time.Now()}
	l.roundBegan = l.began // what is seen before the first round has the time of the run
	l.copies = newCopies(func(what string) { l.violated("%s", what) })
	defer func() {
		if err != nil {
			err = errors.Join(err, l.stop())
		}
	}()
	c, err := cluster.Start(ctx, cluster.Options{
		ControllerManager: true, Scheduler: true, Log: progress, ControllerManagerArgs: []string{"--node-monitor-grace-period=" + monitorGrace.String()},
	})
	if err != nil {
		return nil, err
	}
	l.Cluster, l.ends = c, append(l.ends, c.Stop)
	config := rest.CopyConfig(l.Config)
	config.WarningHandler, config.Timeout = rest.NoWarnings{}, requestTimeout
	if l.kube, err = client.New(config, client.Options{Scheme: webhook.NewScheme()}); err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	working, end := context.WithCancel(context.WithoutCancel(ctx))
	l.end = end
	for _, step := range []func(ctx, working context.Context) error{l.install, l.join, l.addMachines, l.addFencer, l.addEnforced, l.fill, l.record} {
		if err := step(ctx, working); err != nil {
			return nil, err
		}
	}
	return l, nil
}

// stop ends all that was begun, the last first.
func (l *lab) stop() error {
	if l.end != nil {
		l.end()
	}
	l.working.Wait()
	var errs []error
	for i := range l.ends {
		errs = append(errs, l.ends[len(l.ends)-1-i]())
	}
	return errors.Join(errs...)
}

// install installs the webhook with all of its replicas.
func (l *lab) install(ctx, working context.Context) (err error) {
	names := []string{"webhook"}
	if l.withNode {
		names = append(names, "nodeenforcer")
	}
	if l.builds, err = buildPrograms(ctx, l.Dir, names...); err != nil {
		return err
	}
	of := l.builds["webhook"]
	l.say("the other version is %s", of.version)
	if l.replicas, err = newReplicas(l.Cluster, of); err != nil {
		return err
	}
	l.ends = append(l.ends, l.replicas.stop)
	first, err := podgrace.Install(ctx, l.Cluster, podgrace.Options{
		Log: l.progress, CalledAt: l.replicas.service.URL(), Args: flagsOf(filepath.Join(l.Dir, "replica-0.kubeconfig")),
	})
	if err != nil {
		return err
	}
	l.replicas.all[0].w = first
	for _, r := range l.replicas.all[1:] {
		if err := r.again(); err != nil {
			return err
		}
	}
	l.working.Go(func() {
		if err := l.replicas.run(working, l.replicaEnded, l.replicaUnlive); err != nil {
			l.violated("a replica can't be started again: %v", err)
		}
	})
	return cluster.Until(ctx, "both replicas to be ready", func(context.Context) (bool, error) { return l.replicas.areReady(), nil })
}

// replicaEnded is told of a replica that nobody ended. One that reaches no API server ends before it is ready, and is started again. One that was ready goes on serving, also as a leader that lost the
// API server: only its controllers end, and begin again in the process (cmd/webhook/leader.go).
func (l *lab) replicaEnded(r *replica, why string, served bool) {
	if served {
		l.violated("replica %d ended by itself: %s", r.index, why)
		return
	}
	l.counts.add("a replica ended before it was ready, as one does that reaches no API server", 1)
	l.say("replica %d ended before it was ready: %s", r.index, cluster.Tail([]byte(why), 2))
}

// replicaUnlive is told of a replica that was started again because its liveness probe failed, as one is whose clock was put back since it signed its certificate (docs/certificates.md).
func (l *lab) replicaUnlive(r *replica) {
	l.counts.add("replicas that their liveness probe restarted", 1)
	l.say("replica %d was restarted by its liveness probe", r.index)
}

// join adds the nodes and starts their kubelets.
func (l *lab) join(ctx, working context.Context) error {
	kube, err := kubernetes.NewForConfig(l.Config)
	if err != nil {
		return fmt.Errorf("make a client: %w", err)
	}
	factory := informers.NewSharedInformerFactory(kube, 0)
	l.pods = factory.Core().V1().Pods().Lister()
	for i := range plan.Nodes {
		if err := l.AddNode(ctx, nodeName(i), map[string]string{hostLabel: hostNode}); err != nil {
			return err
		}
		k, err := newKubelet(l.Cluster, nodeName(i), l.pods, l.copies)
		if err != nil {
			return err
		}
		l.kubelets = append(l.kubelets, k)
	}
	factory.StartWithContext(working)
	if err := factory.WaitForCacheSyncWithContext(ctx).AsError(); err != nil {
		return fmt.Errorf("follow the pods: %w", err)
	}
	for _, k := range l.kubelets {
		l.working.Go(func() { k.run(working) })
	}
	return nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// fill makes what runs, and returns when all of it does and the guard is armed.
func (l *lab) fill(ctx, _ context.Context) error {
	objects := []client.Object{
		&v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: policyName}, Spec: v1alpha1.PodPolicySpec{
			Match:       &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{corev1.LabelMetadataName: guardedNamespace})},
			Removal:     &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny},
			GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(graceLeast))},
		}},
	}
	for _, ns := range []string{guardedNamespace, openNamespace} {
		objects = append(objects, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}},
			&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: stateful}, Spec: appsv1.StatefulSetSpec{
				Replicas: new(int32(beginsWith)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": stateful}}, Template: template(stateful)}},
			&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: deployed}, Spec: appsv1.DeploymentSpec{
				Replicas: new(int32(beginsWith)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": deployed}}, Template: template(deployed)}})
	}
	for _, o := range objects {
		if err := l.kube.Create(ctx, o); err != nil {
			return fmt.Errorf("make %T %s: %w", o, o.GetName(), err)
		}
	}
	if _, _, err := l.Kubectl(ctx, "wait", "podpolicies", "--all", "--for=condition=Ready", "--timeout=120s"); err != nil {
		return err
	}
	return l.calm(ctx)
}

// template is that of pods whose containers are the kubelets' own affair.
func template(app string) corev1.PodTemplateSpec {
	short := func(key string) corev1.Toleration {
		return corev1.Toleration{Key: key, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(notReadyFor))}
	}
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: corev1.PodSpec{
		Containers:   []corev1.Container{{Name: "main", Image: "localhost/none:1"}},
		NodeSelector: map[string]string{hostLabel: hostNode},
		Tolerations:  []corev1.Toleration{short(corev1.TaintNodeNotReady), short(corev1.TaintNodeUnreachable)},
	}}
}

// near is how long before and after a violation the plan's steps are told of.
const near = 20 * time.Second

// violated notes what must not be, with what of the plan was near.
func (l *lab) violated(format string, args ...any) {
	l.violationsMu.Lock()
	defer l.violationsMu.Unlock()
	at := time.Since(l.roundBegan)
	var what strings.Builder
	fmt.Fprintf(&what, "round %d, %.1f s: %s", l.round.Number, at.Seconds(), fmt.Sprintf(format, args...))
	for _, s := range l.round.Near(at, near) {
		fmt.Fprintf(&what, "\n    %5.1f to %5.1f s: %s %d", s.At.Seconds(), s.End().Seconds(), s.Fault, s.Target)
	}
	l.violations = append(l.violations, what.String())
	l.say("VIOLATED: %s", what.String())
}

// found are the violations so far.
func (l *lab) found() []string {
	l.violationsMu.Lock()
	defer l.violationsMu.Unlock()
	return slices.Clone(l.violations)
}

// begin notes which round is under way.
func (l *lab) begin(r plan.Round) (at time.Time) {
	l.violationsMu.Lock()
	defer l.violationsMu.Unlock()
	l.round, l.roundBegan = r, time.Now()
	return l.roundBegan
}

// roundStart is when the round began that is under way.
func (l *lab) roundStart() time.Time {
	l.violationsMu.Lock()
	defer l.violationsMu.Unlock()
	return l.roundBegan
}

// say prints a line of progress with the time of the run.
func (l *lab) say(format string, args ...any) {
	fmt.Fprintf(l.progress, "%7.1f s: %s\n", time.Since(l.began).Seconds(), fmt.Sprintf(format, args...))
}

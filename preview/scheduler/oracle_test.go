package scheduler

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	extenderv1 "k8s.io/kube-scheduler/extender/v1"
	fwk "k8s.io/kube-scheduler/framework"
	kubescheduler "k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/policy/policytest"
	"github.com/podgrace/podgrace/policy/policytest/draw"
	"github.com/podgrace/podgrace/preview/scheduler/schedulertest"
)

func TestMain(m *testing.M) {
	klog.SetLogger(logr.Discard())
	signal.Notify(make(chan os.Signal, 1), syscall.SIGUSR2)   // the scheduler listens for it; the goroutine that hears of signals must not begin in a bubble
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1] // without the one that sleeps until a millisecond after the last error, which in a bubble is years away
	os.Exit(policytest.Run(m, 200))                           // a second or two; -rapid.checks=10000 is for who has changed something here
}

// decision is what the scheduler itself made of a pod: all of pkg/scheduler, from its informers to the requests that it sends, with a client that has no API server.
type decision struct {
	// gated: it never came into the queue.
	gated bool
	// node that it chose, of those that fit.
	node string
	fit  []string
	// err is why it chose none; the statuses of a FitError are by node.
	err      error
	statuses map[string]Node
	// nominated is the node where the victims were deleted.
	nominated string
	victims   []string
	// counts of the hard spread constraints, in their order.
	counts []map[string]int
}

// listener hears of the nodes that passed the filters, as an extender does, and changes nothing.
type listener struct {
	fwk.Extender
	fit []string
}

func (l *listener) IsInterested(*corev1.Pod) bool { return true }
func (l *listener) IsFilter() bool                { return true }
func (l *listener) IsPrioritizer() bool           { return false }
func (l *listener) IsBinder() bool                { return false }
func (l *listener) Name() string                  { return "listener" }
func (l *listener) Prioritize(*corev1.Pod, []fwk.NodeInfo) (*extenderv1.HostPriorityList, int64, error) {
	return &extenderv1.HostPriorityList{}, 0, nil
}
func (l *listener) Filter(_ *corev1.Pod, nodes []fwk.NodeInfo) (filtered []fwk.NodeInfo, failed, unresolvable extenderv1.FailedNodesMap, err error) {
	l.fit = nil
	for _, n := range nodes {
		l.fit = append(l.fit, n.Node().Name)
	}
	slices.Sort(l.fit)
	return nodes, nil, nil, nil
}

// decide has the scheduler decide about one pod of a cluster. It runs in a bubble, in which what is asynchronous has ended after a Wait.
func decide(ctx context.Context, c *schedulertest.Case) (*decision, error) {
	kube := clientOf(c)
	factory := kubescheduler.NewInformerFactory(kube, 0)
	s, err := kubescheduler.New(ctx, kube, factory, nil, func(string) events.EventRecorderLogger { return &events.FakeRecorder{} }, kubescheduler.WithPercentageOfNodesToScore(new(int32(100))))
	if err != nil {
		return nil, err
	}
	factory.Start(ctx.Done())
	synctest.Wait()
	pending := s.SchedulingQueue.(*queue.PriorityQueue)
	if !slices.ContainsFunc(pending.PodsInActiveQ(), func(p *corev1.Pod) bool { return p.Name == c.Pod.Name }) {
		return &decision{gated: true}, nil
	}
	d, heard := &decision{statuses: map[string]Node{}}, &listener{}
	s.Extenders = []fwk.Extender{heard}
	s.NextPod = func(logger klog.Logger) (*framework.QueuedPodInfo, error) {
		return pending.PopSpecificPod(logger, identified(c.Pod)), nil
	}
	schedule := s.SchedulePod
	s.SchedulePod = func(ctx context.Context, f framework.Framework, state fwk.CycleState, pod *framework.QueuedPodInfo) (kubescheduler.ScheduleResult, error) {
		result, err := schedule(ctx, f, state, pod)
		d.node, d.err = result.SuggestedHost, err
		if seen, err := read(state); err == nil {
			d.counts = seen.counts
		}
		if fit, ok := errors.AsType[*framework.FitError](err); ok {
			for _, n := range c.Nodes {
				status := fit.Diagnosis.NodeToStatus.Get(n.Name)
				d.statuses[n.Name] = Node{Name: n.Name, Plugin: status.Plugin(), Reasons: status.Reasons(), MayPreempt: status.Code() == fwk.Unschedulable}
			}
		}
		return result, err
	}
	failed := s.FailureHandler
	s.FailureHandler = func(ctx context.Context, f framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		if nominating != nil {
			d.nominated = nominating.NominatedNodeName
		}
		failed(ctx, f, pod, status, nominating, start)
	}
	s.ScheduleOne(ctx)
	synctest.Wait()
	d.fit = heard.fit
	for _, a := range kube.Actions() {
		if deleted, ok := a.(clienttesting.DeleteAction); ok && a.GetResource().Resource == "pods" {
			d.victims = append(d.victims, deleted.GetName())
		}
	}
	slices.Sort(d.victims)
	return d, nil
}

// clientOf is one of a cluster of which the pod is a part. Lists heed field selectors, by which the scheduler leaves out pods that have ended.
func clientOf(c *schedulertest.Case) *fake.Clientset {
	objects := []runtime.Object{identified(c.Pod)}
	for _, o := range c.Objects {
		objects = append(objects, o)
	}
	for _, o := range c.Nodes {
		objects = append(objects, o)
	}
	for _, o := range c.Pods {
		objects = append(objects, o)
	}
	kube := fake.NewClientset(objects...)
	kube.PrependReactor("list", "pods", func(action clienttesting.Action) (bool, runtime.Object, error) {
		list, err := kube.Tracker().List(action.GetResource(), corev1.SchemeGroupVersion.WithKind("Pod"), "")
		if err != nil {
			return true, nil, err
		}
		pods, selector := list.(*corev1.PodList), action.(clienttesting.ListAction).GetListRestrictions().Fields
		pods.Items = slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return !selector.Matches(fields.Set{"status.phase": string(p.Status.Phase)}) })
		return true, pods, nil
	})
	return kube
}

// TestOracle: a verdict is what the scheduler itself decides in the same cluster.
func TestOracle(t *testing.T) {
	cases := schedulertest.Cases()
	wanted := draw.Shares{"Fits": 25, "Nowhere": 20, "Preempts": 3, "chosen of several": 10, "picked of several candidates": 0.5, "several victims": 0.5}
	draw.Check(t, wanted, func(rt *rapid.T, counts *draw.Tally) {
		c := cases.Draw(rt, "case")
		var wrong string
		synctest.Test(t, func(t *testing.T) { wrong = compare(t.Context(), c, counts) })
		if wrong != "" {
			rt.Fatalf("%s", wrong)
		}
	})
}

// compare says in what a verdict differs from the scheduler's decision.
func compare(ctx context.Context, c *schedulertest.Case, counts *draw.Tally) string {
	ctx, cancel := context.WithCancel(ctx)
	defer time.Sleep(time.Minute) // of the bubble, which takes no time: what looks at the context now and then ends
	defer cancel()
	d, err := decide(ctx, c)
	if err != nil {
		return err.Error()
	}
	cluster := clusterOf(c)
	if c.Pod.Status.NominatedNodeName != "" { // then somebody has seen it, and it is listed with the others
		cluster.Pods = append(slices.Clone(cluster.Pods), c.Pod)
	}
	s, err := New(ctx, cluster)
	if err != nil {
		return err.Error()
	}
	v, err := s.Judge(ctx, c.Pod)
	if _, unfit := errors.AsType[*framework.FitError](d.err); d.err != nil && !unfit {
		counts.Add("error")
		if err == nil {
			return fmt.Sprintf("the scheduler can't decide: %v, the verdict is %s", d.err, v.Outcome)
		}
		return ""
	}
	if err != nil {
		return fmt.Sprintf("no verdict: %v", err)
	}
	counts.Add(string(v.Outcome))
	return d.differs(v, counts)
}

func (d *decision) differs(v *Verdict, counts *draw.Tally) string {
	if d.gated != (v.Outcome == scheduling.Gated) {
		return fmt.Sprintf("gated: %v, the verdict is %s", d.gated, v.Outcome)
	}
	if d.gated {
		return ""
	}
	if wrong := d.spreadDiffers(v); wrong != "" {
		return wrong
	}
	if d.node != "" {
		fit := fitting(v)
		slices.Sort(fit)
		if v.Nominated != "" {
			counts.Add("nominated before")
			fit = []string{v.Nominated}
		}
		if diff := cmp.Diff(d.fit, fit); diff != "" {
			return "the nodes that fit: -scheduler +verdict\n" + diff
		}
		if !slices.ContainsFunc(v.Best(), func(n Node) bool { return n.Name == d.node }) {
			return fmt.Sprintf("the scheduler chose %s, the best are %+v", d.node, v.Best())
		}
		if len(fit) > 1 {
			counts.Add("chosen of several")
		}
		return ""
	}
	for _, n := range v.Nodes {
		if diff := cmp.Diff(d.statuses[n.Name], n); diff != "" {
			return fmt.Sprintf("node %s: -scheduler +verdict\n%s", n.Name, diff)
		}
	}
	return d.preemptionDiffers(v, counts)
}

func (d *decision) preemptionDiffers(v *Verdict, counts *draw.Tally) string {
	i := slices.IndexFunc(v.Preemption.Candidates, func(c Candidate) bool { return c.Node == d.nominated })
	if i < 0 {
		if d.nominated != "" || len(d.victims) > 0 || len(v.Preemption.Candidates) > 0 {
			return fmt.Sprintf("the scheduler nominated %q for %q, the candidates are %+v", d.nominated, d.victims, v.Preemption.Candidates)
		}
		return ""
	}
	picked := v.Preemption.Candidates[i]
	if picked.Criteria != v.Preemption.Candidates[0].Criteria {
		return fmt.Sprintf("the scheduler picked %+v, the best is %+v", picked, v.Preemption.Candidates[0])
	}
	var victims []string
	for _, p := range picked.Victims {
		if p.DeletionTimestamp == nil { // else it is going already, and nobody deletes it again (pkg/scheduler/framework/preemption/executor.go, 1.36.3)
			victims = append(victims, p.Name)
		}
	}
	slices.Sort(victims)
	if diff := cmp.Diff(d.victims, victims); diff != "" {
		return "victims: -scheduler +verdict\n" + diff
	}
	if len(v.Preemption.Candidates) > 1 {
		counts.Add("picked of several candidates")
	}
	if len(victims) > 1 {
		counts.Add("several victims")
	}
	if picked.Criteria.Violations > 0 {
		counts.Add("violated a budget")
	}
	return ""
}

func (d *decision) spreadDiffers(v *Verdict) string {
	var counts []map[string]int
	for _, s := range v.Spread {
		if s.WhenUnsatisfiable == corev1.DoNotSchedule {
			of := map[string]int{}
			for _, domain := range s.Domains {
				of[domain.Value] = domain.Count
			}
			counts = append(counts, of)
		}
	}
	if d.counts == nil { // another plugin refused the pod before, or there are no hard constraints
		return ""
	}
	if diff := cmp.Diff(d.counts, counts); diff != "" {
		return "what the hard constraints count: -scheduler +verdict\n" + diff
	}
	return ""
}

// TestPlaceIsReading: after a pod was placed the next one is judged as where the first one was read from the cluster.
func TestPlaceIsReading(t *testing.T) {
	cases := schedulertest.Cases()
	draw.Check(t, draw.Shares{"placed": 20}, func(rt *rapid.T, counts *draw.Tally) {
		c := cases.Draw(rt, "case")
		var wrong string
		synctest.Test(t, func(t *testing.T) { wrong = placed(t.Context(), c, counts) })
		if wrong != "" {
			rt.Fatalf("%s", wrong)
		}
	})
}

func placed(ctx context.Context, c *schedulertest.Case, counts *draw.Tally) string {
	ctx, cancel := context.WithCancel(ctx)
	defer time.Sleep(time.Minute) // as in compare
	defer cancel()
	cluster := clusterOf(c)
	first, err := New(ctx, cluster)
	if err != nil {
		return err.Error()
	}
	v, err := first.Judge(ctx, c.Pod)
	if err != nil || v.Outcome != scheduling.Fits {
		return ""
	}
	counts.Add("placed")
	if err := first.Place(c.Pod, v.Best()[0].Name); err != nil {
		return err.Error()
	}
	there, next := c.Pod.DeepCopy(), c.Pod.DeepCopy()
	there.Spec.NodeName, next.Name = v.Best()[0].Name, "next"
	cluster.Pods = append(slices.Clone(cluster.Pods), there)
	second, err := New(ctx, cluster)
	if err != nil {
		return err.Error()
	}
	got, err := first.Judge(ctx, next)
	want, wantErr := second.Judge(ctx, next)
	if (err == nil) != (wantErr == nil) {
		return fmt.Sprintf("placed: %v, read: %v", err, wantErr)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Candidate{}, "Victims")); diff != "" { // a placed pod got a UID
		return "-read +placed\n" + diff
	}
	return ""
}

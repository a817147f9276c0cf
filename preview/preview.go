package preview

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	daemonutil "k8s.io/kubernetes/pkg/controller/daemon/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/preview/scheduler"
)

// Preview is what would become of the pod that an object is or makes, with what its rollout depends on.
type Preview struct {
	scheduling.Preview

	// Pod that was judged; nil if none was.
	Pod *corev1.Pod

	strategy *appsv1.DeploymentStrategy // of a Deployment
	selector *metav1.LabelSelector      // of the Deployment
	ordered  bool                       // a StatefulSet makes no pod before the one before it is ready
}

// Previewer judges objects beside a cluster.
type Previewer struct {
	engine *review.Engine
	// schedulers by the schedulerName of pods, of those profiles that were needed.
	schedulers map[string]*scheduler.Scheduler
	cluster    scheduler.Cluster
	budgets    *budgets
	zones      []scheduling.Zone
	pods       map[client.ObjectKey]*corev1.Pod
}

// New returns one for the state of an engine, which must keep Kinds, and a scheduler of that configuration. It ends with the context.
func New(ctx context.Context, engine *review.Engine, config *scheduler.Config) (*Previewer, error) {
	p := &Previewer{engine: engine, schedulers: map[string]*scheduler.Scheduler{}, cluster: clusterOf(engine.State), pods: map[client.ObjectKey]*corev1.Pod{}}
	p.cluster.Config = config
	for _, pod := range p.cluster.Pods {
		p.pods[client.ObjectKeyFromObject(pod)] = pod
	}
	p.budgets, p.zones = newBudgets(engine.State), zonesOf(p.cluster.Nodes)
	_, err := p.scheduler(ctx, config.SchedulerNames()[0])
	return p, err
}

// scheduler is that of the whole cluster, with the profile for pods of a schedulerName.
func (p *Previewer) scheduler(ctx context.Context, name string) (*scheduler.Scheduler, error) {
	name = cmp.Or(name, corev1.DefaultSchedulerName)
	if s, ok := p.schedulers[name]; ok {
		return s, nil
	}
	s, err := scheduler.New(ctx, p.clusterFor(name))
	if err == nil {
		p.schedulers[name] = s
	}
	return s, err
}

// clusterFor is the cluster as pods of a schedulerName find it.
func (p *Previewer) clusterFor(schedulerName string) scheduler.Cluster {
	c := p.cluster
	c.SchedulerName = schedulerName
	return c
}

// Kinds are what a state must keep beside what reviews read (review.NewState).
func Kinds() []client.Object {
	kept := map[string]bool{}
	for _, o := range review.Kinds() {
		kept[fmt.Sprintf("%T", o)] = true
	}
	return slices.DeleteFunc(scheduler.Kinds(), func(o client.Object) bool { return kept[fmt.Sprintf("%T", o)] })
}

// Of is the preview of a document; nil for one that is no pod and makes none.
func (p *Previewer) Of(ctx context.Context, d *manifest.Document) (*Preview, *manifest.Error) {
	result, wrong := p.engine.Review(ctx, d, review.Question{})
	if result == nil || wrong != nil {
		return nil, wrong
	}
	v := &Preview{Preview: scheduling.Preview{Resource: result.Resource, Source: result.Source, Via: result.Via, Policies: result.Policies, Changed: result.Why, Nodes: len(p.cluster.Nodes)}}
	why, err := v.invalid(d, result)
	if err != nil {
		return nil, d.Wrong(err)
	}
	if result.Decision == review.Denied && (why == "" || result.Reason == string(metav1.StatusReasonInvalid)) {
		why = result.Message // with a way out
	}
	if why != "" {
		v.Outcome, v.Why = scheduling.Refused, why
		return v, nil
	}
	if len(result.After) == 0 {
		return nil, nil
	}
	if err := v.read(d); err != nil {
		return nil, d.Wrong(err)
	}
	v.Pod = &corev1.Pod{}
	if err := json.Unmarshal(result.After, v.Pod); err != nil {
		return nil, d.Wrong(fmt.Errorf("read the pod as it would be stored: %w", err))
	}
	if err := p.judge(ctx, v); err != nil {
		return nil, d.Wrong(err)
	}
	return v, nil
}

// read takes from a workload what its controller rolls out by.
func (v *Preview) read(d *manifest.Document) error {
	if v.Resource.APIVersion != appsv1.SchemeGroupVersion.String() {
		return nil
	}
	switch v.Resource.Kind {
	case "Deployment":
		var read appsv1.Deployment
		if err := json.Unmarshal(d.JSON, &read); err != nil {
			return fmt.Errorf("read the Deployment: %w", err)
		}
		v.strategy, v.selector = &read.Spec.Strategy, read.Spec.Selector
	case "StatefulSet":
		var read appsv1.StatefulSet
		if err := json.Unmarshal(d.JSON, &read); err != nil {
			return fmt.Errorf("read the StatefulSet: %w", err)
		}
		v.ordered = read.Spec.PodManagementPolicy != appsv1.ParallelPodManagement
	}
	return nil
}

// Document is a pod that is known, as one of the input.
func Document(pod *corev1.Pod) (*manifest.Document, error) {
	text, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("write pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return &manifest.Document{APIVersion: "v1", Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, JSON: text}, nil
}

func (p *Previewer) judge(ctx context.Context, v *Preview) error {
	if v.Why = p.beyond(v.Pod); v.Why != "" {
		v.Outcome = scheduling.NotKnown
		return nil
	}
	if isDaemon(v) {
		daemonutil.AddOrUpdateDaemonPodTolerations(&v.Pod.Spec)
	}
	s, err := p.without(ctx, v)
	if err != nil {
		return err
	}
	v.Pod.Spec.NodeName = "" // of one that is there already: as if it were recreated
	if v.Pod.UID == "" {
		v.Pod.UID = types.UID(v.Pod.Namespace + "/" + v.Pod.Name)
	}
	judged, made, notes := claims(p.engine.State, v.Pod)
	if err := s.Know(append(made, replicaSet(v.selector, v.Pod)...)...); err != nil {
		return err
	}
	verdict, err := s.Judge(ctx, judged)
	if err != nil {
		return fmt.Errorf("ask the scheduler: %w", err)
	}
	v.Outcome, v.Why, v.Spread, v.Contradictions = verdict.Outcome, verdict.Why, verdict.Spread, verdict.Contradictions
	v.Fit, v.Groups = verdict.Fit(), groups(verdict.Nodes)
	if byHostname(v.Spread) {
		v.Zones = p.zones
	}
	lints, err := p.lints(ctx, judged, verdict)
	if err != nil {
		return fmt.Errorf("ask the scheduler: %w", err)
	}
	v.Notes = slices.Concat(p.notes(v), p.ineffective(s, v.Pod), notes, lints)
	if verdict.Preemption != nil {
		v.Preemption = p.preemption(ctx, verdict.Preemption)
	}
	return nil
}

// without is the scheduler of a cluster in which the pod itself does not run yet, nor, of a DaemonSet, the ones that it has on each node.
func (p *Previewer) without(ctx context.Context, v *Preview) (*scheduler.Scheduler, error) {
	var there []*corev1.Pod
	if isDaemon(v) {
		there = p.siblings(v)
	} else if pod := p.pods[client.ObjectKeyFromObject(v.Pod)]; pod != nil && pod.Spec.NodeName != "" {
		there = []*corev1.Pod{pod}
	}
	if len(there) == 0 {
		return p.scheduler(ctx, v.Pod.Spec.SchedulerName)
	}
	return scheduler.New(ctx, p.clusterFor(v.Pod.Spec.SchedulerName).Without(there...))
}

// beyond is why the scheduler of Kubernetes can't be asked.
func (p *Previewer) beyond(pod *corev1.Pod) string {
	switch {
	case !p.cluster.Config.Has(pod.Spec.SchedulerName):
		return fmt.Sprintf("the scheduler %q decides, of which nothing is known here", pod.Spec.SchedulerName)
	case len(pod.Spec.ResourceClaims) > 0:
		return "it has resource claims (dynamic resource allocation), which are not previewed"
	case pod.Spec.SchedulingGroup != nil:
		return "it is scheduled with its group, which is not previewed"
	}
	return ""
}

// notes are what the verdict leaves open.
func (p *Previewer) notes(v *Preview) []string {
	var notes []string
	bare := 0
	for _, n := range p.cluster.Nodes {
		if len(n.Status.Allocatable) == 0 {
			bare++
		}
	}
	if bare > 0 {
		notes = append(notes, fmt.Sprintf("%d of %d nodes have no status.allocatable: nothing fits there.", bare, len(p.cluster.Nodes)))
	}
	if class := v.Pod.Spec.PriorityClassName; class != "" && v.Pod.Spec.Priority == nil {
		notes = append(notes, fmt.Sprintf("PriorityClass %s is not known here: the pod was judged with priority 0, and may preempt others if the class is higher.", class))
	}
	if isDaemon(v) {
		return append(notes, daemon(v))
	}
	notes = append(notes, p.there(v)...)
	if n := p.cluster.Config.Extenders(); n > 0 {
		notes = append(notes, fmt.Sprintf("The scheduler's configuration has %s, which %s not asked.", console.Plural(n, "extender", "extenders"), console.Noun(n, "is", "are")))
	}
	if best := scheduling.Best(v.Groups); best > 1 {
		notes = append(notes, fmt.Sprintf("The scheduler takes one of the %d best by chance.", best))
	}
	if len(p.cluster.Nodes) >= sampled && v.Fit > 1 && !p.cluster.Config.ScoresAll(v.Pod.Spec.SchedulerName) {
		notes = append(notes, "All nodes were judged. The scheduler stops when it has found enough that fit (percentageOfNodesToScore), and may take one that is not the best.")
	}
	return notes
}

// sampled is from how many nodes on the scheduler does not look at all of them (minFeasibleNodesToFind in pkg/scheduler/schedule_one.go, 1.36.3).
const sampled = 100

// clusterOf a state is what the scheduler sees of it.
func clusterOf(s *review.State) scheduler.Cluster {
	c := scheduler.Cluster{Nodes: review.Objects[*corev1.Node](s), Pods: review.Objects[*corev1.Pod](s)}
	for _, kind := range scheduler.Kinds() {
		c.Objects = append(c.Objects, s.ObjectsOf(kind)...)
	}
	for i, o := range c.Objects {
		if class, ok := o.(*storagev1.StorageClass); ok && class.VolumeBindingMode == nil {
			class = class.DeepCopy()
			class.VolumeBindingMode = new(storagev1.VolumeBindingImmediate) // as the API server stores it (pkg/apis/storage/v1/defaults.go, 1.36.3); the scheduler fails without it
			c.Objects[i] = class
		}
	}
	return c
}

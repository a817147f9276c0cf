package preview

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	deploymentutil "k8s.io/kubernetes/pkg/controller/deployment/util"

	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/preview/scheduler"
)

// Rollout places so many pods of a preview.
func (p *Previewer) Rollout(ctx context.Context, v *Preview, replicas int) error {
	if v.Pod == nil || v.Outcome == scheduling.NotKnown {
		return nil
	}
	if isDaemon(v) {
		v.Notes = append(v.Notes, "Nothing is placed one after the other: how many pods a DaemonSet has is up to the nodes.")
		return nil
	}
	down, err := p.scaleDown(ctx, v, replicas)
	if err != nil {
		return err
	}
	there := p.siblings(v)
	s, err := scheduler.New(ctx, p.clusterFor(v.Pod.Spec.SchedulerName).Without(there...))
	if err != nil {
		return err
	}
	if n := len(there); n > 0 {
		v.Notes = append(v.Notes, fmt.Sprintf("The rollout begins without the %s of it that %s there already.", console.Plural(n, "pod", "pods"), console.Noun(n, "is", "are")))
	}
	r := &rollout{Scheduler: s, ctx: ctx, state: p.engine.State, selector: v.selector}
	if v.Rollout, err = r.run(v, replicas); err != nil {
		return err
	}
	v.Rollout.Down = down
	if len(v.Contradictions) > 0 { // which the preview has already
		v.Rollout.First.Contradictions = nil
	}
	if second := v.Rollout.Second; second != nil && len(v.Contradictions)+len(v.Rollout.First.Contradictions) > 0 {
		second.Contradictions = nil
	}
	return p.otherwise(ctx, v, there)
}

// run places the pods of a preview, and updates them.
func (r *rollout) run(v *Preview, replicas int) (*scheduling.Rollout, error) {
	out := &scheduling.Rollout{Replicas: replicas}
	first := &revision{pod: v.Pod, ordered: v.ordered}
	if v.strategy != nil {
		first.pod = of(v.Pod, "first")
	}
	if v.Via != "" {
		first.start = max(ordinalOf(v.Pod), 0)
	}
	if err := r.scale(first, replicas); err != nil {
		return nil, err
	}
	var err error
	if out.First, err = r.end(first); err != nil || v.strategy == nil {
		return out, err
	}
	if out.MaxSurge, out.MaxUnavailable, err = fenceposts(v.strategy, replicas); err != nil {
		return nil, err
	}
	second := &revision{pod: of(v.Pod, "second")}
	if err := r.update(first, second, out); err != nil {
		return nil, err
	}
	end, err := r.end(second)
	out.Second, out.Left = &end, len(first.placed)
	return out, err
}

// triedAgain is how many replicas an update has at most that is tried in another order as well.
const triedAgain = 100

// otherwise notes that an update can end otherwise if the pods of both revisions count, and tries it with several old pods that go at once.
func (p *Previewer) otherwise(ctx context.Context, v *Preview, there []*corev1.Pod) error {
	o := v.Rollout
	keys := countBoth(of(v.Pod, "first"), of(v.Pod, "second"))
	if o.Second == nil || o.MaxSurge+o.MaxUnavailable == 0 || o.First.Placed == 0 || len(keys) == 0 {
		return nil
	}
	text := fmt.Sprintf("During the update the old pods count as well (%s).", strings.Join(keys, ", "))
	if o.Left == 0 {
		larger, err := p.together(ctx, v, there)
		if err != nil {
			return err
		}
		text += " Which of them go first depends on when the new ones are ready, and other orders can end with a larger skew"
		if larger != "" {
			text += fmt.Sprintf(" (if several go at once, %s)", larger)
		}
		text += "."
	}
	v.Notes = append(v.Notes, fmt.Sprintf("%s With matchLabelKeys: [%s] each revision is counted by itself.", text, hashLabel))
	return nil
}

// together is the first constraint with a larger skew than a rollout has, if the controller removes at once as many old pods as it may; empty: there is none, or it was not tried.
func (p *Previewer) together(ctx context.Context, v *Preview, there []*corev1.Pod) (string, error) {
	if v.Rollout.Replicas > triedAgain {
		return "", nil
	}
	s, err := scheduler.New(ctx, p.clusterFor(v.Pod.Spec.SchedulerName).Without(there...))
	if err != nil {
		return "", err
	}
	other, err := (&rollout{Scheduler: s, ctx: ctx, state: p.engine.State, selector: v.selector, together: true}).run(v, v.Rollout.Replicas)
	if err != nil {
		return "", err
	}
	for i := range other.Second.Spread {
		if s := &other.Second.Spread[i]; s.Skew() > v.Rollout.Second.Spread[i].Skew() {
			return s.Counts(), nil
		}
	}
	return "", nil
}

// countBoth are the topology keys of a revision's constraints that count the pods of another revision, too.
func countBoth(first, second *corev1.Pod) []string {
	var keys []string
	for _, c := range second.Spec.TopologySpreadConstraints {
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err == nil && !selector.Empty() && selector.Matches(labels.Set(first.Labels)) && selector.Matches(labels.Set(second.Labels)) {
			keys = append(keys, c.TopologyKey)
		}
	}
	return slices.Compact(keys)
}

// fenceposts are how many pods an update may have more, and less.
func fenceposts(s *appsv1.DeploymentStrategy, replicas int) (surge, unavailable int, err error) {
	if s != nil && s.Type == appsv1.RecreateDeploymentStrategyType {
		return 0, 0, nil
	}
	by := &appsv1.RollingUpdateDeployment{}
	if s != nil && s.RollingUpdate != nil {
		by = s.RollingUpdate
	}
	quarter := intstr.FromString("25%") // the default of both (pkg/apis/apps/v1/defaults.go, 1.36.3)
	more, less, err := deploymentutil.ResolveFenceposts(cmp.Or(by.MaxSurge, &quarter), cmp.Or(by.MaxUnavailable, &quarter), int32(replicas))
	if err != nil {
		return 0, 0, fmt.Errorf("read the strategy of the Deployment: %w", err)
	}
	return int(more), int(less), nil
}

// rollout goes on in one cluster.
type rollout struct {
	*scheduler.Scheduler
	ctx   context.Context
	state *review.State
	// selector of the Deployment; nil: it is none.
	selector *metav1.LabelSelector
	// together: old pods that may go go at once. Else each goes by itself, as new pods become ready one after the other.
	together bool
}

// hashLabel tells a Deployment's revisions apart.
const hashLabel = appsv1.DefaultDeploymentUniqueLabelKey

// revision is a workload's pods of one template.
type revision struct {
	pod *corev1.Pod
	// start is the number of the first pod, and ordered: none is made while the one before it waits. Both are a StatefulSet's.
	start   int
	ordered bool
	// made is how many pods there were, for their names.
	made    int
	placed  []*corev1.Pod
	pending []*corev1.Pod
	// why and contradictions are of the first that was pending, as it was last.
	why            string
	contradictions []scheduling.Contradiction
}

func (r *revision) pods() int { return len(r.placed) + len(r.pending) }

// of is a pod's template in one of its revisions: the placeholder of the hash is in a label, and in selectors where matchLabelKeys put it.
func of(pod *corev1.Pod, revision string) *corev1.Pod {
	made := pod.DeepCopy()
	placeholder, ok := made.Labels[hashLabel]
	if !ok {
		return made
	}
	made.Labels[hashLabel] = revision
	if owner := metav1.GetControllerOfNoCopy(made); owner != nil {
		owner.Name = strings.TrimSuffix(owner.Name, placeholder) + revision
	}
	spec := &made.Spec
	for _, c := range spec.TopologySpreadConstraints {
		exchange(c.LabelSelector, placeholder, revision)
	}
	if a := spec.Affinity; a != nil && a.PodAffinity != nil {
		exchangeIn(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution, placeholder, revision)
	}
	if a := spec.Affinity; a != nil && a.PodAntiAffinity != nil {
		exchangeIn(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution, a.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution, placeholder, revision)
	}
	return made
}

func exchangeIn(required []corev1.PodAffinityTerm, preferred []corev1.WeightedPodAffinityTerm, old, revision string) {
	for _, t := range required {
		exchange(t.LabelSelector, old, revision)
	}
	for _, t := range preferred {
		exchange(t.PodAffinityTerm.LabelSelector, old, revision)
	}
}

func exchange(selector *metav1.LabelSelector, old, revision string) {
	if selector == nil {
		return
	}
	for _, e := range selector.MatchExpressions {
		for i := range e.Values {
			if e.Key == hashLabel && e.Values[i] == old {
				e.Values[i] = revision
			}
		}
	}
}

// scale makes so many more pods.
func (r *rollout) scale(rev *revision, more int) error {
	if err := r.Know(replicaSet(r.selector, rev.pod)...); err != nil {
		return err
	}
	for range more {
		pod := numbered(rev.pod, rev.start+rev.made)
		rev.made++
		rev.pending = append(rev.pending, pod)
	}
	return r.schedule(rev)
}

// schedule tries all pods that wait, as the scheduler does when others have gone.
func (r *rollout) schedule(rev *revision) error {
	waiting := rev.pending
	rev.pending, rev.why, rev.contradictions = nil, "", nil
	for i, pod := range waiting {
		if rev.ordered && len(rev.pending) > 0 {
			rev.pending = append(rev.pending, waiting[i:]...)
			return nil
		}
		judged, made, _ := claims(r.state, pod)
		if err := r.Know(made...); err != nil {
			return err
		}
		verdict, err := r.Judge(r.ctx, judged)
		if err != nil {
			return fmt.Errorf("ask the scheduler: %w", err)
		}
		if verdict.Outcome != scheduling.Fits {
			if len(rev.pending) == 0 {
				rev.why, rev.contradictions = said(verdict), verdict.Contradictions
			}
			rev.pending = append(rev.pending, pod)
			if interchangeable(pod) { // so that none of the others fits
				rev.pending = append(rev.pending, waiting[i+1:]...)
				return nil
			}
			continue
		}
		judged.Spec.NodeName = verdict.Best()[0].Name
		rev.placed = append(rev.placed, judged)
		if err := r.Place(judged, judged.Spec.NodeName); err != nil {
			return err
		}
	}
	return nil
}

// interchangeable reports whether the pods of a revision differ for the scheduler in nothing but their names: they have no claims of their own.
func interchangeable(pod *corev1.Pod) bool {
	return !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.PersistentVolumeClaim != nil || v.Ephemeral != nil })
}

// numbered is a pod of its own. That of a StatefulSet has claims of its own, by its number.
func numbered(pod *corev1.Pod, n int) *corev1.Pod {
	made := pod.DeepCopy()
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil && owner.Kind == "StatefulSet" {
		made.Name = fmt.Sprintf("%s-%d", owner.Name, n)
		for _, v := range made.Spec.Volumes {
			if c := v.PersistentVolumeClaim; c != nil {
				if template, ok := strings.CutSuffix(c.ClaimName, "-"+pod.Name); ok {
					c.ClaimName = template + "-" + made.Name
				}
			}
		}
	} else {
		made.Name = fmt.Sprintf("%s-%d", pod.Name, n)
	}
	made.UID = types.UID(fmt.Sprintf("%s/%s/%s", made.Namespace, made.Name, made.Labels[hashLabel]))
	return made
}

// ordinalOf is the number of a pod that a StatefulSet made, which spec.ordinals may begin with; -1 of all others.
func ordinalOf(pod *corev1.Pod) int {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil || owner.Kind != "StatefulSet" {
		return -1
	}
	n, err := strconv.Atoi(strings.TrimPrefix(pod.Name, owner.Name+"-"))
	if err != nil {
		return -1
	}
	return n
}

// said is why a pod was not placed, as short as the Event of the scheduler.
func said(v *scheduler.Verdict) string {
	if v.Why != "" {
		return v.Why
	}
	counts := map[string]int{}
	for _, n := range v.Nodes {
		for _, reason := range n.Reasons {
			counts[reason]++
		}
	}
	text := fmt.Sprintf("0/%d nodes are available:", len(v.Nodes))
	for _, reason := range slices.Sorted(maps.Keys(counts)) {
		text += fmt.Sprintf(" %d %s,", counts[reason], reason)
	}
	text = text[:len(text)-1]
	if v.Outcome == scheduling.Preempts {
		text += "; others could be preempted"
	}
	return text
}

// update goes on as the Deployment's controller does, until all is new or nothing moves any more (pkg/controller/deployment/rolling.go and recreate.go, 1.36.3). Pods that were placed are taken
// for available at once.
func (r *rollout) update(old, young *revision, o *scheduling.Rollout) error {
	if o.MaxSurge == 0 && o.MaxUnavailable == 0 { // Recreate
		if err := r.shrink(old, young, old.pods()); err != nil {
			return err
		}
		return r.scale(young, o.Replicas)
	}
	for moved := true; moved; {
		moved = false
		if more := min(o.Replicas+o.MaxSurge-old.pods()-young.pods(), o.Replicas-young.pods()); more > 0 {
			moved = true
			if err := r.scale(young, more); err != nil {
				return err
			}
		}
		if less := min(old.pods()+young.pods()-(o.Replicas-o.MaxUnavailable)-len(young.pending), old.pods()); less > 0 {
			moved = true
			if err := r.shrink(old, young, less); err != nil {
				return err
			}
		}
	}
	return nil
}

// shrink takes pods away, those that wait first, and has the others' scheduled that waited for their room.
func (r *rollout) shrink(old, young *revision, less int) error {
	waiting := min(less, len(old.pending))
	old.pending = old.pending[waiting:]
	for less -= waiting; less > 0; {
		gone := leaving(old.placed, slices.Concat(old.placed, young.placed), metav1.Time{})[:less]
		if !r.together {
			gone = gone[:1]
		}
		for _, pod := range gone {
			old.placed = slices.DeleteFunc(old.placed, func(p *corev1.Pod) bool { return p == pod })
			if err := r.Remove(pod, pod.Spec.NodeName); err != nil {
				return err
			}
		}
		less -= len(gone)
	}
	return r.schedule(young)
}

// end is where the pods of a revision are.
func (r *rollout) end(rev *revision) (scheduling.Placement, error) {
	p := scheduling.Placement{Placed: len(rev.placed), Pending: len(rev.pending), Why: rev.why, Contradictions: rev.contradictions, Nodes: []scheduling.Count{}}
	on := onNodes(rev.placed)
	for _, node := range slices.Sorted(maps.Keys(on)) {
		p.Nodes = append(p.Nodes, scheduling.Count{Value: node, Pods: on[node]})
	}
	var err error
	p.Spread, err = r.Count(r.ctx, rev.pod)
	return p, err
}

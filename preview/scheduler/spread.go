package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/podgrace/podgrace/cli/scheduling"
)

// spreadPlugin is PodTopologySpread of a framework. The zero value is for a profile that has it not enabled.
type spreadPlugin struct {
	fwk.PreFilterPlugin
	snapshot interface{ SnapshotSharedLister() fwk.SharedLister }
	// defaults are the constraints of the profile for pods without any, unless they are the scheduler's own.
	defaults []corev1.TopologySpreadConstraint
	factory  informers.SharedInformerFactory
}

func newSpread(ctx context.Context, registry frameworkruntime.Registry, profile *config.KubeSchedulerProfile, handle framework.Framework, factory informers.SharedInformerFactory) (spreadPlugin, error) {
	args := argsOf(profile, names.PodTopologySpread)
	made, err := registry[names.PodTopologySpread](ctx, args, handle)
	if err != nil {
		return spreadPlugin{}, fmt.Errorf("make the plugin %s: %w", names.PodTopologySpread, err)
	}
	plugin, ok := made.(fwk.PreFilterPlugin)
	if !ok {
		return spreadPlugin{}, fmt.Errorf("%s filters no pods", names.PodTopologySpread)
	}
	p := spreadPlugin{PreFilterPlugin: plugin, snapshot: handle, factory: factory}
	if spread, ok := args.(*config.PodTopologySpreadArgs); ok && spread.DefaultingType == config.ListDefaulting {
		p.defaults = spread.DefaultConstraints
	}
	return p, nil
}

// explicit is a pod with the constraints that the profile has for pods without any, with the selector of its services and its controller (buildDefaultConstraints in
// pkg/scheduler/framework/plugins/podtopologyspread/common.go, 1.36.3). The plugin treats both alike.
func (p spreadPlugin) explicit(pod *corev1.Pod) *corev1.Pod {
	if len(pod.Spec.TopologySpreadConstraints) > 0 || len(p.defaults) == 0 {
		return pod
	}
	core, apps := p.factory.Core().V1(), p.factory.Apps().V1()
	selector := helper.DefaultSelector(pod, core.Services().Lister(), core.ReplicationControllers().Lister(), apps.ReplicaSets().Lister(), apps.StatefulSets().Lister())
	parsed, err := metav1.ParseToLabelSelector(selector.String())
	if err != nil || selector.Empty() {
		return pod
	}
	pod = pod.DeepCopy()
	for _, c := range p.defaults {
		c.LabelSelector = parsed
		pod.Spec.TopologySpreadConstraints = append(pod.Spec.TopologySpreadConstraints, c)
	}
	return pod
}

// counted is what the plugin keeps between PreFilter and Filter: the fields of its preFilterState, which are exported for its own tests
// (plugins/podtopologyspread/filtering.go, 1.36.3). That they are still these TestSpread shows.
type counted struct {
	constraints reflect.Value
	counts      []map[string]int
}

// table is what the plugin counts for each constraint of a pod, in their order. Those that are wishes are counted as if they were not, but apart: a node counts
// that has the keys of all constraints of a kind (requireAllTopologies in plugins/podtopologyspread, 1.36.3).
func (p spreadPlugin) table(ctx context.Context, pod *corev1.Pod) ([]scheduling.Spread, error) {
	if p.PreFilterPlugin == nil {
		return nil, nil
	}
	ofProfile := len(pod.Spec.TopologySpreadConstraints) == 0
	pod = p.explicit(pod)
	tables := make([]scheduling.Spread, len(pod.Spec.TopologySpreadConstraints))
	for _, kind := range []corev1.UnsatisfiableConstraintAction{corev1.DoNotSchedule, corev1.ScheduleAnyway} {
		strict := pod.DeepCopy()
		strict.Spec.TopologySpreadConstraints = nil
		var places []int
		for i, c := range pod.Spec.TopologySpreadConstraints {
			if c.WhenUnsatisfiable == kind {
				c.WhenUnsatisfiable = corev1.DoNotSchedule
				strict.Spec.TopologySpreadConstraints = append(strict.Spec.TopologySpreadConstraints, c)
				places = append(places, i)
			}
		}
		if len(places) == 0 {
			continue
		}
		seen, err := p.count(ctx, strict)
		if err != nil {
			return nil, err
		}
		for i, counts := range seen.counts {
			tables[places[i]] = seen.spread(i, counts, pod)
			tables[places[i]].WhenUnsatisfiable, tables[places[i]].Default = kind, ofProfile
		}
	}
	return tables, nil
}

// count has the plugin count for a pod whose constraints are all hard.
func (p spreadPlugin) count(ctx context.Context, pod *corev1.Pod) (*counted, error) {
	nodes, err := p.snapshot.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil, fmt.Errorf("list the nodes: %w", err)
	}
	state := framework.NewCycleState()
	if _, status := p.PreFilter(ctx, state, pod, nodes); !status.IsSuccess() {
		return nil, fmt.Errorf("count for the spread constraints: %w", status.AsError())
	}
	return read(state)
}

func read(state fwk.CycleState) (*counted, error) {
	data, err := state.Read("PreFilter" + names.PodTopologySpread)
	if err != nil {
		return nil, fmt.Errorf("read what %s counted: %w", names.PodTopologySpread, err)
	}
	v := reflect.Indirect(reflect.ValueOf(data))
	counts, ok := reflect.TypeAssert[[]map[string]int](v.FieldByName("TpValueToMatchNum"))
	if !ok {
		return nil, fmt.Errorf("read what %s counted: its %T has other fields", names.PodTopologySpread, data)
	}
	return &counted{constraints: v.FieldByName("Constraints"), counts: counts}, nil
}

// spread is the table of the constraint i.
func (c *counted) spread(i int, counts map[string]int, pod *corev1.Pod) scheduling.Spread {
	constraint := c.constraints.Index(i)
	s := scheduling.Spread{
		TopologyKey: constraint.FieldByName("TopologyKey").String(), MaxSkew: int32(constraint.FieldByName("MaxSkew").Int()), MinDomains: int32(constraint.FieldByName("MinDomains").Int()),
		Domains: []scheduling.Domain{}, // of programs none expects null
	}
	if selector, ok := reflect.TypeAssert[labels.Selector](constraint.FieldByName("Selector")); ok {
		s.SelfMatch = selector.Matches(labels.Set(pod.Labels))
	}
	self := 0
	if s.SelfMatch {
		self = 1
	}
	for value, count := range counts {
		s.Domains = append(s.Domains, scheduling.Domain{Value: value, Count: count})
	}
	slices.SortFunc(s.Domains, func(a, b scheduling.Domain) int { return cmp.Compare(a.Value, b.Value) })
	if len(s.Domains) > 0 && len(s.Domains) >= int(s.MinDomains) {
		s.Minimum = slices.MinFunc(s.Domains, func(a, b scheduling.Domain) int { return cmp.Compare(a.Count, b.Count) }).Count
	}
	for i := range s.Domains {
		s.Domains[i].SkewAfter = s.Domains[i].Count + self - s.Minimum
	}
	return s
}

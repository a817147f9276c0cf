package scheduler

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/informers"
	resourceslicetracker "k8s.io/dynamic-resource-allocation/resourceslice/tracker"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/features"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/defaultpreemption"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/dynamicresources"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/names"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
	"k8s.io/kubernetes/pkg/scheduler/util/assumecache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// Cluster is what the scheduler's informers would hold. Nothing in it is changed.
type Cluster struct {
	Nodes []*corev1.Node
	// Pods are those of all nodes, and those that wait for one.
	Pods []*corev1.Pod
	// Objects are of Kinds.
	Objects []client.Object
	// Config of its scheduler, and the schedulerName of the pods that are asked about, by which they get a profile of it; empty: default-scheduler.
	Config        *Config
	SchedulerName string
}

// Scheduler is the scheduler's framework over a cluster. It is for one goroutine.
type Scheduler struct {
	framework  framework.Framework
	preemption *defaultpreemption.DefaultPreemption // nil: the profile has it not enabled
	spread     spreadPlugin
	cache      cache.Cache
	snapshot   *cache.Snapshot
	logger     klog.Logger
	factory    informers.SharedInformerFactory
	// weights of the plugins that score (KubeSchedulerProfile).
	weights map[string]int64
}

// New makes the framework with the profile of the cluster's schedulerName. It ends with the context.
func New(ctx context.Context, c Cluster) (*Scheduler, error) {
	metrics.Register() // plugins measure themselves; nobody asks for it
	of, err := c.Config.configuration()
	if err != nil {
		return nil, err
	}
	profile := profileOf(of, c.SchedulerName)
	if profile == nil {
		return nil, fmt.Errorf("the scheduler has no profile %q", c.SchedulerName)
	}
	s := &Scheduler{snapshot: cache.NewEmptySnapshot(), cache: cache.New(ctx, nil, utilfeature.DefaultFeatureGate.Enabled(features.GenericWorkload)), logger: klog.FromContext(ctx), factory: informers.NewSharedInformerFactory(nil, 0)}
	nominated := nominator{}
	if err := s.build(ctx, profile, nominated); err != nil {
		return nil, err
	}
	s.nominate(ctx, c, nominated)
	if err := s.Know(c.Objects...); err != nil {
		return nil, err
	}
	for _, n := range c.Nodes {
		if err := s.Know(n); err != nil {
			return nil, err
		}
		s.cache.AddNode(s.logger, n)
	}
	for _, p := range c.Pods {
		if err := s.add(p); err != nil {
			return nil, err
		}
	}
	return s, s.look()
}

// Know has the plugins find objects of Kinds. The informers never run: there is nothing to list or to watch.
func (s *Scheduler) Know(objects ...client.Object) error {
	for _, o := range objects {
		informer := informerOf(s.factory, o)
		if informer == nil {
			return fmt.Errorf("no plugin of the scheduler looks up a %T", o)
		}
		if err := informer.GetIndexer().Add(o); err != nil {
			return fmt.Errorf("keep %T %s/%s: %w", o, o.GetNamespace(), o.GetName(), err)
		}
	}
	return nil
}

// build makes the plugins as scheduler.New does (pkg/scheduler/scheduler.go, 1.36.3), but for what writes.
func (s *Scheduler) build(ctx context.Context, profile *config.KubeSchedulerProfile, nominated nominator) error {
	factory := s.factory
	claims := assumecache.NewAssumeCache(s.logger, factory.Resource().V1().ResourceClaims().Informer(), "ResourceClaim", "", nil)
	devices, err := resourceslicetracker.StartTracker(ctx, resourceslicetracker.Options{SliceInformer: factory.Resource().V1().ResourceSlices()})
	if err != nil {
		return fmt.Errorf("make the scheduler's view of devices: %w", err)
	}
	registry := plugins.NewInTreeRegistry()
	preempts := registry[names.DefaultPreemption]
	registry[names.DefaultPreemption] = func(ctx context.Context, args runtime.Object, handle fwk.Handle) (fwk.Plugin, error) {
		plugin, err := preempts(ctx, args, handle)
		s.preemption, _ = plugin.(*defaultpreemption.DefaultPreemption)
		return plugin, err
	}
	quiet := klog.NewContext(ctx, logr.Discard()) // it remarks on profiles that are in order
	s.framework, err = frameworkruntime.NewFramework(quiet, registry, profile,
		frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSnapshotSharedLister(s.snapshot),
		frameworkruntime.WithSharedDRAManager(dynamicresources.NewDRAManager(ctx, claims, devices, factory)),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())),
		frameworkruntime.WithPodNominator(nominated),
		frameworkruntime.WithPodGroupManager(s.cache),
	)
	if err != nil {
		return fmt.Errorf("make the scheduler's framework: %w", err)
	}
	s.weights = map[string]int64{}
	for _, p := range s.framework.ListPlugins().Score.Enabled {
		s.weights[p.Name] = int64(p.Weight)
	}
	if s.Enabled(names.PodTopologySpread) {
		s.spread, err = newSpread(ctx, registry, profile, s.framework, factory)
	}
	return err
}

// Enabled reports whether a plugin of the profile filters nodes, or scores them.
func (s *Scheduler) Enabled(plugin string) bool {
	on := s.framework.ListPlugins()
	return slices.ContainsFunc(slices.Concat(on.Filter.Enabled, on.Score.Enabled), func(p config.Plugin) bool { return p.Name == plugin })
}

// nominate keeps room for the pods that wait for a node of which the scheduler has said that they will get it. It knows only of those in its queue: what is gated,
// has ended or is another scheduler's is not there (addPod in pkg/scheduler/eventhandlers.go, moveToActiveQ in backend/queue/scheduling_queue.go, 1.36.3).
func (s *Scheduler) nominate(ctx context.Context, c Cluster, nominated nominator) {
	for _, p := range c.Pods {
		node := p.Status.NominatedNodeName
		if node == "" || p.Spec.NodeName != "" || graceperiod.Finished(p) || !c.Config.Has(p.Spec.SchedulerName) || s.gated(ctx, p) != "" {
			continue
		}
		if info, err := framework.NewPodInfo(identified(p)); err == nil { // else its terms can't be parsed, and the scheduler has none of them either
			nominated[node] = append(nominated[node], info)
		}
	}
}

// add has a pod use up what it asks for on its node. What has ended uses up nothing (newPodInformer in pkg/scheduler/scheduler.go, 1.36.3).
func (s *Scheduler) add(p *corev1.Pod) error {
	if p.Spec.NodeName == "" || graceperiod.Finished(p) {
		return nil
	}
	if err := s.cache.AddPod(s.logger, identified(p)); err != nil {
		return fmt.Errorf("put pod %s/%s on node %s: %w", p.Namespace, p.Name, p.Spec.NodeName, err)
	}
	return nil
}

// identified is a pod with a UID, by which the scheduler tells pods apart: that of a manifest has none.
func identified(p *corev1.Pod) *corev1.Pod {
	if p.UID == "" {
		p = p.DeepCopy()
		p.UID = types.UID(p.Namespace + "/" + p.Name)
	}
	return p
}

// look takes a new snapshot of the cache.
func (s *Scheduler) look() error {
	if err := s.cache.UpdateSnapshot(s.logger, s.snapshot); err != nil {
		return fmt.Errorf("take a snapshot of the nodes: %w", err)
	}
	return nil
}

// Place puts a pod on a node, as if it ran there: the next pod is judged beside it.
func (s *Scheduler) Place(pod *corev1.Pod, node string) error {
	placed := pod.DeepCopy()
	placed.Spec.NodeName = node
	return cmp.Or(s.add(placed), s.look())
}

// Remove takes a pod away that Place put on a node.
func (s *Scheduler) Remove(pod *corev1.Pod, node string) error {
	placed := identified(pod).DeepCopy()
	placed.Spec.NodeName = node
	if err := s.cache.RemovePod(s.logger, placed); err != nil {
		return fmt.Errorf("take pod %s/%s from node %s: %w", pod.Namespace, pod.Name, node, err)
	}
	return s.look()
}

// Count is what is counted for each of a pod's spread constraints now.
func (s *Scheduler) Count(ctx context.Context, pod *corev1.Pod) ([]scheduling.Spread, error) {
	return s.spread.table(ctx, pod)
}

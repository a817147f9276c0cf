package fidelity

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/klog/v2"
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	kubeleteviction "k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// kubeletNode is a kubelet's eviction manager on a node that is short of something. Each turn of its loop evicts one pod, so
// that the order of its victims is its ranking.
type kubeletNode struct {
	signal  evictionapi.Signal
	soft    bool
	most    int64 // seconds of a soft eviction
	pods    []*corev1.Pod
	stats   map[types.UID]statsapi.PodStats
	victims []victim
	done    chan struct{}
	turns   int
	idle    int // turns since the last victim
}

type victim struct {
	Name  string
	Grace int64
}

func (n *kubeletNode) Get(context.Context, bool) (*statsapi.Summary, error) {
	// A soft threshold has one idle turn, which first sees it. What is left after more is never evicted.
	if n.idle++; len(n.pods) == 0 || n.idle > 4 {
		close(n.done)
		runtime.Goexit() // the manager's loop has no other end
	}
	n.turns++
	now := metav1.NewTime(time.Unix(int64(n.turns), 0))
	low, all := new(uint64(1)), new(uint64(1000))
	s := &statsapi.Summary{}
	switch n.signal {
	case evictionapi.SignalMemoryAvailable:
		s.Node.Memory = &statsapi.MemoryStats{Time: now, AvailableBytes: low, WorkingSetBytes: all}
	case evictionapi.SignalPIDAvailable:
		s.Node.Rlimit = &statsapi.RlimitStats{Time: now, MaxPID: new(int64(1000)), NumOfRunningProcesses: new(int64(999))}
	default:
		s.Node.Fs = &statsapi.FsStats{Time: now, AvailableBytes: low, CapacityBytes: all, InodesFree: low, Inodes: all}
	}
	for _, p := range n.pods {
		if stats, ok := n.stats[p.UID]; ok {
			s.Pods = append(s.Pods, stats)
		}
	}
	return s, nil
}

func (n *kubeletNode) GetCPUAndMemoryStats(context.Context) (*statsapi.Summary, error) {
	return nil, nil
}
func (n *kubeletNode) HasDedicatedImageFs(context.Context) (bool, error)     { return false, nil }
func (n *kubeletNode) HasDedicatedContainerFs(context.Context) (bool, error) { return false, nil }
func (n *kubeletNode) DeleteUnusedImages(context.Context) error              { return nil }
func (n *kubeletNode) DeleteAllUnusedContainers(context.Context) error       { return nil }

func (n *kubeletNode) kill(pod *corev1.Pod, _ bool, grace *int64, _ func(*corev1.PodStatus)) error {
	n.idle = 0
	n.victims = append(n.victims, victim{pod.Name, *grace})
	n.pods = slices.DeleteFunc(n.pods, func(p *corev1.Pod) bool { return p.UID == pod.UID })
	return nil
}

// instant is a clock whose tickers and timers do not wait; time itself stands still.
type instant struct{ clock.RealClock }

func (instant) NewTicker(time.Duration) clock.Ticker {
	return clock.RealClock{}.NewTicker(time.Nanosecond)
}

func (n *kubeletNode) run() []victim {
	n.done = make(chan struct{})
	threshold := evictionapi.Threshold{Signal: n.signal, Operator: evictionapi.OpLessThan, Value: evictionapi.ThresholdValue{Quantity: resource.NewQuantity(500, resource.DecimalSI)}}
	if n.soft {
		threshold.GracePeriod = time.Nanosecond
	}
	m, _ := kubeleteviction.NewManager(n, kubeleteviction.Config{Thresholds: []evictionapi.Threshold{threshold}, MaxPodGracePeriodSeconds: n.most}, n.kill, n, n, &record.FakeRecorder{}, nil, instant{}, false)
	quiet := klog.NewContext(context.Background(), klog.Logger{}) // a line for each pod and turn would be most of the work
	m.Start(quiet, n, func() []*corev1.Pod { return slices.Clone(n.pods) }, func(*corev1.Pod) bool { return true }, 0)
	<-n.done
	return n.victims
}

var evictionSignals = map[v1alpha1.EvictionSignal]evictionapi.Signal{
	v1alpha1.SignalMemoryAvailable:  evictionapi.SignalMemoryAvailable,
	v1alpha1.SignalPIDAvailable:     evictionapi.SignalPIDAvailable,
	v1alpha1.SignalNodeFsAvailable:  evictionapi.SignalNodeFsAvailable,
	v1alpha1.SignalNodeFsInodesFree: evictionapi.SignalNodeFsInodesFree,
}

// evictionCase is a node that is short of something. What a pod uses is absent where the kubelet has no statistics of it.
type evictionCase struct {
	Signal v1alpha1.EvictionSignal
	Soft   bool
	Most   int64
	Pods   []*corev1.Pod
	Used   map[string]uint64
}

func (c *evictionCase) GoString() string { return draw.Show(c) }

var evictionCases = draw.Of(func(s draw.Source) *evictionCase {
	c := &evictionCase{
		Signal: draw.Pick(s, v1alpha1.SignalMemoryAvailable, v1alpha1.SignalPIDAvailable, v1alpha1.SignalNodeFsAvailable, v1alpha1.SignalNodeFsInodesFree),
		Soft:   s.Chance(6), Most: draw.Pick[int64](s, 30, 1, 10, 600), Used: map[string]uint64{},
	}
	for i := range s.Below(7) {
		p := drawCandidate(s, fmt.Sprint("p", i))
		c.Pods = append(c.Pods, p)
		if !s.Chance(1) {
			c.Used[p.Name] = uint64(s.Below(10))
		}
	}
	return c
})

func drawCandidate(s draw.Source, name string) *corev1.Pod {
	quantity := func() resource.Quantity { return resource.MustParse(draw.Pick(s, "0", "1", "2", "3500m", "5", "900m")) }
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace, UID: types.UID(name)}}
	p.Spec.TerminationGracePeriodSeconds = new(draw.Pick[int64](s, 30, 0, 1, 5, 3600)) // the API server leaves none without
	for i := range 1 + s.Below(2) {
		r := corev1.ResourceList{}
		for _, resource := range draw.Some(s, 8, corev1.ResourceMemory, corev1.ResourceEphemeralStorage) {
			r[resource] = quantity()
		}
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", i), Resources: corev1.ResourceRequirements{Requests: r}})
	}
	if s.Chance(4) {
		p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: quantity()}}
	}
	if s.Chance(4) {
		p.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2"), corev1.ResourceEphemeralStorage: resource.MustParse("1")}
	}
	p.Spec.Priority = draw.Maybe[int32](s, 8, 0, -1, 1, 1_999_999_999, 2_000_000_000)
	annotate(s, 1, p, corev1.MirrorPodAnnotationKey, "")
	return p
}

// kubelet is the manager on this node.
func (c *evictionCase) kubelet() *kubeletNode {
	n := &kubeletNode{signal: evictionSignals[c.Signal], soft: c.Soft, most: c.Most, pods: slices.Clone(c.Pods), stats: map[types.UID]statsapi.PodStats{}}
	for _, p := range c.Pods {
		if used, ok := c.Used[p.Name]; ok {
			n.stats[p.UID] = statsapi.PodStats{
				PodRef: statsapi.PodReference{UID: string(p.UID)}, Memory: &statsapi.MemoryStats{WorkingSetBytes: &used}, ProcessStats: &statsapi.ProcessStats{ProcessCount: &used},
				Containers: []statsapi.ContainerStats{{Name: "c0", Rootfs: &statsapi.FsStats{UsedBytes: &used, InodesUsed: &used}}},
			}
		}
	}
	return n
}

// ranked is our ranking of the same pods.
func (c *evictionCase) ranked() []eviction.Ranked {
	candidates := make([]eviction.Candidate, 0, len(c.Pods))
	for _, p := range c.Pods {
		candidate := eviction.Candidate{Pod: p}
		if used, ok := c.Used[p.Name]; ok {
			candidate.Usage = map[v1alpha1.EvictionSignal]int64{c.Signal: int64(used)}
		}
		candidates = append(candidates, candidate)
	}
	return eviction.Rank(c.Signal, candidates)
}

// knownFirst puts those without statistics last, as we do; the kubelet has them before those with which it would compare them.
func (c *evictionCase) knownFirst(victims []victim) []victim {
	unknown := func(v victim) bool { _, ok := c.Used[v.Name]; return !ok }
	return append(slices.DeleteFunc(slices.Clone(victims), unknown), slices.DeleteFunc(slices.Clone(victims), func(v victim) bool { return !unknown(v) })...)
}

// TestFidelityEviction: the kubelet's manager evicts in the order of our ranking, with the grace of a hard or soft eviction. Only the
// pods without statistics have another place, knowingly.
func TestFidelityEviction(t *testing.T) {
	t.Parallel()
	wanted := draw.Shares{
		"memory.available": 15, "pid.available": 15, "nodefs.available": 15, "nodefs.inodesFree": 15, "soft": 20, "some exempt": 20, "some unknown": 10,
		"decided by the request": 15, "decided by priority": 15, "decided by usage": 15, "grace of the pod's own": 5,
	}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := evictionCases.Draw(t, "case")
		want, got := c.knownFirst(c.kubelet().run()), c.ranked()
		if len(got) != len(want) {
			t.Fatalf("the kubelet evicts %v, we rank %d", want, len(got))
		}
		by := map[string]eviction.Ranked{}
		for _, r := range got {
			by[r.Pod.Name] = r
		}
		kind := eviction.Hard
		if c.Soft {
			kind = eviction.Soft
		}
		for i, v := range want {
			k, ok := by[v.Name]
			// Pods of one place, whose order the kubelet leaves to chance, are put in ours.
			if o := got[i]; !ok || k.Known != o.Known || k.Exceeds != o.Exceeds || k.Priority != o.Priority || k.Above.Cmp(o.Above) != 0 {
				t.Fatalf("%s: the kubelet evicts %v, we %v", c.Signal, want, got)
			}
			// A pod has at least a second: pod_workers.go calculateEffectiveGracePeriod, 1.36.3.
			if grace := eviction.Grace(k.Pod, kind, &v1alpha1.NodeEviction{MaxPodGracePeriodSeconds: &c.Most}); grace != max(v.Grace, 1) {
				t.Fatalf("%s: the kubelet leaves %s %d s, we %d s", kind, v.Name, v.Grace, grace)
			}
		}
		c.count(got, counts)
	})
}

func (c *evictionCase) count(ranked []eviction.Ranked, counts *draw.Tally) {
	kinds := map[string]bool{string(c.Signal): true, "soft": c.Soft, "some exempt": len(ranked) < len(c.Pods)}
	for i, r := range ranked {
		kinds["some unknown"] = kinds["some unknown"] || !r.Known && ranked[0].Known
		kinds["grace of the pod's own"] = kinds["grace of the pod's own"] || c.Soft && *r.Pod.Spec.TerminationGracePeriodSeconds < c.Most
		if i == 0 || r.Known != ranked[i-1].Known {
			continue
		}
		switch before := ranked[i-1]; {
		case r.Exceeds != before.Exceeds:
			kinds["decided by the request"] = true
		case r.Priority != before.Priority:
			kinds["decided by priority"] = true
		case r.Above.Cmp(before.Above) != 0:
			kinds["decided by usage"] = true
		}
	}
	for kind, is := range kinds {
		if is {
			counts.Add(kind)
		}
	}
}

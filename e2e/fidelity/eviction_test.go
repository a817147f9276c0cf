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
	statsapi "k8s.io/kubelet/pkg/apis/stats/v1alpha1"
	kubeleteviction "k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	"k8s.io/utils/clock"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

// kubeletNode is a kubelet's eviction manager on a node that is short of something. Each turn of its loop evicts one pod, so
// that the order of its victims is its ranking.
type kubeletNode struct {
	signal  evictionapi.Signal
	pods    []*corev1.Pod
	stats   map[types.UID]statsapi.PodStats
	victims []string
	done    chan struct{}
	turns   int
}

func (n *kubeletNode) Get(context.Context, bool) (*statsapi.Summary, error) {
	if len(n.pods) == 0 || n.turns > 40 {
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
		s.Pods = append(s.Pods, n.stats[p.UID])
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
	n.victims = append(n.victims, fmt.Sprintf("%s %d", pod.Name, *grace))
	n.pods = slices.DeleteFunc(n.pods, func(p *corev1.Pod) bool { return p.UID == pod.UID })
	return nil
}

// instant is a clock whose tickers and timers do not wait; time itself stands still.
type instant struct{ clock.RealClock }

func (instant) NewTicker(time.Duration) clock.Ticker {
	return clock.RealClock{}.NewTicker(time.Nanosecond)
}

func (n *kubeletNode) run() []string {
	n.done = make(chan struct{})
	threshold := evictionapi.Threshold{Signal: n.signal, Operator: evictionapi.OpLessThan, Value: evictionapi.ThresholdValue{Quantity: resource.NewQuantity(500, resource.DecimalSI)}}
	m, _ := kubeleteviction.NewManager(n, kubeleteviction.Config{Thresholds: []evictionapi.Threshold{threshold}}, n.kill, n, n, &record.FakeRecorder{}, nil, instant{}, false)
	m.Start(context.Background(), n, func() []*corev1.Pod { return slices.Clone(n.pods) }, func(*corev1.Pod) bool { return true }, 0)
	<-n.done
	return n.victims
}

var evictionSignals = map[v1alpha1.EvictionSignal]evictionapi.Signal{
	v1alpha1.SignalMemoryAvailable:  evictionapi.SignalMemoryAvailable,
	v1alpha1.SignalPIDAvailable:     evictionapi.SignalPIDAvailable,
	v1alpha1.SignalNodeFsAvailable:  evictionapi.SignalNodeFsAvailable,
	v1alpha1.SignalNodeFsInodesFree: evictionapi.SignalNodeFsInodesFree,
}

// The kubelet's manager evicts in the order of our ranking, with the grace of a hard eviction.
func TestEvictionRanking(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		signal := rapid.SampledFrom([]v1alpha1.EvictionSignal{v1alpha1.SignalMemoryAvailable, v1alpha1.SignalPIDAvailable, v1alpha1.SignalNodeFsAvailable, v1alpha1.SignalNodeFsInodesFree}).Draw(t, "signal")
		n := &kubeletNode{signal: evictionSignals[signal], stats: map[types.UID]statsapi.PodStats{}}
		var candidates []eviction.Candidate
		quantities := rapid.SampledFrom([]string{"0", "1", "2", "3500m", "5", "900m"})
		for i := range rapid.IntRange(0, 6).Draw(t, "pods") {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i), Namespace: "ns", UID: types.UID(fmt.Sprint(i))}}
			for c := range rapid.IntRange(1, 2).Draw(t, "containers") {
				r := corev1.ResourceList{}
				for _, name := range []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceEphemeralStorage} {
					if rapid.Bool().Draw(t, "requests") {
						r[name] = resource.MustParse(quantities.Draw(t, "quantity"))
					}
				}
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint("c", c), Resources: corev1.ResourceRequirements{Requests: r}})
			}
			if rapid.IntRange(0, 3).Draw(t, "pod level") == 0 {
				p.Spec.Resources = &corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(quantities.Draw(t, "quantity"))}}
			}
			if rapid.IntRange(0, 3).Draw(t, "overhead") == 0 {
				p.Spec.Overhead = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("2"), corev1.ResourceEphemeralStorage: resource.MustParse("1")}
			}
			if rapid.Bool().Draw(t, "prioritised") {
				p.Spec.Priority = new(rapid.SampledFrom([]int32{-1, 0, 1, 1_999_999_999, 2_000_000_000}).Draw(t, "priority"))
			}
			if rapid.IntRange(0, 9).Draw(t, "mirror") == 0 {
				p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: ""}
			}
			used := uint64(rapid.IntRange(0, 9).Draw(t, "used"))
			n.pods = append(n.pods, p)
			n.stats[p.UID] = statsapi.PodStats{
				PodRef: statsapi.PodReference{UID: string(p.UID)}, Memory: &statsapi.MemoryStats{WorkingSetBytes: &used}, ProcessStats: &statsapi.ProcessStats{ProcessCount: &used},
				Containers: []statsapi.ContainerStats{{Name: "c0", Rootfs: &statsapi.FsStats{UsedBytes: &used, InodesUsed: &used}}},
			}
			candidates = append(candidates, eviction.Candidate{Pod: p, Usage: map[v1alpha1.EvictionSignal]int64{signal: int64(used)}})
		}
		want := n.run()
		// Pods of one place, whose order the kubelet leaves to chance, are put in ours.
		got := eviction.Rank(signal, candidates)
		if len(got) != len(want) {
			t.Fatalf("kubelet evicts %v, we rank %d", want, len(got))
		}
		by := map[string]eviction.Ranked{}
		for _, r := range got {
			by[r.Pod.Name+" "+fmt.Sprint(eviction.Grace(r.Pod, eviction.Hard, nil))] = r
		}
		for i, name := range want {
			k, ok := by[name]
			if o := got[i]; !ok || k.Exceeds != o.Exceeds || k.Priority != o.Priority || k.Above.Cmp(o.Above) != 0 {
				t.Fatalf("%s: kubelet evicts %v, we %v", signal, want, got)
			}
		}
	})
}

package kernel

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/evictor"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// recorded is a Terminator that only records whom it is to end.
type recorded chan terminate.Request

func (h recorded) Ask(r terminate.Request) error                                 { h <- r; return nil }
func (recorded) Removed(types.UID)                                               {}
func (recorded) Release(types.UID)                                               {}
func (recorded) Victims() []terminate.VictimStatus                               { return nil }
func (recorded) Recover(context.Context, func(terminating types.UID) bool) error { return nil }

// startEvictor runs the one of the agent on this machine's own files, with one pod and a threshold on stall, and returns once it
// has armed its trigger. Its clock stands still: whom it asks to go, it does for events of the kernel's.
func startEvictor(t *testing.T, h *cgrouptest.Harness, at string) (pod *corev1.Pod, asked recorded) {
	t.Helper()
	pod = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "u"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
	policy := &v1alpha1.NodePolicy{Spec: v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, Eviction: &v1alpha1.NodeEviction{
		MemoryStall: &v1alpha1.MemoryStall{Kind: v1alpha1.StallSome, Stall: metav1.Duration{Duration: stall}, Window: metav1.Duration{Duration: window}},
	}}}
	asked = make(recorded, 100) // so that nobody waits for the test
	clock := testclock.NewFakeClock(time.Now())
	loop := &evictor.Evictor{
		Source: &state.Fixed{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, Policy: policy, Pods: []*corev1.Pod{pod}, Live: true},
		Paths:  func(state.State) map[types.UID]string { return map[types.UID]string{pod.UID: at} }, Cgroups: h.Tree,
		Sensor: &pressure.Sensor{CgroupRoot: mountpoint, ProcRoot: "/proc", Version: cgroupfile.V2, KubeletRoot: t.TempDir(), Clock: clock}, Terminator: asked, Clock: clock, Log: logr.Discard(),
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- loop.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	armed := func(context.Context) (bool, error) { return clock.HasWaiters(), nil }
	if err := wait.PollUntilContextCancel(t.Context(), time.Millisecond, true, armed); err != nil {
		t.Fatal(err)
	}
	return pod, asked
}

// The agent's trigger is on the stall of the whole machine on memory: its events have the pod go that waits for memory which others may use too, and
// a stall on the CPUs, by the pod itself, has none go.
func TestPressureHasAPodGo(t *testing.T) {
	h, small := group(t)                  // as small as kubepods can be
	h.Put(t, small, "memory.high", "max") // and large enough for those that want the CPUs
	at := small + "/pod"
	h.Make(t, at)
	t.Cleanup(func() { h.Remove(t, at) })
	container := containerOf(t, h, at)
	// What the agent's would fire for as well, were it on the other file.
	cpu := triggerOn(t, "/proc/pressure/cpu")
	defer cpu.Close()
	stalls := func(n int) {
		for range n {
			if err := cpu.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	var ends []func()
	for range runtime.NumCPU() + 1 {
		ends = append(ends, startHog(t, container, ofCPU))
	}
	stalls(1)
	pod, asked := startEvictor(t, h, at)
	stalls(3)
	if len(asked) > 0 {
		t.Errorf("for a stall on the CPUs: %s", (<-asked).Message)
	}
	for _, end := range ends {
		end()
	}

	h.Put(t, small, "memory.high", "16777216")
	fired := stalling(t, 20) // far more than it takes; a test that fails takes that long
	startHog(t, container, ofMemory)
	select {
	case r := <-asked:
		if r.Pod != pod || r.Path != at || !r.Contain || r.Kind != eviction.Hard {
			t.Errorf("asked for %+v", r)
		}
	case err := <-fired:
		t.Errorf("the kernel told of 20 stalls on memory, and the agent did nothing: %v", err)
	}
}

// A pod that waits at a limit of its own, as at our throttle and our containment, has none go: the kernel tells of its stall all the same.
func TestPressureOfItsOwnLimit(t *testing.T) {
	for _, limited := range []string{"pod", "container"} {
		t.Run(limited, func(t *testing.T) {
			h := cgrouptest.OnV2(t, mountpoint, cgroup.NewV2(mountpoint))
			at := beside(t, h, "pod")
			container := containerOf(t, h, at)
			h.Put(t, map[string]string{"pod": at, "container": container}[limited], "memory.high", "16777216")
			_, asked := startEvictor(t, h, at)
			fired := stalling(t, 5)
			startHog(t, container, ofMemory)
			if err := <-fired; err != nil {
				t.Fatal(err)
			}
			if len(asked) > 0 {
				t.Errorf("asked for %+v", <-asked)
			}
		})
	}
}

func containerOf(t *testing.T, h *cgrouptest.Harness, pod string) (at string) {
	t.Helper()
	at = pod + "/container"
	h.Make(t, at)
	t.Cleanup(func() { h.Remove(t, at) })
	return at
}

// stalling tells when the kernel has told of so many stalls of the whole machine on memory.
func stalling(t *testing.T, times int) <-chan error {
	t.Helper()
	memory := triggerOn(t, "/proc/pressure/memory")
	fired := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() {
		cancel()
		_ = memory.Close()
	})
	go func() {
		for range times {
			if err := memory.Wait(ctx); err != nil {
				fired <- err
				return
			}
		}
		fired <- nil
	}()
	return fired
}

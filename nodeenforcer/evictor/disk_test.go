package evictor

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
	"github.com/podgrace/podgrace/nodeenforcer/status"
)

// much is more than any disk has.
const much = uint64(1) << 60

// diskStage is a stage whose disk is always too full, with a kubelet that says what pods use of it.
type diskStage struct {
	*stage
	says map[string]statsv1alpha1.FsStats // by the pod's name
	// node and image are what the kubelet says of its file systems; nil: that they are the one of the stage's folders.
	node, image *statsv1alpha1.FsStats
	// volumeless are pods whose volumes the kubelet has not found yet.
	volumeless map[string]bool
}

func newDiskStage(t *testing.T, pods ...*corev1.Pod) *diskStage {
	t.Helper()
	full := &v1alpha1.NodeEviction{Hard: []v1alpha1.EvictionThreshold{{Signal: v1alpha1.SignalNodeFsAvailable, Value: v1alpha1.ThresholdValue(fmt.Sprint(much / 2))}}}
	s := &diskStage{stage: newStage(t, full, pods...), says: map[string]statsv1alpha1.FsStats{}}
	// The disk is as it is; what is on trial is tested elsewhere.
	s.state = pressure.Proved([]pressure.Proof{{Signal: v1alpha1.SignalNodeFsAvailable, Kind: eviction.Hard, Bound: int64(much / 2)}})
	server := statetest.Answering(t, func(w http.ResponseWriter, _ *http.Request) {
		own := s.own()
		all := statsv1alpha1.Summary{Node: statsv1alpha1.NodeStats{Fs: cmp.Or(s.node, own), Runtime: &statsv1alpha1.RuntimeStats{ImageFs: cmp.Or(s.image, own)}}}
		for name, fs := range s.says {
			p := statsv1alpha1.PodStats{PodRef: statsv1alpha1.PodReference{Name: name, UID: "uid-" + name}, EphemeralStorage: &fs}
			if !s.volumeless[name] {
				p.VolumeStats = []statsv1alpha1.VolumeStats{{Name: "v", FsStats: fs}}
			}
			all.Pods = append(all.Pods, p)
		}
		if err := json.NewEncoder(w).Encode(all); err != nil {
			t.Error(err)
		}
	})
	s.Kubelet = statetest.KubeletAt(t, server, "")
	return s
}

// own is the file system of the stage's folders, as the kubelet would tell.
func (s *diskStage) own() *statsv1alpha1.FsStats {
	is := (&pressure.Sensor{Clock: s.clock, Aside: atOnce}).Folder(s.Sensor.KubeletRoot)
	if is.Err != nil {
		s.t.Error(is.Err)
	}
	return &statsv1alpha1.FsStats{CapacityBytes: new(uint64(is.Most.Bytes)), AvailableBytes: new(uint64(is.Most.BytesLeft)), Inodes: new(uint64(is.Most.Inodes)), InodesFree: new(uint64(is.Most.InodesLeft))}
}

// measured: the kubelet has measured a pod so long ago.
func (s *diskStage) measured(p *corev1.Pod, bytes uint64, ago time.Duration) {
	s.says[p.Name] = statsv1alpha1.FsStats{Time: metav1.NewTime(s.clock.Now().Add(-ago)), UsedBytes: &bytes}
}

// wait steps every two seconds for so long.
func (s *diskStage) wait(d time.Duration) {
	for range int(d / (2 * time.Second)) {
		s.later(2 * time.Second)
	}
}

func (s *diskStage) want(when string, names ...string) {
	s.t.Helper()
	if got := s.terminator.names(); !slices.Equal(got, names) {
		s.t.Errorf("%s: %v have to go, want %v", when, got, names)
	}
}

// While the kubelet's measurement is from before, nobody goes for what it does not show yet. Then only who fills the disk goes, and
// nobody more until his space can be free.
func TestEvictorWaitsForTheDisk(t *testing.T) {
	small, hog := victim("small", 0), victim("hog", 10)
	s := newDiskStage(t, small, hog)
	s.measured(small, much/8, 30*time.Second)
	s.measured(hog, 1<<20, 30*time.Second)
	s.wait(20 * time.Second)
	s.want("before it is measured anew")
	s.measured(hog, much, 0)
	s.wait(4 * time.Second)
	s.want("measured", "hog")
	if s.terminator.asked[0].Contain {
		t.Error("its memory is held down, which frees no disk")
	}
	s.measured(hog, 1<<20, 0) // an old layer, by a container that restarts
	s.wait(10 * time.Second)
	s.want("while it stops", "hog")
	s.terminator.standing[0].Dying = true
	s.later(2 * time.Second)
	s.terminator.standing = nil
	s.wait(4 * time.Second)
	s.want("before its kubelet has told that it ended", "hog")
	finished := hog.DeepCopy()
	finished.Status.Phase = corev1.PodFailed
	s.source.Say(func(state *state.State) { state.Pods = []*corev1.Pod{small, finished} })
	s.wait(10 * time.Second)
	s.want("while the files of its volumes are removed", "hog")
	s.source.Say(func(state *state.State) { state.Pods = []*corev1.Pod{small} })
	delete(s.says, "hog")
	s.measured(small, much/8, 0)
	s.wait(releaseTime - 16*time.Second)
	s.want("while its space is not free", "hog")
	s.wait(4 * time.Second)
	s.want("when it should be, and it helped nothing", "hog")
	s.wait(vainWait + 2*time.Second)
	s.want("after a wait", "hog", "small")
	if len(s.releasing) != 1 {
		t.Errorf("it remembers %v", s.releasing)
	}
}

// A pod that is never measured again holds nothing up for ever, and what is known and enough is acted upon at once.
func TestEvictorDoesNotWaitForEver(t *testing.T) {
	small, hog := victim("small", 0), victim("hog", 10)
	s := newDiskStage(t, small, hog)
	s.measured(small, much/8, time.Hour)
	s.wait(diskStatsAge - 4*time.Second)
	s.want("as long as the kubelet may take")
	s.wait(10 * time.Second)
	s.want("after that", "small")

	s = newDiskStage(t, small, hog)
	s.measured(small, much/8, time.Hour)
	s.measured(hog, much, time.Hour)
	s.wait(4 * time.Second)
	s.want("enough is known", "hog")
}

// By an old measurement it takes two, by a new one only who has filled the disk since.
func TestEvictorWaitsRatherThanTakeAnother(t *testing.T) {
	small, hog := victim("small", 0), victim("hog", 10)
	s := newDiskStage(t, small, hog)
	s.measured(small, much/3, time.Minute)
	s.measured(hog, much/3, time.Minute)
	s.wait(20 * time.Second)
	s.want("before it is measured anew")
	s.measured(hog, much, 0)
	s.wait(4 * time.Second)
	s.want("measured", "hog")
}

// Who fills the disk has just begun, and the kubelet knows nothing of his volume yet: nobody goes in his place.
func TestEvictorWaitsForANewVolume(t *testing.T) {
	small, hog := victim("small", 0), victim("hog", 10)
	hog.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	s := newDiskStage(t, small, hog)
	hog.Status.StartTime = new(metav1.NewTime(s.clock.Now().Add(-10 * time.Second)))
	s.volumeless = map[string]bool{"hog": true}
	for range 10 {
		s.measured(small, much/8, 0)
		s.measured(hog, 1<<20, 0)
		s.wait(2 * time.Second)
	}
	s.want("before its volume is measured")
	s.volumeless = nil
	s.measured(hog, much, 0)
	s.wait(4 * time.Second)
	s.want("measured", "hog")
}

// A kubelet that hangs, as it does where memory is short, keeps nobody from watching memory.
func TestEvictorWatchesMemoryWhileTheKubeletHangs(t *testing.T) {
	big, other := victim("big", 0), victim("other", 10)
	s := newDiskStage(t, big, other)
	s.change(func(spec *v1alpha1.NodePolicySpec) {
		spec.Eviction.Hard = append(spec.Eviction.Hard, onMemory("1Gi", "").Hard...)
	})
	var ended atomic.Int32
	s.Kubelet = statetest.KubeletAt(t, statetest.Answering(t, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		ended.Add(1)
	}), "")
	s.disks.Go = nil
	s.uses(big, 3<<30)
	s.uses(other, 1<<30)
	s.wait(4 * time.Second)
	s.left(1 << 20)
	s.wait(2 * time.Second)
	s.want("memory is short", "big")
	if n := ended.Load(); n > 0 {
		t.Errorf("it waited %d times until it gave the kubelet up", n)
	}
}

// What the kubelet says late counts once it has come, and only if the disk is still short then.
func TestEvictorTakesALateAnswer(t *testing.T) {
	small, hog := victim("small", 0), victim("hog", 10)
	s := newDiskStage(t, small, hog)
	var asked []func()
	s.disks.Go = func(read func()) { asked = append(asked, read) }
	s.measured(small, much/8, 0)
	s.measured(hog, much, 0)
	s.wait(20 * time.Second)
	s.want("before the kubelet has answered")
	if len(asked) != 1 {
		t.Fatalf("it was asked %d times at once", len(asked))
	}
	asked[0]()
	full := s.source.Now.Policy.Spec.Eviction.DeepCopy()
	full.EvictImmediately = true
	s.source.Say(func(state *state.State) { state.Policy.Spec.Eviction = onMemory("1Gi", "") })
	s.wait(2 * time.Second)
	s.source.Say(func(state *state.State) { state.Policy.Spec.Eviction = full })
	s.wait(4 * time.Second)
	s.want("the disk was not short when it answered")
	asked[1]()
	s.later(time.Millisecond)
	s.want("it has answered", "hog")
}

// The enforcer is replaced while the space of a victim is being freed: the next one knows, and no longer than the space takes.
func TestEvictorRemembersTheDisk(t *testing.T) {
	small, hog := victim("small", 0), victim("hog", 10)
	file := filepath.Join(t.TempDir(), "run", "releasing.json")
	s := newDiskStage(t, small, hog)
	s.KeptFile = file
	s.measured(small, much/8, 0)
	s.measured(hog, much, 0)
	s.wait(4 * time.Second)
	s.want("measured", "hog")
	s.terminator.standing = nil
	s.source.Say(func(state *state.State) { state.Pods = []*corev1.Pod{small} })
	delete(s.says, "hog")
	s.wait(10 * time.Second)

	next := newDiskStage(t, small)
	next.clock.SetTime(s.clock.Now())
	next.KeptFile = file
	next.begin()
	next.measured(small, much/8, 0)
	next.wait(releaseTime - 12*time.Second)
	next.want("while its space is not free")
	next.measured(small, much/8, 0)
	next.wait(6 * time.Second)
	next.want("when it should be", "small")

	for _, text := range []string{`{"version":2}`, `[`} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		last := newDiskStage(t, small)
		last.KeptFile = file
		last.begin()
		if len(last.releasing) > 0 || last.log.Count("forgetting") != 1 {
			t.Errorf("of %s it remembers %v, and said %v", text, last.releasing, last.log.Lines())
		}
	}
	far := newDiskStage(t, small)
	far.KeptFile = file
	far.releasing["hog"] = &released{pod: hog, until: far.clock.Now().Add(time.Hour)} // and then the clock was set back
	far.keep()
	far.begin()
	if until := far.releasing["hog"].until.Sub(far.clock.Now()); until != releaseTime {
		t.Errorf("it waits for %s", until)
	}
}

// onDisks has a threshold on both file systems that each of them meets.
func onDisks(state *state.State) {
	always := v1alpha1.ThresholdValue(fmt.Sprint(much / 2))
	state.Policy.Spec.Eviction = &v1alpha1.NodeEviction{EvictImmediately: true, Hard: []v1alpha1.EvictionThreshold{{Signal: v1alpha1.SignalNodeFsAvailable, Value: always}, {Signal: v1alpha1.SignalImageFsAvailable, Value: always}}}
}

// elsewhere is a disk that no folder of the stage is on.
func elsewhere() *statsv1alpha1.FsStats {
	return &statsv1alpha1.FsStats{CapacityBytes: new(much), AvailableBytes: new(uint64(1))}
}

// Where a folder is on another disk than the kubelet says, it is not measured, and nobody goes for it. The other one is measured.
func TestEvictorMeasuresNoOtherDisk(t *testing.T) {
	for name, tc := range map[string]struct {
		node, image *statsv1alpha1.FsStats
		unknown     string
		told        string
	}{
		"imagefs": {image: elsewhere(), unknown: "imagefs.available", told: "nodeEnforcer.imageRoot"},
		"nodefs":  {node: elsewhere(), unknown: "nodefs.available", told: "nodeEnforcer.kubeletRoot"},
	} {
		t.Run(name, func(t *testing.T) {
			hog := victim("hog", 0)
			s := newDiskStage(t, hog)
			s.source.Say(onDisks)
			registry := prometheus.NewRegistry()
			s.Metrics = status.NewMetrics(registry)
			s.node, s.image = tc.node, tc.image
			s.measured(hog, much, 0)
			s.wait(10 * time.Second)
			for _, signal := range []string{"nodefs.available", "imagefs.available"} {
				value := " 1"
				if signal == tc.unknown {
					value = " 0"
				}
				if lines := statetest.Gathered(t, registry); !slices.Contains(lines, `podgrace_node_eviction_signal_known signal="`+signal+`"`+value) {
					t.Errorf("%s: %v", signal, lines)
				}
			}
			if s.log.Count("measure "+tc.unknown) != 1 || s.log.Count(tc.told) != 1 {
				t.Errorf("told %v", s.log.Lines())
			}
			for _, r := range s.terminator.asked {
				if strings.Contains(r.Message, tc.unknown) {
					t.Errorf("evicted for it: %s", r.Message)
				}
			}
			if filled := name == "imagefs"; filled != (len(s.terminator.asked) > 0) { // by what the pod's volumes have
				t.Errorf("%v have to go", s.terminator.names())
			}
		})
	}
}

// The container has no folder of the runtime's, as on every distribution whose folder nobody named: where images are on the kubelet's own disk that one is measured.
func TestEvictorFindsTheDiskOfImages(t *testing.T) {
	hog := victim("hog", 0)
	s := newDiskStage(t, hog)
	s.Sensor.ImageRoot = filepath.Join(t.TempDir(), "none")
	s.source.Say(func(state *state.State) {
		onDisks(state)
		state.Policy.Spec.Eviction.Hard = state.Policy.Spec.Eviction.Hard[1:]
	})
	s.measured(hog, much, 0)
	s.wait(6 * time.Second)
	s.want("imagefs is nodefs", "hog")
}

// What the kubelet says with the statistics by which pods are chosen counts at once: the disks became others since it was asked first.
func TestEvictorLooksBeforeItEvicts(t *testing.T) {
	hog := victim("hog", 0)
	s := newDiskStage(t, hog)
	var asked []func()
	s.disks.Go = func(read func()) { asked = append(asked, read) }
	s.measured(hog, much, 0)
	answer := func() {
		asked[0]()
		asked = asked[1:]
	}
	s.wait(2 * time.Second)
	answer()
	s.wait(4 * time.Second) // it is located, measured, short, and the kubelet is asked whom it takes
	s.node = elsewhere()
	answer()
	s.wait(4 * time.Second)
	s.want("it is another one")
	s.node = nil
	s.wait(locateRetry)
	answer()
	s.wait(4 * time.Second)
	answer()
	s.wait(2 * time.Second)
	s.want("it is the one again", "hog")
}

// The kubelet is asked again soon where its first answer fits nothing, as of a disk that was just filled, then less often; and now and then once all is known.
func TestEvictorAsksWhichDisks(t *testing.T) {
	s := newDiskStage(t)
	s.source.Say(func(state *state.State) { state.Policy.Spec.Eviction.Hard[0].Value = "1" }) // which is not met
	s.node = elsewhere()
	var asked []time.Duration
	began := s.clock.Now()
	s.disks.Go = func(read func()) {
		asked = append(asked, s.clock.Since(began))
		read()
	}
	second := func(n int) {
		for range n {
			s.later(time.Second)
		}
	}
	second(200)
	s.node = nil
	second(400)
	want := []time.Duration{1, 16, 46, 106, 166, 226, 526}
	for i := range want {
		want[i] *= time.Second
	}
	if s.Sensor.Disks.Node.Err != nil || !slices.Equal(asked, want) {
		t.Errorf("asked after %v, want %v; %+v", asked, want, s.Sensor.Disks)
	}
}

// Where a disk fills fast and the node is busy, what the kubelet says of it is old: the disk that was located is measured all the same, and who fills it goes.
func TestEvictorKnowsADiskThatFillsFast(t *testing.T) {
	hog := victim("hog", 0)
	s := newDiskStage(t, hog)
	s.wait(2 * time.Second)
	old := s.own()
	old.AvailableBytes = new(uint64(0))
	s.node = old
	s.measured(hog, much, 0)
	s.wait(4 * time.Second)
	s.want("its statistics are old", "hog")

	calm := newDiskStage(t)
	calm.source.Say(func(state *state.State) { state.Policy.Spec.Eviction.Hard[0].Value = "1" }) // which is not met
	calm.wait(2 * time.Second)
	asked := 0
	calm.disks.Go = func(read func()) {
		asked++
		read()
	}
	calm.node = old
	calm.wait(locateEvery)
	if asked != 1 || !calm.Sensor.Disks.Located() || calm.Sensor.Disks.Node.Doubted.IsZero() {
		t.Errorf("asked %d times; %+v", asked, calm.Sensor.Disks)
	}
	calm.node = nil
	calm.wait(locateAgain + 2*time.Second)
	calm.wait(locateAgain + 2*time.Second)
	if asked != 2 || !calm.Sensor.Disks.Node.Doubted.IsZero() {
		t.Errorf("asked %d times; %+v", asked, calm.Sensor.Disks)
	}
}

// A kubelet that never answers is told as the reason; one that did once is believed while it is away.
func TestEvictorWithoutTheKubeletsWord(t *testing.T) {
	s := newDiskStage(t)
	kubelet := s.Kubelet
	away := statetest.KubeletAt(t, statetest.Answering(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) }), "")
	s.Kubelet = away
	s.wait(4 * time.Second)
	if s.log.Count("measure nodefs.available: which file system it is, is not known") != 1 || s.log.Count("403 Forbidden") != 1 {
		t.Errorf("told %v", s.log.Lines())
	}
	s.Kubelet = kubelet
	s.wait(locateRetry)
	s.Kubelet = away
	s.wait(2 * locateEvery)
	if !s.Sensor.Disks.Located() {
		t.Errorf("it forgot: %+v", s.Sensor.Disks)
	}
}

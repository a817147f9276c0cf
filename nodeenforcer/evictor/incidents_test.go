package evictor

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgrouptest"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

var update = flag.Bool("update", false, "write the table of incidents into docs/nodeenforcer.md")

// incident is a shortage of memory on a node of 8 GiB with thirty pods that do nothing. They use 20 MiB each, request nothing and have priority 0.
type incident struct {
	name      string
	threshold v1alpha1.ThresholdValue // empty: 1Gi
	late      bool                    // the threshold is applied after a minute
	// culprits start what takes the memory, and grows is by how much the host's own processes grow, in bytes a second, up to the bound.
	culprits     func(n *simulatedNode)
	grows, bound int64
	// crashes: the enforcer is killed and started again every five seconds.
	crashes bool
}

const mib = int64(1) << 20

func hog(priority int32, rate int64) func(*simulatedNode) {
	return func(n *simulatedNode) { n.start("hog", priority, 0, 100*mib, rate*mib, true, 0) }
}

func incidents() []incident {
	all := []incident{{name: "nothing happens", culprits: func(*simulatedNode) {}}}
	for _, rate := range []int64{10, 20, 50, 200, 1024} {
		all = append(all,
			incident{name: fmt.Sprintf("a pod of the same priority grows by %d MiB/s", rate), culprits: hog(0, rate)},
			incident{name: fmt.Sprintf("a pod of higher priority grows by %d MiB/s", rate), culprits: hog(10, rate)})
	}
	several := func(n *simulatedNode) {
		for i := range 5 {
			n.start(fmt.Sprint("hog", i), 10, 0, 100*mib, 20*mib, true, 0)
		}
	}
	return append(all,
		incident{name: "five pods of higher priority grow by 20 MiB/s each", culprits: several},
		incident{name: "a critical pod grows by 20 MiB/s", culprits: func(n *simulatedNode) { n.start("hog", 2_000_000_000, 0, 100*mib, 20*mib, true, 0) }},
		incident{name: "processes of the host take 20 MiB/s, up to 7 GiB", grows: 20 * mib, bound: 7 << 30},
		incident{name: "processes of the host take 100 MiB/s, up to 7.3 GiB", grows: 100 * mib, bound: 73 << 30 / 10},
		incident{name: "processes of the host take 7 GiB at once", grows: 1 << 40, bound: 7 << 30},
		incident{name: "a threshold of 90% is applied", threshold: "90%", late: true},
		incident{name: "a threshold of 10Gi is applied", threshold: "10Gi", late: true},
		incident{name: "a threshold of 2600Mi is applied, with 2342 MiB left", threshold: "2600Mi", late: true},
		incident{name: "a pod grows by 200 MiB/s, and the enforcer is killed every 5 s", culprits: hog(10, 200), crashes: true},
		incident{name: "processes of the host take 20 MiB/s, and the enforcer is killed every 5 s", grows: 20 * mib, bound: 7 << 30, crashes: true},
	)
}

// innocents are how many pods that did nothing ended in 90 s of an incident (180 s, if a threshold is applied in it), with our enforcer or with the kubelet alone.
func (i incident) innocents(t *testing.T, dir, sensor string, ours bool) (lost int) {
	_ = os.Remove(dir + "/releasing")
	s := &simulation{simulatedNode: &simulatedNode{kernel: cgrouptest.NewFake(), ledger: &ledger.Ledger{}, host: 5250 * mib}, t: t, moment: 2 * moment, dir: dir, sensor: sensor, source: statetest.NewSource()}
	s.api.mood, s.kubelet, s.writes = "fine", "fine", "fine"
	s.api.latency = time.Millisecond
	for n := range 30 {
		s.start(fmt.Sprintf("innocent-%02d", n), 0, 0, 20*mib, 0, true, 0)
	}
	policy := &v1alpha1.NodePolicy{Spec: v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, Eviction: onMemory("1Gi", "")}}
	if i.threshold != "" {
		policy.Spec.Eviction = onMemory(i.threshold, "")
	}
	s.source.Now = state.State{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, Live: true}
	kubelet := kubeletEvictor{s: s, hard: eviction.Need{Signal: v1alpha1.SignalMemoryAvailable, Kind: eviction.Hard}}
	if ours {
		s.begin()
		defer func() { s.crash() }()
	}
	begin, crashed, lasts := time.Now(), time.Now(), 90*time.Second
	if i.late {
		lasts *= 2
	}
	for time.Since(begin) < lasts {
		now := time.Since(begin)
		if now >= 5*time.Second && i.culprits != nil {
			i.culprits(s.simulatedNode)
			i.culprits = nil
		}
		if now >= 5*time.Second && i.grows > 0 {
			s.host = min(s.host+int64(s.moment.Seconds()*float64(i.grows)), max(i.bound, s.host))
		}
		if s.source.Now.Policy == nil && (!i.late || now >= time.Minute) {
			s.source.Say(func(now *state.State) { now.Policy = policy })
			kubelet.bound = 1 << 30
			if i.late {
				kubelet.bound = map[v1alpha1.ThresholdValue]int64{"90%": capacity * 9 / 10, "10Gi": 10 << 30, "2600Mi": 2600 * mib}[i.threshold]
			}
		}
		if ours && i.crashes && time.Since(crashed) >= 5*time.Second {
			crashed = time.Now()
			s.crash()
			s.begin()
		}
		if ours {
			s.run(s.moment)
		} else {
			s.pass(s.moment)
			kubelet.step()
			time.Sleep(s.moment)
		}
		s.killForMemory()
	}
	for _, p := range s.pods {
		if strings.HasPrefix(p.pod.Name, "innocent") && (p.gone || !p.deleted.IsZero() || !p.running) {
			lost++
		}
	}
	return lost
}

// killForMemory is the kernel, once memory is used up: the largest of the pods' processes, which are of oom_score_adj 1000, is killed, and the critical pod's and the host's last.
func (s *simulation) killForMemory() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.used() >= capacity {
		var largest *simulatedPod
		for _, p := range s.pods {
			if p.running && evictable(p) && (largest == nil || p.usage > largest.usage) {
				largest = p
			}
		}
		if largest == nil {
			return
		}
		n := s.simulatedNode
		n.die(largest)
		largest.grows = 0
	}
}

// kubeletEvictor is the kubelet's eviction manager: one pod in each pass, whose pods it waits for up to 30 s before the next pass, and a pass at least every 10 s
// (monitoringInterval in pkg/kubelet/kubelet.go, podCleanupTimeout in pkg/kubelet/eviction/eviction_manager.go, 1.36.3). Its notifier on memory.available begins a pass at
// once on cgroup v1 and is not used here.
type kubeletEvictor struct {
	s     *simulation
	hard  eviction.Need
	bound int64
	// next is when the next pass begins, waits is for whom, and until when.
	next  time.Time
	waits *simulatedPod
	until time.Time
}

func (k *kubeletEvictor) step() {
	k.s.mu.Lock()
	defer k.s.mu.Unlock()
	now := k.s.now()
	if k.waits != nil {
		if !k.waits.gone && now.Before(k.until) {
			return
		}
		k.waits, k.next = nil, now // it does not wait for the interval after a pod was cleaned up
	}
	if now.Before(k.next) {
		return
	}
	k.next = now.Add(10 * time.Second)
	if capacity-k.s.used() >= k.bound {
		return
	}
	var candidates []eviction.Candidate
	for _, p := range k.s.pods {
		if !p.gone && p.running {
			candidates = append(candidates, eviction.Candidate{Pod: p.pod, Usage: map[v1alpha1.EvictionSignal]int64{v1alpha1.SignalMemoryAvailable: p.usage}})
		}
	}
	if ranked := eviction.Rank(k.hard.Signal, candidates); len(ranked) > 0 {
		k.waits, k.until = k.s.byUID(ranked[0].Pod.UID), now.Add(30*time.Second)
		k.s.remove(k.waits, 1)
	}
}

// With our enforcer never more pods that did nothing end than with the kubelet alone. The table is in docs/nodeenforcer.md.
func TestIncidents(t *testing.T) {
	dir, sensor := simulatedMachine(t)
	table := "| on a node of 8 GiB with 30 pods that do nothing | ended with Podgrace | with the kubelet alone |\n|---|---|---|\n"
	for _, i := range incidents() {
		if i.culprits == nil {
			i.culprits = func(*simulatedNode) {}
		}
		var ours, kubelets int
		synctest.Test(t, func(t *testing.T) { ours = i.innocents(t, dir, sensor, true) })
		synctest.Test(t, func(t *testing.T) { kubelets = i.innocents(t, dir, sensor, false) })
		if ours > kubelets {
			t.Errorf("%s: %d pods that did nothing ended, with the kubelet alone %d", i.name, ours, kubelets)
		}
		table += fmt.Sprintf("| %s | %d | %d |\n", i.name, ours, kubelets)
	}
	const file = "../../docs/nodeenforcer.md"
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(text), table[:strings.Index(table, "\n")+1])
	if !ok {
		t.Fatalf("%s has no table of incidents:\n%s", file, table)
	}
	_, tail, _ := strings.Cut(rest, "|\n\n")
	want := head + table + "\n" + tail
	if *update {
		err = os.WriteFile(file, []byte(want), 0o600)
	} else if want != string(text) {
		t.Errorf("%s has another table; write it with -update:\n%s", file, table)
	}
	if err != nil {
		t.Fatal(err)
	}
}

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// What the policy of the real node's pods asks for beyond what Kubernetes gives them, and what the kernel must hold then. It is reckoned here by itself: the enforcer's own plan is no witness of the enforcer.
const (
	keptWeight = 321
	keptShares = "8391" // of cgroup v1 for that weight: 2 + (321-1)*262142/9999, as container runtimes reckon between the two
	keptRank   = 50     // half of the way from the kubelet's score to the highest of a Burstable pod
)

// How long after the last of what may hold it up a file must hold what it is to.
const (
	// keptWithin is after a fault of the enforcer, of the kubelet or of a cgroup, and after a pod's container started or it was to be resized. The enforcer looks each two seconds at most, and holds a repair
	// back for two; the rest is for programs that start on a machine that is busy.
	keptWithin = 30 * time.Second
	// keptAfterOutage is after one of the control plane, of what came about then: client-go waits for up to a minute before it lists again, and of a pod that came meanwhile nobody on the node knows.
	keptAfterOutage = 75 * time.Second
	// levelsWithin is for what the kubelet brings up to date each minute by itself, the sums of the QoS levels: the enforcer leaves it ten seconds more for that (docs/nodeenforcer.md), after any pod came or went.
	levelsWithin = 100 * time.Second
)

// oomScore is the file of processes; the others are those of a cgroup.
const oomScore = "oom_score_adj"

// keptFile is a file of a pod's cgroup or of its container's, or of the processes in that.
type keptFile struct {
	cgroup, name string
	ofContainer  bool
}

// difference is a file that does not hold what it is to.
type difference struct {
	keptFile
	have, want string // have is empty: it can't be read
}

// cgroupOf is the pod's, below the kubelet's root. With cgroupfs a cgroup is named as this (pkg/kubelet/cm/pod_container_manager_linux.go GetPodContainerName, 1.36.3).
func cgroupOf(root string, p *corev1.Pod) string {
	class := strings.ToLower(string(p.Status.QOSClass)) + "/"
	if p.Status.QOSClass == corev1.PodQOSGuaranteed {
		class = ""
	}
	return root + "/kubepods/" + class + "pod" + string(p.UID)
}

// containerOf is the cgroup of the pod's one container.
func containerOf(root string, p *corev1.Pod) string {
	_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
	return cgroupOf(root, p) + "/" + id
}

// runsIn reports whether the pod's container runs, as far as its kubelet said.
func runsIn(p *corev1.Pod) bool {
	return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].State.Running != nil && p.Status.ContainerStatuses[0].ContainerID != ""
}

// wanted is what files must hold, with cgroup v1, of a pod with one container which runs, on a node with so much memory: by the kubelet's formulas (MilliCPUToShares and MilliCPUToQuota of
// pkg/kubelet/cm/helpers_linux.go, GetContainerOOMScoreAdjust of pkg/kubelet/qos/policy.go, 1.36.3), and by what admission noted of the policy. What a Guaranteed pod's processes have takes a right that
// a runtime may lack.
func wanted(root string, p *corev1.Pod, capacity int64) map[keptFile]string {
	requests, limits := p.Spec.Containers[0].Resources.Requests, p.Spec.Containers[0].Resources.Limits
	kept := p.Annotations[v1alpha1.AnnotationEnforcement] != ""
	pod, container := cgroupOf(root, p), containerOf(root, p)
	want := map[keptFile]string{}
	both := func(name, value string) {
		want[keptFile{pod, name, false}], want[keptFile{container, name, true}] = value, value
	}
	both("cpu.shares", strconv.FormatInt(max(2, requests.Cpu().MilliValue()*1024/1000), 10))
	if kept {
		want[keptFile{pod, "cpu.shares", false}] = keptShares
	}
	if cpu := limits.Cpu().MilliValue(); cpu > 0 {
		both("cpu.cfs_quota_us", strconv.FormatInt(max(1000, cpu*100), 10)) // of 100 ms
	}
	if memory := limits.Memory().Value(); memory > 0 {
		both("memory.limit_in_bytes", strconv.FormatInt(memory, 10))
	}
	switch p.Status.QOSClass {
	case corev1.PodQOSBestEffort:
		want[keptFile{container, oomScore, true}] = "1000"
	case corev1.PodQOSBurstable:
		score := min(max(1000-1000*requests.Memory().Value()/capacity, 3), 999)
		if kept {
			score += (999 - score) * keptRank / 100
		}
		want[keptFile{container, oomScore, true}] = strconv.FormatInt(score, 10)
	}
	return want
}

// differences are the files that do not hold what they are to, sorted.
func differences(want, have map[keptFile]string) (all []difference) {
	for f, w := range want {
		if have[f] != w {
			all = append(all, difference{f, have[f], w})
		}
	}
	slices.SortFunc(all, func(a, b difference) int { return compareFiles(a.keptFile, b.keptFile) })
	return all
}

func compareFiles(a, b keptFile) int {
	return cmp.Or(strings.Compare(a.cgroup, b.cgroup), strings.Compare(a.name, b.name))
}

func (d difference) String() string {
	return fmt.Sprintf("%s of %s is %q, and not %s", d.name, d.cgroup, d.have, d.want)
}

// undone are the files that held what they are to before, and do not any more, of those that are still there: nobody but who is away writes them.
func undone(want, before, after map[keptFile]string, but func(keptFile) bool) (all []difference) {
	for f, w := range want {
		if have, there := after[f]; before[f] == w && there && have != w && !but(f) {
			all = append(all, difference{f, have, w})
		}
	}
	slices.SortFunc(all, func(a, b difference) int { return compareFiles(a.keptFile, b.keptFile) })
	return all
}

// overdue reports whether more than a time has passed since each of some events.
func overdue(now time.Time, within time.Duration, events ...time.Time) bool {
	return !slices.ContainsFunc(events, func(e time.Time) bool { return now.Sub(e) <= within })
}

// isResizing reports whether a resize in place that was asked for is not done yet.
func isResizing(p *corev1.Pod) bool {
	now, asked := p.Status.ContainerStatuses[0].Resources, p.Spec.Containers[0].Resources
	pending := slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodResizePending || c.Type == corev1.PodResizeInProgress
	})
	return pending || p.Status.ObservedGeneration != p.Generation || now == nil || !equality.Semantic.DeepEqual(now.Requests, asked.Requests) || !equality.Semantic.DeepEqual(now.Limits, asked.Limits)
}

// mostByHand is how often somebody writes into a file: a third time within an hour the enforcer would take him for a rival, and leave it to him (docs/nodeenforcer.md). Of a pod's own CPU shares one is the
// kubelet's, which takes them before the pod ends (ReduceCPULimits of pkg/kubelet/cm/cgroup_manager_linux.go, 1.36.3).
func mostByHand(f keptFile) int {
	if f.name == "cpu.shares" && !f.ofContainer {
		return 1
	}
	return 2
}

// hand knows what was written into which files by somebody who is neither the kubelet nor the enforcer.
type hand struct {
	mu      sync.Mutex
	written map[keptFile]int
	writing map[keptFile]bool // it was chosen, and may be written at any moment
	last    map[keptFile]time.Time
}

func newHand() *hand {
	return &hand{written: map[keptFile]int{}, writing: map[keptFile]bool{}, last: map[keptFile]time.Time{}}
}

// choose picks a file of those that hold what they are to, and what to write into it. It is in hand until it is told that it was written. None of it ends a container: no limit becomes lower.
func (h *hand) choose(want map[keptFile]string, which int) (f keptFile, value string, wrote func(), err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []keptFile
	for _, f := range slices.SortedFunc(maps.Keys(want), compareFiles) {
		if h.written[f] < mostByHand(f) && !h.writing[f] && another(f, want) != "" {
			all = append(all, f)
		}
	}
	if f, err = choose(all, which); err != nil {
		return f, "", nil, err
	}
	h.written[f]++
	h.writing[f] = true
	return f, another(f, want), func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.writing, f)
		h.last[f] = time.Now()
	}, nil
}

// since reports whether a file was written into after a time, or may be at this moment.
func (h *hand) since(f keptFile, t time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.writing[f] || h.last[f].After(t)
}

// another is a value that a file can have; empty: there is none. A container's CPU may not be more than its pod's, and its memory not more than with swap, which the kubelet allows it none of.
func another(f keptFile, want map[keptFile]string) string {
	n, err := strconv.ParseInt(want[f], 10, 64)
	switch {
	case err != nil || f.ofContainer && (f.name == "cpu.cfs_quota_us" || f.name == "memory.limit_in_bytes") || f.name == oomScore && n >= 1000:
		return ""
	case f.name == "cpu.shares":
		return "777"
	case f.name == oomScore:
		return "1000"
	default:
		return strconv.FormatInt(2*n, 10)
	}
}

// lives knows which containers run, by the kernel, and of which pods somebody asked that they end. No other may.
type lives struct {
	mu      sync.Mutex
	running map[string]*corev1.Pod // by their cgroups
	asked   map[types.UID]bool
	ended   int
}

func newLives() *lives { return &lives{running: map[string]*corev1.Pod{}, asked: map[types.UID]bool{}} }

// ask is told before a pod is asked to end. It reports whether nobody had asked for that yet.
func (v *lives) ask(uid types.UID) (first bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	first = !v.asked[uid]
	v.asked[uid] = true
	return first
}

// count is how many have ended.
func (v *lives) count() int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.ended
}

// isAsked reports whether somebody asked that a pod ends.
func (v *lives) isAsked(uid types.UID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.asked[uid]
}

// look takes which containers run by what kubelets said, and whether any process is in a cgroup. It returns those that ended, and nobody had asked for that.
func (v *lives) look(root string, pods []*corev1.Pod, runs func(cgroup string) bool) (wrongly []*corev1.Pod) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, cgroup := range slices.Sorted(maps.Keys(v.running)) {
		if p := v.running[cgroup]; !runs(cgroup) {
			delete(v.running, cgroup)
			if v.ended++; !v.asked[p.UID] {
				wrongly = append(wrongly, p)
			}
		}
	}
	for _, p := range pods {
		if !runsIn(p) {
			continue
		}
		if at := containerOf(root, p); v.running[at] == nil && runs(at) {
			v.running[at] = p
		}
	}
	return wrongly
}

// surplus are the pods that a ReplicaSet ends because there are more than are wanted of an app, as where one was made and the answer was lost, so that it made another one: they are ended while as many others
// of their app stay that were there before. One that was made in place of a pod that ends is younger than that end.
func surplus(pods []*corev1.Pod, wanted map[string]int) (all []*corev1.Pod) {
	for _, p := range pods {
		if p.DeletionTimestamp == nil {
			continue
		}
		ended := p.DeletionTimestamp.Add(-time.Duration(ptr.Deref(p.DeletionGracePeriodSeconds, 0)) * time.Second) // when somebody asked for it
		stay := 0
		for _, o := range pods {
			if o.DeletionTimestamp == nil && o.Labels["app"] == p.Labels["app"] && o.CreationTimestamp.Time.Before(ended) {
				stay++
			}
		}
		if want, known := wanted[p.Labels["app"]]; known && stay >= want {
			all = append(all, p)
		}
	}
	return all
}

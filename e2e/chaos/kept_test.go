package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
)

// keptPod runs on the real node.
func keptPod(name string, class corev1.PodQOSClass, requests, limits corev1.ResourceList) *corev1.Pod {
	of := corev1.ResourceRequirements{Requests: requests, Limits: limits}
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: keptNamespace, Name: name, UID: types.UID(name)},
		Spec:       corev1.PodSpec{NodeName: realNode, Containers: []corev1.Container{{Name: "main", Resources: of}}},
		Status: corev1.PodStatus{QOSClass: class, Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
			ContainerID: "containerd://c-" + name, Resources: &of, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}},
	}
}

func burstable(name string) *corev1.Pod {
	return keptPod(name, corev1.PodQOSBurstable, resources("100m", "512Mi"), resources("500m", "768Mi"))
}

func TestWanted(t *testing.T) {
	weighed := burstable("w")
	weighed.Annotations = map[string]string{v1alpha1.AnnotationEnforcement: `{"cpu":{"weight":321},"oom":{"rank":50}}`}
	for _, tc := range []struct {
		of   *corev1.Pod
		want string
	}{
		{burstable("b"), "/p/kubepods/burstable/podb cpu.cfs_quota_us=50000 cpu.shares=102 memory.limit_in_bytes=805306368\n" +
			"/p/kubepods/burstable/podb/c-b cpu.cfs_quota_us=50000 cpu.shares=102 memory.limit_in_bytes=805306368 oom_score_adj=980"},
		{weighed, "/p/kubepods/burstable/podw cpu.cfs_quota_us=50000 cpu.shares=8391 memory.limit_in_bytes=805306368\n" +
			"/p/kubepods/burstable/podw/c-w cpu.cfs_quota_us=50000 cpu.shares=102 memory.limit_in_bytes=805306368 oom_score_adj=989"},
		{keptPod("g", corev1.PodQOSGuaranteed, resources("100m", "64Mi"), resources("100m", "64Mi")), "/p/kubepods/podg cpu.cfs_quota_us=10000 cpu.shares=102 memory.limit_in_bytes=67108864\n" +
			"/p/kubepods/podg/c-g cpu.cfs_quota_us=10000 cpu.shares=102 memory.limit_in_bytes=67108864"},
		{keptPod("e", corev1.PodQOSBestEffort, nil, nil), "/p/kubepods/besteffort/pode cpu.shares=2\n/p/kubepods/besteffort/pode/c-e cpu.shares=2 oom_score_adj=1000"},
	} {
		want := wanted("/p", tc.of, 24<<30)
		var got strings.Builder
		at := ""
		for _, f := range slices.SortedFunc(maps.Keys(want), compareFiles) {
			if f.cgroup != at {
				at = f.cgroup
				fmt.Fprintf(&got, "\n%s", at)
			}
			fmt.Fprintf(&got, " %s=%s", f.name, want[f])
		}
		if text := strings.TrimPrefix(got.String(), "\n"); text != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", tc.of.Name, text, tc.want)
		}
	}
}

// What differs is told, and what is not there. While somebody is away only what held its value and does not any more, and which nobody else writes.
func TestDifferences(t *testing.T) {
	want := wanted("/p", burstable("b"), 24<<30)
	have := maps.Clone(want)
	shares, quota := keptFile{"/p/kubepods/burstable/podb", "cpu.shares", false}, keptFile{"/p/kubepods/burstable/podb", "cpu.cfs_quota_us", false}
	if all := differences(want, have); len(all) != 0 {
		t.Errorf("%v", all)
	}
	have[shares] = "777"
	delete(have, quota)
	if all := differences(want, have); len(all) != 2 || all[0].keptFile != quota || all[0].have != "" || all[1].String() != `cpu.shares of /p/kubepods/burstable/podb is "777", and not 102` {
		t.Errorf("%v", all)
	}
	none := func(keptFile) bool { return false }
	if all := undone(want, want, have, none); len(all) != 1 || all[0].keptFile != shares {
		t.Errorf("what is gone was undone, or what changed was not: %v", all)
	}
	if all := undone(want, have, want, none); len(all) != 0 {
		t.Errorf("what was put right was undone: %v", all)
	}
	if all := undone(want, want, have, func(f keptFile) bool { return f == shares }); len(all) != 0 {
		t.Errorf("what somebody else writes was undone: %v", all)
	}
}

func TestOverdue(t *testing.T) {
	now := time.Now()
	if overdue(now, time.Minute, now.Add(-time.Hour), now.Add(-time.Minute)) || !overdue(now, time.Minute, now.Add(-time.Hour), now.Add(-time.Minute-1)) {
		t.Error("it is not by the last of what happened")
	}
}

// Nobody writes into a file for a third time, or into a pod's own CPU shares for a second one, since the kubelet may; nobody lowers a limit, or writes what the kernel would refuse.
func TestHand(t *testing.T) {
	h, want := newHand(), wanted("/p", burstable("b"), 24<<30)
	began, written := time.Now(), map[keptFile]int{}
	for which := 0; ; which += 7 {
		f, value, wrote, err := h.choose(want, which)
		if err != nil {
			break
		}
		wrote()
		if written[f]++; value == want[f] || len(value) < len(want[f]) || f.ofContainer && f.name != "cpu.shares" && f.name != oomScore || !h.since(f, began) {
			t.Errorf("%s into %+v, which is to be %s", value, f, want[f])
		}
	}
	if len(written) != 5 {
		t.Errorf("%d files were written: %v", len(written), written)
	}
	for f, n := range written {
		if most := map[bool]int{true: 1, false: 2}[f.name == "cpu.shares" && !f.ofContainer]; n != most {
			t.Errorf("%+v was written %d times, and not %d", f, n, most)
		}
	}
}

// A file that was chosen may be written at any moment, also long after: what somebody then sees there is of the hand, until it has let go.
func TestHandWrites(t *testing.T) {
	h, want := newHand(), wanted("/p", burstable("b"), 24<<30)
	f, _, wrote, err := h.choose(want, 0)
	if err != nil {
		t.Fatal(err)
	}
	chosen := time.Now()
	if !h.since(f, chosen) {
		t.Error("it is about to be written, and nobody knows")
	}
	wrote()
	if !h.since(f, chosen) || h.since(f, time.Now()) {
		t.Error("when it was written is not known")
	}
}

// A container may end only if somebody asked for its pod's end; one that the kubelet told of and that is not there yet is none.
func TestLives(t *testing.T) {
	a, b, starting := burstable("a"), burstable("b"), burstable("s")
	starting.Status.ContainerStatuses[0].State = corev1.ContainerState{}
	v, there := newLives(), map[string]bool{containerOf("/p", a): true}
	look := func() (names []string) {
		for _, p := range v.look("/p", []*corev1.Pod{a, b, starting}, func(at string) bool { return there[at] }) {
			names = append(names, p.Name)
		}
		return names
	}
	if wrongly := look(); len(wrongly) > 0 || len(v.running) != 1 {
		t.Errorf("%v, %v", wrongly, v.running)
	}
	there[containerOf("/p", b)] = true
	look()
	v.ask(a.UID)
	clear(there)
	if wrongly := look(); !slices.Equal(wrongly, []string{"b"}) || v.count() != 2 {
		t.Errorf("%v, %d", wrongly, v.count())
	}
	if wrongly := look(); len(wrongly) > 0 {
		t.Errorf("it is told again: %v", wrongly)
	}
}

// A pod of which there was one too many was asked to end by its ReplicaSet; one that ends and is replaced was not by that.
func TestSurplus(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	pod := func(name string, came time.Duration, ended bool) *corev1.Pod {
		p := burstable(name)
		p.Labels, p.CreationTimestamp = map[string]string{"app": "burstable"}, metav1.NewTime(now.Add(came))
		if ended { // now
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(metav1.NewTime(now.Add(5*time.Second))), new(int64(5))
		}
		return p
	}
	other := pod("o", -time.Hour, false)
	other.Labels = map[string]string{"app": "guaranteed"}
	for name, tc := range map[string]struct {
		pods []*corev1.Pod
		want []string
	}{
		"nothing ends":                     {[]*corev1.Pod{pod("a", -time.Hour, false), other}, nil},
		"one too many":                     {[]*corev1.Pod{pod("a", -time.Hour, false), pod("b", -time.Minute, true), other}, []string{"b"}},
		"it is replaced at once":           {[]*corev1.Pod{pod("a", -time.Hour, true), pod("b", 0, false), other}, nil},
		"it is replaced a while later":     {[]*corev1.Pod{pod("a", -time.Hour, true), pod("b", time.Second, false)}, nil},
		"both end":                         {[]*corev1.Pod{pod("a", -time.Hour, true), pod("b", -time.Minute, true)}, nil},
		"only one of another app is there": {[]*corev1.Pod{pod("a", -time.Hour, true), other}, nil},
	} {
		var got []string
		for _, p := range surplus(tc.pods, map[string]int{"burstable": 1, "guaranteed": 1}) {
			got = append(got, p.Name)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v", name, got)
		}
	}
	v := newLives()
	if !v.ask("a") || v.ask("a") {
		t.Error("it is not known who asked first")
	}
}

func TestIsResizing(t *testing.T) {
	if isResizing(burstable("b")) {
		t.Error("one that nobody resizes")
	}
	for what, change := range map[string]func(*corev1.Pod){
		"asked":   func(p *corev1.Pod) { p.Generation = 2 },
		"pending": func(p *corev1.Pod) { p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodResizePending}} },
		"not yet": func(p *corev1.Pod) { p.Spec.Containers[0].Resources.Requests = resources("150m", "512Mi") },
	} {
		p := burstable("b")
		if change(p); !isResizing(p) {
			t.Error(what)
		}
	}
}

func TestPlanned(t *testing.T) {
	differ, drifts := planned(nodeplan.NodePlan{
		Cgroups: []nodeplan.Cgroup{
			{Path: "/a", Files: map[string]string{"cpu.shares": "102"}}, {Path: "/b", Files: map[string]string{"cpu.shares": "102"}, Drift: map[string]string{"cpu.shares": "777"}}, {Path: "/c", Missing: true},
		},
		Processes: []nodeplan.Process{{Pod: "kept/g", OOMScoreAdj: -997, Drift: "0"}, {Pod: "kept/b", OOMScoreAdj: 980, Drift: "1000"}, {Pod: "kept/c", OOMScoreAdj: 980}},
	})
	if drifts != 3 || fmt.Sprint(differ) != `[cpu.shares of /b is "777", and not 102  of /c is "", and not there oom_score_adj of kept/b is "1000", and not 980]` {
		t.Errorf("%d, %v", drifts, differ)
	}
	if of := podOf("/p", []*corev1.Pod{burstable("a"), burstable("b")}, differ[2].keptFile); of == nil || of.Name != "b" {
		t.Errorf("the process is of %v", of)
	}
	if of := podOf("/p", []*corev1.Pod{burstable("a")}, keptFile{cgroup: "/p/kubepods/burstable"}); of != nil {
		t.Errorf("a QoS level is of %v", of)
	}
}

func TestToldWrong(t *testing.T) {
	const right = `podgrace_node_cgroups{level="pod"} 5
podgrace_node_cgroups{level="container"} 5
podgrace_node_cgroups{level="qos"} 2
podgrace_node_drift_files{owner="kubelet",reason="Fresh"} 1
podgrace_node_refused{reason="KubeletTooOld"} 0
podgrace_node_given_up_files_total 0
`
	if err := toldWrong(right, 5, 1); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{
		strings.Replace(right, `"container"} 5`, `"container"} 4`, 1), strings.Replace(right, `"Fresh"} 1`, `"Fresh"} 0`, 1), strings.Replace(right, `Old"} 0`, `Old"} 1`, 1),
		strings.Replace(right, "files_total 0", "files_total 1", 1), right + `podgrace_node_eviction_steps_total{kind="Hard",step="Gone"} 1` + "\n",
	} {
		if toldWrong(wrong, 5, 1) == nil {
			t.Errorf("nobody notices what is wrong of\n%s", wrong)
		}
	}
}

// tree holds what was written into its files, and there is one process in each cgroup.
type tree struct {
	cgroup.Tree
	files    map[string]string
	restores bool // at once, whatever is written
}

func (t *tree) Read(at string, files ...string) (map[string]string, error) {
	return map[string]string{files[0]: t.files[at+files[0]]}, nil
}

func (t *tree) Write(_ context.Context, at string, files []cgroup.File) (int, error) {
	if !t.restores {
		t.files[at+files[0].Name] = files[0].Value
	}
	return 1, nil
}

func (t *tree) Processes(string) ([]int, error) { return nil, nil }

// withEnforced is a laboratory with a real node whose files are a tree's. They hold what they are to of a pod that runs there.
func withEnforced(t *testing.T, p *corev1.Pod) (*lab, *tree) {
	t.Helper()
	pods := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	if err := pods.Add(p); err != nil {
		t.Fatal(err)
	}
	l, files := scripted(), &tree{files: map[string]string{}}
	l.pods = corev1listers.NewPodLister(pods)
	l.enforced = &enforcedNode{node: &cluster.Node{CgroupRoot: "/p"}, tree: files, capacity: 24 << 30, hand: newHand(), lives: newLives(), enforcer: &watcher{}, resized: map[types.UID]time.Time{}}
	for f, value := range wanted("/p", p, 24<<30) {
		files.files[f.cgroup+f.name] = value
	}
	return l, files
}

// Who brings the enforcer back looks before that whether something was undone; what the kubelet or somebody by hand writes meanwhile was not.
func TestWhileAway(t *testing.T) {
	const shares = "/p/kubepods/burstable/podb" + "cpu.shares"
	for name, tc := range map[string]struct {
		meanwhile func(l *lab, files *tree)
		told      string
	}{
		"nothing happens":  {func(*lab, *tree) {}, ""},
		"it is undone":     {func(_ *lab, files *tree) { files.files[shares] = "2" }, `cpu.shares of /p/kubepods/burstable/podb is "2", and not 102`},
		"the pod is ended": {func(l *lab, files *tree) { files.files[shares] = "2"; l.enforced.lives.ask("b") }, ""},
		"it is resized":    {func(l *lab, files *tree) { files.files[shares] = "2"; l.enforced.resized["b"] = time.Now() }, ""},
		"somebody writes": {func(l *lab, files *tree) {
			for which := range 20 {
				if f, value, wrote, err := l.enforced.hand.choose(l.enforced.wanted(l.runningEnforced()), which); err == nil {
					files.files[f.cgroup+f.name] = value
					wrote()
				}
			}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			l, files := withEnforced(t, burstable("b"))
			back := 0
			mend := l.whileAway(l.enforced, func(context.Context) error { back++; return nil })
			tc.meanwhile(l, files)
			if err := mend(t.Context()); err != nil || back != 1 {
				t.Errorf("it was brought back %d times: %v", back, err)
			}
			if found := strings.Join(l.found(), "\n"); (tc.told == "") != (found == "") || !strings.Contains(found, tc.told) {
				t.Errorf("%q", found)
			}
		})
	}
}

// Into the score of a container without processes nothing is written: that is no fault that was made.
func TestChangeWithoutProcesses(t *testing.T) {
	l, _ := withEnforced(t, burstable("b"))
	if err := l.change(t.Context(), l.enforced, keptFile{"/p/kubepods/burstable/podb/c-b", oomScore, true}, "1000"); err == nil {
		t.Error("nothing was written, and nobody says so")
	}
}

// An enforcer that restores nothing is told, and so is one that does not count what it restores. A scrape that fails is tried again.
func TestRepairs(t *testing.T) {
	p := keptPod("g", corev1.PodQOSGuaranteed, resources("100m", "64Mi"), resources("100m", "64Mi"))
	for name, tc := range map[string]struct {
		restores bool
		counts   bool
		fails    bool // each other scrape
		told     string
	}{
		"it does":                   {true, true, false, ""},
		"it does, and scrapes fail": {true, true, true, ""},
		"it restores nothing":       {false, true, false, "in the calm somebody wrote"},
		"it does not count it":      {true, false, false, "does not count that"},
	} {
		t.Run(name, func(t *testing.T) {
			asked, scrapes := 0, 0
			metrics := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				if scrapes++; tc.fails && scrapes%2 == 1 {
					panic(http.ErrAbortHandler)
				}
				if tc.counts {
					asked++
				}
				for _, file := range []string{"cpu.shares", "cpu.cfs_quota_us", "memory.limit_in_bytes"} {
					_, _ = fmt.Fprintf(w, "podgrace_node_writes_total{file=%q,owner=\"kubelet\"} %d\n", file, asked)
				}
			}))
			defer metrics.Close()
			l, files := withEnforced(t, p)
			files.restores, l.enforced.enforcer.r = tc.restores, &podgrace.Replica{MetricsURL: metrics.URL}
			within := 50 * time.Millisecond
			if tc.told == "" {
				within = time.Minute
			}
			l.repairs(t.Context(), within)
			if found := strings.Join(l.found(), "\n"); (tc.told == "") != (found == "") || !strings.Contains(found, tc.told) {
				t.Errorf("%q", found)
			}
		})
	}
}

// What is not as it must be is waited for, and told once it is overdue, once.
func TestEnforcedUnwell(t *testing.T) {
	ready := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer ready.Close()
	for name, tc := range map[string]struct {
		ago  time.Duration // that the kubelet was hit
		told string
	}{
		"just hit":       {keptWithin / 2, ""},
		"nobody repairs": {keptWithin * 2, `cpu.shares of /p/kubepods/burstable/podb is "777", and not 102`},
	} {
		t.Run(name, func(t *testing.T) {
			p := burstable("b")
			l, files := withEnforced(t, p)
			l.began, l.weather = time.Now().Add(-time.Hour), &weather{ended: map[plan.Scope]time.Time{plan.Kubelet: time.Now().Add(-tc.ago)}}
			l.kube = fake.NewClientBuilder().WithObjects(p).Build()
			l.enforced.enforcer.r, l.enforced.told = &podgrace.Replica{HealthURL: ready.URL}, map[difference]bool{}
			for f := range l.enforced.wanted(l.runningEnforced()) {
				if f.name == oomScore {
					l.enforced.told[difference{f, "", "980"}] = true // there are no processes
				}
			}
			files.files["/p/kubepods/burstable/podb"+"cpu.shares"] = "777"
			for range 2 {
				if err := l.enforcedUnwell(t.Context()); err == nil || !strings.Contains(err.Error(), "of the real node 2 files") {
					t.Errorf("it is well: %v", err)
				}
			}
			found := l.found()
			if want := tc.told != ""; want != (len(found) == 1) || want && !strings.Contains(found[0], tc.told) {
				t.Errorf("%q", found)
			}
		})
	}
}

// At the end the real node is looked at once more, but not before the levels' files are overdue.
func TestLookAtLevels(t *testing.T) {
	l, _ := withEnforced(t, burstable("b"))
	if err := scripted().lookAtLevels(t.Context(), 0); err != nil {
		t.Errorf("there is no real node: %v", err)
	}
	l.began, l.recorded = time.Now().Add(-time.Hour), newRecording(nil)
	l.enforced.enforcer.r = &podgrace.Replica{HealthURL: "http://127.0.0.1:0"} // nobody is there
	l.enforced.moved = time.Now()
	early, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := l.lookAtLevels(early, time.Millisecond); !errors.Is(err, context.DeadlineExceeded) || len(l.found()) > 0 {
		t.Errorf("a pod has just come: %v, %q", err, l.found())
	}
	l.enforced.moved = time.Now().Add(-levelsWithin - time.Second)
	if err := l.lookAtLevels(t.Context(), time.Millisecond); err != nil {
		t.Error(err)
	}
	if found := l.found(); len(found) != 1 || !strings.Contains(found[0], "at the end") || !strings.Contains(found[0], "not ready") {
		t.Errorf("%q", found)
	}
}

// What holds a file up is over for a pod's after half a minute, and for a QoS level's later; while something is hit nothing is overdue.
func TestIsOverdue(t *testing.T) {
	l, p := scripted(), burstable("b")
	l.began = time.Now().Add(-time.Hour)
	n := &enforcedNode{resized: map[types.UID]time.Time{}, enforcer: &watcher{}}
	ago := func(d time.Duration) *weather {
		return &weather{ended: map[plan.Scope]time.Time{plan.Kubelet: time.Now().Add(-d)}}
	}
	for d, want := range map[time.Duration][2]bool{keptWithin - time.Second: {}, keptWithin + time.Second: {true, false}, levelsWithin + time.Second: {true, true}} {
		l.weather = ago(d)
		if got := [2]bool{l.isOverdue(n, p), l.isOverdue(n, nil)}; got != want {
			t.Errorf("%s after a fault of the kubelet: %v", d, got)
		}
	}
	l.weather = &weather{ended: map[plan.Scope]time.Time{plan.ControlPlane: time.Now().Add(-keptAfterOutage + time.Second)}}
	if l.isOverdue(n, p) {
		t.Error("soon after an outage of the control plane")
	}
	l.weather = &weather{}
	end := l.weather.begin(plan.Enforcer)
	if l.isOverdue(n, p) {
		t.Error("while the enforcer is away")
	}
	end()
	l.weather = ago(time.Hour)
	n.resized[p.UID] = time.Now()
	if l.isOverdue(n, p) {
		t.Error("just when it is being resized")
	}
}

// Only what came about an outage of the control plane waits for longer after it: the enforcer knew of what came long before, unless it was started then itself.
func TestIsOverdueAfterOutage(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const began, ended = 5 * time.Minute, keptWithin + time.Second // of the outages, before now
	for name, tc := range map[string]struct {
		came, resized, started time.Duration // before now
		want                   bool
	}{
		"all was long before":        {time.Hour, 50 * time.Minute, 40 * time.Minute, true},
		"the pod came meanwhile":     {began - time.Minute, time.Hour, time.Hour, false},
		"it came just before":        {began + keptWithin/2, time.Hour, time.Hour, false},
		"it was to be resized":       {time.Hour, began - time.Minute, time.Hour, false},
		"the enforcer was started":   {time.Hour, time.Hour, began - time.Minute, false},
		"it came a while before all": {began + 2*keptWithin, time.Hour, time.Hour, true},
	} {
		l, p := scripted(), burstable("b")
		l.began = ago(2 * time.Hour)
		l.weather = &weather{ended: map[plan.Scope]time.Time{plan.ControlPlane: ago(ended)}, spell: map[plan.Scope]time.Time{plan.ControlPlane: ago(began)}}
		p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(ago(tc.came))
		n := &enforcedNode{resized: map[types.UID]time.Time{p.UID: ago(tc.resized)}, enforcer: &watcher{began: ago(tc.started)}}
		if got := l.isOverdue(n, p); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
		l.weather.ended[plan.ControlPlane] = ago(keptAfterOutage + time.Second)
		if !l.isOverdue(n, p) {
			t.Errorf("%s: it never is", name)
		}
		l.weather.ended[plan.ControlPlane] = ago(keptWithin - time.Second)
		if l.isOverdue(n, p) {
			t.Errorf("%s: it is at once", name)
		}
	}
}

func TestWithNode(t *testing.T) {
	unmet := func() error { return errors.New("no containerd") }
	var out strings.Builder
	o := options{node: true}
	if with, err := o.withNode(unmet, false, &out); with || err != nil || !strings.Contains(out.String(), "no containerd") {
		t.Errorf("%t, %v, %q", with, err, out.String())
	}
	if _, err := o.withNode(unmet, true, io.Discard); err == nil || !strings.Contains(err.Error(), "no containerd") {
		t.Errorf("where all is required: %v", err)
	}
	if with, err := o.withNode(func() error { return nil }, true, io.Discard); !with || err != nil {
		t.Errorf("%t, %v", with, err)
	}
	if with, err := (&options{}).withNode(unmet, true, io.Discard); with || err != nil {
		t.Errorf("nobody asked for it: %t, %v", with, err)
	}
}

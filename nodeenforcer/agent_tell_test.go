package nodeenforcer

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
	"github.com/podgrace/podgrace/nodeenforcer/status"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// A dry run says of each file and process what it would write.
func TestAgentTellsADryRun(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory<64Mi")).make(statetest.AsPlanned)
	a := b.Path("a", "c")
	b.Cgroups.Set(a, "memory.max", "max")
	b.Process(a, 7, 100)
	source := statetest.NewSource()
	source.Say(b.Live(v1alpha1.NodeModeRepair))
	agent, log := newAgent(b, source)
	agent.DryRun, b.enforcer.DryRun = true, true
	agent.round(t.Context(), true)
	if log.Count(`"would write"`) != 2 || log.Count(`"file"="memory.max" "from"="max" "to"="67108864"`) != 1 || log.Count(`"process"=7`) != 1 || len(b.Cgroups.Writes()) > 0 {
		t.Errorf("told %q, wrote %v", log.Lines(), b.Cgroups.Writes())
	}
}

// A file that is given up is told in the log, an Event, the metrics and the Node's condition.
func TestAgentTellsWhatItGivesUp(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory<64Mi")).make(statetest.AsPlanned)
	a := b.Path("a", "c")
	b.Cgroups.Set(a, "memory.max", "max")
	b.Cgroups.Revert(a, "memory.max", "max", -1)
	source := statetest.NewSource()
	source.Say(b.Live(v1alpha1.NodeModeRepair))
	agent, log := newAgent(b, source)
	var events statetest.Recorded
	registry := prometheus.NewRegistry()
	agent.Events, agent.Metrics, agent.Status = status.NewEvents(&events), status.NewMetrics(registry), status.NewNodeUpdater(nil, agent.Clock, agent.Log)
	for range 6 {
		agent.round(t.Context(), true)
	}
	if log.Count(`"msg"="wrote"`) != drift.RivalLimit || log.Count("giving up cgroup file") != 1 || len(events) != 1 || !strings.Contains(events[0], "memory.max of container c of pod shop/a") {
		t.Errorf("told %q, events %q", log.Lines(), events)
	}
	for decision, n := range map[string]int{`"decision"="Write" "reason"="Drift"`: drift.RivalLimit, `"decision"="GiveUp" "reason"="Reverted"`: 1} {
		if got := log.Count(`"component"="nodeenforcer" ` + decision + ` "namespace"="shop" "name"="a" "node"="n"`); got != n {
			t.Errorf("%d decisions %s, want %d: %q", got, decision, n, log.Lines())
		}
	}
	if lines := strings.Join(statetest.Gathered(t, registry), "\n"); !strings.Contains(lines, "given_up_files_total 1") || !strings.Contains(lines, `drift_files owner="runtime" reason="Rival" 1`) {
		t.Errorf("metrics:\n%s", lines)
	}
	if s := agent.Status.Status(); !strings.Contains(s.Unenforced, "somebody else keeps reverting it") || s.EnforcedUnknown {
		t.Errorf("the Node is to say %+v", s)
	}
	agent.reportError(errors.New("no such thing"))
	if s := agent.Status.Status(); s.Unenforced != "no such thing" {
		t.Errorf("the Node is to say %+v", s)
	}
}

// By which policy the node is kept, and how far that goes, is told when it changes, and the Node says where nothing is written.
func TestAgentTellsItsPolicy(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory<64Mi")).make(statetest.AsPlanned)
	source := statetest.NewSource()
	agent, log := newAgent(b, source)
	agent.Status = status.NewNodeUpdater(nil, agent.Clock, agent.Log)
	workers := func(mode v1alpha1.NodeMode) *v1alpha1.NodePolicy {
		return &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "workers"}, Spec: v1alpha1.NodePolicySpec{Mode: mode}}
	}
	for _, step := range []struct {
		policy          *v1alpha1.NodePolicy
		unknown         bool
		mode            v1alpha1.NodeMode // of the program
		line, unwritten string
	}{
		{nil, true, "", "", ""},
		{nil, false, "", `"nodePolicy"="" "mode"="Observe"`, "no NodePolicy selects the node"},
		{workers(v1alpha1.NodeModeObserve), false, "", `"nodePolicy"="workers" "mode"="Observe"`, "NodePolicy workers is in mode Observe"},
		{workers(v1alpha1.NodeModeTune), false, "", `"nodePolicy"="workers" "mode"="Tune"`, ""},
		{nil, true, "", "", ""},
		{workers(v1alpha1.NodeModeRepair), false, v1alpha1.NodeModeObserve, `"nodePolicy"="workers" "mode"="Observe"`, "NodePolicy workers asks for mode Repair, and the node enforcer is installed read-only (" + enforcement.ReadOnlyRemedy + ")"},
	} {
		agent.Mode = step.mode
		source.Say(func(s *state.State) {
			b.Live(v1alpha1.NodeModeObserve)(s)
			s.Policy, s.PolicyUnknown = step.policy, step.unknown
		})
		before := log.Count("NodePolicy in force")
		for range 3 {
			agent.round(t.Context(), true)
		}
		told := log.Count("NodePolicy in force") - before
		if step.line == "" && told != 0 || step.line != "" && (told != 1 || !strings.Contains(log.Lines()[len(log.Lines())-1], step.line)) {
			t.Errorf("%+v: told %q", step, log.Lines())
		}
		if got := agent.Status.Status().Unwritten.Why; got != step.unwritten {
			t.Errorf("%+v: the Node is to say %q", step, got)
		}
	}
}

// An annotation that can't be used is told once, in few words, and counts for nothing; the pods beside it get what they ask for, and what was written for its pod
// before is taken back.
func TestAgentTellsWhatItCannotUse(t *testing.T) {
	bad := map[string]string{
		"no-json": "low", "newer": `{"cpu":{"weight":400},"net":{"weight":5}}`, "large": `{"cpu":{"weight":400}}` + strings.Repeat(" ", 1<<20), "nested": strings.Repeat("[", 4000),
	}
	const good = `{"cpu":{"weight":300}}`
	pods := []*corev1.Pod{statetest.Pod("good", "memory=64Mi")}
	for name := range bad {
		pods = append(pods, statetest.Pod(name, "memory=64Mi"))
	}
	b := newBed(t, pods...).make(statetest.AsPlanned)
	annotate := func(texts map[string]string) {
		b.Pods = nil
		for _, p := range pods {
			p = p.DeepCopy()
			p.Annotations = map[string]string{v1alpha1.AnnotationEnforcement: cmp.Or(texts[p.Name], good)}
			b.Pods = append(b.Pods, p)
		}
	}
	weight := func(pod string) string {
		value, _ := b.Cgroups.Get(b.Path(pod, ""), "cpu.weight")
		return value
	}
	was := weight("good")
	source := statetest.NewSource()
	agent, log := newAgent(b, source)
	b.enforcer.Undo = &ledger.Ledger{}
	agent.Status = status.NewNodeUpdater(nil, agent.Clock, agent.Log)
	round := func(texts map[string]string) {
		annotate(texts)
		source.Say(b.Live(v1alpha1.NodeModeTune))
		agent.round(t.Context(), true)
	}
	round(nil)
	if s := agent.Status.Status(); weight("large") != "300" || s.Unusable != "" {
		t.Errorf("all are good: cpu.weight of large is %s, the Node is to say %+v", weight("large"), s)
	}
	for range 3 {
		round(bad)
	}
	for name := range bad {
		if got := weight(name); got != was {
			t.Errorf("%s: cpu.weight is %s", name, got)
		}
		if n := log.Count(`"msg"="cannot use what was given" "pod"="shop/` + name + `"`); n != 1 {
			t.Errorf("%s is told %d times", name, n)
		}
	}
	for _, line := range log.Lines() {
		if len(line) > 1024 {
			t.Errorf("a line of %d bytes: %.200s", len(line), line)
		}
	}
	s := agent.Status.Status()
	if weight("good") != "300" || s.Unenforced != "" || s.Unusable != "pod shop/large: its contract is ignored: read annotation podgrace.dev/enforcement: it has 1048598 bytes, and 4096 at most are read (and 3 more)" {
		t.Errorf("cpu.weight of good is %s, the Node is to say %+v", weight("good"), s)
	}
	if round(nil); weight("newer") != "300" || agent.Status.Status().Unusable != "" {
		t.Errorf("good again: cpu.weight is %s, the Node is to say %+v", weight("newer"), agent.Status.Status())
	}
}

// Where the cgroups are not (unmounted, or the wrong folder), that is told once, nothing counts as gone, and what is to be restored stays noted.
func TestAgentWithoutAHierarchy(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory=64Mi"))
	b.Pods[0].Annotations = map[string]string{v1alpha1.AnnotationEnforcement: `{"cpu":{"weight":300}}`}
	source := statetest.NewSource()
	source.Say(b.Live(v1alpha1.NodeModeTune))
	agent, log := newAgent(b, source)
	agent.Status = status.NewNodeUpdater(nil, agent.Clock, agent.Log)
	root := filepath.Join(t.TempDir(), "cgroup")
	b.enforcer.Cgroups = cgroup.NewV2(root)
	file := filepath.Join(t.TempDir(), "written")
	noted := ledger.Entry{Key: ledger.Key{Path: b.Path("a", ""), File: "cpu.weight"}, Pod: b.Pods[0].UID, Was: "1", Wrote: "200"}
	if err := (&ledger.Ledger{File: file}).Put(noted); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	b.enforcer.Undo = &ledger.Ledger{File: file}
	for range 3 {
		agent.round(t.Context(), true)
	}
	if s := agent.Status.Status(); log.Count("failed to reconcile cgroups") != 1 || !strings.Contains(s.Unenforced, "opening the hierarchy "+root+": no such file or directory") {
		t.Errorf("told %q, the Node is to say %+v", log.Lines(), s)
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("noted was %s, is %s: %v", before, after, err)
	}
	if _, err := os.Stat(root); err == nil {
		t.Error("it was made")
	}
}

// What the kernel counts of all pods and of the QoS classes is in the metrics, and of no pod.
func TestAgentTellsWhatIsCounted(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory=64Mi")).make(statetest.AsPlanned)
	b.Cgroups.SetUsage("/kubepods", 3000, 1000, 9)
	b.Cgroups.SetUsage("/kubepods/burstable", 2000, 500, 7)
	source := statetest.NewSource()
	source.Say(b.Live(v1alpha1.NodeModeTune))
	agent, _ := newAgent(b, source)
	registry := prometheus.NewRegistry()
	agent.Metrics = status.NewMetrics(registry)
	agent.round(t.Context(), true)
	var got []string
	for _, line := range statetest.Gathered(t, registry) {
		if strings.HasPrefix(line, "podgrace_node_processes ") || strings.HasPrefix(line, "podgrace_node_memory_working_set") {
			got = append(got, line)
		}
	}
	want := []string{
		`podgrace_node_memory_working_set_bytes cgroup="burstable" 1500`, `podgrace_node_memory_working_set_bytes cgroup="kubepods" 2000`,
		`podgrace_node_processes cgroup="burstable" 7`, `podgrace_node_processes cgroup="kubepods" 9`,
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Who protects memory is told as far as the kubelet's configuration is known.
func TestAgentTellsWhoProtectsMemory(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory=64Mi")).make(statetest.AsPlanned)
	source := statetest.NewSource()
	agent, _ := newAgent(b, source)
	agent.Status = status.NewNodeUpdater(nil, agent.Clock, agent.Log)
	resets := &kubeletconfigv1beta1.KubeletConfiguration{FeatureGates: map[string]bool{"MemoryQoS": true}}
	for _, step := range []struct {
		config  *kubeletconfigv1beta1.KubeletConfiguration
		guessed bool
		want    enforcement.MemoryProtector
	}{
		{nil, true, ""},
		{resets, false, enforcement.ProtectorReset},
		{nil, true, enforcement.ProtectorReset},
		{&kubeletconfigv1beta1.KubeletConfiguration{}, false, enforcement.ProtectorPodgrace},
	} {
		source.Say(func(s *state.State) {
			b.Live(v1alpha1.NodeModeTune)(s)
			s.Config, s.Guessed = step.config, step.guessed
		})
		agent.round(t.Context(), true)
		if got := agent.Status.Status().MemoryProtector; got != step.want {
			t.Errorf("with %v the Node is to say %q, want %q", step.config, got, step.want)
		}
	}
}

// A kubelet that is too old, or does not tell its configuration, is no reason to plan by defaults: nothing is written, and all that tells of the node says why.
func TestAgentRefusesANode(t *testing.T) {
	for name, tc := range map[string]struct {
		change  func(*state.State)
		metrics []string
		writes  bool
		says    func(status.NodeStatus) string
		want    string
	}{
		"as it should be": {func(*state.State) {}, nil, true, func(s status.NodeStatus) string { return s.Unenforced + s.Unwritten.Why }, ""},
		"too old": {
			func(s *state.State) { s.Node.Status.NodeInfo.KubeletVersion = "v1.32.9-gke.1" }, []string{"KubeletTooOld"}, false,
			func(s status.NodeStatus) string { return s.Unenforced }, "nothing is planned: the kubelet is of Kubernetes v1.32.9-gke.1, and Podgrace works with 1.33 and newer",
		},
		"does not tell": {
			func(s *state.State) { s.Config, s.Guessed = nil, true }, []string{"KubeletUnknown"}, false,
			func(s status.NodeStatus) string { return s.Unwritten.Why }, "the kubelet has not told its configuration (nodes/configz), and what it does may not be its defaults",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBed(t, statetest.Pod("a", "memory<64Mi")).make(statetest.AsPlanned)
			b.Cgroups.Set(b.Path("a", "c"), "memory.max", "max")
			source := statetest.NewSource()
			source.Say(func(s *state.State) {
				b.Live(v1alpha1.NodeModeRepair)(s)
				tc.change(s)
			})
			agent, log := newAgent(b, source)
			registry := prometheus.NewRegistry()
			agent.Metrics, agent.Status = status.NewMetrics(registry), status.NewNodeUpdater(nil, agent.Clock, agent.Log)
			for range 3 {
				agent.round(t.Context(), true)
			}
			if wrote := len(b.Cgroups.Writes()) > 0; wrote != tc.writes {
				t.Errorf("it wrote %v", b.Cgroups.Writes())
			}
			if got := tc.says(agent.Status.Status()); got != tc.want {
				t.Errorf("the Node is to say %q", got)
			}
			if strings.HasPrefix(tc.want, "nothing") && log.Count(tc.want) != 1 {
				t.Errorf("told %q", log.Lines())
			}
			lines := statetest.Gathered(t, registry)
			for _, reason := range []string{"KubeletTooOld", "KubeletUnknown"} {
				value := " 0"
				if slices.Contains(tc.metrics, reason) {
					value = " 1"
				}
				if want := `podgrace_node_refused reason="` + reason + `"` + value; !slices.Contains(lines, want) {
					t.Errorf("no %s in %q", want, lines)
				}
			}
		})
	}
}

// As long as it is not known which policy there is, what the last one had us write stays, and none of it is a reason to write.
func TestAgentHolds(t *testing.T) {
	b := newBed(t, statetest.Pod("a", "memory=64Mi"))
	b.Pods[0].Annotations = map[string]string{v1alpha1.AnnotationEnforcement: `{"cpu":{"weight":300}}`}
	source := statetest.NewSource()
	source.Say(b.Live(v1alpha1.NodeModeTune))
	agent, _ := newAgent(b, source)
	b.enforcer.Undo = &ledger.Ledger{}
	b.make(func(g plan.Group, file string) string {
		if file == "cpu.weight" && g.Level == plan.LevelPod {
			return "1"
		}
		return statetest.AsPlanned(g, file)
	})
	weight := func() string { v, _ := b.Cgroups.Get(b.Path("a", ""), "cpu.weight"); return v }
	agent.round(t.Context(), true)
	if weight() != "300" {
		t.Fatalf("the contract's weight was not written: %s", weight())
	}
	source.Say(func(s *state.State) { s.Policy, s.PolicyUnknown = nil, true })
	agent.round(t.Context(), true)
	if weight() != "300" {
		t.Errorf("it was taken back: %s", weight())
	}
	source.Say(func(s *state.State) { s.PolicyUnknown = false })
	agent.round(t.Context(), true)
	if weight() != "1" {
		t.Errorf("it was not taken back: %s", weight())
	}
}

// The processes of a container are one line of the log, however many they are.
func TestAgentTellsProcessesOnce(t *testing.T) {
	b := newBed(t, statetest.Pod("a"), statetest.Pod("b")).make(statetest.AsPlanned)
	for pid := range 50 {
		b.Process(b.Path("a", "c"), 100+pid, 0)
	}
	b.Process(b.Path("b", "c"), 7, 0)
	source := statetest.NewSource()
	source.Say(b.Live(v1alpha1.NodeModeRepair))
	agent, log := newAgent(b, source)
	agent.round(t.Context(), true)
	if log.Count(`"msg"="wrote"`) != 2 || log.Count(`"processes"=50`) != 1 {
		t.Errorf("told %q", log.Lines())
	}
}

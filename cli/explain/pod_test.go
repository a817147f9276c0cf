package explain_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/policy"
)

func hook(h corev1.LifecycleHandler) *corev1.Lifecycle { return &corev1.Lifecycle{PreStop: &h} }

func sleeps(n int64) *corev1.Lifecycle {
	return hook(corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: n}})
}

var calls = hook(corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/drain", Port: intstr.FromInt32(80)}})

func stopping(l *corev1.Lifecycle) option {
	return edit(func(p *corev1.Pod) { p.Spec.Containers[0].Lifecycle = l })
}

func sidecar(name string, l *corev1.Lifecycle) option {
	return edit(func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name, RestartPolicy: new(corev1.ContainerRestartPolicyAlways), Lifecycle: l})
	})
}

// The times are those of killContainer and waitForTurn (pkg/kubelet/kuberuntime, 1.36.3).
func TestStops(t *testing.T) {
	setup := edit(func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: "setup", Lifecycle: nil})
	})
	for name, tc := range map[string]struct {
		in      []option
		want    []explain.Stop
		longest int64
	}{
		"plain":         {nil, []explain.Stop{{"app", 0, "", new(int64(0)), new(int64(30)), 30}}, 30},
		"hook":          {[]option{stopping(sleeps(20))}, []explain.Stop{{"app", 0, "sleep 20 s", new(int64(20)), new(int64(10)), 30}}, 30},
		"hook too long": {[]option{stopping(sleeps(60)), setup}, []explain.Stop{{"app", 0, "sleep 60 s", new(int64(30)), new(int64(2)), 32}}, 32},
		"hook nearly":   {[]option{stopping(sleeps(29))}, []explain.Stop{{"app", 0, "sleep 29 s", new(int64(29)), new(int64(2)), 31}}, 31},
		"unknown hook":  {[]option{stopping(calls)}, []explain.Stop{{"app", 0, "GET /drain on port 80", nil, nil, 32}}, 32},
		"zero":          {[]option{grace(0), stopping(sleeps(20))}, []explain.Stop{{"app", 0, "sleep 20 s", new(int64(1)), new(int64(2)), 3}}, 3},
		"negative":      {[]option{grace(-5)}, []explain.Stop{{"app", 0, "", new(int64(0)), new(int64(2)), 2}}, 2},
		"being deleted": {[]option{edit(func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(5)) })}, []explain.Stop{{"app", 0, "", new(int64(0)), new(int64(5)), 5}}, 5},
		"sidecars":      {[]option{sidecar("first", sleeps(3)), sidecar("second", nil)}, []explain.Stop{{"app", 0, "", new(int64(0)), new(int64(30)), 30}, {"second", 1, "", new(int64(0)), new(int64(30)), 32}, {"first", 2, "sleep 3 s", new(int64(3)), new(int64(27)), 32}}, 32},
	} {
		t.Run(name, func(t *testing.T) {
			g := explain.Explain(web(tc.in...)).Grace
			if diff := cmp.Diff(tc.want, g.Containers); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if g.LongestSeconds != tc.longest {
				t.Errorf("longest %d, want %d", g.LongestSeconds, tc.longest)
			}
		})
	}
}

func TestGrace(t *testing.T) {
	section := func(g v1alpha1.GracePeriodSection) func(*v1alpha1.PodPolicySpec) {
		return func(s *v1alpha1.PodPolicySpec) { s.GracePeriod = &g }
	}
	gives45 := section(v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45))})
	for name, tc := range map[string]struct {
		in     []option
		origin explain.Origin
		parts  []string // of all that is said
	}{
		"manifest, given":   {[]option{podPolicy(t, "p", 0, gives45), manifest}, explain.OriginPolicy, []string{"PodPolicy p: default 45 s"}},
		"manifest, own":     {[]option{podPolicy(t, "p", 0, gives45), grace(60), manifest}, explain.OriginPod, []string{"PodPolicy p gives 45 s only"}},
		"manifest, raised":  {[]option{podPolicy(t, "p", 0, section(v1alpha1.GracePeriodSection{MinSeconds: new(int64(50))})), manifest}, explain.OriginPolicy, []string{"minimum 50 s"}},
		"live, as given":    {[]option{podPolicy(t, "p", 0, gives45), grace(45)}, explain.OriginPodOrPolicy, []string{"or it is its own choice"}},
		"live, missed":      {[]option{podPolicy(t, "p", 0, gives45)}, explain.OriginCluster, []string{"the policies give 45 s"}},
		"live, declined":    {[]option{podPolicy(t, "p", 0, skippable(gives45, "gracePeriod")), annotated(v1alpha1.AnnotationSkip, "gracePeriod")}, explain.OriginCluster, []string{"declines"}},
		"live, default":     {nil, explain.OriginCluster, []string{"which can't be told apart", "A delete gives it 30 s"}},
		"live, own":         {[]option{grace(60)}, explain.OriginPodOrPolicy, []string{"earlier policy's"}},
		"limits of one":     {[]option{podPolicy(t, "p", 0, section(v1alpha1.GracePeriodSection{MinSeconds: new(int64(5)), MaxSeconds: new(int64(90))}))}, explain.OriginCluster, []string{"at least 5 s, at most 90 s (PodPolicy p)"}},
		"limits of two":     {[]option{podPolicy(t, "p", 0, section(v1alpha1.GracePeriodSection{MinSeconds: new(int64(5))})), podPolicy(t, "q", 0, section(v1alpha1.GracePeriodSection{MinSeconds: new(int64(9)), MaxSeconds: new(int64(90))})), podPolicy(t, "r", 0, section(v1alpha1.GracePeriodSection{MaxSeconds: new(int64(80))}))}, explain.OriginCluster, []string{"at least 9 s (PodPolicy q)", "at most 80 s (PodPolicy r)"}},
		"limits contradict": {[]option{grace(20), podPolicy(t, "p", 0, section(v1alpha1.GracePeriodSection{MinSeconds: new(int64(20))})), podPolicy(t, "q", 0, section(v1alpha1.GracePeriodSection{MaxSeconds: new(int64(10))}))}, explain.OriginPodOrPolicy, []string{"at least 20 s (PodPolicy p): it wins over at most 10 s (PodPolicy q)"}},
		"zero":              {[]option{grace(0)}, explain.OriginPodOrPolicy, []string{"Every plain delete is a force delete", "a grace period of 0 makes"}},
		"no node":           {[]option{edit(func(p *corev1.Pod) { p.Spec.NodeName = "" })}, explain.OriginCluster, []string{"it has no node yet"}},
		"finished":          {[]option{edit(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, explain.OriginCluster, []string{"it has finished (Failed)"}},
		"deleting": {[]option{edit(func(p *corev1.Pod) {
			p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now}, new(int64(7))
		})}, explain.OriginCluster, []string{"being deleted already, with 7 s"}},
		"hook takes all":                          {[]option{stopping(sleeps(30))}, explain.OriginCluster, []string{"preStop of app takes 30 s, the whole grace period of 30 s"}},
		"hook takes most":                         {[]option{stopping(sleeps(29))}, explain.OriginCluster, []string{"leaves no more than 2 s"}},
		"hook begins with a sleep that takes all": {[]option{stopping(hook(corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "sleep 1m && quit"}}}))}, explain.OriginCluster, []string{"preStop of app takes at least 60 s, the whole grace period of 30 s"}},
		"hook unknown":                            {[]option{stopping(calls)}, explain.OriginCluster, []string{"how long preStop of app takes is not known"}},
		"longer probe": {[]option{edit(func(p *corev1.Pod) {
			p.Spec.Containers[0].LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: new(int64(90))}
		})}, explain.OriginCluster, []string{"A failed liveness probe gives app 90 s, longer than a delete"}},
		"node enforcer": {[]option{func(in *explain.Input) {
			in.NodePolicyName = "n"
			in.NodePolicy = &v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, Eviction: &v1alpha1.NodeEviction{HardGracePeriodSeconds: new(int64(3)), MaxPodGracePeriodSeconds: new(int64(12))}}
		}}, explain.OriginCluster, []string{"A hard eviction leaves it 3 s", "a soft one 12 s (NodePolicy n)"}},
	} {
		t.Run(name, func(t *testing.T) {
			g := explain.Explain(web(tc.in...)).Grace
			if g.Origin != tc.origin {
				t.Errorf("origin %s, want %s", g.Origin, tc.origin)
			}
			said(t, strings.Join(append(append(append(g.Limits, g.Others...), g.Pitfalls...), g.Why, g.Delete), "\n"), tc.parts...)
		})
	}
}

func asks(requests, limits corev1.ResourceList) option {
	return edit(func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits}
	})
}

func TestQoS(t *testing.T) {
	full := resources("1", "1Gi")
	for name, tc := range map[string]struct {
		in    []option
		class corev1.PodQOSClass
		why   string
	}{
		"nothing":    {nil, corev1.PodQOSBestEffort, "nothing has a request"},
		"all":        {[]option{asks(full, full)}, corev1.PodQOSGuaranteed, "requests equal them"},
		"no limit":   {[]option{asks(resources("1", ""), resources("1", ""))}, corev1.PodQOSBurstable, "app has no limit of memory"},
		"less":       {[]option{asks(resources("1", "512Mi"), full)}, corev1.PodQOSBurstable, "app requests 512Mi of memory and is limited to 1Gi"},
		"a sidecar":  {[]option{asks(full, full), sidecar("proxy", nil)}, corev1.PodQOSBurstable, "proxy has no limit of cpu and memory"},
		"of the pod": {[]option{edit(func(p *corev1.Pod) { p.Spec.Resources = &corev1.ResourceRequirements{Requests: full, Limits: full} })}, corev1.PodQOSGuaranteed, "by the resources of the pod itself"},
		"the status": {[]option{asks(full, full), edit(func(p *corev1.Pod) { p.Status.QOSClass = corev1.PodQOSBurstable })}, corev1.PodQOSBurstable, "its spec would be Guaranteed now"},
	} {
		t.Run(name, func(t *testing.T) {
			q := explain.Explain(web(tc.in...)).QoS
			if q.Class != tc.class {
				t.Errorf("class %s, want %s", q.Class, tc.class)
			}
			said(t, strings.Join(q.Why, "\n"), tc.why)
		})
	}
}

// file returns a file's value, writer and note.
func file(c explain.Cgroups, container, name string) string {
	for _, f := range c.Files {
		if f.Container == container && f.Name == name {
			return f.Value + " by " + f.Writer + " " + f.Note
		}
	}
	return "absent"
}

func TestCgroups(t *testing.T) {
	sized := func(in *explain.Input) { in.Node = &corev1.Node{Status: corev1.NodeStatus{Capacity: capacity("4Gi")}} }
	tune := func(in *explain.Input) { in.NodePolicy = &v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune} }
	alone := func(in *explain.Input) { in.Neighbours = []*corev1.Pod{} }
	contract := annotated(v1alpha1.AnnotationEnforcement, `{"memory":{"protection":"Low"},"cpu":{"weight":150}}`)
	small := asks(resources("100m", "128Mi"), nil)
	for name, tc := range map[string]struct {
		in              []option
		container, file string
		want            string
		note            string
	}{
		"weight of the request":     {[]option{small}, "", "cpu.weight", "4 by kubelet ", ""},
		"v1":                        {[]option{small, func(in *explain.Input) { in.Version = cgroupfile.V1 }}, "", "cpu.shares", "102 by kubelet ", ""},
		"contract":                  {[]option{small, contract, tune, sized, alone}, "", "cpu.weight", "150 by podgrace ", ""},
		"observed":                  {[]option{small, contract, func(in *explain.Input) { in.NodePolicyName, in.NodePolicy = "n", &v1alpha1.NodePolicySpec{} }}, "", "cpu.weight", "4 by kubelet ", "the kubelet's own values, but for what was written in another mode"},
		"no policy":                 {[]option{small, contract}, "", "cpu.weight", "4 by kubelet ", "no NodePolicy is for its node"},
		"no policy yet":             {[]option{small, contract, edit(func(p *corev1.Pod) { p.Spec.NodeName = "" })}, "", "cpu.weight", "4 by kubelet ", "depends on the NodePolicy there"},
		"protection":                {[]option{small, contract, tune, sized, alone}, "", "memory.low", "134217728 by podgrace ", ""},
		"protection, others":        {[]option{small, contract, tune, sized}, "", "memory.low", "134217728 by podgrace less where the protection of the node's other pods leaves no room", ""},
		"protection, size unknown":  {[]option{small, contract, tune, alone}, "", "memory.low", "134217728 by podgrace ", ""},
		"oom":                       {[]option{small, sized}, "app", "oom_score_adj", "969 by runtime ", ""},
		"oom, size unknown":         {[]option{small}, "app", "oom_score_adj", " by runtime depends on the node's memory", ""},
		"oom, size does not matter": {[]option{}, "app", "oom_score_adj", "1000 by runtime ", ""},
		"oom by priority": {[]option{small, sized, func(in *explain.Input) {
			in.NodePolicy = &v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, OOM: &v1alpha1.NodeOOM{Order: v1alpha1.OOMOrderPriority}}
		}}, "app", "oom_score_adj", " by podgrace depends on the priorities of the node's other pods", ""},
		"protection that is bounded": {[]option{small, contract, sized, alone, func(in *explain.Input) {
			in.NodePolicy = &v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, Bounds: &v1alpha1.EnforcementBounds{MaxProtectedMemoryPercent: new(int32(3))}}
		}}, "", "memory.low", "128847872 by podgrace ", "bounds.maxProtectedMemoryPercent 3"},
		"sidecar": {[]option{sidecar("proxy", nil)}, "proxy", "oom_score_adj", "1000 by runtime ", ""},
		"bad uid": {[]option{edit(func(p *corev1.Pod) { p.UID = "a/b" })}, "", "cpu.weight", "absent", "can be no cgroup's name"},
	} {
		t.Run(name, func(t *testing.T) {
			c := explain.Explain(web(tc.in...)).Cgroups
			if got := file(c, tc.container, tc.file); got != tc.want {
				t.Errorf("%s of %q: %q, want %q", tc.file, tc.container, got, tc.want)
			}
			said(t, strings.Join(c.Notes, "\n"), tc.note)
		})
	}
}

func TestCgroupsOfFinished(t *testing.T) {
	c := explain.Explain(web(edit(func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }))).Cgroups
	said(t, c.None, "it has finished (Succeeded)")
}

func neighbour(name string, priority int32) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "n1", Priority: &priority}}
}

func beside(pods ...*corev1.Pod) option {
	return func(in *explain.Input) { in.Neighbours = append([]*corev1.Pod{in.Pod}, pods...) }
}

func using(usage map[types.UID]int64) option {
	return func(in *explain.Input) { in.Usage = usage }
}

func TestEviction(t *testing.T) {
	low, same, high, critical := neighbour("low", -1), neighbour("same", 0), neighbour("high", 9), neighbour("critical", 2000000000)
	for name, tc := range map[string]struct {
		in        []option
		place, of int
		exempt    string
		means     string
	}{
		"nothing known":      {[]option{asks(resources("", "1Gi"), nil)}, 0, 0, "", "What it uses is not known. Above its request of 1Gi"},
		"no request":         {nil, 0, 0, "", "It requests no memory"},
		"usage alone":        {[]option{asks(resources("", "1Gi"), nil), using(map[types.UID]int64{"u1": 5 << 20})}, 0, 0, "", "It uses 5Mi, within its request of 1Gi"},
		"neighbours alone":   {[]option{beside(low, same, high, critical)}, 0, 0, "", "1 of lower priority (before it, all else equal), 1 of the same, 1 of higher"},
		"some usage unknown": {[]option{beside(low, high), using(map[types.UID]int64{"u1": 1, "low": 1})}, 0, 0, "", "It uses 1, above"},
		"all known":          {[]option{beside(low, same, high, critical), using(map[types.UID]int64{"u1": 5, "low": 1, "same": 2, "high": 9})}, 2, 4, "", "above its request of 0"},
		"critical":           {[]option{ranked("c", 2000000000), beside(low)}, 0, 0, "critical for the system", "never evicted"},
		"static":             {[]option{annotated(corev1.MirrorPodAnnotationKey, "h")}, 0, 0, "static pod", "never evicted"},
		"order, kubelet":     {[]option{annotated(v1alpha1.AnnotationEnforcement, `{"eviction":{"order":7}}`)}, 0, 0, "", "its eviction order of 7 counts for nothing to the kubelet"},
		"order, enforcer": {[]option{annotated(v1alpha1.AnnotationEnforcement, `{"eviction":{"order":7}}`), func(in *explain.Input) {
			in.NodePolicy = &v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune, Eviction: &v1alpha1.NodeEviction{}}
		}}, 0, 0, "", "it has 7 of 100"},
	} {
		t.Run(name, func(t *testing.T) {
			e := explain.Explain(web(tc.in...)).Eviction
			if e.Place != tc.place || e.Of != tc.of {
				t.Errorf("place %d of %d, want %d of %d", e.Place, e.Of, tc.place, tc.of)
			}
			said(t, e.Exempt, tc.exempt)
			said(t, strings.Join(e.Means, ". "), tc.means)
		})
	}
}

func removes(r v1alpha1.RemovalSection) func(*v1alpha1.PodPolicySpec) {
	return func(s *v1alpha1.PodPolicySpec) { s.Removal = &r }
}

func TestRemoval(t *testing.T) {
	guarded := podPolicy(t, "keep", 0, removes(v1alpha1.RemovalSection{}))
	raising := podPolicy(t, "keep", 0, removes(v1alpha1.RemovalSection{EvictionWithoutGrace: v1alpha1.GraceRaise}))
	stateful := owned("StatefulSet")
	for name, tc := range map[string]struct {
		in                      []option
		force, delete, eviction string // verdict and reason
		says                    string
	}{
		"not guarded":     {nil, "Allow NotGuarded", "Allow NotForced", "Allow NotForced", "no policy guards its namespace"},
		"guarded":         {[]option{guarded, stateful}, "Deny Unsafe", "Allow NotForced", "Allow NotForced", "state could not be read"},
		"unprotected":     {[]option{guarded}, "Warn Unprotected", "Allow NotForced", "Allow NotForced", "with grace 0 warned about"},
		"grace 0 refused": {[]option{guarded, stateful}, "Deny Unsafe", "Allow NotForced", "Allow NotForced", "with grace 0 refused"},
		"grace 0 raised":  {[]option{raising, stateful}, "Deny Unsafe", "Allow NotForced", "Allow NotForced", "with grace 0 raised to its own"},
		"grace 0 warned":  {[]option{podPolicy(t, "keep", 0, removes(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, EvictionWithoutGrace: v1alpha1.GraceRaise})), stateful}, "Warn Unsafe", "Allow NotForced", "Allow NotForced", "with grace 0 warned about"},
		"warned about beside": {[]option{raising, podPolicy(t, "warn", 0, removes(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, Protect: v1alpha1.ProtectAll})), stateful},
			"Deny Unsafe", "Allow NotForced", "Allow NotForced", "with grace 0 raised to its own"},
		"warned about, all": {[]option{raising, podPolicy(t, "warn", 0, removes(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, Protect: v1alpha1.ProtectAll}))},
			"Warn Unsafe", "Allow NotForced", "Allow NotForced", "(PodPolicy warn)"},
		"own grace 0, raised": {[]option{raising, stateful, grace(0)}, "Deny Unsafe", "Deny Unsafe", "Allow Raised", "its own grace period is 0: an eviction is raised to 30 s"},
		"own grace 0":         {[]option{guarded, stateful, grace(0)}, "Deny Unsafe", "Deny Unsafe", "Deny Unsafe", "kubectl drain --grace-period=30"},
		"finished":            {[]option{guarded, stateful, edit(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })}, "Allow Finished", "Allow Finished", "Allow Finished", "it has finished"},
		"policies unknown":    {[]option{stateful, func(in *explain.Input) { in.PoliciesUnknown = true }}, "Deny Unsafe", "Allow NotForced", "Allow NotForced", "the policies could not be read"},
		"as asked": {[]option{stateful, annotated(guard.AnnotationConfirmForceDelete, "u1/"+now.Format(time.RFC3339)), func(in *explain.Input) {
			in.Removal = &guard.Facts{Now: now, Policy: policy.Removal{Names: []string{"keep"}, ForceDelete: v1alpha1.RemovalDeny}}
		}}, "Allow Confirmed", "Allow NotForced", "Allow NotForced", "it is confirmed that it may run twice"},
	} {
		t.Run(name, func(t *testing.T) {
			r := explain.Explain(web(tc.in...)).Removal
			for _, v := range []struct {
				got  *explain.Verdict
				want string
			}{{r.ForceDelete, tc.force}, {r.Delete, tc.delete}, {r.Eviction, tc.eviction}} {
				if got := v.got.Decision + " " + v.got.Reason; got != v.want {
					t.Errorf("%s, want %s", got, v.want)
				}
			}
			said(t, r.ForceDelete.Message+"\n"+r.Delete.Message+"\n"+r.Eviction.Message, tc.says)
		})
	}
	beside := podPolicy(t, "warn", 0, removes(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, Protect: v1alpha1.ProtectAll}))
	if r := explain.Explain(web(beside, guarded)).Removal; r.Protected != "the policies protect all pods" || !slices.Equal(r.Policies, []string{"keep", "warn"}) {
		t.Errorf("of two policies: %+v", r)
	}
	record := annotated(v1alpha1.AnnotationProtected, "StatefulSet.apps/db")
	if r := explain.Explain(web(guarded, record)).Removal; r.Protected != "it was created as a pod of StatefulSet db" || r.ForceDelete.Decision != "Deny" {
		t.Errorf("%+v", r)
	}
	if r := explain.Explain(web(guarded, record, manifest)).Removal; r.Protected != "" {
		t.Errorf("a manifest's own: %+v", r)
	}
	if r := explain.Explain(web(guarded, stateful, manifest)).Removal; r.ForceDelete != nil || r.None == "" || r.Protected == "" {
		t.Errorf("a manifest can't be removed: %+v", r)
	}
}

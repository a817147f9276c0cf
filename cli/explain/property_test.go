package explain_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/policy"
)

func chance(t *rapid.T, what string) bool { return rapid.Bool().Draw(t, what) }

func pick[T any](t *rapid.T, what string, from ...T) T { return rapid.SampledFrom(from).Draw(t, what) }

// name is one that is usual, or anything.
func name(t *rapid.T, what string) string {
	if chance(t, what+" is odd") {
		return rapid.String().Draw(t, what)
	}
	return pick(t, what, "a", "b", "web", "")
}

func seconds(t *rapid.T, what string) *int64 {
	if chance(t, what+" is absent") {
		return nil
	}
	return new(pick(t, what, -1, 0, 1, 2, 20, 30, 45, 600, int64(1)<<62))
}

func quantities(t *rapid.T, what string) corev1.ResourceList {
	list := corev1.ResourceList{}
	for _, r := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		if chance(t, what+" "+string(r)) {
			list[r] = *resource.NewQuantity(rapid.Int64().Draw(t, "amount"), resource.BinarySI)
		}
	}
	return list
}

func drawContainer(t *rapid.T) corev1.Container {
	c := corev1.Container{Name: name(t, "container"), Resources: corev1.ResourceRequirements{Requests: quantities(t, "request"), Limits: quantities(t, "limit")}}
	if chance(t, "hook") {
		c.Lifecycle = pick(t, "preStop", sleeps(rapid.Int64().Draw(t, "sleep")), sleeps(20), calls, hook(corev1.LifecycleHandler{}), &corev1.Lifecycle{},
			hook(corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{name(t, "command"), "20"}}}),
			hook(corev1.LifecycleHandler{TCPSocket: &corev1.TCPSocketAction{}}))
	}
	if chance(t, "probe") {
		c.LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: seconds(t, "probe's")}
	}
	return c
}

func drawPod(t *rapid.T) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pick(t, "namespace", "shop", "kube-system", rapid.String().Draw(t, "odd namespace")), Name: name(t, "pod"),
			UID: types.UID(name(t, "uid")), Labels: map[string]string{"app": name(t, "label")}, Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			NodeName: pick(t, "node", "", "n1", rapid.String().Draw(t, "odd node")), TerminationGracePeriodSeconds: seconds(t, "grace"),
			PriorityClassName: pick(t, "class", "", "high", "low", rapid.String().Draw(t, "odd class")),
		},
		Status: corev1.PodStatus{Phase: pick(t, "phase", "", corev1.PodRunning, corev1.PodFailed)},
	}
	for range rapid.IntRange(0, 5).Draw(t, "containers") {
		p.Spec.Containers = append(p.Spec.Containers, drawContainer(t))
	}
	for range rapid.IntRange(0, 2).Draw(t, "init containers") {
		c := drawContainer(t)
		if chance(t, "sidecar") {
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
		}
		p.Spec.InitContainers = append(p.Spec.InitContainers, c)
	}
	for _, key := range []string{v1alpha1.AnnotationEnforcement, v1alpha1.AnnotationSkip, corev1.MirrorPodAnnotationKey} {
		if chance(t, key) {
			p.Annotations[key] = pick(t, "annotation", `{"cpu":{"weight":200},"memory":{"protection":"Low"}}`, "priority, gracePeriod,topologySpread", rapid.String().Draw(t, "odd annotation"))
		}
	}
	if chance(t, "owner") {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: pick(t, "kind", "ReplicaSet", "StatefulSet", "DaemonSet", "Node", rapid.String().Draw(t, "odd kind")), Name: name(t, "owner"), Controller: new(true)}}
	}
	if chance(t, "priority") {
		p.Spec.Priority = new(pick(t, "value", -1, 0, 100, int32(2000000000)))
	}
	if chance(t, "spread") {
		constrained(name(t, "app"))(&explain.Input{Pod: p})
	}
	if chance(t, "deleting") {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: now}, seconds(t, "deletion")
	}
	return p
}

func drawPolicies(t *rapid.T) (list policy.Policies) {
	for i := range rapid.IntRange(0, 4).Draw(t, "policies") {
		p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d", i)}, Spec: v1alpha1.PodPolicySpec{Weight: rapid.Int32Range(0, 2).Draw(t, "weight")}}
		s := &p.Spec
		s.Match = pick(t, "match", nil, nil, &v1alpha1.PodMatch{}, &v1alpha1.PodMatch{OwnerKinds: []v1alpha1.OwnerKind{"ReplicaSet"}},
			&v1alpha1.PodMatch{NamespaceSelector: labelled("team", pick(t, "team", "web", "db"))}, &v1alpha1.PodMatch{PodSelector: labelled("app", "web")},
			&v1alpha1.PodMatch{MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "c", Expression: pick(t, "expression", "true", "false", "object.metadata.labels['no'] == ''")}}})
		if chance(t, "allowSkip") {
			s.AllowSkip = []v1alpha1.Section{"priority", "topologySpread", "gracePeriod"}
		}
		if chance(t, "priority section") {
			s.Priority = &v1alpha1.PrioritySection{ClassName: pick(t, "gives", "", "high", "low", "gone"), AllowedClassNames: pick(t, "allows", nil, []string{"high"}, []string{"high", "low"}, []string{"gone"})}
		}
		if chance(t, "spread section") {
			spreads(s)
		}
		if chance(t, "grace section") {
			s.GracePeriod = &v1alpha1.GracePeriodSection{}
			for _, field := range []**int64{&s.GracePeriod.DefaultSeconds, &s.GracePeriod.MinSeconds, &s.GracePeriod.MaxSeconds} {
				*field = pick(t, "seconds", nil, new(int64(1)), new(int64(30)), new(int64(45)), new(int64(600)))
			}
		}
		if chance(t, "node section") {
			s.Node = &v1alpha1.Enforcement{CPU: &v1alpha1.WeightEnforcement{Weight: pick[int32](t, "cpu weight", 200, 300)}}
		}
		if chance(t, "removal section") {
			s.Removal = &v1alpha1.RemovalSection{ForceDelete: pick(t, "force", "", v1alpha1.RemovalAllow, v1alpha1.RemovalWarn), Protect: pick(t, "protect", "", v1alpha1.ProtectAll),
				Owners: pick(t, "owners", nil, []v1alpha1.ProtectedOwner{{Group: "batch", Kind: "Job"}, {Group: "apps", Kind: "ReplicaSet"}}), BlockClaims: pick(t, "block claims", "", v1alpha1.BlockClaimsExclusive),
				ZeroGrace: pick(t, "zeroGrace", "", v1alpha1.ZeroGraceDeny, v1alpha1.ZeroGraceWarn), EvictionWithoutGrace: pick(t, "eviction", "", v1alpha1.GraceRaise)}
		}
		compiled, err := policy.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, compiled)
	}
	return policy.Sort(list)
}

func drawInput(t *rapid.T) explain.Input {
	in := explain.Input{
		Now: now, Pod: drawPod(t), Created: chance(t, "created"), Policies: drawPolicies(t), PoliciesUnknown: rapid.IntRange(0, 9).Draw(t, "policies unknown") == 9,
		SelectorsUnknown: chance(t, "selectors unknown"), Facts: defaulting.Facts{PriorityClasses: map[string]*schedulingv1.PriorityClass{}},
	}
	in.User.Username = name(t, "user")
	in.Namespace = policy.Namespace{Name: in.Pod.Namespace, Labels: map[string]string{"team": "web"}, Unknown: rapid.IntRange(0, 4).Draw(t, "namespace unknown") == 4}
	class("high", 100, chance(t, "globalDefault"))(&in)
	class("low", 1, false)(&in)
	if chance(t, "service") {
		served(&in)
	}
	if chance(t, "node is known") {
		in.Node = &corev1.Node{Status: corev1.NodeStatus{Capacity: quantities(t, "capacity")}}
	}
	in.Version, in.Driver = pick(t, "version", 0, cgroupfile.V1, cgroupfile.V2), pick(t, "driver", "", plan.Cgroupfs, plan.Systemd)
	if chance(t, "neighbours are known") {
		in.Neighbours = []*corev1.Pod{neighbour("low", -1), in.Pod, neighbour("odd", 100)}
		in.Usage = map[types.UID]int64{in.Pod.UID: rapid.Int64().Draw(t, "usage"), "low": 1}
	}
	if chance(t, "NodePolicy") {
		in.NodePolicy = &v1alpha1.NodePolicySpec{Mode: pick(t, "mode", "", v1alpha1.NodeModeTune), Eviction: pick(t, "eviction", nil, &v1alpha1.NodeEviction{})}
	}
	if !in.Created && chance(t, "reviewed") {
		review(&in)
	}
	return in
}

// Whatever the pod, there is an answer, the same each time, without a character that steers a terminal, and the input is not changed.
func TestAnyInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		before := in.Pod.DeepCopy()
		width := pick(t, "width", 0, 40, 100)
		printed := func() string {
			var out bytes.Buffer
			e := explain.Explain(in)
			if err := explain.Text(&out, e, explain.Style{Width: width}); err != nil {
				t.Fatal(err)
			}
			if err := explain.JSON(&out, e); err != nil {
				t.Fatal(err)
			}
			return out.String()
		}
		first := printed()
		text, _, _ := strings.Cut(first, "\n{\n")
		for _, r := range text {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("character %U in %q", r, text)
			}
		}
		if !utf8.ValidString(text) {
			t.Fatalf("no UTF-8: %q", text)
		}
		if diff := cmp.Diff(first, printed()); diff != "" {
			t.Fatalf("not the same twice:\n%s", diff)
		}
		if diff := cmp.Diff(before, in.Pod); diff != "" {
			t.Fatalf("the pod was changed:\n%s", diff)
		}
		explain.Needs(in)
	})
}

// What is said of policies is what package defaulting does.
func TestAgreesWithDefaulting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		in.Created, in.PoliciesUnknown, in.SelectorsUnknown, in.Pod.Spec.NodeName = false, false, false, ""
		delete(in.Pod.Annotations, v1alpha1.AnnotationSkip)
		review(&in)
		e := explain.Explain(in)
		request := policy.Request{Pod: in.Pod, Namespace: in.Namespace}
		effective := defaulting.For(in.Policies, request, policy.Exempt{})
		var matching []string
		for _, p := range e.Policies {
			if p.Matches != explain.MatchNo {
				matching = append(matching, p.Name)
			} else if p.Why == "" || p.Why == "not known" {
				t.Errorf("why %s does not match is not said", p.Name)
			}
		}
		if !slices.Equal(matching, effective.Policies) {
			t.Errorf("policies %q, want %q", matching, effective.Policies)
		}
		for _, c := range in.Review.Changes {
			for path, s := range map[string]explain.Source{
				"/spec/priorityClassName": e.Priority.Source, "/spec/topologySpreadConstraints": e.Spread.Source,
				"/metadata/annotations": e.Contract.Source, "/metadata/annotations/podgrace.dev~1enforcement": e.Contract.Source,
			} {
				if c.Path == path && c.Operation == defaulting.OperationAdd && !strings.HasPrefix(c.Why, "PodPolicy "+s.Policy) {
					t.Errorf("%s: by %q, want by what says %q", path, s.Policy, c.Why)
				}
			}
		}
		agreeOnClasses(t, in, e)
		agreeOnGrace(t, in, e)
	})
}

// agreeOnClasses: just the classes that are said to be allowed are not refused.
func agreeOnClasses(t *rapid.T, in explain.Input, e *explain.Explanation) {
	said := strings.Join(e.Priority.Limits, "")
	for _, name := range []string{"high", "low", "gone"} {
		pod := in.Pod.DeepCopy()
		pod.Spec.PriorityClassName = name
		request := policy.Request{Pod: pod, Namespace: in.Namespace}
		refused := slices.ContainsFunc(defaulting.For(in.Policies, request, policy.Exempt{}).Validate(request, in.Facts).Denials, func(d defaulting.Denial) bool { return d.Reason.Code == "PriorityClassNotAllowed" })
		allowed := said == "" || slices.Contains(strings.Split(strings.TrimPrefix(strings.Split(said, " (")[0], "allowed are "), ", "), name)
		if refused == allowed {
			t.Errorf("class %s is refused: %v; said: %q", name, refused, said)
		}
	}
}

// agreeOnGrace: a pod at a limit that is named is not refused, one beyond it is.
func agreeOnGrace(t *rapid.T, in explain.Input, e *explain.Explanation) {
	if len(graceperiod.Stoppable(in.Pod)) > 0 { // hooks move the limits
		return
	}
	bad := func(n int64) bool {
		pod := in.Pod.DeepCopy()
		pod.Spec.TerminationGracePeriodSeconds = &n
		request := policy.Request{Pod: pod, Namespace: in.Namespace}
		return slices.ContainsFunc(defaulting.For(in.Policies, request, policy.Exempt{}).Validate(request, in.Facts).Denials, func(d defaulting.Denial) bool {
			return d.Reason.Code == "GracePeriodOutOfBounds" || d.Reason.Code == "ZeroGracePeriod"
		})
	}
	said := strings.Join(e.Grace.Limits, ", ")
	for _, limit := range []struct {
		word   string
		beyond int64
	}{{"at least ", -1}, {"at most ", 1}} {
		_, after, found := strings.Cut(said, limit.word)
		if strings.Contains(said, "wins over") && limit.word == "at most " {
			continue
		}
		var n int64
		if found {
			if _, err := fmt.Sscanf(after, "%d s", &n); err != nil {
				t.Fatal(err)
			}
			if bad(n) || !bad(n+limit.beyond) {
				t.Errorf("%q: %d is refused: %v, %d: %v", said, n, bad(n), n+limit.beyond, bad(n+limit.beyond))
			}
		} else if n = map[string]int64{"at least ": 1, "at most ": 601}[limit.word]; said == "" && bad(n) {
			t.Errorf("nothing is said of limits, and %d is refused", n)
		}
	}
}

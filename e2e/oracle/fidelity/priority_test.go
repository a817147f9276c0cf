package fidelity

import (
	"math"
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/apis/scheduling"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

type priorityCase struct {
	Pod      *corev1.Pod
	Policies []*v1alpha1.PodPolicy
	Classes  map[string]*schedulingv1.PriorityClass
}

func (c *priorityCase) GoString() string { return draw.Show(c.Pod, c.Policies, c.Classes) }

var priorityCases = draw.Of(func(s draw.Source) *priorityCase {
	c := &priorityCase{Pod: drawPod(s), Policies: drawPolicies(s, sections{match: 1, priority: 15, grace: 4, node: 4}), Classes: drawClasses(s)}
	addPriority(s, c.Pod, 2)
	return c
})

// triple is what the in-tree plugin keeps consistent.
type triple struct {
	Class      string
	Priority   *int32
	Preemption *core.PreemptionPolicy
}

func tripleOf(pod *core.Pod) triple {
	return triple{pod.Spec.PriorityClassName, pod.Spec.Priority, pod.Spec.PreemptionPolicy}
}

// TestFidelityPriority: the in-tree Priority plugin runs before Podgrace and again after it. It must accept what Podgrace
// made, and the result must be what it gives a pod that names the class by itself.
func TestFidelityPriority(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	wanted := draw.Shares{"class given": 10, "class given over a globalDefault": 3, "preemptionPolicy removed": 0.5, "left alone": 15, "decision foreseen": 3}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := priorityCases.Draw(t, "case")
		server.setClasses(t, c.Classes)
		first := received(t, c.Pod)
		if err := server.admit(first); err != nil {
			counts.Add("refused before Podgrace")
			return
		}
		policies := compiled(t, c.Policies)
		facts := defaulting.Facts{PriorityClasses: c.Classes, GlobalDefault: defaulting.GlobalDefaultOf(c.Classes)}
		arrived := sent(t, first)
		result := defaulting.For(policies, request(arrived, authenticationv1.UserInfo{}), kubeSystemAlone).Apply(request(arrived, authenticationv1.UserInfo{}), facts)
		if len(result.Denials) > 0 {
			t.Fatalf("denied: %v\n%s", result.Denials, draw.Show(c))
		}
		checkDecision(t, server, c, givesClass(result.Changes), counts)
		second := received(t, patched(t, arrived, result.Changes))
		if err := server.admit(second); err != nil {
			t.Fatalf("the second pass of the Priority plugin refuses the pod: %v\n%s", err, draw.Show(result.Changes))
		}
		if want := wantedTriple(t, server, c.Pod, first, result.Changes, counts); !equality.Semantic.DeepEqual(tripleOf(second), want) {
			t.Fatalf("the triple is not the one of a pod that names the class\n%s", draw.Show(tripleOf(second), want, result.Changes))
		}
		checkPriorityValidated(t, policies, facts, second, givesClass(result.Changes))
	})
}

func givesClass(changes []defaulting.Change) string {
	for _, c := range changes {
		if c.Path == "/spec/priorityClassName" {
			return c.Value.(string)
		}
	}
	return ""
}

// wantedTriple is what the plugin alone says: for the class that Podgrace gave, or, where it gave none, what it said before.
func wantedTriple(t *rapid.T, server *apiServer, pod *corev1.Pod, first *core.Pod, changes []defaulting.Change, counts *draw.Tally) triple {
	class := givesClass(changes)
	if class == "" {
		counts.Add("left alone")
		return tripleOf(first)
	}
	counts.Add("class given")
	if first.Spec.PriorityClassName != "" {
		counts.Add("class given over a globalDefault")
	}
	if slices.ContainsFunc(changes, func(c defaulting.Change) bool {
		return c.Operation == defaulting.OperationRemove && strings.HasPrefix(c.Path, "/spec/")
	}) {
		counts.Add("preemptionPolicy removed")
	}
	fresh := pod.DeepCopy()
	fresh.Spec.PriorityClassName, fresh.Spec.Priority, fresh.Spec.PreemptionPolicy = class, nil, nil
	internal := received(t, fresh)
	if err := server.admit(internal); err != nil {
		t.Fatalf("the Priority plugin refuses a pod that names %s itself: %v", class, err)
	}
	return tripleOf(internal)
}

// checkDecision asks whether the class should have been given at all, where that is plain: the only policy is for every
// pod, its class exists, and the pod does not decline. The plugin says which class a pod that names none gets.
func checkDecision(t *rapid.T, server *apiServer, c *priorityCase, given string, counts *draw.Tally) {
	if class := c.Classes[given]; class != nil && class.Value > scheduling.HighestUserDefinablePriority {
		t.Fatalf("a class reserved for the system was given: %s", given)
	}
	_, declines := c.Pod.Annotations[v1alpha1.AnnotationSkip]
	if declines || len(c.Policies) != 1 || c.Policies[0].Spec.Match != nil || c.Policies[0].Spec.Priority == nil {
		return
	}
	wanted := c.Classes[c.Policies[0].Spec.Priority.ClassName]
	if wanted == nil || wanted.Value > scheduling.HighestUserDefinablePriority || severalLowest(c.Classes) {
		return
	}
	unnamed := &core.Pod{}
	if err := server.admit(unnamed); err != nil {
		t.Fatalf("the Priority plugin refuses a pod that names no class: %v", err)
	}
	usual, named := unnamed.Spec.PriorityClassName, c.Pod.Spec.PriorityClassName
	expected := ""
	if (named == "" || named == usual) && wanted.Name != usual {
		expected = wanted.Name
	}
	counts.Add("decision foreseen")
	if given != expected {
		t.Fatalf("given %q, want %q: the pod names %q, one that names none gets %q", given, expected, named, usual)
	}
}

// severalLowest reports whether the globalDefault is a matter of chance: the plugin takes the first of those with the lowest
// value, in no order.
func severalLowest(classes map[string]*schedulingv1.PriorityClass) bool {
	values := map[int32]int{}
	lowest := int32(math.MaxInt32)
	for _, class := range classes {
		if class.GlobalDefault {
			values[class.Value]++
			lowest = min(lowest, class.Value)
		}
	}
	return values[lowest] > 1
}

// checkPriorityValidated: Podgrace's own validation and a second call have nothing to add.
func checkPriorityValidated(t *rapid.T, policies policy.Policies, facts defaulting.Facts, internal *core.Pod, given string) {
	final := request(sent(t, internal), authenticationv1.UserInfo{})
	effective := defaulting.For(policies, final, kubeSystemAlone)
	for _, d := range effective.Validate(final, facts).Denials {
		if d.Reason.Code == "PriorityMismatch" || d.Reason.Code == "PreemptionPolicyMismatch" || given != "" && d.Reason.Code == "PriorityClassNotAllowed" {
			t.Fatalf("Podgrace refuses what it made itself: %+v", d)
		}
	}
	if again := effective.Apply(final, facts); len(again.Changes) > 0 {
		t.Fatalf("a second call changes the pod again\n%s", draw.Show(again.Changes))
	}
}

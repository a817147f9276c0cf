package fidelity

import (
	"slices"
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/kubernetes/pkg/apis/core"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/defaulting/topology"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

type validationCase struct {
	Pod        *corev1.Pod
	Kubelet    bool
	Policies   []*v1alpha1.PodPolicy
	Classes    map[string]*schedulingv1.PriorityClass
	Owned      owned
	Nodes      []*corev1.Node
	Neighbours []*corev1.Pod
}

func (c *validationCase) GoString() string {
	return draw.Show(c.Pod, c.Kubelet, c.Policies, c.Classes, c.Owned, c.Nodes, c.Neighbours)
}

var validationCases = draw.Of(func(s draw.Source) *validationCase {
	c := &validationCase{Pod: drawPod(s), Policies: drawPolicies(s, allSections), Classes: drawClasses(s)}
	enrich(s, c.Pod)
	_, mirrored := c.Pod.Annotations[corev1.MirrorPodAnnotationKey]
	c.Kubelet = mirrored && s.Chance(8)
	c.Owned = drawOwned(s, c.Pod)
	if s.Chance(11) {
		c.Nodes = draw.Nodes(s, 5)
		c.Neighbours = drawNeighbours(s, c.Nodes, c.Pod.Labels)
	}
	return c
})

func (c *validationCase) facts() defaulting.Facts {
	facts := defaulting.Facts{PriorityClasses: c.Classes, GlobalDefault: defaulting.GlobalDefaultOf(c.Classes), Nodes: topology.New(c.Nodes...), Claims: claims}
	c.Owned.addFacts(c.Pod, &facts)
	if c.Neighbours != nil {
		facts.Pods = counted(c.Neighbours)
	}
	return facts
}

func (c *validationCase) request(pod *corev1.Pod) policy.Request {
	user := authenticationv1.UserInfo{Username: "alice"}
	if c.Kubelet {
		user = authenticationv1.UserInfo{Username: "system:node:n0", Groups: []string{"system:nodes"}}
	}
	return request(pod, user)
}

// TestFidelityValidation: a pod that the API server accepts is still accepted after Podgrace changed it, a second call changes
// nothing, before the API server merged matchLabelKeys and after, and Podgrace's own validation accepts what it made.
func TestFidelityValidation(t *testing.T) {
	t.Parallel()
	server := newAPIServer(t)
	wanted := draw.Shares{"valid and changed": 25, "changed priority": 4, "changed topologySpread": 5, "changed gracePeriod": 10, "changed node": 10, "denied": 0.5, "keeps 0, warned": 0.03}
	draw.Check(t, wanted, func(t *rapid.T, counts *draw.Tally) {
		c := validationCases.Draw(t, "case")
		server.setClasses(t, c.Classes)
		first := received(t, c.Pod)
		if err := server.admit(first); err != nil {
			counts.Add("refused before Podgrace")
			return
		}
		if errs := judged(prepared(first)); len(errs) > 0 {
			counts.Add("refused before Podgrace")
			return
		}
		policies, facts := compiled(t, c.Policies), c.facts()
		arrived := sent(t, first)
		untouched := arrived.DeepCopy()
		result := defaulting.For(policies, c.request(arrived), kubeSystemAlone).Apply(c.request(arrived), facts)
		if !equality.Semantic.DeepEqual(arrived, untouched) {
			t.Fatalf("Apply changed the pod that it was given\n%s", draw.Show(arrived))
		}
		if len(result.Denials) > 0 {
			counts.Add("denied")
			return
		}
		if len(result.Changes) == 0 {
			counts.Add("valid, nothing to change")
		} else {
			countSections(counts, result.Changes)
		}
		changed := patched(t, arrived, result.Changes)
		if quick := defaulting.Patch(arrived, result.Changes); !equality.Semantic.DeepEqual(quick, changed) {
			t.Fatalf("defaulting.Patch is not the JSON patch\n%s", draw.Show(quick, changed))
		}
		second := received(t, changed)
		if err := server.admit(second); err != nil {
			t.Fatalf("the second pass of the Priority plugin refuses the pod: %v\n%s", err, draw.Show(result.Changes))
		}
		stored := prepared(second)
		if errs := judged(stored); len(errs) > 0 {
			t.Fatalf("the API server accepted the pod before Podgrace, but not after: %v\n%s", errs.ToAggregate(), draw.Show(result.Changes))
		}
		checkSettled(t, c, policies, facts, second, "before the merge")
		checkSettled(t, c, policies, facts, stored, "after the merge")
		checkOwnValidation(t, c, policies, facts, stored)
		if keeps := saysZero(result); keeps != saysZero(defaulting.For(policies, c.request(sent(t, stored)), kubeSystemAlone).Validate(c.request(sent(t, stored)), facts)) {
			t.Fatalf("of a grace period of 0 only one of the two webhooks warns\n%s", draw.Show(c.Policies, sent(t, stored)))
		} else if keeps {
			counts.Add("keeps 0, warned")
		}
	})
}

// saysZero reports whether a grace period of 0 is warned about, which removal.zeroGrace: Warn leaves to a protected pod.
func saysZero(r defaulting.Result) bool {
	return slices.ContainsFunc(r.Warnings, func(w defaulting.Warning) bool {
		return strings.HasPrefix(w.Message, "terminationGracePeriodSeconds is 0, ")
	})
}

func countSections(counts *draw.Tally, changes []defaulting.Change) {
	counts.Add("valid and changed")
	changed := sets.New[string]()
	for _, c := range changes {
		changed.Insert(c.Section)
	}
	for section := range changed {
		counts.Add("changed " + section)
	}
}

// checkSettled: a webhook may be called again, after others changed the pod, or see a stored one.
func checkSettled(t *rapid.T, c *validationCase, policies policy.Policies, facts defaulting.Facts, internal *core.Pod, when string) {
	req := c.request(sent(t, internal))
	if again := defaulting.For(policies, req, kubeSystemAlone).Apply(req, facts); len(again.Changes) > 0 || len(again.Denials) > 0 {
		t.Fatalf("%s a second call decides anew\n%s", when, draw.Show(again, req.Pod))
	}
}

// judgedBySelf are the reasons by which Podgrace refuses what is not as Apply leaves it. The others are about what the
// pod's creator chose: a class that is not allowed, a preStop that can't fit.
var judgedBySelf = sets.New("PriorityMismatch", "PreemptionPolicyMismatch", "GracePeriodOutOfBounds", "EnforcementForged", "ProtectionForged", "ZeroGracePeriod")

func checkOwnValidation(t *rapid.T, c *validationCase, policies policy.Policies, facts defaulting.Facts, internal *core.Pod) {
	req := c.request(sent(t, internal))
	for _, d := range defaulting.For(policies, req, kubeSystemAlone).Validate(req, facts).Denials {
		if judgedBySelf.Has(d.Reason.Code) {
			t.Fatalf("Podgrace refuses what it made itself: %+v\n%s", d, draw.Show(req.Pod))
		}
	}
}

package fencing_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
)

// A policy says before anything is silent whether its nodes can be fenced, and what stands in the way.
func TestReadiness(t *testing.T) {
	t.Parallel()
	const uuid = "4c4c4544-0000-1000-8000-000000000001"
	agent := v1alpha1.FenceAgent{ObjectMeta: metav1.ObjectMeta{Name: "rack", UID: "a"}, Spec: v1alpha1.FenceAgentSpec{
		Type: v1alpha1.AgentRedfish, Identity: v1alpha1.IdentityVerified, Machines: []v1alpha1.FenceMachine{{SystemUUID: uuid, Address: "https://192.0.2.1"}},
	}}
	another := *agent.DeepCopy()
	another.Name, another.UID, another.Spec.Machines = "rack-2", "b", []v1alpha1.FenceMachine{{SystemUUID: "4c4c4544-0000-1000-8000-000000000002", Address: "https://192.0.2.2"}}
	known := fencing.Node{Name: "n1", UID: "1", SystemUUID: uuid, Labels: map[string]string{"pool": "a"}}
	unlisted := fencing.Node{Name: "n2", UID: "2", SystemUUID: "4c4c4544-0000-1000-8000-000000000002", Labels: map[string]string{"pool": "a"}}
	control := fencing.Node{Name: "cp", UID: "3", ControlPlane: true, Labels: map[string]string{"pool": "a"}}
	fence := func(name string, change ...func(*v1alpha1.FencePolicySpec)) v1alpha1.FencePolicy {
		p := v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FencePolicySpec{
			Mode: v1alpha1.FenceModeFence, Agents: []v1alpha1.FencePolicyAgent{{Name: "rack"}}, NodeSelector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"pool": "a"}},
		}}
		for _, c := range change {
			c(&p.Spec)
		}
		return p
	}
	for _, tc := range []struct {
		name     string
		policies []v1alpha1.FencePolicy
		nodes    []fencing.Node
		unlisted bool // FenceAgents can't be listed
		ready    bool
		reason   string
		says     string
	}{
		{"all that it takes", []v1alpha1.FencePolicy{fence("p")}, []fencing.Node{known, control}, false, true, "Ready", "fences of 1 node"},
		{"paused", []v1alpha1.FencePolicy{fence("p", func(s *v1alpha1.FencePolicySpec) { s.Paused = true })}, []fencing.Node{known}, false, true, "Ready", "paused: it begins no fence of 1 node"},
		{"a machine that no agent lists", []v1alpha1.FencePolicy{fence("p")}, []fencing.Node{known, unlisted}, false, false, "NoAgent", "1 of its 2 nodes (n2): FenceAgent rack does not list this machine"},
		{"an agent that is not there", []v1alpha1.FencePolicy{fence("p", func(s *v1alpha1.FencePolicySpec) { s.Agents[0].Name = "gone" })}, []fencing.Node{known}, false, false, "NoAgent", "FenceAgent gone does not exist"},
		{"evidence that the agent never gives", []v1alpha1.FencePolicy{fence("p", func(s *v1alpha1.FencePolicySpec) {
			s.Agents[0].Evidence = []v1alpha1.EvidenceClass{v1alpha1.EvidenceConfirmed}
		})}, []fencing.Node{known}, false, false, "NoAgent", "FenceAgent rack of the type Redfish never gives evidence that the policy accepts from it: say evidence: [PoweredOff]"},
		{"one agent of two", []v1alpha1.FencePolicy{fence("p", func(s *v1alpha1.FencePolicySpec) {
			s.Agents = append(s.Agents, v1alpha1.FencePolicyAgent{Name: "gone"})
		})}, []fencing.Node{known}, false, true, "AgentsMissing", "FenceAgent gone does not exist"},
		{"two agents with machines of their own", []v1alpha1.FencePolicy{fence("p", func(s *v1alpha1.FencePolicySpec) {
			s.Agents = append(s.Agents, v1alpha1.FencePolicyAgent{Name: "rack-2"})
		})}, []fencing.Node{known, unlisted}, false, true, "Ready", "fences of 2 nodes"},
		{"only shows", []v1alpha1.FencePolicy{fence("p", func(s *v1alpha1.FencePolicySpec) { s.Mode, s.Agents = v1alpha1.FenceModeShow, nil })}, []fencing.Node{known}, false, true, "Shows", "conditions only"},
		{"no node", []v1alpha1.FencePolicy{fence("p")}, []fencing.Node{control}, false, false, "NoNodes", "it is the policy of no node: its nodeSelector matches nodes of the control plane alone"},
		{"a selector that matches none", []v1alpha1.FencePolicy{fence("p")}, nil, false, false, "NoNodes", "its nodeSelector matches none"},
		{"one of the same weight has its nodes", []v1alpha1.FencePolicy{fence("p"), fence("a")}, []fencing.Node{known}, false, false, "NoNodes",
			"1 node that its nodeSelector matches is of FencePolicy a, which is heavier, or of the same weight and before it by name"},
		{"a heavier one has its nodes", []v1alpha1.FencePolicy{fence("p"), fence("q", func(s *v1alpha1.FencePolicySpec) { s.Weight = 9 })}, []fencing.Node{known}, false, false, "NoNodes", "is of FencePolicy q, which is heavier"},
		{"budgets that overlap", []v1alpha1.FencePolicy{fence("p", func(s *v1alpha1.FencePolicySpec) { s.Weight = 9 }), fence("q")}, []fencing.Node{known}, false, true, "Ready", "the budgets of q hold for them as well"},
		{"a field that is not read", []v1alpha1.FencePolicy{unread("p", `"f:budget":{"f:maxPerHour":{}}`)}, []fencing.Node{known}, false, false, "FieldsUnread", "spec.budget.maxPerHour: written, and not read"},
		{"a selector that is not read whole", []v1alpha1.FencePolicy{unread("p", `"f:nodeSelector":{"f:names":{}}`)}, []fencing.Node{known}, false, false, "FieldsUnread", "spec.nodeSelector: written"},
		{"unknown", []v1alpha1.FencePolicy{fence("p")}, []fencing.Node{known}, true, false, "Unknown", "can't be listed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			facts := fencing.Facts{Known: fencing.Known{Nodes: true, Agents: !tc.unlisted}, Nodes: tc.nodes, Agents: []v1alpha1.FenceAgent{agent, another}}
			got := fencing.ReadinessOf(fencing.CompilePolicies(tc.policies), facts)["p"]
			if got.Ready != tc.ready || got.Reason != tc.reason || !strings.Contains(got.Message, tc.says) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// unread is a policy of which somebody wrote fields that are not there.
func unread(name, fields string) v1alpha1.FencePolicy {
	p := v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{APIVersion: v1alpha1.GroupVersion.String(), FieldsV1: metav1.NewFieldsV1(`{"f:spec":{` + fields + `}}`)}}
	return p
}

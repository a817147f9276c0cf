package fencing_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
)

// silentWorld has seven nodes, of which n1 has been silent for 90 s.
func silentWorld(change ...func(*v1alpha1.FencePolicySpec)) *world {
	w := newWorld(7, change...)
	w.passAll(2)
	w.machines[1].linked = false
	w.passAll(9)
	return w
}

// passAll lets time pass in which the fencer only watches.
func (w *world) passAll(steps int) {
	for range steps {
		w.pass(step)
		w.facts()
	}
}

func ask(w *world, name string, boot v1alpha1.BootReference) {
	w.fences = append(w.fences, &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.FenceSpec{Node: boot, Reason: v1alpha1.FenceRequested, RequestedBy: "alice"}})
}

// execAt has n1 and n2 powered off by a program that gets these parameters of them, and others that are for all machines.
func execAt(w *world, n1, n2 map[string]string) {
	x := &w.agents[0].Spec
	x.Type, x.Identity, x.Exec = v1alpha1.AgentExec, v1alpha1.IdentityConfigured, &v1alpha1.ExecAgent{Program: "fence_apc", Parameters: map[string]string{"ip": "192.0.2.100", "plug": "0"}}
	x.Machines[1].Address, x.Machines[1].Parameters = "", n1
	x.Machines[2].Address, x.Machines[2].Parameters = "", n2
}

func TestDecide(t *testing.T) {
	t.Parallel()
	asks := func(w *world) { ask(w, "asked", w.machines[1].Boot()) }
	spec := func(w *world) *v1alpha1.FencePolicySpec { return w.policies[0].Spec }
	pod := func(w *world) *fencing.Pod { return &w.machines[1].Pods[0] }
	for _, tt := range []struct {
		name   string
		change func(*world)
		facts  func(*fencing.Facts)
		do     fencing.Do
		reason string
		says   string
	}{
		{"its pod has waited", nil, nil, fencing.DoFence, "Justified", "protected pod shop/db-1 waits for it, and tolerates an unreachable node for 30s"},
		{"a person asks", asks, nil, fencing.DoFence, "Requested", "alice asks for it"},
		{"a person asks for a node that is ready", func(w *world) { w.machines[1].linked = true; w.passAll(1); asks(w) }, nil, fencing.DoFence, "Requested", "its pods run, and end with the power"},
		{"a list is not known", nil, func(f *fencing.Facts) { f.Known.Receipts = false }, fencing.DoWait, "Unknown", "could not be listed"},
		{"its pods are not known", func(w *world) { w.machines[1].PodsKnown = false }, nil, fencing.DoWait, "Unknown", "its pods could not be listed"},
		{"no policy", func(w *world) { w.policies = nil }, nil, fencing.DoShow, "NoPolicy", "no FencePolicy selects the node"},
		{"a policy that only shows", func(w *world) { spec(w).Mode = v1alpha1.FenceModeShow }, nil, fencing.DoShow, "ShowOnly", "kubectl podgrace fence n1"},
		{"a policy that only shows says what would be fenced", func(w *world) { spec(w).Mode = v1alpha1.FenceModeShow }, nil, fencing.DoShow, "ShowOnly", "else it would be fenced within the budget: protected pod "},
		{"a policy that only shows, without agents", func(w *world) { spec(w).Mode, spec(w).Agents = v1alpha1.FenceModeShow, nil }, nil, fencing.DoShow, "ShowOnly", "kubectl podgrace fence n1"},
		{"a policy that only shows, by an agent that is not there", func(w *world) { spec(w).Mode, w.agents = v1alpha1.FenceModeShow, nil }, nil, fencing.DoShow, "NoAgent", "only shown: FencePolicy all has no agent"},
		{"a policy that only shows, of pods that are patient", func(w *world) { spec(w).Mode, pod(w).Tolerates = v1alpha1.FenceModeShow, new(time.Hour) }, nil, fencing.DoShow, "StillPatient", "only shown: "},
		{"a policy that only shows since the Fence was made", func(w *world) {
			spec(w).Mode = v1alpha1.FenceModeShow
			n := w.facts().Nodes[1]
			w.fences = append(w.fences, &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: fencing.FenceName(&n)}, Spec: v1alpha1.FenceSpec{Node: n.Boot(), Reason: v1alpha1.FenceSilent}})
		}, nil, fencing.DoWait, "ShowOnly", "is not fenced yet"},
		{"a policy that only shows, and a person asks", func(w *world) { spec(w).Mode = v1alpha1.FenceModeShow; asks(w) }, nil, fencing.DoFence, "Requested", "alice"},
		{"paused", func(w *world) { spec(w).Paused = true; asks(w) }, nil, fencing.DoWait, "Paused", "FencePolicy all is paused"},
		{"another of which a field is not read", func(w *world) {
			w.policies = fencing.CompilePolicies([]v1alpha1.FencePolicy{{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: *spec(w)}, unread("newer", `"f:budget":{"f:maxPerHour":{}}`)})
			asks(w)
		}, nil, fencing.DoWait, "Paused", "FencePolicy newer counts as paused: written, and not read is spec.budget.maxPerHour"},
		{"one whose selector is not read whole", func(w *world) {
			w.policies = fencing.CompilePolicies([]v1alpha1.FencePolicy{{ObjectMeta: metav1.ObjectMeta{Name: "all"}, Spec: *spec(w)}, unread("newer", `"f:nodeSelector":{"f:names":{}}`)})
		}, nil, fencing.DoWait, "Paused", "FencePolicy newer counts as paused: written, and not read is spec.nodeSelector"},
		{"of the control plane", func(w *world) { w.machines[1].ControlPlane = true }, nil, fencing.DoShow, "ControlPlane", "never fenced"},
		{"of the control plane, and a person asks", func(w *world) { w.machines[1].ControlPlane = true; asks(w) }, nil, fencing.DoRefuse, "ControlPlane", "kubectl podgrace confirm node/n1"},
		{"two nodes claim one machine", func(w *world) { w.machines[2].SystemUUID = "78563412-3412-3412-1234-000000000001" }, nil, fencing.DoShow, "SharedIdentity", "n2 says that it is the same machine"},
		{"two nodes have one boot", func(w *world) { w.machines[2].BootID = w.machines[1].BootID; w.machines[2].power = false }, nil, fencing.DoShow, "SharedIdentity", "n2"},
		{"the wrong UID", func(w *world) { b := w.machines[1].Boot(); b.UID = "other"; ask(w, "asked", b) }, nil, fencing.DoRefuse, "WrongTarget", "UID other, and Node n1 has node-1"},
		{"the boot before, of the fencer's own Fence", func(w *world) {
			b := w.machines[1].Boot()
			b.BootID = "before"
			w.fences = append(w.fences, &v1alpha1.Fence{ObjectMeta: metav1.ObjectMeta{Name: "n1-before"}, Spec: v1alpha1.FenceSpec{Node: b, Reason: v1alpha1.FenceSilent}})
		}, nil, fencing.DoRefuse, "Returned", "it is back by another boot"},
		{"the boot before", func(w *world) { b := w.machines[1].Boot(); b.BootID = "before"; ask(w, "asked", b) }, nil, fencing.DoRefuse, "WrongTarget", "the boot before, and Node n1 runs the boot boot-1-0"},
		{"no such node", func(w *world) {
			w.machines[1].there, w.gone["n1"] = false, true
			ask(w, "asked", w.machines[1].Boot())
		}, nil, fencing.DoRefuse, "NoSuchNode", "there is no Node n1"},
		{"a node that is not read", func(w *world) { w.machines[1].there = false; ask(w, "asked", w.machines[1].Boot()) }, nil, fencing.DoWait, "Unknown", "could not be read"},
		{"only cached", func(w *world) { asks(w); w.cached = true }, nil, fencing.DoWait, "Unknown", "could not be read"},
		{"the fencer's own node", nil, func(f *fencing.Facts) { f.Self.Node = "n1" }, fencing.DoWait, "OwnNode", "the fencer runs on this node"},
		{"the fencer writes nothing", nil, func(f *fencing.Facts) { f.Self.Wrote -= time.Minute }, fencing.DoWait, "FencerCutOff", "has written nothing"},
		{"the fencer has never written", nil, func(f *fencing.Facts) { f.Self.HasWritten = false }, fencing.DoWait, "FencerCutOff", "has written nothing"},
		{"half are silent", func(w *world) {
			for _, m := range w.machines[3:6] {
				m.linked = false
			}
			w.passAll(5)
		}, nil, fencing.DoWait, "FencerCutOff", "does not hear of more than half"},
		{"a zone is disrupted", func(w *world) {
			w.machines[3].linked, w.machines[5].linked = false, false
			w.passAll(5)
		}, nil, fencing.DoWait, "ZoneDisrupted", "most nodes of zone 1"},
		{"maintenance", func(w *world) { w.machines[1].Maintenance = "its condition DrainInProgress is True" }, nil, fencing.DoWait, "Maintenance", "DrainInProgress"},
		{"maintenance, and a person asks", func(w *world) { w.machines[1].Maintenance = "x"; asks(w) }, nil, fencing.DoFence, "Requested", "alice"},
		{"the Node is being deleted", func(w *world) { w.machines[1].Deleting = true }, nil, fencing.DoWait, "Maintenance", "being deleted"},
		{"still Ready", func(w *world) { w.machines[1].Ready = true }, nil, fencing.DoWait, "StillReady", "check kube-controller-manager"},
		{"nothing protected", func(w *world) { pod(w).Protected = false }, nil, fencing.DoShow, "NothingAtStake", "no protected pod waits for it"},
		{"only a finished pod", func(w *world) { pod(w).Finished = true }, nil, fencing.DoShow, "NothingAtStake", ""},
		{"a priority that is too low", func(w *world) { spec(w).JustifiedBy = &v1alpha1.FenceJustification{MinPriority: new(int32(5))} }, nil, fencing.DoShow, "NothingAtStake", ""},
		{"a patient pod", func(w *world) { pod(w).Tolerates = new(5 * time.Minute) }, nil, fencing.DoWait, "StillPatient", "tolerates an unreachable node for 5m0s"},
		{"a pod that waits for ever", func(w *world) { pod(w).Tolerates = nil }, nil, fencing.DoShow, "NothingAtStake", ""},
		{"a pod that waits for ever, by the policy's patience", func(w *world) {
			pod(w).Tolerates = nil
			spec(w).JustifiedBy = &v1alpha1.FenceJustification{Patience: &metav1.Duration{Duration: time.Minute}}
		}, nil, fencing.DoFence, "Justified", "for at most 1m0s"},
		{"a patient pod that is being deleted", func(w *world) { pod(w).Tolerates, pod(w).Deleting = nil, true }, nil, fencing.DoFence, "Justified", "is being deleted, and waits for it"},
		{"a patient pod with a broken budget", func(w *world) {
			pod(w).Tolerates, pod(w).BrokenBudget = nil, true
			spec(w).JustifiedBy = &v1alpha1.FenceJustification{BrokenBudget: true}
		}, nil, fencing.DoFence, "Justified", "PodDisruptionBudget"},
		{"no such agent", func(w *world) { w.agents = nil }, nil, fencing.DoWait, "NoAgent", "FenceAgent bmc does not exist"},
		{"a machine that no agent lists", func(w *world) { w.agents[0].Spec.Machines = w.agents[0].Spec.Machines[2:] }, nil, fencing.DoWait, "NoAgent", "does not list this machine"},
		{"a machine that is listed twice", func(w *world) { w.agents[0].Spec.Machines[2].SystemUUID = w.machines[1].uuid }, nil, fencing.DoWait, "NoAgent", "lists this machine twice"},
		{"two machines at one address", func(w *world) { w.agents[0].Spec.Machines[2].Address = w.agents[0].Spec.Machines[1].Address }, nil, fencing.DoWait, "NoAgent", "another machine at the same address"},
		{"two machines at one address, written in two ways", func(w *world) { w.agents[0].Spec.Machines[2].Address = "https://192.0.2.1:443/" }, nil, fencing.DoWait, "NoAgent", "another machine at the same address"},
		{"two machines at one address, of which one is said to be the only one", func(w *world) {
			w.agents[0].Spec.Machines[2].Address, w.agents[0].Spec.Machines[2].System = w.agents[0].Spec.Machines[1].Address, "/redfish/v1/Systems/1"
		}, nil, fencing.DoWait, "NoAgent", "another machine at the same address"},
		{"two systems of one BMC", func(w *world) {
			m := w.agents[0].Spec.Machines
			m[2].Address, m[1].System, m[2].System = m[1].Address, "/redfish/v1/Systems/1", "/redfish/v1/Systems/2"
		}, nil, fencing.DoFence, "Justified", ""},
		{"two plugs of a program", func(w *world) { execAt(w, map[string]string{"plug": "1"}, map[string]string{"plug": "2"}) }, nil, fencing.DoFence, "Justified", ""},
		{"a program that is not told which machine", func(w *world) { execAt(w, nil, nil) }, nil, fencing.DoWait, "NoAgent", "another machine at the same address (none)"},
		{"a program that is told the same of both in two ways", func(w *world) { execAt(w, map[string]string{"plug": "0"}, nil) }, nil, fencing.DoWait, "NoAgent", "another machine at the same address"},
		{"a percentage of less than one node", func(w *world) {
			spec(w).Budget.MaxUnhealthy, spec(w).Budget.MaxUnhealthyInZone = intstr.FromString("10%"), intstr.FromString("10%")
		}, nil, fencing.DoFence, "Justified", ""},
		{"a percentage that is rounded down", func(w *world) {
			spec(w).Budget.MaxUnhealthy = intstr.FromString("28%") // 1.96 of 7
			w.machines[2].Ready = false
		}, nil, fencing.DoWait, "TooManyUnhealthy", "FencePolicy all allows 1"},
		{"the only node of its zone", func(w *world) { w.machines[1].Zone = "alone" }, nil, fencing.DoFence, "Justified", ""},
		{"too many are unhealthy", func(w *world) {
			spec(w).Budget.MaxUnhealthy = intstr.FromInt32(1)
			w.machines[2].power = false
			w.passAll(6)
		}, nil, fencing.DoWait, "TooManyUnhealthy", "2 of 7 nodes would be unhealthy, and FencePolicy all allows 1"},
		{"too many of the zone are unhealthy", func(w *world) { spec(w).Budget.MaxUnhealthyInZone = intstr.FromInt32(1); w.machines[3].Ready = false }, nil, fencing.DoWait, "TooManyUnhealthy", "of its zone"},
		{"a storm a short time ago", nil, func(f *fencing.Facts) { f.Storms = map[string]time.Duration{"all": f.Now.Led - time.Second} }, fencing.DoWait, "CoolingDown", "waits 1m0s after that"},
		{"another one is being fenced", func(w *world) {
			ask(w, "other", w.machines[2].Boot())
			w.fences[0].Status.Phase = v1alpha1.FenceActing
		}, nil, fencing.DoWait, "TooManyFences", "it waits for Fence other"},
		{"another Fence for this boot", func(w *world) {
			ask(w, "asked", w.machines[1].Boot())
			ask(w, "other", w.machines[1].Boot())
			w.fences[1].Status.Phase = v1alpha1.FenceReleased
		}, nil, fencing.DoWait, "AnotherFence", "Fence other is for the same boot"},
	} {
		w := silentWorld(func(s *v1alpha1.FencePolicySpec) {
			s.Budget.MaxUnhealthy = intstr.FromInt32(6)
			s.Budget.MaxUnhealthyInZone = intstr.FromInt32(6)
		})
		if tt.change != nil {
			tt.change(w)
		}
		f := w.facts()
		if tt.facts != nil {
			tt.facts(&f)
		}
		var got *fencing.Verdict
		for _, v := range fencing.Decide(w.policies, f) {
			if v.Node.Name == "n1" && got == nil {
				got = &v
			}
		}
		switch {
		case got == nil:
			t.Errorf("%s: no verdict", tt.name)
		case got.Do != tt.do || got.Reason.Code != tt.reason || !strings.Contains(got.Message, tt.says):
			t.Errorf("%s: %s %s: %q", tt.name, got.Do, got.Reason, got.Message)
		case (got.Target != nil) != (got.Do == fencing.DoFence) || strings.Contains(got.Message, "NAME") || !strings.HasPrefix(got.Message, "node n1 "):
			t.Errorf("%s: %+v", tt.name, got)
		case tt.reason == "TooManyFences" && strings.Contains(got.Message, "confirm node/n1"):
			t.Errorf("%s: it is other nodes that may be known to be off: %q", tt.name, got.Message)
		}
	}
}

// TestHalfAreSilent: the fencer fences nothing while it hears of exactly half of the nodes.
func TestHalfAreSilent(t *testing.T) {
	t.Parallel()
	for silent, want := range map[int]bool{3: false, 4: true} {
		w := newWorld(8, func(s *v1alpha1.FencePolicySpec) {
			s.Budget.MaxUnhealthy, s.Budget.MaxUnhealthyInZone = intstr.FromInt32(8), intstr.FromInt32(8)
		})
		for i, m := range w.machines {
			m.Zone = strings.Repeat("z", i+1) // each in its own, so that no zone is in disruption
		}
		w.passAll(2)
		for _, m := range w.machines[1 : silent+1] {
			m.linked = false
		}
		w.passAll(9)
		for _, v := range fencing.Decide(w.policies, w.facts()) {
			if got := v.Reason.Code == "FencerCutOff"; got != want {
				t.Errorf("%d of 8 are silent: %s %s: %s", silent, v.Node.Name, v.Reason.Code, v.Message)
			}
		}
	}
}

// TestSilentForLongEnough: a node that is not silent for as long as its policy says has no verdict, and neither has one for a new fencer, or one that was paused.
func TestSilentForLongEnough(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world){
		"it renews again":  func(w *world) { w.machines[1].linked = true; w.passAll(1) },
		"a new fencer":     func(w *world) { w.newLeader(); w.passAll(5) },
		"a paused fencer":  func(w *world) { w.pass(time.Hour) },
		"watches were cut": func(w *world) { w.silence.Restart(w.moment().Led); w.passAll(5) },
		"silentFor is 2m":  func(w *world) { w.policies[0].Spec.SilentFor.Duration = 2 * time.Minute },
		"its Lease lasts":  func(w *world) { w.machines[1].Lease = 200 * time.Second },
	} {
		w := silentWorld()
		change(w)
		if got := fencing.Decide(w.policies, w.facts()); len(got) > 0 {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestLongLeases: a node whose Lease lasts longer renews it less often, and is not silent between two renewals.
func TestLongLeases(t *testing.T) {
	t.Parallel()
	for lease, want := range map[time.Duration]fencing.Do{0: fencing.DoWait, 200 * time.Second: fencing.DoFence} {
		w := newWorld(7)
		w.passAll(2)
		for _, m := range w.machines[2:] {
			m.linked, m.Lease = false, lease
		}
		w.machines[1].linked = false
		w.passAll(9)
		facts := w.facts()
		for i := range facts.Nodes[2:] {
			facts.Nodes[2+i].Ready = true // the node lifecycle controller's grace period is longer than their Leases last
		}
		for _, v := range fencing.Decide(w.policies, facts) {
			if v.Node.Name == w.machines[1].Name && v.Do != want {
				t.Errorf("Leases of %s: %+v", lease, v)
			}
			if v.Node.Name != w.machines[1].Name && lease > 0 {
				t.Errorf("a node with a Lease of %s is judged: %+v", lease, v)
			}
		}
	}
}

// TestOrder: of several, those that a person asks for come first, then those with the most important pods.
func TestOrder(t *testing.T) {
	t.Parallel()
	w := silentWorld(func(s *v1alpha1.FencePolicySpec) { s.Budget.MaxUnhealthy = intstr.FromInt32(6) })
	w.machines[2].linked = false
	w.passAll(8)
	first := func() (name string) {
		fences := 0
		for _, v := range fencing.Decide(w.policies, w.facts()) {
			if v.Do == fencing.DoFence {
				name = v.Node.Name
				fences++
			} else if v.Reason.Code != "TooManyFences" || !strings.Contains(v.Message, "it waits for node "+name) {
				t.Errorf("%+v", v)
			}
		}
		if fences != 1 {
			t.Errorf("%d are fenced with a budget of 1", fences)
		}
		return name
	}
	if got := first(); got != "n1" {
		t.Errorf("the one that has been silent for longest is first, not %s", got)
	}
	w.machines[2].Pods[0].Priority = 1000
	if got := first(); got != "n2" {
		t.Errorf("the one with the most important pod is first, not %s", got)
	}
	ask(w, "asked", w.machines[1].Boot())
	if got := first(); got != "n1" {
		t.Errorf("the one that a person asks for is first, not %s", got)
	}
}

// TestStorms: a policy cools down after more nodes were unhealthy than it allows, and forgets it then.
func TestStorms(t *testing.T) {
	t.Parallel()
	w := silentWorld(func(s *v1alpha1.FencePolicySpec) { s.Budget.MaxUnhealthy = intstr.FromInt32(1) })
	f := w.facts()
	if got := fencing.Storms(w.policies, f); len(got) != 0 {
		t.Errorf("one node: %v", got)
	}
	w.machines[2].Ready = false
	f = w.facts()
	f.Storms = fencing.Storms(w.policies, f)
	if at, ok := f.Storms["all"]; !ok || at != f.Now.Led {
		t.Errorf("two nodes: %v", f.Storms)
	}
	f.Nodes[2].Ready = true
	for after, storm := range map[time.Duration]bool{time.Second: true, 59 * time.Second: true, time.Minute: false} {
		later := f
		later.Now.Led += after
		if got := fencing.Storms(w.policies, later); (len(got) > 0) != storm {
			t.Errorf("after %s: %v", after, got)
		}
	}
}

// TestReasons: each has words, and what is not done says what to do.
func TestReasons(t *testing.T) {
	t.Parallel()
	codes := map[string]bool{}
	for _, r := range fencing.Reasons() {
		if codes[r.Code] || r.Code == "" || r.Short == "" || strings.HasSuffix(r.Short, ".") {
			t.Errorf("%+v", r)
		}
		codes[r.Code] = true
	}
}

// TestOverlappingBudgets: whichever policy is a node's own, the strictest budget and any pause of those that select it hold, and a policy that can't be read holds for all.
func TestOverlappingBudgets(t *testing.T) {
	t.Parallel()
	own := v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: "rack"}, Spec: v1alpha1.FencePolicySpec{
		Mode: v1alpha1.FenceModeFence, Weight: 10, SilentFor: metav1.Duration{Duration: time.Minute}, NodeSelector: &v1alpha1.LabelSelector{MatchLabels: map[string]v1alpha1.LabelValue{"rack": "a"}},
		Budget: v1alpha1.FenceBudget{MaxConcurrent: 3, MaxUnhealthy: intstr.FromInt32(6), MaxUnhealthyInZone: intstr.FromInt32(6)}, Agents: []v1alpha1.FencePolicyAgent{{Name: "bmc"}},
	}}
	other := own
	other.Name, other.Spec.Weight, other.Spec.Mode = "cluster", 0, v1alpha1.FenceModeShow
	for name, tt := range map[string]struct {
		other  func(*v1alpha1.FencePolicySpec)
		fenced int
		why    string // of those that are not
	}{
		"no other one":  {nil, 2, ""},
		"fewer at once": {func(s *v1alpha1.FencePolicySpec) { s.NodeSelector, s.Budget.MaxConcurrent = nil, 1 }, 1, "FencePolicy cluster has at most 1 fenced at once"},
		"of other nodes": {func(s *v1alpha1.FencePolicySpec) {
			s.NodeSelector.MatchLabels = map[string]v1alpha1.LabelValue{"rack": "b"}
			s.Budget.MaxConcurrent = 1
		}, 2, ""},
		"fewer unhealthy": {func(s *v1alpha1.FencePolicySpec) { s.Budget.MaxUnhealthy = intstr.FromInt32(1) }, 0, "FencePolicy cluster allows 1"},
		"paused":          {func(s *v1alpha1.FencePolicySpec) { s.Paused = true }, 0, "FencePolicy cluster is paused"},
		"none can be read": {func(s *v1alpha1.FencePolicySpec) {
			s.NodeSelector = &v1alpha1.LabelSelector{MatchExpressions: []v1alpha1.LabelSelectorRequirement{{Key: "rack", Operator: "Near"}}}
			s.Budget.MaxConcurrent = 1
		}, 1, "FencePolicy cluster has at most 1 fenced at once"},
	} {
		w := newWorld(7)
		for _, m := range w.machines {
			m.Labels = map[string]string{"rack": "a"}
		}
		policies := []v1alpha1.FencePolicy{own}
		if tt.other != nil {
			p := *other.DeepCopy()
			tt.other(&p.Spec)
			policies = append(policies, p)
		}
		w.policies = fencing.CompilePolicies(policies)
		w.passAll(2)
		w.machines[1].linked, w.machines[2].linked = false, false
		w.passAll(9)
		fenced := 0
		for _, v := range fencing.Decide(w.policies, w.facts()) {
			switch {
			case v.Policy != "rack":
				t.Errorf("%s: node %s is of FencePolicy %q", name, v.Node.Name, v.Policy)
			case v.Do == fencing.DoFence:
				fenced++
			case !strings.Contains(v.Message, tt.why):
				t.Errorf("%s: %s", name, v.Message)
			}
		}
		if fenced != tt.fenced {
			t.Errorf("%s: %d are fenced", name, fenced)
		}
	}
}

// TestForesee: what is foreseen of a Fence that a person asks for is what the fencer says of it, from what it has seen itself.
func TestForesee(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*world){
		"as it should be":     func(*world) {},
		"the node is ready":   func(w *world) { w.machines[1].linked = true; w.passAll(2) },
		"paused":              func(w *world) { w.policies[0].Spec.Paused = true },
		"no policy":           func(w *world) { w.policies = nil },
		"no agent":            func(w *world) { w.agents = nil },
		"the control plane's": func(w *world) { w.machines[1].ControlPlane = true },
		"one machine of two":  func(w *world) { w.machines[2].SystemUUID = w.machines[1].uuid },
		"another one":         func(w *world) { ask(w, "other", w.machines[2].Boot()); w.fences[0].Status.Phase = v1alpha1.FenceActing },
		"most are silent": func(w *world) {
			for _, m := range w.machines[2:6] {
				m.linked = false
			}
			w.passAll(6)
		},
		"a zone is disrupted": func(w *world) { w.machines[3].linked, w.machines[5].linked = false, false; w.passAll(6) },
		"too many": func(w *world) {
			w.policies[0].Spec.Budget.MaxUnhealthy = intstr.FromInt32(1)
			w.machines[2].linked = false
			w.passAll(6)
		},
	} {
		w := silentWorld(func(s *v1alpha1.FencePolicySpec) { s.Budget.MaxUnhealthy = intstr.FromInt32(6) })
		change(w)
		facts := w.facts()
		foreseen := facts
		foreseen.Nodes = slices.Clone(facts.Nodes)
		for i := range foreseen.Nodes {
			n := &foreseen.Nodes[i]
			n.Live, n.Silent, n.Heard, n.Pods, n.PodsKnown = false, 0, false, nil, false
		}
		ask(w, "asked", w.machines[1].Boot())
		asked := w.fences[len(w.fences)-1]
		got := fencing.Foresee(asked, w.policies, foreseen)
		facts.Fences = append(facts.Fences, *asked)
		i := slices.IndexFunc(fencing.Decide(w.policies, facts), func(v fencing.Verdict) bool { return v.Fence == "asked" })
		want := fencing.Decide(w.policies, facts)[i]
		if got.Do != want.Do || got.Reason != want.Reason || got.Message != want.Message {
			t.Errorf("%s: foreseen is %s %q, decided %s %q", name, got.Do, got.Message, want.Do, want.Message)
		}
	}
}

// TestWhatIsDecidedIsStored: a Fence that the API server would refuse is never decided. It would come to nothing, round after round, and the budget would be spent on it.
func TestWhatIsDecidedIsStored(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 300)
	manual := func(w *world) {
		w.agents[0].Spec.Type, w.agents[0].Spec.Machines = v1alpha1.AgentManual, nil
	}
	for name, tt := range map[string]struct {
		change func(*world)
		reason string
	}{
		"a node like others":                            {func(*world) {}, "Justified"},
		"one that waits for a person":                   {manual, "Justified"},
		"a boot ID that is none":                        {func(w *world) { w.machines[1].BootID = long }, "NoIdentity"},
		"a machine that tells nothing":                  {func(w *world) { manual(w); w.machines[1].SystemUUID = "" }, "NoAgent"},
		"a UUID that is none":                           {func(w *world) { manual(w); w.machines[1].SystemUUID = long }, "NoIdentity"},
		"a provider ID that is none":                    {func(w *world) { manual(w); w.machines[1].ProviderID = long }, "NoAgent"},
		"a UUID that is none, known by its provider ID": {func(w *world) { known(w, "p"); w.machines[1].SystemUUID = long }, "NoIdentity"},
		"known by its provider ID":                      {func(w *world) { known(w, "p") }, "Justified"},
	} {
		w := silentWorld()
		tt.change(w)
		m := w.machines[1]
		m.Sign = string(m.UID) + "/" + m.BootID + "//1"
		f := w.facts()
		for i := range f.Nodes {
			f.Nodes[i].Silent = max(f.Nodes[i].Silent, map[bool]time.Duration{true: 2 * time.Minute}[f.Nodes[i].Name == "n1"])
		}
		for _, v := range fencing.Decide(w.policies, f) {
			if v.Reason.Code != tt.reason {
				t.Errorf("%s: %s %s", name, v.Reason.Code, v.Message)
			}
			if x := fencing.NewFence(v, f); x != nil {
				x.Status = fencing.Step(x, &fencing.Verdict{Fence: x.Name, Do: v.Do, Target: v.Target, Message: v.Message}, f, fencing.Progress{}).Status
				if why := refused("Fence", x); why != "" {
					t.Errorf("%s: the API server refuses it: %s", name, why)
				}
			}
		}
	}
}

// known has the list know n1 by its provider ID alone.
func known(w *world, provider string) {
	w.machines[1].ProviderID = provider
	m := &w.agents[0].Spec.Machines[1]
	m.SystemUUID, m.ProviderID = "", provider
}

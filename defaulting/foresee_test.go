package defaulting_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

func TestResolvePriority(t *testing.T) {
	t.Parallel()
	named := func(name string) PodOption { return func(p *podT) { bare(p); p.Spec.PriorityClassName = name } }
	tests := []struct {
		name  string
		pod   *corev1.Pod
		facts defaulting.Facts
		want  *corev1.Pod
		err   string
	}{
		{name: "no class and no globalDefault", pod: Pod(bare), want: Pod()},
		{name: "globalDefault", pod: Pod(bare), facts: facts(classes(basic)), want: Pod(OfClass(basic))},
		{name: "a named class", pod: Pod(named("batch")), facts: facts(classes(basic, batch)), want: Pod(OfClass(batch))},
		{name: "unknown class", pod: Pod(named("gone")), facts: facts(classes(basic)), err: "no PriorityClass with name gone was found"},
		{name: "nil preemptionPolicy leaves the pod's alone", pod: Pod(named("quiet"), func(p *podT) { p.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) }), facts: facts(classes(quiet)), want: Pod(OfClass(Class("quiet", 500, never)))},
		{name: "another value", pod: Pod(named("batch"), func(p *podT) { p.Spec.Priority = new(int32(7)) }), facts: facts(classes(batch)), err: "must not be provided"},
		{name: "another preemptionPolicy", pod: Pod(func(p *podT) { p.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever) }), err: "must not be provided"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := defaulting.ResolvePriority(tt.pod, tt.facts)
			if err != nil || tt.err != "" {
				if err == nil || !Contains(err.Error(), tt.err) || tt.err == "" {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if diff := cmp.Diff([]any{tt.want.Spec.PriorityClassName, tt.want.Spec.Priority, tt.want.Spec.PreemptionPolicy}, []any{tt.pod.Spec.PriorityClassName, tt.pod.Spec.Priority, tt.pod.Spec.PreemptionPolicy}); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestForesee: what the author of a workload is told. All of it is warnings.
func TestForesee(t *testing.T) {
	t.Parallel()
	unknownClass := func(p *podT) { bare(p); p.Spec.PriorityClassName = "gone" }
	tests := []scenario{
		{name: "nothing to say", pod: Pod(bare), policies: One(PodPolicy("p", Gives("high"), DefaultGrace(45))), facts: facts(classes(high))},
		{name: "unknown class", pod: Pod(unknownClass), policies: One(PodPolicy("p", Gives("high"))), facts: facts(classes(high)), warnings: []string{"its pods will be refused: …gone"}},
		{name: "grace too short for preStop", pod: Pod(bare, stopping("a", sleep(28))), policies: One(PodPolicy("p", Margin(10))), warnings: []string{"is now 38, not 30"}},
		{name: "infeasible spread", pod: Pod(bare), policies: One(PodPolicy("p", Spreads(Hard(zone)), OnInfeasible(v1alpha1.InfeasibleDeny))), facts: facts(service("app", "web"), withNode("n1", host, "n1")), warnings: []string{"its pods will be refused: …topology.kubernetes.io/zone can't be met now"}},
		{name: "a class that is not allowed", pod: Pod(func(p *podT) { bare(p); p.Spec.PriorityClassName = "high" }), policies: One(PodPolicy("p", Allows("low"))), facts: facts(classes(high, low)), warnings: []string{`its pods will be refused: PriorityClass "high" is not allowed here: PodPolicy p allows low`}},
		{name: "kube-system", pod: Pod(unknownClass), namespace: policy.Namespace{Name: "kube-system"}, policies: One(PodPolicy("p", Gives("high")))},
		{name: "a 0 that a policy warns about: whoever applies the StatefulSet reads it, not its controller alone", pod: Pod(Grace(0), OfStatefulSet), policies: One(PodPolicy("safe", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceWarn))), warnings: []string{zeroKept}},
		{name: "its own constraints contradict each other", pod: Pod(bare, own(zone, host)), policies: One(PodPolicy("p", DefaultGrace(45))), facts: facts(append(example(), func(f *factsT) { f.Told = false })...), warnings: []string{exampleSays}},
		{name: "a policy's constraints contradict each other", pod: Pod(bare), policies: One(PodPolicy("p", Spreads(Hard(zone), Hard(host)), OnInfeasible(v1alpha1.InfeasibleDeny))), facts: facts(example(service("app", "web"))...), warnings: []string{"its pods will be refused: PodPolicy p: …together they can't…"}},
		{name: "a missing annotation is nothing to foresee", pod: Pod(bare), policies: One(PodPolicy("p", Node(CPUWeight(500))))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			before := tt.pod.DeepCopy()
			tt.compare(t, defaulting.For(Compile(t, tt.policies...), tt.request(), Exempt).Foresee(tt.request(), tt.facts))
			if diff := cmp.Diff(before, tt.pod); diff != "" {
				t.Errorf("Foresee changed its input: %s", diff)
			}
		})
	}
}

package plan_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

func TestParseMemoryManagerState(t *testing.T) {
	const machine = `"machineState":{"0":{"numberOfAssignments":1,"memoryMap":{"memory":{"total":2048,"systemReserved":0,"allocatable":2048,"reserved":64,"free":1984}},"cells":[0]}}`
	static := func(blocks ...plan.MemoryBlock) *plan.MemoryManagerState {
		return &plan.MemoryManagerState{PolicyName: "Static", Entries: map[string]map[string][]plan.MemoryBlock{"u": {"a": blocks}}}
	}
	for name, tc := range map[string]struct {
		text string
		want *plan.MemoryManagerState
		err  string
	}{
		"none":                     {`{"policyName":"None","machineState":{},"checksum":4047876}`, &plan.MemoryManagerState{PolicyName: "None"}, ""},
		"as the kubelet writes it": {`{"policyName":"Static",` + machine + `,"entries":{"u":{"a":[{"numaAffinity":[0],"type":"memory","size":64}]}},"checksum":7}`, static(plan.MemoryBlock{NUMAAffinity: []int{0}}), ""},
		"two nodes":                {`{"policyName":"Static","entries":{"u":{"a":[{"numaAffinity":[0,1],"type":"memory","size":64},{"numaAffinity":null}]}}}`, static(plan.MemoryBlock{NUMAAffinity: []int{0, 1}}, plan.MemoryBlock{}), ""},
		"empty":                    {``, nil, "read memory_manager_state"},
		"another policy":           {`{"policyName":"x"}`, nil, `policy "x" is not known`},
		"whole pods":               {`{"policyName":"Static","podEntries":{"u":[{"numaAffinity":[0]}]}}`, nil, "the memory of 1 whole pods"},
		"a node below none":        {`{"policyName":"Static","entries":{"u":{"a":[{"numaAffinity":[-1]}]}}}`, nil, `container "a" of pod "u" has the nodes [-1]`},
		"a node too far":           {`{"policyName":"Static","entries":{"u":{"a":[{"numaAffinity":[1000000]}]}}}`, nil, "has the nodes"},
		"cut off":                  {`{"policyName":"Static"`, nil, "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := plan.ParseMemoryManagerState([]byte(tc.text))
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Fatalf("error %v, wanted %q", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The kubelet is at the CPUs of containers as often as it was told to be.
func TestHowOftenCPUsAreReconciled(t *testing.T) {
	for every, config := range map[time.Duration]metav1.Duration{10 * time.Second: {}, 3 * time.Second: {Duration: 3 * time.Second}} {
		node := plan.Node{Kubelet: &kubeletconfigv1beta1.KubeletConfiguration{CPUManagerReconcilePeriod: config}, CPUs: &plan.CPUManagerState{PolicyName: "static", DefaultCPUSet: "0-1"}}
		for _, g := range buildOneOn(node, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "u"}}, "containerd://1").Groups {
			if got := g.Files["cpuset.cpus"]; g.Level == plan.LevelContainer && got != (plan.Value{Want: "0-1", Owner: plan.Kubelet, Every: every}) {
				t.Errorf("it is %+v, want every %s", got, every)
			}
		}
	}
}

// Where the kubelet gives memory away and nobody knows to whom, the plan says so; of a policy that was left behind nothing is planned.
func TestMemoryNodesThatAreNotKnown(t *testing.T) {
	static := &kubeletconfigv1beta1.KubeletConfiguration{MemoryManagerPolicy: "Static"}
	for name, tc := range map[string]struct {
		node plan.Node
		said bool
	}{
		"unknown":     {plan.Node{Kubelet: static}, true},
		"known":       {plan.Node{Kubelet: static, Memory: &plan.MemoryManagerState{PolicyName: "Static"}}, false},
		"no policy":   {plan.Node{Kubelet: &kubeletconfigv1beta1.KubeletConfiguration{}}, false},
		"left behind": {plan.Node{Kubelet: static, Memory: &plan.MemoryManagerState{PolicyName: "None", Entries: map[string]map[string][]plan.MemoryBlock{"u": {"app": {{NUMAAffinity: []int{0}}}}}}}, false},
	} {
		tree := buildOneOn(tc.node, &corev1.Pod{}, "containerd://1")
		said := false
		for _, n := range tree.Notes {
			said = said || strings.Contains(n.Message, "no cpuset.mems is planned")
		}
		if said != tc.said {
			t.Errorf("%s: the notes are %v", name, tree.Notes)
		}
		for _, g := range tree.Groups {
			if v, ok := g.Files["cpuset.mems"]; ok {
				t.Errorf("%s: %s has cpuset.mems %q", name, g.Path, v.Want)
			}
		}
	}
}

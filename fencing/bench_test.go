package fencing_test

import (
	"fmt"
	"testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
)

// BenchmarkRound is what a round of the fencer decides in clusters of two sizes, a node of which is silent. What it costs a node is to be the same in both.
func BenchmarkRound(b *testing.B) {
	for _, nodes := range []int{500, 5000} {
		b.Run(fmt.Sprint(nodes, " nodes"), func(b *testing.B) {
			w := newWorld(7)
			w.passAll(2)
			w.machines[1].linked = false
			w.passAll(9)
			facts := w.facts()
			for i := len(facts.Nodes); i < nodes; i++ {
				n := facts.Nodes[2]
				n.Name, n.UID, n.BootID, n.SystemUUID = fmt.Sprintf("n%d", i), "", fmt.Sprintf("boot-%d", i), fmt.Sprintf("12345678-1234-1234-1234-%012d", i)
				n.Pods, n.PodsKnown, n.Live = nil, false, false
				facts.Nodes = append(facts.Nodes, n)
				facts.Agents[0].Spec.Machines = append(facts.Agents[0].Spec.Machines, v1alpha1.FenceMachine{SystemUUID: n.SystemUUID, Address: fmt.Sprintf("https://bmc-%d.example", i)})
			}
			for i := range nodes / 10 { // machines that were fenced in the last week
				boot := v1alpha1.BootReference{Name: fmt.Sprintf("n%d", i), UID: "before", BootID: fmt.Sprintf("before-%d", i)}
				facts.Receipts = append(facts.Receipts, v1alpha1.FenceReceipt{Spec: v1alpha1.FenceReceiptSpec{Node: &boot, Class: v1alpha1.EvidencePoweredOff}})
			}
			b.ReportAllocs()
			for b.Loop() {
				facts.Storms = fencing.Storms(w.policies, facts)
				fencing.Voids(facts)
				verdicts := fencing.Decide(w.policies, facts)
				fencing.Conditions(w.policies, facts, verdicts)
				fencing.Retire(facts)
				if ready := fencing.ReadinessOf(w.policies, facts)["all"]; !ready.Ready {
					b.Fatalf("%+v", ready)
				}
				if len(verdicts) != 1 || verdicts[0].Do != fencing.DoFence {
					b.Fatalf("%+v", verdicts)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(nodes), "ns/node")
		})
	}
}

package diff

import (
	"fmt"
	"strings"
	"testing"
)

const (
	everything = `{priority: {className: low}, gracePeriod: {defaultSeconds: 45, minSeconds: 10}, node: {oom: {rank: 20}}, topologySpread: {constraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}}`
	otherwise  = `{priority: {className: high}, gracePeriod: {defaultSeconds: 60, minSeconds: 20}, node: {oom: {rank: 30}}, topologySpread: {constraints: [{maxSkew: 2, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]}}`
)

// BenchmarkWorkloads is the comparison of 10,000 Deployments: where only what pods get changes, and where removals do, too, so that
// all three questions are asked under both.
func BenchmarkWorkloads(b *testing.B) {
	const n = 10_000
	var text strings.Builder
	text.WriteString(state)
	for i := range n {
		text.WriteString(workload("Deployment", "shop", fmt.Sprintf("web-%d", i), "terminationGracePeriodSeconds: 5,"))
	}
	all := documents(b, text.String())
	s := stateOf(b, all...)
	guard := func(action string) string {
		return policies("p", everything, "guard", "{removal: {forceDelete: "+action+", protect: All}}")
	}
	for _, bc := range []struct{ name, from, to string }{
		{"Defaults", policies("p", everything), policies("p", otherwise)},
		{"Removals", guard("Warn"), guard("Deny")},
	} {
		b.Run(bc.name, func(b *testing.B) {
			c := Comparison{From: engine(b, s, bc.from), To: engine(b, s, bc.to)}
			for b.Loop() {
				d, err := c.Of(b.Context(), all)
				if err != nil {
					b.Fatal(err)
				}
				if d.Summary.Affected < n {
					b.Fatalf("%+v", d.Summary)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/workload")
		})
	}
}

package review

import (
	"fmt"
	"strings"
	"testing"
)

// The example of the design of topology spread: n1 and n2 in zone A, n3 in B; pods foo=bar: two on n1, one on n2, two on n3. Whoever reviews a Deployment of one
// more with that state reads what admission would say.
func TestContradiction(t *testing.T) {
	state := []string{shop}
	for node, zone := range map[string]string{"n1": "A", "n2": "A", "n3": "B"} {
		state = append(state, fmt.Sprintf(`{apiVersion: v1, kind: Node, metadata: {name: %s, labels: {topology.kubernetes.io/zone: %s, kubernetes.io/hostname: %s}}}`, node, zone, node))
	}
	for i, node := range []string{"n1", "n1", "n2", "n3", "n3"} {
		state = append(state, fmt.Sprintf(`{apiVersion: v1, kind: Pod, metadata: {name: p%d, namespace: shop, labels: {foo: bar}}, spec: {nodeName: %s, containers: %s}, status: {phase: Running}}`, i, node, containers))
	}
	const (
		workload = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {foo: bar}}
  template:
    metadata: {labels: {foo: bar}}
    spec:
      containers: ` + containers + `
`
		constraints = `
      topologySpreadConstraints:
      - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {foo: bar}}}
      - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {foo: bar}}}
`
		giving = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: spread}
spec:
  topologySpread:
    revisionAware: false
    onInfeasible: ACTION
    constraints:
    - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
    - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: DoNotSchedule}
`
		zoneAndHost = "topology.kubernetes.io/zone and kubernetes.io/hostname can each be met now, and together they can't: the first leaves node n3 only, the second n2 only"
		own         = "topologySpreadConstraints on " + zoneAndHost + "; raise maxSkew, use another topologyKey or ScheduleAnyway for one of them"
	)
	ownPods := strings.ReplaceAll(strings.Join(state, "\n"), "labels: {foo: bar}", "labels: {foo: bar}, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web-7f9, uid: u, controller: true}]")
	for name, tt := range map[string]struct {
		policy, manifest string
		state            []string
		says             string
	}{
		"of its own":               {selecting, workload + constraints, state, own},
		"maxSkew 2":                {selecting, workload + strings.Replace(constraints, "maxSkew: 1", "maxSkew: 2", 1), state, ""},
		"ScheduleAnyway":           {selecting, workload + strings.Replace(constraints, "DoNotSchedule", "ScheduleAnyway", 1), state, ""},
		"a fourth node in B":       {selecting, workload + constraints, append([]string{`{apiVersion: v1, kind: Node, metadata: {name: n4, labels: {topology.kubernetes.io/zone: B, kubernetes.io/hostname: n4}}}`}, state...), ""},
		"it runs already":          {selecting, workload + constraints, strings.Split(ownPods, "\n"), ""},
		"a policy's, which warns":  {strings.Replace(giving, "ACTION", "Warn", 1), workload, state, "PodPolicy spread: hard spread constraints over " + zoneAndHost + "; the pod stays Pending until they can"},
		"a policy's, which denies": {strings.Replace(giving, "ACTION", "Deny", 1), workload, state, "PodPolicy spread: the hard spread constraints over " + zoneAndHost + ". Make room"},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustReview(t, engineOf(t, tt.policy, tt.state...), tt.manifest, Question{})
			said := strings.Join(append(r.Warnings, r.Message), "\n")
			if tt.says == "" && strings.Contains(said, "together") || !strings.Contains(said, tt.says) || len(r.Warnings) > 1 {
				t.Errorf("%s, %q", r.Decision, said)
			}
		})
	}
}

package apiserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// judgedWithin is for how long a large pod is judged: half of the webhook's timeoutSeconds (deploy/webhook/configurations.yaml). Then it is refused for that.
const judgedWithin = 2500 * time.Millisecond

// A pod gets round no limit by its size, or by what it costs to judge: the webhooks that decide about pods fail open, so that each of
// these was stored with a class that its policy does not allow.
func TestNoLimitIsGotRoundBySize(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	for i := range 20 {
		s.Policy(t, ns, v1alpha1.PodPolicySpec{
			Match:    &v1alpha1.PodMatch{MatchConditions: conditionsOf(fmt.Sprintf("object.spec.?tolerations.orValue([]).all(t, t.?key.orValue('') != 'a%d')", i))},
			Priority: &v1alpha1.PrioritySection{AllowedClassNames: []string{"low"}},
		})
	}
	exists := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	angles := strings.Repeat("<", 100_000)
	for name, tt := range map[string]struct {
		change func(*corev1.Pod)
		by     string
	}{
		"as it is": {func(*corev1.Pod) {}, "not allowed here"},
		"1.3 MB of which an API server makes 7.8": {func(p *corev1.Pod) {
			for range 13 {
				p.Spec.Containers[0].Env = append(p.Spec.Containers[0].Env, corev1.EnvVar{Name: "A", Value: angles})
			}
		}, "not allowed here"},
		"20,000 tolerations, and 20 policies that ask about each": {func(p *corev1.Pod) { p.Spec.Tolerations = slices.Repeat(exists, 20_000) }, "not allowed here"},
		"100,000 tolerations": {func(p *corev1.Pod) { p.Spec.Tolerations = slices.Repeat(exists, 100_000) }, "has more parts"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPod(ns)
			p.Spec.PriorityClassName = "system-cluster-critical"
			tt.change(p)
			began := time.Now()
			err := s.Client.Create(t.Context(), p, client.DryRunAll)
			if time.Since(began) > judgedWithin && tt.by == "not allowed here" && err != nil && strings.Contains(err.Error(), "has more parts") {
				t.Logf("this machine took longer than a large pod is judged for, so that it was refused for that: %v", time.Since(began))
				return
			}
			if err == nil || !strings.Contains(err.Error(), tt.by) || !strings.Contains(err.Error(), "denied the request") {
				t.Errorf("got %.300v, want a refusal that says %q", err, tt.by)
			}
		})
	}
}

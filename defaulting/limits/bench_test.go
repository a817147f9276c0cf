package limits_test

import (
	"context"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/cli/apiserver"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// minimal is a policy of the same shape as somebody writes it by hand: static pods are left out, and there are two of the limits, with messages of which no
// part is computed.
const minimal = `
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: minimal}
spec:
  failurePolicy: Fail
  matchConstraints:
    resourceRules:
    - {apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}
  matchConditions:
  - {name: no-static-pods, expression: "!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}))"}
  validations:
  - {expression: "object.spec.?priorityClassName.orValue('') in ['', 'high', 'low']", message: the priority class is neither high nor low}
  - expression: "object.spec.terminationGracePeriodSeconds >= 10 && object.spec.terminationGracePeriodSeconds <= 300"
    message: the grace period is not between 10 and 300 seconds
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: minimal}
spec: {policyName: minimal, validationActions: [Deny]}
`

// readMinimal reads it.
func readMinimal(t testing.TB) *apiserver.Policies {
	t.Helper()
	p, err := apiserver.ReadPolicies([]byte(minimal))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// benched are policies, and pods that keep their limits.
func benched(t testing.TB) (w world, pods map[string]*corev1.Pod) {
	t.Helper()
	w = worldOf(t, PodPolicy("a", MinGrace(10), MaxGrace(300), Margin(5), Allows("high", "low")), PodPolicy("b", Allows("batch"), ForPods("app", "batch")),
		PodPolicy("c", Allows("high"), InNamespaces("stage", "live")))
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := w.request.Pod.DeepCopy()
		p.Labels = map[string]string{"app": "web"}
		p.Spec.PriorityClassName, p.Spec.TerminationGracePeriodSeconds = "high", new(int64(45))
		change(p)
		apiserver.Default(p)
		return p
	}
	stops := func(h corev1.LifecycleHandler) *corev1.Pod {
		return pod(func(p *corev1.Pod) { p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &h} })
	}
	return w, map[string]*corev1.Pod{
		"plain": pod(func(*corev1.Pod) {}), "sleeps": stops(corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 10}}),
		"script":                 stops(corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sleep", "10"}}}),
		"not of all its classes": pod(func(p *corev1.Pod) { p.Spec.PriorityClassName = "low" }),
	}
}

// BenchmarkJudge is what the compiled limits cost the API server for pods that keep them, beside a minimal policy: both with the decoding of the pod, which
// is the same.
func BenchmarkJudge(b *testing.B) {
	w, pods := benched(b)
	judge := func(p *apiserver.Policies, pod *corev1.Pod) func(*testing.B) time.Duration {
		w.request.Pod = pod
		r := reviewOf(b, w.request, holds(true))
		return func(b *testing.B) time.Duration {
			if _, _, err := p.Validate(context.Background(), r); err != nil { // which compiles it
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if denials, _, err := p.Validate(context.Background(), r); err != nil || len(denials) > 0 {
					b.Fatal(denials, err)
				}
			}
			return b.Elapsed() / time.Duration(b.N)
		}
	}
	for name, pod := range pods {
		b.Run(name, func(b *testing.B) {
			var least time.Duration
			b.Run("minimal", func(b *testing.B) { least = judge(readMinimal(b), pod)(b) })
			b.Run("limits", func(b *testing.B) { b.ReportMetric(float64(judge(w.server, pod)(b))/float64(least), "x-minimal") })
		})
	}
}

// rights answers as holds does, and counts.
type rights struct{ asked int }

func (r *rights) Allowed(ctx context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) apiserver.Answer {
	r.asked++
	return holds(true).Allowed(ctx, user, what)
}

// Of a pod that clearly keeps the limits of several policies no right is asked for, and it costs the API server about what one minimal policy does, where the
// validations cost it several times of that; of others the right is asked for once.
func TestCheap(t *testing.T) {
	w, pods := benched(t)
	pods["beyond"] = pods["plain"].DeepCopy()
	pods["beyond"].Spec.TerminationGracePeriodSeconds = new(int64(5))
	minimal := readMinimal(t)
	for name, want := range map[string]struct {
		asked   int
		refused bool
	}{"plain": {}, "sleeps": {}, "script": {asked: 1}, "not of all its classes": {asked: 1}, "beyond": {asked: 1, refused: true}} {
		t.Run(name, func(t *testing.T) {
			w.request.Pod = pods[name]
			var may rights
			if denials := w.judge(t, &may); len(denials) > 0 != want.refused || may.asked != want.asked {
				t.Fatalf("refused %+v, asked %d times", denials, may.asked)
			}
			if want.asked > 0 {
				return
			}
			allocations := func(p *apiserver.Policies) float64 {
				r := reviewOf(t, w.request, holds(true))
				return testing.AllocsPerRun(10, func() {
					if _, _, err := p.Validate(context.Background(), r); err != nil {
						t.Fatal(err)
					}
				})
			}
			if ours, least := allocations(w.server), allocations(minimal); ours > 1.5*least {
				t.Errorf("%.0f allocations, and a minimal policy makes %.0f", ours, least)
			}
		})
	}
}

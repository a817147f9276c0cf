package limits_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// The bounds hold for a probe's own grace period in the webhook's words, with what lifts them.
func TestProbes(t *testing.T) {
	const hook = "sleep 25 && quit"
	conditional := PodPolicy("a", Where("object.metadata.name == 'web-1'"), MaxGrace(30), Margin(10))
	for name, tc := range map[string]struct {
		policies          []*v1alpha1.PodPolicy
		liveness, startup int64
		says              string // empty: nothing is refused
	}{
		"none":                               {[]*v1alpha1.PodPolicy{PodPolicy("a", MinGrace(10), MaxGrace(40))}, 0, 0, ""},
		"within":                             {[]*v1alpha1.PodPolicy{PodPolicy("a", MinGrace(10), MaxGrace(40))}, 10, 40, ""},
		"too short":                          {[]*v1alpha1.PodPolicy{PodPolicy("a", MinGrace(10))}, 9, 0, "of livenessProbe of container app is 9 but must be 10 (PodPolicy a: minimum 10 s)"},
		"too long":                           {[]*v1alpha1.PodPolicy{PodPolicy("a", MaxGrace(40))}, 40, 41, "of startupProbe of container app is 41 but must be 40 (PodPolicy a: maximum 40 s)"},
		"both":                               {[]*v1alpha1.PodPolicy{PodPolicy("a", MinGrace(10), MaxGrace(40))}, 9, 41, "of livenessProbe of container app is 9 but must be 10 (PodPolicy a: minimum 10 s; and another probe's likewise)"},
		"lifted by a minimum":                {[]*v1alpha1.PodPolicy{PodPolicy("a", MaxGrace(40)), PodPolicy("b", MinGrace(50))}, 50, 0, ""},
		"beyond what lifts it":               {[]*v1alpha1.PodPolicy{PodPolicy("a", MaxGrace(40)), PodPolicy("b", MinGrace(50))}, 51, 0, "is 51 but must be 50 (PodPolicy a: maximum 40 s, but PodPolicy b: minimum 50 s)"},
		"room after preStop":                 {[]*v1alpha1.PodPolicy{PodPolicy("a", Margin(10))}, 35, 0, ""},
		"too little room":                    {[]*v1alpha1.PodPolicy{PodPolicy("a", Margin(10))}, 34, 0, "is 34 but must be 35 (PodPolicy a: preStop of container app takes at least 25 s plus a margin of 10 s)"},
		"no room below a maximum":            {[]*v1alpha1.PodPolicy{PodPolicy("a", Margin(10)), PodPolicy("b", MaxGrace(30))}, 30, 0, ""},
		"less than a maximum leaves":         {[]*v1alpha1.PodPolicy{PodPolicy("a", Margin(10)), PodPolicy("b", MaxGrace(30))}, 30, 29, "of startupProbe of container app is 29 but must be 30 (PodPolicy b: maximum 30 s, although preStop of container app takes at least 25 s)"},
		"no room below its own maximum":      {[]*v1alpha1.PodPolicy{conditional}, 30, 30, ""},
		"less than its own maximum leaves":   {[]*v1alpha1.PodPolicy{conditional}, 29, 0, "is 29 but must be 30 (PodPolicy a: maximum 30 s, although preStop"},
		"less, in the startup probe":         {[]*v1alpha1.PodPolicy{conditional}, 30, 29, "is 29 but must be 30 (PodPolicy a: maximum 30 s, although preStop"},
		"a minimum above what preStop needs": {[]*v1alpha1.PodPolicy{PodPolicy("a", Margin(10)), PodPolicy("b", MinGrace(60))}, 59, 0, "is 59 but must be 60 (PodPolicy b: minimum 60 s)"},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, tc.policies...)
			c := &w.request.Pod.Spec.Containers[0]
			c.Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", hook}}}}
			for probe, seconds := range map[**corev1.Probe]int64{&c.LivenessProbe: tc.liveness, &c.StartupProbe: tc.startup} {
				if seconds > 0 {
					*probe = &corev1.Probe{TerminationGracePeriodSeconds: &seconds}
				}
			}
			for _, change := range defaulting.For(w.policies, w.request, here.Exempt).Apply(w.request, defaulting.Facts{}).Changes {
				if change.Path == "/spec/terminationGracePeriodSeconds" { // the pod's own is within the bounds
					w.request.Pod.Spec.TerminationGracePeriodSeconds = new(change.Value.(int64))
				}
			}
			_, words, _ := w.validate()
			denials := w.judge(t, holds(true))
			if tc.says == "" {
				if words != "" || len(denials) > 0 {
					t.Errorf("webhook %q, API server %+v", words, denials)
				}
				return
			}
			if len(denials) != 1 || denials[0].Message != words || !strings.Contains(words, tc.says) {
				t.Errorf("webhook %q, API server %+v, want %q", words, denials, tc.says)
			}
		})
	}
}

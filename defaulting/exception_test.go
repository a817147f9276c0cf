package defaulting_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

const through = "PolicyException batch holds for this pod until 2026-06-01T13:00:00Z: it lifts "

// What an exception lifts for which pods, and who is told.
func TestExceptions(t *testing.T) {
	shop := func(labels map[string]string, grace int64, class string) policy.Request {
		return policy.Request{
			Namespace: policy.Namespace{Name: "shop"},
			Pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", Labels: labels},
				Spec: corev1.PodSpec{PriorityClassName: class, TerminationGracePeriodSeconds: &grace, Containers: []corev1.Container{{Name: "app"}}}},
		}
	}
	base := PodPolicy("base", MinGrace(10), MaxGrace(60), Allows("low"))
	zero := PodPolicy("zero", ZeroGrace(v1alpha1.ProtectAll, v1alpha1.ZeroGraceDeny))
	web := func(x *v1alpha1.PolicyException) *v1alpha1.PolicyException {
		x.Spec.AllPods, x.Spec.PodSelector = false, v1alpha1.SetAsLabelSelector(map[string]string{"app": "web"})
		return x
	}
	changed := func(x *v1alpha1.PolicyException, change func(*v1alpha1.PolicyException)) *v1alpha1.PolicyException {
		change(x)
		return x
	}
	for name, tc := range map[string]struct {
		policies []*v1alpha1.PodPolicy
		given    []*v1alpha1.PolicyException
		request  policy.Request
		now      time.Time
		reasons  []string // of refusals
		warns    string   // empty: of no exception
	}{
		"none":                  {nil, nil, shop(nil, 5, ""), Noon, []string{"GracePeriodOutOfBounds"}, ""},
		"a minimum":             {nil, []*v1alpha1.PolicyException{Exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 5, ""), Noon, nil, through + "gracePeriod.minSeconds of PodPolicy base (owner: team shop)"},
		"another limit":         {nil, []*v1alpha1.PolicyException{Exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 61, ""), Noon, []string{"GracePeriodOutOfBounds"}, ""},
		"a class":               {nil, []*v1alpha1.PolicyException{Exception("base", v1alpha1.LiftAllowedClassNames)}, shop(nil, 30, "high"), Noon, nil, through + "priority.allowedClassNames of PodPolicy base"},
		"needless":              {nil, []*v1alpha1.PolicyException{Exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 30, "low"), Noon, nil, ""},
		"another policy":        {nil, []*v1alpha1.PolicyException{Exception("zero", v1alpha1.LiftMinSeconds)}, shop(nil, 5, ""), Noon, []string{"GracePeriodOutOfBounds"}, ""},
		"by a selector":         {nil, []*v1alpha1.PolicyException{web(Exception("base", v1alpha1.LiftMinSeconds))}, shop(map[string]string{"app": "web"}, 5, ""), Noon, nil, through},
		"not by a selector":     {nil, []*v1alpha1.PolicyException{web(Exception("base", v1alpha1.LiftMinSeconds))}, shop(map[string]string{"app": "db"}, 5, ""), Noon, []string{"GracePeriodOutOfBounds"}, ""},
		"the second before":     {nil, []*v1alpha1.PolicyException{Exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 5, ""), Noon.Add(time.Hour - 1), nil, through},
		"ended":                 {nil, []*v1alpha1.PolicyException{Exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 5, ""), Noon.Add(time.Hour), []string{"GracePeriodOutOfBounds"}, ""},
		"the time is not known": {nil, []*v1alpha1.PolicyException{Exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 5, ""), time.Time{}, []string{"GracePeriodOutOfBounds"}, ""},
		"not granted": {nil, []*v1alpha1.PolicyException{changed(Exception("base", v1alpha1.LiftMinSeconds), func(x *v1alpha1.PolicyException) { x.Status.Grant = nil })},
			shop(nil, 5, ""), Noon, []string{"GracePeriodOutOfBounds"}, ""},
		"granted by nobody": {nil, []*v1alpha1.PolicyException{changed(Exception("base", v1alpha1.LiftMinSeconds), func(x *v1alpha1.PolicyException) { x.Status.Grant.By = "" })},
			shop(nil, 5, ""), Noon, []string{"GracePeriodOutOfBounds"}, ""},
		"changed since": {nil, []*v1alpha1.PolicyException{changed(Exception("base", v1alpha1.LiftMinSeconds), func(x *v1alpha1.PolicyException) { x.Generation++ })},
			shop(nil, 5, ""), Noon, []string{"GracePeriodOutOfBounds"}, ""},
		"one of several policies": {[]*v1alpha1.PodPolicy{PodPolicy("more", MinGrace(20))}, []*v1alpha1.PolicyException{Exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 5, ""), Noon,
			[]string{"GracePeriodOutOfBounds"}, ""},
		"a minimum that lifted a maximum": {[]*v1alpha1.PodPolicy{PodPolicy("more", MinGrace(90))}, []*v1alpha1.PolicyException{Exception("more", v1alpha1.LiftMinSeconds)}, shop(nil, 90, ""), Noon,
			[]string{"GracePeriodOutOfBounds"}, through + "gracePeriod.minSeconds of PodPolicy more"},
		"zero grace":           {[]*v1alpha1.PodPolicy{zero}, []*v1alpha1.PolicyException{Exception("zero", v1alpha1.LiftZeroGrace), Exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 0, ""), Noon, nil, through + "removal.zeroGrace of PodPolicy zero"},
		"zero grace, a bound":  {[]*v1alpha1.PodPolicy{zero}, []*v1alpha1.PolicyException{Exception("zero", v1alpha1.LiftZeroGrace)}, shop(nil, 0, ""), Noon, []string{"GracePeriodOutOfBounds"}, through},
		"in another namespace": {nil, nil, shop(nil, 5, ""), Noon, []string{"GracePeriodOutOfBounds"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			policies := Compile(t, append(tc.policies, base)...)
			req := tc.request
			req.Namespace.Exceptions = CompileExceptions(t, tc.given...).InForce(tc.now)
			result := defaulting.For(policies, req, Exempt).Validate(req, defaulting.Facts{Partial: true})
			var reasons []string
			for _, d := range result.Denials {
				reasons = append(reasons, d.Reason.Code)
			}
			if !slices.Equal(reasons, tc.reasons) {
				t.Errorf("refused %v, want %v", result.Denials, tc.reasons)
			}
			told := slices.ContainsFunc(result.Warnings, func(w defaulting.Warning) bool { return tc.warns != "" && strings.HasPrefix(w.Message, tc.warns) })
			if told != (tc.warns != "") || (len(result.Exceptions) > 0) != (tc.warns != "") {
				t.Errorf("warnings %q, exceptions %v; want %q", result.Warnings, result.Exceptions, tc.warns)
			}
			// The mutating webhook leaves alone what is let through, and says the same.
			applied := defaulting.For(policies, req, Exempt).Apply(req, defaulting.Facts{Partial: true})
			if len(tc.reasons) == 0 && tc.warns != "" && (len(applied.Changes) > 0 || len(applied.Denials) > 0 || req.Pod.Spec.PriorityClassName == "" && len(applied.Exceptions) == 0) {
				t.Errorf("applied: %+v", applied)
			}
		})
	}
}

// A PodGroup is no pod of which labels are known: an exception for all pods of its namespace counts.
func TestExceptionsOfPodGroups(t *testing.T) {
	policies := Compile(t, PodPolicy("base", Allows("low")))
	all := Exception("base", v1alpha1.LiftAllowedClassNames)
	some := Exception("base", v1alpha1.LiftAllowedClassNames)
	some.Spec.AllPods, some.Spec.PodSelector = false, v1alpha1.SetAsLabelSelector(map[string]string{"app": "web"})
	for name, tc := range map[string]struct {
		given   *v1alpha1.PolicyException
		class   string
		refused bool
		told    int
	}{"all": {all, "high", false, 1}, "needless": {all, "low", false, 0}, "some": {some, "high", true, 0}} {
		t.Run(name, func(t *testing.T) {
			got := defaulting.ValidatePodGroup(policies, tc.class, policy.Namespace{Name: "shop", Exceptions: CompileExceptions(t, tc.given).InForce(Noon)}, Exempt)
			if len(got.Denials) > 0 != tc.refused || len(got.Exceptions) != tc.told || len(got.Warnings) != tc.told {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A limit that is lifted counts as if the policy did not have it, and a zeroGrace as Warn.
func TestExceptionsAreAsPoliciesWithoutTheLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := drawWorld(t).excepting(t)
		plain := w
		plain.exceptions, plain.policies = nil, nil
		for _, p := range w.policies {
			p = p.DeepCopy()
			has := func(limit v1alpha1.LiftedLimit) bool {
				return slices.ContainsFunc(w.exceptions, func(x *policy.Exception) bool { return x.Lifts(p.Name, limit, w.pod.Labels) })
			}
			if p.Spec.Priority != nil && has(v1alpha1.LiftAllowedClassNames) {
				p.Spec.Priority.AllowedClassNames = nil
			}
			if g := p.Spec.GracePeriod; g != nil {
				for limit, field := range map[v1alpha1.LiftedLimit]**int64{v1alpha1.LiftMinSeconds: &g.MinSeconds, v1alpha1.LiftMaxSeconds: &g.MaxSeconds, v1alpha1.LiftPreStopMarginSeconds: &g.PreStopMarginSeconds} {
					if has(limit) {
						*field = nil
					}
				}
			}
			if p.Spec.Removal != nil && has(v1alpha1.LiftZeroGrace) {
				p.Spec.Removal.ZeroGrace = v1alpha1.ZeroGraceWarn
			}
			plain.policies = append(plain.policies, p)
		}
		plain.compiled = Compile(t, plain.policies...)
		for name, results := range map[string][2]defaulting.Result{"apply": {w.apply(), plain.apply()}, "validate": {w.validate(), plain.validate()}} {
			got, want := results[0], results[1]
			got.Exceptions = nil
			got.Warnings = slices.DeleteFunc(got.Warnings, func(m defaulting.Warning) bool { return strings.HasPrefix(m.Message, "PolicyException ") })
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s: %s", name, diff)
			}
		}
	})
}

// A tenant's words reach whoever creates a pod, in a terminal.
func TestWarningsAreHarmless(t *testing.T) {
	for in, want := range map[string]string{
		"team \u202eevil\u202c": "team ?evil?", "a\nb\x1b[2J": "a b [2J", "a\u2800b\u3164": "a?b?", "\xff": "?", "ünïcode 世界": "ünïcode 世界",
		strings.Repeat("é", 200): strings.Repeat("é", 126) + "...",
	} {
		if got := defaulting.Shorten(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

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
)

var noon = time.Date(2026, time.June, 1, 12, 0, 0, 0, time.UTC)

// exception that was granted, for all pods of shop, until an hour after noon.
func exception(policy string, limits ...v1alpha1.LiftedLimit) *v1alpha1.PolicyException {
	return &v1alpha1.PolicyException{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "batch", Generation: 3},
		Spec:       v1alpha1.PolicyExceptionSpec{Policy: policy, Limits: limits, AllPods: true, Reason: "the vendor's image", Owner: "team shop", Until: "2026-06-01T13:00:00Z"},
		Status:     v1alpha1.PolicyExceptionStatus{Grant: &v1alpha1.Grant{By: "eve", Generation: 3}},
	}
}

func exceptions(t *testing.T, all ...*v1alpha1.PolicyException) policy.Exceptions {
	t.Helper()
	var compiled []*policy.Exception
	for _, x := range all {
		c, err := policy.CompileException(x)
		if err != nil {
			t.Fatal(err)
		}
		compiled = append(compiled, c)
	}
	return policy.SortExceptions(compiled)
}

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
	base := podPolicy("base", minGrace(10), maxGrace(60), allows("low"))
	zero := podPolicy("zero", removal(v1alpha1.ProtectAll, v1alpha1.ZeroGraceDeny))
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
		"none":                  {nil, nil, shop(nil, 5, ""), noon, []string{"GracePeriodOutOfBounds"}, ""},
		"a minimum":             {nil, []*v1alpha1.PolicyException{exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 5, ""), noon, nil, through + "gracePeriod.minSeconds of PodPolicy base (owner: team shop)"},
		"another limit":         {nil, []*v1alpha1.PolicyException{exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 61, ""), noon, []string{"GracePeriodOutOfBounds"}, ""},
		"a class":               {nil, []*v1alpha1.PolicyException{exception("base", v1alpha1.LiftAllowedClassNames)}, shop(nil, 30, "high"), noon, nil, through + "priority.allowedClassNames of PodPolicy base"},
		"needless":              {nil, []*v1alpha1.PolicyException{exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 30, "low"), noon, nil, ""},
		"another policy":        {nil, []*v1alpha1.PolicyException{exception("zero", v1alpha1.LiftMinSeconds)}, shop(nil, 5, ""), noon, []string{"GracePeriodOutOfBounds"}, ""},
		"by a selector":         {nil, []*v1alpha1.PolicyException{web(exception("base", v1alpha1.LiftMinSeconds))}, shop(map[string]string{"app": "web"}, 5, ""), noon, nil, through},
		"not by a selector":     {nil, []*v1alpha1.PolicyException{web(exception("base", v1alpha1.LiftMinSeconds))}, shop(map[string]string{"app": "db"}, 5, ""), noon, []string{"GracePeriodOutOfBounds"}, ""},
		"the second before":     {nil, []*v1alpha1.PolicyException{exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 5, ""), noon.Add(time.Hour - 1), nil, through},
		"ended":                 {nil, []*v1alpha1.PolicyException{exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 5, ""), noon.Add(time.Hour), []string{"GracePeriodOutOfBounds"}, ""},
		"the time is not known": {nil, []*v1alpha1.PolicyException{exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 5, ""), time.Time{}, []string{"GracePeriodOutOfBounds"}, ""},
		"not granted": {nil, []*v1alpha1.PolicyException{changed(exception("base", v1alpha1.LiftMinSeconds), func(x *v1alpha1.PolicyException) { x.Status.Grant = nil })},
			shop(nil, 5, ""), noon, []string{"GracePeriodOutOfBounds"}, ""},
		"granted by nobody": {nil, []*v1alpha1.PolicyException{changed(exception("base", v1alpha1.LiftMinSeconds), func(x *v1alpha1.PolicyException) { x.Status.Grant.By = "" })},
			shop(nil, 5, ""), noon, []string{"GracePeriodOutOfBounds"}, ""},
		"changed since": {nil, []*v1alpha1.PolicyException{changed(exception("base", v1alpha1.LiftMinSeconds), func(x *v1alpha1.PolicyException) { x.Generation++ })},
			shop(nil, 5, ""), noon, []string{"GracePeriodOutOfBounds"}, ""},
		"one of several policies": {[]*v1alpha1.PodPolicy{podPolicy("more", minGrace(20))}, []*v1alpha1.PolicyException{exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 5, ""), noon,
			[]string{"GracePeriodOutOfBounds"}, ""},
		"a minimum that lifted a maximum": {[]*v1alpha1.PodPolicy{podPolicy("more", minGrace(90))}, []*v1alpha1.PolicyException{exception("more", v1alpha1.LiftMinSeconds)}, shop(nil, 90, ""), noon,
			[]string{"GracePeriodOutOfBounds"}, through + "gracePeriod.minSeconds of PodPolicy more"},
		"zero grace":           {[]*v1alpha1.PodPolicy{zero}, []*v1alpha1.PolicyException{exception("zero", v1alpha1.LiftZeroGrace), exception("base", v1alpha1.LiftMinSeconds)}, shop(nil, 0, ""), noon, nil, through + "removal.zeroGrace of PodPolicy zero"},
		"zero grace, a bound":  {[]*v1alpha1.PodPolicy{zero}, []*v1alpha1.PolicyException{exception("zero", v1alpha1.LiftZeroGrace)}, shop(nil, 0, ""), noon, []string{"GracePeriodOutOfBounds"}, through},
		"in another namespace": {nil, nil, shop(nil, 5, ""), noon, []string{"GracePeriodOutOfBounds"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			policies := compile(t, append(tc.policies, base)...)
			req := tc.request
			req.Namespace.Exceptions = exceptions(t, tc.given...).InForce(tc.now)
			result := defaulting.For(policies, req, ownNamespace).Validate(req, defaulting.Facts{Partial: true})
			var reasons []string
			for _, d := range result.Denials {
				reasons = append(reasons, d.Reason.Code)
			}
			if !slices.Equal(reasons, tc.reasons) {
				t.Errorf("refused %v, want %v", result.Denials, tc.reasons)
			}
			told := slices.ContainsFunc(result.Warnings, func(w defaulting.Warning) bool { return tc.warns != "" && strings.HasPrefix(string(w), tc.warns) })
			if told != (tc.warns != "") || (len(result.Exceptions) > 0) != (tc.warns != "") {
				t.Errorf("warnings %q, exceptions %v; want %q", result.Warnings, result.Exceptions, tc.warns)
			}
			// The mutating webhook leaves alone what is let through, and says the same.
			applied := defaulting.For(policies, req, ownNamespace).Apply(req, defaulting.Facts{Partial: true})
			if len(tc.reasons) == 0 && tc.warns != "" && (len(applied.Changes) > 0 || len(applied.Denials) > 0 || req.Pod.Spec.PriorityClassName == "" && len(applied.Exceptions) == 0) {
				t.Errorf("applied: %+v", applied)
			}
		})
	}
}

// What an exception can't lift: the protection from removal, whatever it names.
func TestExceptionsNeverUnprotect(t *testing.T) {
	policies := compile(t, podPolicy("guard", removal(v1alpha1.ProtectAll, v1alpha1.ZeroGraceDeny)))
	without := policies.Removal(policy.Namespace{Name: "shop"}, ownNamespace)
	with := policies.Removal(policy.Namespace{Name: "shop", Exceptions: exceptions(t, exception("guard", v1alpha1.LiftZeroGrace)).InForce(noon)}, ownNamespace)
	if diff := cmp.Diff(without, with); !without.Guards() || diff != "" {
		t.Error(diff)
	}
}

// What can't be read lifts nothing, and the error names the field.
func TestCompileException(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*v1alpha1.PolicyExceptionSpec)
		says   string
	}{
		"fine":        {func(*v1alpha1.PolicyExceptionSpec) {}, ""},
		"no time":     {func(s *v1alpha1.PolicyExceptionSpec) { s.Until = "tomorrow" }, "spec.until"},
		"no such day": {func(s *v1alpha1.PolicyExceptionSpec) { s.Until = "2026-02-30T00:00:00Z" }, "spec.until"},
		"no pods":     {func(s *v1alpha1.PolicyExceptionSpec) { s.AllPods = false }, "spec.podSelector"},
		"bad selector": {func(s *v1alpha1.PolicyExceptionSpec) {
			s.PodSelector = v1alpha1.SetAsLabelSelector(map[string]string{"!": ""})
		}, "spec.podSelector"},
		"both of these": {func(s *v1alpha1.PolicyExceptionSpec) {
			s.PodSelector = v1alpha1.SetAsLabelSelector(map[string]string{"a": "b"})
		}, "spec.podSelector"},
	} {
		t.Run(name, func(t *testing.T) {
			x := exception("base", v1alpha1.LiftMinSeconds)
			tc.change(&x.Spec)
			c, err := policy.CompileException(x)
			if (err == nil) != (tc.says == "") || (c == nil) != (err != nil) || err != nil && !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v, %v", c, err)
			}
		})
	}
}

// What is told of an exception as a whole.
func TestExceptionState(t *testing.T) {
	base := compile(t, podPolicy("base", minGrace(10)))
	for name, tc := range map[string]struct {
		change func(*v1alpha1.PolicyException)
		now    time.Time
		want   string
	}{
		"in force":       {func(*v1alpha1.PolicyException) {}, noon, v1alpha1.ReasonInForce},
		"in part":        {func(x *v1alpha1.PolicyException) { x.Spec.Limits = append(x.Spec.Limits, v1alpha1.LiftMaxSeconds) }, noon, v1alpha1.ReasonInForce},
		"ended":          {func(*v1alpha1.PolicyException) {}, noon.Add(time.Hour), v1alpha1.ReasonEnded},
		"not granted":    {func(x *v1alpha1.PolicyException) { x.Status.Grant = nil }, noon, v1alpha1.ReasonNotGranted},
		"changed since":  {func(x *v1alpha1.PolicyException) { x.Status.Grant.Generation = 2 }, noon, v1alpha1.ReasonChanged},
		"no such policy": {func(x *v1alpha1.PolicyException) { x.Spec.Policy = "bases" }, noon, v1alpha1.ReasonUnknownPolicy},
		"no such limit":  {func(x *v1alpha1.PolicyException) { x.Spec.Limits = []v1alpha1.LiftedLimit{v1alpha1.LiftZeroGrace} }, noon, v1alpha1.ReasonNothingToLift},
	} {
		t.Run(name, func(t *testing.T) {
			x := exception("base", v1alpha1.LiftMinSeconds)
			tc.change(x)
			if got, message := exceptions(t, x)[0].State(base, tc.now); got != tc.want || message == "" {
				t.Errorf("got %s, %s", got, message)
			}
		})
	}
	xs := exceptions(t, exception("base", v1alpha1.LiftMinSeconds))
	if next, there := xs.NextEnd(noon); !there || !next.Equal(noon.Add(time.Hour)) {
		t.Errorf("the next end is %v, %v", next, there)
	}
	if _, there := xs.NextEnd(noon.Add(time.Hour)); there {
		t.Error("what has ended ends again")
	}
}

// A PodGroup is no pod of which labels are known: an exception for all pods of its namespace counts.
func TestExceptionsOfPodGroups(t *testing.T) {
	policies := compile(t, podPolicy("base", allows("low")))
	all := exception("base", v1alpha1.LiftAllowedClassNames)
	some := exception("base", v1alpha1.LiftAllowedClassNames)
	some.Spec.AllPods, some.Spec.PodSelector = false, v1alpha1.SetAsLabelSelector(map[string]string{"app": "web"})
	for name, tc := range map[string]struct {
		given   *v1alpha1.PolicyException
		class   string
		refused bool
		told    int
	}{"all": {all, "high", false, 1}, "needless": {all, "low", false, 0}, "some": {some, "high", true, 0}} {
		t.Run(name, func(t *testing.T) {
			got := defaulting.ValidatePodGroup(policies, tc.class, policy.Namespace{Name: "shop", Exceptions: exceptions(t, tc.given).InForce(noon)}, ownNamespace)
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
		plain.compiled = compile(t, plain.policies...)
		for name, results := range map[string][2]defaulting.Result{"apply": {w.apply(), plain.apply()}, "validate": {w.validate(), plain.validate()}} {
			got, want := results[0], results[1]
			got.Exceptions = nil
			got.Warnings = slices.DeleteFunc(got.Warnings, func(m defaulting.Warning) bool { return strings.HasPrefix(string(m), "PolicyException ") })
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
		if got := defaulting.Shorten(in); string(got) != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

package limits_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting/limits"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

func worldOf(t testing.TB, policies ...*v1alpha1.PodPolicy) world {
	t.Helper()
	w := world{policies: Compile(t, policies...)}
	w.compiled = limits.Compile(w.policies, here)
	if w.compiled.Policy != nil {
		w.server = serverOf(t, w.compiled)
	}
	w.request = policy.Request{
		Pod:       &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Namespace: "shop"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app"}}}},
		Namespace: policy.Namespace{Name: "shop", Labels: map[string]string{corev1.LabelMetadataName: "shop"}},
		User:      authenticationv1.UserInfo{Username: "jane", Groups: []string{"system:authenticated"}},
	}
	return w
}

// Only pods are held by the compiled limits, as docs/podpolicy.md says. A PodGroup, whose API is alpha and another one in each version, is not.
func TestOnlyPodsAreCompiled(t *testing.T) {
	for _, rule := range worldOf(t, PodPolicy("a", Allows("x"))).compiled.Policy.Spec.MatchConstraints.ResourceRules {
		if d := gocmp.Diff([]string{"pods"}, rule.Resources); d != "" {
			t.Error(d)
		}
	}
}

// What is compiled of which policies, and why not.
func TestVerdicts(t *testing.T) {
	const unsure = "and the API server can't know for sure which pods that one is for"
	const minimum = "Partly: the API server judges gracePeriod by itself; gracePeriod for the probes of a pod with more than 256 containers holds by the webhook alone: to look at more would cost the API server too much"
	for name, tc := range map[string]struct {
		policies []*v1alpha1.PodPolicy
		want     map[string]string
	}{
		"no limits":       {[]*v1alpha1.PodPolicy{PodPolicy("a"), PodPolicy("b", ZeroGrace(v1alpha1.ProtectStateful, v1alpha1.ZeroGraceWarn))}, map[string]string{}},
		"all that can be": {[]*v1alpha1.PodPolicy{PodPolicy("a", Allows("x"), ZeroGrace(v1alpha1.ProtectAll, ""))}, map[string]string{"a": "Full: the API server judges priority.allowedClassNames, removal.zeroGrace by itself"}},
		"a maximum": {[]*v1alpha1.PodPolicy{PodPolicy("a", Allows("x"), MaxGrace(10))},
			map[string]string{"a": "Partly: the API server judges priority.allowedClassNames, gracePeriod by itself; gracePeriod for the hooks and probes of a pod with more than 256 containers holds by the webhook alone: to look at more would cost the API server too much"}},
		"a margin": {[]*v1alpha1.PodPolicy{PodPolicy("a", Margin(10))},
			map[string]string{"a": "Partly: the API server judges gracePeriod by itself; gracePeriod for the hooks and probes of a pod with more than 256 containers, and for a preStop command of more than 256 characters or that is not plainly a sleep, holds by the webhook alone: to look at more would cost the API server too much"}},
		"claims": {[]*v1alpha1.PodPolicy{PodPolicy("a", Allows("x"), ZeroGrace(v1alpha1.ProtectStateful, ""))},
			map[string]string{"a": "Partly: the API server judges priority.allowedClassNames by itself; removal.zeroGrace holds by the webhook alone: which pods are protected depends on their claims, which the API server does not look at (protect: All does not)"}},
		"owners": {[]*v1alpha1.PodPolicy{PodPolicy("a", Allows("x"), ForOwners("Job"))},
			map[string]string{"a": "Partly: the API server judges priority.allowedClassNames by itself; priority.allowedClassNames for a pod with more than 256 ownerReferences holds by the webhook alone: to look at more would cost the API server too much"}},
		"a condition":         {[]*v1alpha1.PodPolicy{PodPolicy("a", MinGrace(10), Where("object.metadata.labels['app'] == 'web'"))}, map[string]string{"a": minimum}},
		"one that reads more": {[]*v1alpha1.PodPolicy{PodPolicy("a", MinGrace(10), Where("object.status.phase == ''"))}, map[string]string{"a": "No: gracePeriod holds by the webhook alone: match condition c0 reads the field status, which may not be the same to the API server"}},
		"a minimum that may lift a maximum": {[]*v1alpha1.PodPolicy{PodPolicy("a", MaxGrace(30)), PodPolicy("b", MinGrace(40), Where("true")), PodPolicy("c", MinGrace(40))},
			map[string]string{"a": "No: gracePeriod holds by the webhook alone: its maximum is below the minimum of PodPolicy b, " + unsure, "b": minimum, "c": minimum}},
		"a maximum that may limit a margin": {[]*v1alpha1.PodPolicy{PodPolicy("a", Margin(5)), PodPolicy("b", MaxGrace(40), Where("object.kind == 'Pod'"))},
			map[string]string{"a": "No: gracePeriod holds by the webhook alone: the maximum of PodPolicy b limits what preStop may need, " + unsure,
				"b": "No: gracePeriod holds by the webhook alone: match condition c0 reads the field kind, which may not be the same to the API server"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]string{}
			for policy, v := range worldOf(t, tc.policies...).compiled.Verdicts {
				got[policy] = v.Extent() + ": " + v.Message()
			}
			if diff := gocmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A condition that can't be evaluated leaves alone what is within the limit, and refuses what is not; another that is false decides.
func TestConditionThatFails(t *testing.T) {
	const fails = "object.metadata.labels['app'] == 'web'"
	for name, tc := range map[string]struct {
		policy *v1alpha1.PodPolicy
		class  string
		says   string
	}{
		"within":       {PodPolicy("a", Allows("high"), Where(fails)), "high", ""},
		"beyond":       {PodPolicy("a", Allows("high"), Where(fails)), "low", "resulted in error"},
		"another not":  {PodPolicy("a", Allows("high"), Where(fails, "request.userInfo.username == 'joe'")), "low", ""},
		"not, another": {PodPolicy("a", Allows("high"), Where("request.userInfo.username == 'joe'", fails)), "low", ""},
		"another is":   {PodPolicy("a", Allows("high"), Where("request.userInfo.username == 'jane'", fails)), "low", "resulted in error"},
	} {
		t.Run(name, func(t *testing.T) {
			w := worldOf(t, tc.policy)
			w.request.Pod.Spec.PriorityClassName = tc.class
			_, words, _ := w.validate()
			denials := w.judge(t, holds(true))
			if (words != "") != (len(denials) > 0) || (len(denials) > 0) != (tc.says != "") {
				t.Fatalf("webhook %q, API server %+v", words, denials)
			}
			if len(denials) > 0 && !strings.Contains(denials[0].Message, tc.says) {
				t.Errorf("got %+v", denials)
			}
		})
	}
}

// The largest pods cost the API server no more than it grants, and are let go where the webhook lets them go.
func TestLargePods(t *testing.T) {
	w := worldOf(t, PodPolicy("a", MinGrace(10), MaxGrace(600), Margin(5), Allows("high"), ZeroGrace(v1alpha1.ProtectAll, "")), PodPolicy("b", MinGrace(20), MaxGrace(500), Margin(7)))
	hook := func(script string) *corev1.Lifecycle {
		return &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", script}}}}
	}
	for name, change := range map[string]func(*corev1.Pod){
		"as many containers as are looked at": func(p *corev1.Pod) {
			p.Spec.Containers = nil
			for i := range limits.MaxItems {
				script := "sleep 5 && "
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint(i), Lifecycle: hook(script + strings.Repeat("x", limits.MaxCommand-len("sh -c ")-len(script))),
					LivenessProbe: &corev1.Probe{TerminationGracePeriodSeconds: new(int64(60))}})
			}
		},
		"more": func(p *corev1.Pod) {
			for i := range 5000 {
				p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: fmt.Sprint(i), Lifecycle: hook("sleep 5")})
			}
		},
		"a long script": func(p *corev1.Pod) { p.Spec.Containers[0].Lifecycle = hook(strings.Repeat("sleep 5 ", 100_000)) },
		"many owners": func(p *corev1.Pod) {
			for range 5000 {
				p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Kind: "Node"})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			change(w.request.Pod)
			w.request.Pod.Spec.TerminationGracePeriodSeconds = new(int64(60))
			if denials := w.judge(t, holds(true)); len(denials) > 0 {
				t.Errorf("%.200s", fmt.Sprint(denials))
			}
			w.request.Pod.Spec.TerminationGracePeriodSeconds = new(int64(15))
			if denials := w.judge(t, holds(true)); len(denials) != 1 || strings.Contains(denials[0].Message, "error") || strings.Contains(denials[0].Message, "get podpolicies") {
				t.Errorf("%.200s", fmt.Sprint(denials))
			}
		})
	}
}

// Where it is not known whose pod it is, a bound of a policy that may be for it lifts another's.
func TestManyOwners(t *testing.T) {
	w := worldOf(t, PodPolicy("a", MaxGrace(30)), PodPolicy("b", MinGrace(40), ForOwners("Job")), PodPolicy("c", Margin(20)), PodPolicy("d", MaxGrace(35), ForOwners("Job")))
	w.request.Pod.OwnerReferences = append(make([]metav1.OwnerReference, limits.MaxItems), metav1.OwnerReference{Kind: "Job", Controller: new(true)})
	w.request.Pod.Spec.TerminationGracePeriodSeconds = new(int64(40))
	if _, words, _ := w.validate(); words != "" {
		t.Fatal(words)
	}
	if denials := w.judge(t, holds(true)); len(denials) > 0 {
		t.Errorf("%+v", denials)
	}
}

// What would cost the API server more than half of what it grants is left out, the last policy first.
func TestTooDear(t *testing.T) {
	var policies []*v1alpha1.PodPolicy
	for i := range 30 {
		policies = append(policies, PodPolicy(fmt.Sprintf("p%02d", i), MinGrace(10), Where(`object.metadata.?annotations[?'a'].orValue('').matches('^(a|b|c|d|e|f|g)+(a|b|c|d|e|f|g)+$')`)))
	}
	c := worldOf(t, policies...).compiled
	compiled := 0
	for i := range 30 {
		v := c.Verdicts[fmt.Sprintf("p%02d", i)]
		switch {
		case v.Extent() == "Partly" && compiled == i:
			compiled++
		case v.Extent() != "No" || !strings.Contains(v.Message(), "cost the API server too much"):
			t.Errorf("p%02d: %s %s", i, v.Extent(), v.Message())
		}
	}
	if compiled < 2 || compiled > 20 {
		t.Errorf("%d are compiled", compiled)
	}
}

// Only what is too dear is left out, wherever it stands.
func TestOnlyTheDearIsLeftOut(t *testing.T) {
	dear := make([]string, 8)
	for i := range dear {
		dear[i] = fmt.Sprintf(`object.metadata.?annotations[?'a%d'].orValue('').matches('^(a|b|c|d|e|f|g)+(a|b|c|d|e|f|g)+$')`, i)
	}
	c := worldOf(t, PodPolicy("a", MinGrace(10)), PodPolicy("b", MinGrace(20), Where(dear...)), PodPolicy("c", MinGrace(30)), PodPolicy("d", Allows("x"), Where(dear...)), PodPolicy("e", Allows("x"))).compiled
	for name, v := range c.Verdicts {
		if want := map[string]string{"b": "No", "d": "No", "e": "Full"}[name]; v.Extent() != cmp.Or(want, "Partly") {
			t.Errorf("%s: %s: %s", name, v.Extent(), v.Message())
		}
	}
}

// exceptions are so many of each of some namespaces from policy a, each for the pods of one app.
func exceptions(t *testing.T, namespaces, each int, lifts ...v1alpha1.LiftedLimit) policy.Exceptions {
	t.Helper()
	var all []*policy.Exception
	for n := range namespaces {
		for i := range each {
			x := &v1alpha1.PolicyException{ObjectMeta: metav1.ObjectMeta{Namespace: fmt.Sprintf("namespace-%d", n), Name: fmt.Sprintf("x%d", i), Generation: 1}, Spec: v1alpha1.PolicyExceptionSpec{
				Policy: "a", Limits: lifts, Until: Noon.Add(time.Hour).Format(time.RFC3339), PodSelector: v1alpha1.SetAsLabelSelector(map[string]string{"app.kubernetes.io/name": fmt.Sprintf("app-%d-%d", n, i)})}}
			x.Status.Grant = &v1alpha1.Grant{By: "eve", Generation: 1}
			compiled, err := policy.CompileException(x)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, compiled)
		}
	}
	return policy.SortExceptions(all)
}

// Exceptions from one policy take nothing from another, and who has too many of them takes nothing from another namespace.
func TestManyExceptions(t *testing.T) {
	for name, tc := range map[string]struct {
		namespaces, each int
		also             int // of one namespace more
		apart            string
	}{
		"a thousand namespaces":     {namespaces: 1000, each: 1},
		"one with as many":          {namespaces: 3, each: 1, also: 1000, apart: " of namespaces with too many exceptions from it (namespace-3) "},
		"five thousand namespaces":  {namespaces: 5000, each: 1, apart: " more) "},
		"more than can be listed":   {namespaces: 10_000, each: 2, apart: "the exceptions from it that are in force"},
		"several of each namespace": {namespaces: 100, each: 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := worldOf(t, PodPolicy("a", MinGrace(10), Allows("x")), PodPolicy("b", MaxGrace(100)), PodPolicy("c", Allows("x", "y")))
			w.exceptions = slices.Concat(exceptions(t, tc.namespaces, tc.each, v1alpha1.LiftMinSeconds), exceptions(t, tc.namespaces+1, tc.also, v1alpha1.LiftMinSeconds)[tc.namespaces*tc.also:])
			cluster := here
			cluster.Exceptions = w.exceptions
			w.compiled = limits.Compile(w.policies, cluster)
			w.server = serverOf(t, w.compiled)
			message := w.compiled.Verdicts["a"].Message()
			if (tc.apart == "") == strings.Contains(message, "exceptions") || !strings.Contains(message, tc.apart) {
				t.Errorf("a: %s", message)
			}
			for p, want := range map[string]string{"b": "Partly", "c": "Full"} {
				if v := w.compiled.Verdicts[p]; v.Extent() != want || strings.Contains(v.Message(), "exceptions") {
					t.Errorf("%s: %s: %s", p, v.Extent(), v.Message())
				}
			}
			w.request.Pod.Spec.TerminationGracePeriodSeconds, w.request.Pod.CreationTimestamp = new(int64(5)), metav1.NewTime(Noon)
			for _, at := range []struct{ namespace, app string }{{"namespace-0", "app-0-0"}, {"namespace-2", "app-2-0"}, {"namespace-2", "app-1-0"}, {"shop", "app-0-0"}} {
				w.request.Namespace.Name, w.request.Pod.Namespace, w.request.Pod.Labels = at.namespace, at.namespace, map[string]string{"app.kubernetes.io/name": at.app}
				w.request.Namespace.Exceptions = slices.DeleteFunc(slices.Clone(w.exceptions), func(x *policy.Exception) bool { return x.Namespace != at.namespace })
				reasons, words, _ := w.validate()
				denials := w.judge(t, holds(true))
				switch {
				case len(denials) > 0 && (len(reasons) == 0 || denials[0].Message != words):
					t.Errorf("%v: the webhook says %v %q, the API server %+v", at, reasons, words, denials)
				case len(denials) == 0 && len(reasons) > 0 && tc.apart == "":
					t.Errorf("%v: only the webhook refuses: %q", at, words)
				}
			}
		})
	}
}

// Fifty plain policies are far below what may be spent.
func TestManyPolicies(t *testing.T) {
	var policies []*v1alpha1.PodPolicy
	for i := range 50 {
		p := PodPolicy(fmt.Sprintf("p%03d", i), MinGrace(int64(i)), MaxGrace(int64(600-i)), Margin(5), Allows("a", "b", fmt.Sprint(i)))
		p.Spec.Match = &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{"team": fmt.Sprint(i), "stage": "live"})}
		policies = append(policies, p)
	}
	for name, v := range worldOf(t, policies...).compiled.Verdicts {
		if len(v.Compiled) != 2 {
			t.Errorf("%s: %s", name, v.Message())
		}
	}
}

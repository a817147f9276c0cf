package explain_test

import (
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/policy"
)

// said fails unless a text has each of the parts.
func said(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not say %q", text, part)
		}
	}
}

func gives(class string) func(*v1alpha1.PodPolicySpec) {
	return func(s *v1alpha1.PodPolicySpec) { s.Priority = &v1alpha1.PrioritySection{ClassName: class} }
}

func allows(classes ...string) func(*v1alpha1.PodPolicySpec) {
	return func(s *v1alpha1.PodPolicySpec) {
		s.Priority = &v1alpha1.PrioritySection{AllowedClassNames: classes}
	}
}

func skippable(f func(*v1alpha1.PodPolicySpec), section v1alpha1.Section) func(*v1alpha1.PodPolicySpec) {
	return func(s *v1alpha1.PodPolicySpec) {
		f(s)
		s.AllowSkip = []v1alpha1.Section{section}
	}
}

func TestPriority(t *testing.T) {
	high, low, base := class("high", 100, false), class("low", 1, false), class("base", 5, true)
	for name, tc := range map[string]struct {
		in     []option
		origin explain.Origin
		why    string
		limits string
		means  string
	}{
		"manifest, given":      {[]option{high, podPolicy(t, "p", 0, gives("high")), manifest}, explain.OriginPolicy, "PodPolicy p: the pod named no class", "", "priority below 100"},
		"manifest, own":        {[]option{high, low, podPolicy(t, "p", 0, gives("high")), ranked("low", 1), manifest}, explain.OriginPod, "its own choice; PodPolicy p gives high only", "", "below 1"},
		"manifest, nobody":     {[]option{manifest}, explain.OriginNone, "names no class, and no matching policy gives one", "", "below 0"},
		"manifest, default":    {[]option{base, manifest}, explain.OriginCluster, "globalDefault", "", "below 5"},
		"live, as given":       {[]option{high, podPolicy(t, "p", 0, gives("high")), ranked("high", 100)}, explain.OriginPodOrPolicy, "PodPolicy p gives it", "", "preempts nobody any more; pods above 100"},
		"live, other":          {[]option{high, low, podPolicy(t, "p", 0, gives("high")), ranked("low", 1)}, explain.OriginPodOrPolicy, "earlier policy's; PodPolicy p gives high", "", ""},
		"live, missed":         {[]option{high, podPolicy(t, "p", 0, gives("high"))}, explain.OriginNone, "was not there or not asked", "", ""},
		"live, declined":       {[]option{high, podPolicy(t, "p", 0, skippable(gives("high"), "priority")), annotated(v1alpha1.AnnotationSkip, "gracePeriod, priority")}, explain.OriginNone, "it declines what PodPolicy p would give", "", ""},
		"live, unknown class":  {[]option{podPolicy(t, "p", 0, gives("gone"))}, explain.OriginNone, "would give gone and can't", "", ""},
		"classes unknown":      {[]option{ranked("high", 100), func(in *explain.Input) { in.Facts.PriorityClasses = nil }}, explain.OriginUnknown, "classes are not known", "", ""},
		"classes partly known": {[]option{high, ranked("other", 7), func(in *explain.Input) { in.Facts.Partial = true }}, explain.OriginUnknown, "classes are not known", "", ""},
		"manifest, partly":     {[]option{high, func(in *explain.Input) { in.Facts.Partial = true }, manifest}, explain.OriginUnknown, "whether the cluster has a globalDefault is not known", "", ""},
		"policies unknown":     {[]option{high, ranked("high", 100), func(in *explain.Input) { in.PoliciesUnknown = true }}, explain.OriginUnknown, "not all policies are known", "", ""},
		"critical":             {[]option{ranked("system-node-critical", 2000001000)}, explain.OriginPodOrPolicy, "", "", "never evicted"},
		"never preempts":       {[]option{edit(func(p *corev1.Pod) { p.Spec.PreemptionPolicy = new(corev1.PreemptNever); p.Spec.NodeName = "" })}, explain.OriginNone, "", "", "waits for room"},
		"limits, intersection": {[]option{podPolicy(t, "p", 0, allows("a", "b", "c")), podPolicy(t, "q", 0, allows("c", "b"))}, explain.OriginNone, "", "allowed are b, c (PodPolicy p, q)", ""},
		"limits, none left":    {[]option{podPolicy(t, "p", 0, allows("a")), podPolicy(t, "q", 0, allows("c"))}, explain.OriginNone, "", "none: the lists have nothing in common", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := explain.Explain(web(tc.in...)).Priority
			if p.Origin != tc.origin {
				t.Errorf("origin %s, want %s", p.Origin, tc.origin)
			}
			said(t, p.Why, tc.why)
			said(t, strings.Join(p.Limits, "; "), tc.limits)
			said(t, p.Means, tc.means)
		})
	}
}

func spreads(s *v1alpha1.PodPolicySpec) {
	s.TopologySpread = &v1alpha1.TopologySpreadSection{Constraints: []v1alpha1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway}}}
}

// constrained has the constraint of spreads, with a selector.
func constrained(app string) option {
	return edit(func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}
	})
}

func otherValues(p *corev1.Pod) {
	c := &p.Spec.TopologySpreadConstraints[0]
	c.MaxSkew, c.WhenUnsatisfiable, c.MinDomains = 3, corev1.DoNotSchedule, new(int32(2))
}

// What a policy would give today is compared with what the pod has, and needs the same facts as for a pod that has nothing.
func TestNeedsOfAPodWithConstraints(t *testing.T) {
	hard := func(s *v1alpha1.PodPolicySpec) {
		spreads(s)
		s.TopologySpread.Constraints[0].WhenUnsatisfiable = corev1.DoNotSchedule
	}
	if needs := explain.Needs(web(constrained("web"), podPolicy(t, "p", 0, hard))); !needs.Selectors || !needs.Nodes {
		t.Errorf("needs %+v: Services, controller and nodes are not looked up", needs)
	}
}

func served(in *explain.Input) { in.Facts.ServiceSelectors = []map[string]string{{"app": "web"}} }

func TestSpread(t *testing.T) {
	for name, tc := range map[string]struct {
		in     []option
		origin explain.Origin
		why    string
		rest   string
	}{
		"manifest, given":      {[]option{served, podPolicy(t, "p", 0, spreads), manifest}, explain.OriginPolicy, "PodPolicy p: the pod has no constraints", "selector from the Service"},
		"manifest, own":        {[]option{served, podPolicy(t, "p", 0, spreads), constrained("web"), manifest}, explain.OriginPod, "its own choice; PodPolicy p gives its own only", "switched off"},
		"manifest, bound":      {[]option{served, podPolicy(t, "p", 0, spreads), func(in *explain.Input) { in.Created = false }}, explain.OriginNone, "names its node itself", ""},
		"no selector":          {[]option{podPolicy(t, "p", 0, spreads), manifest}, explain.OriginNone, "no selector can be derived", "where a Service"},
		"daemon":               {[]option{served, owned("DaemonSet"), podPolicy(t, "p", 0, spreads)}, explain.OriginNone, "a DaemonSet's pod gets none", "pins it"},
		"declined":             {[]option{served, podPolicy(t, "p", 0, skippable(spreads, "topologySpread")), annotated(v1alpha1.AnnotationSkip, "topologySpread")}, explain.OriginNone, "declines", ""},
		"live, as given":       {[]option{served, podPolicy(t, "p", 0, spreads), constrained("web")}, explain.OriginPodOrPolicy, "PodPolicy p gives them", "selector from the Service"},
		"live, others":         {[]option{served, podPolicy(t, "p", 0, spreads), constrained("other")}, explain.OriginPodOrPolicy, "not those that PodPolicy p gives today to pods that have none: kubernetes.io/hostname counts app=other, today app=web", ""},
		"live, other values":   {[]option{served, podPolicy(t, "p", 0, spreads), constrained("web"), edit(otherValues)}, explain.OriginPodOrPolicy, "none: kubernetes.io/hostname maxSkew 3, today 1, whenUnsatisfiable DoNotSchedule, today ScheduleAnyway, minDomains 2, today unset", ""},
		"live, other keys":     {[]option{served, podPolicy(t, "p", 0, spreads), constrained("web"), edit(func(p *corev1.Pod) { p.Spec.TopologySpreadConstraints[0].TopologyKey = "rack" })}, explain.OriginPodOrPolicy, "none: kubernetes.io/hostname is missing; rack is not among today's", ""},
		"live, none today":     {[]option{podPolicy(t, "p", 0, spreads), constrained("web")}, explain.OriginPodOrPolicy, "no Service selects it and it has no controller", ""},
		"live, not comparable": {[]option{podPolicy(t, "p", 0, spreads), constrained("web"), func(in *explain.Input) { in.SelectorsUnknown = true }}, explain.OriginUnknown, "can't be compared", ""},
		"live, missed":         {[]option{served, podPolicy(t, "p", 0, spreads)}, explain.OriginNone, "though PodPolicy p gives some", ""},
		"nobody":               {nil, explain.OriginNone, "no matching policy gives any", ""},
		"policies unknown":     {[]option{func(in *explain.Input) { in.PoliciesUnknown = true }}, explain.OriginNone, "whether a policy gives any is not known", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := explain.Explain(web(tc.in...)).Spread
			if s.Origin != tc.origin {
				t.Errorf("origin %s, want %s", s.Origin, tc.origin)
			}
			said(t, s.Why, tc.why)
			said(t, s.Means+s.Selector, tc.rest)
		})
	}
	if w := explain.Explain(web(podPolicy(t, "p", 0, spreads), func(in *explain.Input) { in.SelectorsUnknown = true })).Warnings; len(w) > 0 {
		t.Errorf("nobody looked for a selector, and it warns that there is none: %q", w)
	}
}

func matching(m v1alpha1.PodMatch) func(*v1alpha1.PodPolicySpec) {
	return func(s *v1alpha1.PodPolicySpec) { s.Match = &m }
}

func labelled(key, value string) *v1alpha1.LabelSelector {
	return v1alpha1.SetAsLabelSelector(map[string]string{key: value})
}

func conditions(expressions ...string) (out []admissionregistrationv1.MatchCondition) {
	for i, e := range expressions {
		out = append(out, admissionregistrationv1.MatchCondition{Name: "c" + string(rune('0'+i)), Expression: e})
	}
	return out
}

func TestPolicies(t *testing.T) {
	for name, tc := range map[string]struct {
		match   v1alpha1.PodMatch
		in      []option
		matches explain.Match
		why     string
	}{
		"all":               {v1alpha1.PodMatch{}, nil, explain.MatchYes, ""},
		"namespace":         {v1alpha1.PodMatch{NamespaceSelector: labelled("team", "db")}, nil, explain.MatchNo, "namespace shop is not team=db"},
		"namespace unknown": {v1alpha1.PodMatch{NamespaceSelector: labelled("team", "web")}, []option{func(in *explain.Input) { in.Namespace.Unknown = true }}, explain.MatchNo, "namespace shop is not known"},
		"labels":            {v1alpha1.PodMatch{NamespaceSelector: labelled("team", "web"), PodSelector: labelled("app", "db")}, nil, explain.MatchNo, "its labels are not app=db"},
		"owner":             {v1alpha1.PodMatch{OwnerKinds: []v1alpha1.OwnerKind{"Job", "None"}}, []option{owned("ReplicaSet")}, explain.MatchNo, "ReplicaSet is not among ownerKinds Job, None"},
		"class":             {v1alpha1.PodMatch{PriorityClassNames: []string{"low", "high"}}, nil, explain.MatchNo, "its PriorityClass, none, is not among priorityClassNames low, high"},
		"its class":         {v1alpha1.PodMatch{PriorityClassNames: []string{"low", "high"}}, []option{ranked("high", 9)}, explain.MatchYes, ""},
		"priority":          {v1alpha1.PodMatch{Priority: &v1alpha1.PriorityRange{Min: new(int32(1)), Max: new(int32(5))}}, []option{ranked("high", 9)}, explain.MatchNo, "its priority of 9 is outside of priority min 1 max 5"},
		"its priority":      {v1alpha1.PodMatch{Priority: &v1alpha1.PriorityRange{Min: new(int32(9))}}, []option{ranked("high", 9)}, explain.MatchYes, ""},
		"condition":         {v1alpha1.PodMatch{MatchConditions: conditions("true", "false")}, nil, explain.MatchNo, "match condition c1 is false"},
		"condition fails":   {v1alpha1.PodMatch{MatchConditions: conditions("object.metadata.annotations['a'] == 'b'")}, nil, explain.MatchLimits, "its limits hold for this pod, its defaults do not"},
		"creator":           {v1alpha1.PodMatch{MatchConditions: conditions("request.userInfo.username == 'ci'")}, []option{func(in *explain.Input) { in.Creator = authenticationv1.UserInfo{Username: "ci"} }}, explain.MatchYes, ""},
		"excluded":          {v1alpha1.PodMatch{}, []option{func(in *explain.Input) { in.Namespace.Name = "kube-system" }}, explain.MatchNo, "no policy is for pods of namespace kube-system"},
		"excluded by name":  {v1alpha1.PodMatch{}, []option{func(in *explain.Input) { in.Exempt, _ = policy.Exempt{}.Excluding("shop-*", "shop") }}, explain.MatchNo, "no policy is for pods of namespace shop: it is excluded (--exclude-namespaces=shop of the webhook)"},
		"mirror": {v1alpha1.PodMatch{}, []option{annotated(corev1.MirrorPodAnnotationKey, "h"), edit(func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n1", Controller: new(true)}}
		})}, explain.MatchNo, "mirror pod"},
	} {
		t.Run(name, func(t *testing.T) {
			got := explain.Explain(web(append(tc.in, podPolicy(t, "p", 0, matching(tc.match)))...)).Policies
			if len(got) != 1 || got[0].Matches != tc.matches {
				t.Fatalf("got %+v, want %s", got, tc.matches)
			}
			said(t, got[0].Why, tc.why)
		})
	}
}

// A policy of which it is uncertain whether it matches gives nothing, and limits all the same.
func TestUncertainPolicy(t *testing.T) {
	e := explain.Explain(web(class("high", 9, false), class("low", 1, false), ranked("low", 1), podPolicy(t, "p", 0, gives("low")),
		podPolicy(t, "heavier", 9, func(s *v1alpha1.PodPolicySpec) {
			matching(v1alpha1.PodMatch{MatchConditions: conditions("object.metadata.annotations['a'] == 'b'")})(s)
			s.Priority = &v1alpha1.PrioritySection{ClassName: "high", AllowedClassNames: []string{"high", "low"}}
		})))
	if e.Priority.Policy != "p" {
		t.Errorf("the class is of %q", e.Priority.Policy)
	}
	said(t, strings.Join(e.Priority.Limits, ""), "high, low (PodPolicy heavier)")
}

// A contract that was decided by a policy as it was, and what it would be today.
func TestContractAndToday(t *testing.T) {
	weighs := func(n int32) func(*v1alpha1.PodPolicySpec) {
		return func(s *v1alpha1.PodPolicySpec) {
			s.Node = &v1alpha1.Enforcement{CPU: &v1alpha1.WeightEnforcement{Weight: n}}
		}
	}
	elsewhere := func(s *v1alpha1.PodPolicySpec) {
		weighs(200)(s)
		s.Match = &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{"no": "where"})}
	}
	had := annotated(v1alpha1.AnnotationEnforcement, `{"cpu":{"weight":200}}`)
	for name, tc := range map[string]struct {
		in         []option
		why, today string
	}{
		"the same":  {[]option{had, podPolicy(t, "p", 0, weighs(200))}, "the same today", ""},
		"another":   {[]option{had, podPolicy(t, "p", 0, weighs(300)), podPolicy(t, "q", 1, elsewhere)}, "decided when it was made; PodPolicy p decides otherwise today", "it has cpu.weight 200, recreated: cpu.weight 300 (PodPolicy p)"},
		"none's":    {[]option{had, podPolicy(t, "p", 0, weighs(300))}, "no PodPolicy gives this today", "it has cpu.weight 200, recreated: cpu.weight 300 (PodPolicy p)"},
		"no policy": {[]option{had}, "no PodPolicy gives this today", "recreated it would have none"},
		"another's": {[]option{had, podPolicy(t, "q", 1, elsewhere)}, "by a policy that does not match today", "recreated it would have none"},
		"missed":    {[]option{podPolicy(t, "p", 0, weighs(300))}, "though PodPolicy p gives node settings", "it has nothing of it, recreated: cpu.weight 300"},
		"unread":    {[]option{annotated(v1alpha1.AnnotationEnforcement, `{"cpu":{"weight":0}}`)}, "counts for nothing", "recreated it would have none"},
		"class":     {[]option{class("high", 9, false), podPolicy(t, "p", 0, gives("high"))}, "", "priority class: it has none, recreated it would get high"},
		"refused":   {[]option{class("high", 9, false), ranked("high", 9), podPolicy(t, "p", 0, allows("low"))}, "", "it would be refused: PriorityClass \"high\" is not allowed here"},
		"revalued":  {[]option{class("high", 9, false), ranked("high", 8), edit(func(p *corev1.Pod) { p.Spec.PreemptionPolicy = nil })}, "", "it would be refused: spec.priority is 8 but"},
		"spread":    {[]option{served, podPolicy(t, "p", 0, spreads)}, "", "topology spread: it has no constraints"},
		"grace": {[]option{podPolicy(t, "p", 0, func(s *v1alpha1.PodPolicySpec) {
			s.GracePeriod = &v1alpha1.GracePeriodSection{MinSeconds: new(int64(40))}
		})}, "", "grace period: recreated it would get 40 s"},
		"a probe's grace": {[]option{podPolicy(t, "p", 0, func(s *v1alpha1.PodPolicySpec) {
			s.GracePeriod = &v1alpha1.GracePeriodSection{MaxSeconds: new(int64(40))}
		}), edit(func(p *corev1.Pod) {
			p.Spec.Containers[0].LivenessProbe = &corev1.Probe{TerminationGracePeriodSeconds: new(int64(90))}
		})}, "", "grace period of containers.0.livenessProbe: recreated it would get 40 s"},
	} {
		t.Run(name, func(t *testing.T) {
			e := explain.Explain(web(tc.in...))
			said(t, e.Contract.Why, tc.why)
			said(t, strings.Join(e.Today, "\n"), tc.today)
			if removable := strings.Contains(e.Contract.Why, "no PodPolicy gives this"); removable != (e.Contract.Remove == "kubectl annotate pod -n shop "+e.Pod.Name+" podgrace.dev/enforcement-") || !removable && e.Contract.Remove != "" {
				t.Errorf("to remove it: %q", e.Contract.Remove)
			}
			if tc.today == "" && len(e.Today) > 0 {
				t.Errorf("differs today: %q", e.Today)
			}
			for _, w := range e.Warnings {
				if strings.Contains(w, "is written by Podgrace only") {
					t.Errorf("it warns about the annotation that admission wrote: %s", w)
				}
			}
		})
	}
}

func TestRefusedManifest(t *testing.T) {
	e := explain.Explain(web(class("high", 9, false), ranked("high", 9), podPolicy(t, "p", 0, allows("low")), manifest))
	said(t, strings.Join(e.Refused, "\n"), "PriorityClass \"high\" is not allowed here")
	if len(e.Today) > 0 {
		t.Errorf("a manifest was decided today: %q", e.Today)
	}
}

package limits_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/defaulting/limits"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// A case has thirty pods.
func TestMain(m *testing.M) { os.Exit(Run(m, 160)) }

var here = limits.Cluster{Exempt: excluding("till", "team-*"), ServiceAccount: "podgrace-webhook", GlobalDefault: "basic"}

func excluding(patterns ...string) policy.Exempt {
	exempt, err := policy.ExemptIn("podgrace-system").Excluding(patterns...)
	if err != nil {
		panic(err)
	}
	return exempt
}

// holds says that the webhook's account has the right by which the limits are in force, and no other.
type holds bool

func (h holds) Allowed(_ context.Context, user authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) apiserver.Answer {
	if h && user.Username == "system:serviceaccount:podgrace-system:podgrace-webhook" &&
		what.Namespace == "podgrace-system" && what.Group == "podgrace.dev" && what.Resource == limits.Resource && what.Verb == limits.HoldVerb {
		return apiserver.Yes
	}
	return apiserver.No
}

// world is one random case.
type world struct {
	policies policy.Policies
	// exceptions that somebody asked for, of which those are compiled that are in force at noon.
	exceptions policy.Exceptions
	compiled   limits.Compiled
	server     *apiserver.Policies
	request    policy.Request
}

// validate is what the webhook says of the pod's limits: its first words, or none; and whether a match condition failed.
func (w world) validate() (reasons []string, words string, fails bool) {
	facts := defaulting.Facts{PriorityClasses: map[string]*schedulingv1.PriorityClass{}, Partial: true, GlobalDefault: &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "basic"}, GlobalDefault: true}}
	result := defaulting.For(w.policies, w.request, here.Exempt).Validate(w.request, facts)
	for _, d := range result.Denials {
		reasons = append(reasons, d.Reason.Code)
		if words == "" {
			words = d.Message
		}
	}
	fails = slices.ContainsFunc(result.Warnings, func(m defaulting.Warning) bool { return strings.Contains(m.Message, "its limits hold for this pod") })
	return reasons, words, fails
}

// excepted reports whether the webhook would refuse the pod but for an exception.
func (w world) excepted() bool {
	return len(defaulting.For(w.policies, w.request, here.Exempt).Validate(w.request, defaulting.Facts{Partial: true}).Exceptions) > 0
}

// judge is what the API server says of the same.
func (w world) judge(t interface{ Fatal(...any) }, may apiserver.Authorizer) []apiserver.Denial {
	if w.compiled.Policy == nil {
		return nil
	}
	denials, unknown, err := w.server.Validate(context.Background(), reviewOf(t, w.request, may))
	if err != nil || len(unknown) > 0 {
		t.Fatal(err, unknown)
	}
	return denials
}

func serverOf(t interface{ Fatal(...any) }, c limits.Compiled) *apiserver.Policies {
	var text []byte
	for _, o := range []runtime.Object{c.Policy, c.Binding} {
		document, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		text = append(append(text, "---\n"...), document...)
	}
	p, err := apiserver.ReadPolicies(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func reviewOf(t interface{ Fatal(...any) }, req policy.Request, may apiserver.Authorizer) apiserver.Request {
	raw, err := json.Marshal(req.Pod)
	if err != nil {
		t.Fatal(err)
	}
	return apiserver.Request{
		AdmissionRequest: &admissionv1.AdmissionRequest{
			Kind: metav1.GroupVersionKind{Version: "v1", Kind: "Pod"}, Resource: metav1.GroupVersionResource{Version: "v1", Resource: "pods"},
			Name: req.Pod.Name, Namespace: req.Namespace.Name, Operation: admissionv1.Create, UserInfo: req.User, DryRun: new(req.DryRun),
			Object: runtime.RawExtension{Raw: raw},
		},
		Namespace:  &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: req.Namespace.Name, Labels: req.Namespace.Labels}},
		Authorizer: may,
	}
}

// graces are few and close, so that limits and choices meet.
var graces = rapid.OneOf(rapid.SampledFrom([]int64{0, 1, 10, 20, 29, 30, 30, 31, 40, 60}), rapid.Int64Range(0, 100))

func drawWorld(t *rapid.T) world {
	policies := Compile(t, rapid.SliceOfNDistinct(rapid.Custom(drawPolicy), 1, 5, func(p *v1alpha1.PodPolicy) string { return p.Name }).Draw(t, "policies")...)
	w := world{policies: policies, exceptions: drawExceptions(t, policies)}
	cluster := here
	cluster.Exceptions = w.exceptions.InForce(Noon)
	w.compiled = limits.Compile(policies, cluster)
	if w.compiled.Policy != nil {
		w.server = serverOf(t, w.compiled)
	}
	return w
}

// podsEach are the pods that one world's policies judge: reading policies takes longer than judging pods.
const podsEach = 30

// drawExceptions are some in which namespaces, selectors, ends and grants differ.
func drawExceptions(t *rapid.T, policies policy.Policies) policy.Exceptions {
	names := []string{"gone"}
	for _, p := range policies {
		names = append(names, p.Name, p.Name)
	}
	all := make([]*policy.Exception, Pick(t, "exceptions", 0, 0, 0, 1, 2, 4))
	for i := range all {
		x := &v1alpha1.PolicyException{ObjectMeta: metav1.ObjectMeta{Namespace: Pick(t, "namespace", "shop", "shop", "shop", "other"), Name: fmt.Sprintf("x%d", i), Generation: 2}}
		x.Spec = v1alpha1.PolicyExceptionSpec{
			Policy: Pick(t, "policy", names...), Reason: "r", Owner: "o", AllPods: true,
			Until:  Noon.Add(time.Duration(Pick(t, "until", -1, 1, 2, 3600, 3600)) * time.Second).Format(time.RFC3339),
			Limits: rapid.SliceOfNDistinct(rapid.SampledFrom(Limits), 1, len(Limits), rapid.ID).Draw(t, "lifted"),
		}
		if Chance(t, "some pods") {
			x.Spec.PodSelector, x.Spec.AllPods = drawSelector(t, "excepted"), false
		}
		if !Rarely(t, "not granted") {
			x.Status.Grant = &v1alpha1.Grant{By: "eve", Generation: Pick[int64](t, "generation", 2, 2, 2, 2, 1)}
		}
		compiled, err := policy.CompileException(x)
		if err != nil {
			t.Fatal(err)
		}
		all[i] = compiled
	}
	if Pick(t, "too many", false, false, true) { // of many of these nothing is seen: the policy has none of the limits that they lift, or the namespace is another
		all = append(all, drawLarge(t, names[1:])...)
	}
	return policy.SortExceptions(all)
}

// drawLarge are exceptions from one policy that are too many for the API server to look at, though each is as the schema allows.
func drawLarge(t *rapid.T, policies []string) []*policy.Exception {
	of, namespace, limits := Pick(t, "policy", policies...), Pick(t, "namespace", "shop", "other"), rapid.SliceOfNDistinct(rapid.SampledFrom(Limits), 1, len(Limits), rapid.ID).Draw(t, "lifted")
	operator := Pick(t, "operator", metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn)
	all := make([]*policy.Exception, 3)
	for i := range all {
		x := &v1alpha1.PolicyException{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("large%d", i), Generation: 1}}
		x.Spec = v1alpha1.PolicyExceptionSpec{Policy: of, Reason: "r", Owner: "o", Until: Noon.Add(time.Hour).Format(time.RFC3339), Limits: limits, PodSelector: &v1alpha1.LabelSelector{}}
		for range 8 {
			r := v1alpha1.LabelSelectorRequirement{Key: "app", Operator: operator}
			for j := range 16 {
				r.Values = append(r.Values, fmt.Sprintf("%063d", j))
			}
			x.Spec.PodSelector.MatchExpressions = append(x.Spec.PodSelector.MatchExpressions, r)
		}
		x.Status.Grant = &v1alpha1.Grant{By: "eve", Generation: 1}
		var err error
		if all[i], err = policy.CompileException(x); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// drawRequest is the creation of a pod at some moment, as the webhook's clock has it; the API server writes it in whole seconds.
func (w world) drawRequest(t *rapid.T) policy.Request {
	r := drawRequest(t)
	now := Noon.Add(time.Duration(rapid.Int64Range(0, int64(3*time.Second)).Draw(t, "now")))
	r.Pod.CreationTimestamp = metav1.NewTime(now)
	r.Namespace.Exceptions = slices.DeleteFunc(w.exceptions.InForce(now), func(x *policy.Exception) bool { return x.Namespace != r.Namespace.Name })
	return r
}

func drawRequest(t *rapid.T) policy.Request {
	r := policy.Request{Pod: drawPod(t), DryRun: Rarely(t, "dry run")}
	r.Namespace = policy.Namespace{Name: "shop", Labels: drawLabels(t, "namespace ")}
	if Rarely(t, "another namespace") {
		r.Namespace.Name = Pick(t, "namespace", "kube-system", "podgrace-system", "till", "team-a", "team", "a-team-b")
	}
	r.Namespace.Labels[corev1.LabelMetadataName] = r.Namespace.Name
	r.Pod.Namespace = r.Namespace.Name
	r.User = Pick(t, "user", authenticationv1.UserInfo{Username: "jane", Groups: []string{"system:authenticated", "team"}},
		authenticationv1.UserInfo{Username: "system:node:n1", Groups: []string{"system:nodes", "system:authenticated"}})
	return r
}

func drawLabels(t *rapid.T, of string) map[string]string {
	l := map[string]string{}
	for key, values := range map[string][]string{"app": {"web", "db", ""}, "track": {"stable", "5", ""}} {
		if v := Pick(t, of+key, values...); v != "" {
			l[key] = v
		}
	}
	return l
}

func drawSelector(t *rapid.T, of string) *v1alpha1.LabelSelector {
	s := &v1alpha1.LabelSelector{}
	if Chance(t, of+" by label") {
		s.MatchLabels = map[string]v1alpha1.LabelValue{"app": "web"}
	}
	for range rapid.IntRange(0, 2).Draw(t, of+" expressions") {
		r := v1alpha1.LabelSelectorRequirement{Key: Pick(t, "key", "app", "track", "none"), Operator: Pick(t, "operator", metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist)}
		if r.Operator == metav1.LabelSelectorOpIn || r.Operator == metav1.LabelSelectorOpNotIn {
			r.Values = Pick(t, "values", []string{"web"}, []string{"db", "stable"}, []string{"5"})
		}
		s.MatchExpressions = append(s.MatchExpressions, r)
	}
	return s
}

// conditions are some that fail for some pods, and some that can't be translated.
var conditions = []string{
	"object.metadata.labels['app'] == 'web'", "int(object.metadata.labels['track']) > 3", "false", "object.metadata.annotations['no'] == ''\n|| false",
	"object.metadata.?annotations[?'note'].orValue('') == 'x'", "'note' in object.metadata.?annotations.orValue({})", "namespaceObject.metadata.labels['app'] == 'web'",
	"request.userInfo.username.startsWith('system:')", "'team' in request.userInfo.groups", "object.spec.containers[0].image.startsWith('registry')",
	"has(object.spec.nodeName) && request.namespace == 'shop'", "request.dryRun", "1 / (size(object.spec.containers) - 1) > 0",
	"object.spec.containers.all(c, c.name != '')", "size(object.metadata.annotations) == 0", "has(object.metadata.annotations)", "object.status == object.status",
}

func drawPolicy(t *rapid.T) *v1alpha1.PodPolicy {
	p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: Pick(t, "name", "a", "b", "c", "d", "e", "f")}}
	s := &p.Spec
	s.Weight = rapid.Int32Range(-1, 1).Draw(t, "weight")
	if Chance(t, "match") {
		s.Match = &v1alpha1.PodMatch{}
		if Chance(t, "namespace selector") {
			s.Match.NamespaceSelector = drawSelector(t, "namespaces")
			if Chance(t, "by name") {
				s.Match.NamespaceSelector.MatchExpressions = append(s.Match.NamespaceSelector.MatchExpressions, v1alpha1.LabelSelectorRequirement{
					Key: corev1.LabelMetadataName, Operator: Pick(t, "operator", metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn), Values: Pick(t, "names", []string{"shop"}, []string{"other", "team"})})
			}
		}
	}
	if Chance(t, "removal") {
		s.Removal = &v1alpha1.RemovalSection{Protect: Pick(t, "protect", v1alpha1.ProtectAll, v1alpha1.ProtectAll, v1alpha1.ProtectStateful), ZeroGrace: Pick(t, "zeroGrace", v1alpha1.ZeroGraceDeny, v1alpha1.ZeroGraceRaise, v1alpha1.ZeroGraceWarn, "")}
	} else if s.Match != nil {
		if Chance(t, "pod selector") {
			s.Match.PodSelector = drawSelector(t, "pods")
		}
		if Rarely(t, "owners") {
			s.Match.OwnerKinds = Pick(t, "kinds", []v1alpha1.OwnerKind{"None"}, []v1alpha1.OwnerKind{"ReplicaSet", "Job"})
		}
		for i := range Pick(t, "conditions", 0, 0, 1, 2) {
			s.Match.MatchConditions = append(s.Match.MatchConditions, admissionregistrationv1.MatchCondition{Name: fmt.Sprintf("c%d", i), Expression: Pick(t, "condition", conditions...)})
		}
	}
	if Chance(t, "classes") {
		s.Priority = &v1alpha1.PrioritySection{AllowedClassNames: rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"high", "low", "basic", "batch"}), 1, 3, rapid.ID).Draw(t, "allowed")}
	}
	if Chance(t, "grace period") {
		drawGrace(t, s)
	}
	return p
}

func drawGrace(t *rapid.T, s *v1alpha1.PodPolicySpec) {
	bounds := []int64{graces.Draw(t, "one"), graces.Draw(t, "two")}
	slices.Sort(bounds)
	s.GracePeriod = &v1alpha1.GracePeriodSection{}
	if Chance(t, "minimum") {
		s.GracePeriod.MinSeconds = &bounds[0]
	}
	if Chance(t, "maximum") && bounds[1] > 0 {
		s.GracePeriod.MaxSeconds = &bounds[1]
	}
	if Chance(t, "margin") {
		s.GracePeriod.PreStopMarginSeconds = new(rapid.Int64Range(0, 20).Draw(t, "margin seconds"))
	}
}

func drawPod(t *rapid.T) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1", Labels: drawLabels(t, "")}}
	p.Spec.Containers = []corev1.Container{{Name: "app", Image: Pick(t, "image", "registry.example/app", "app")}}
	p.Spec.PriorityClassName = Pick(t, "class", "", "high", "low", "basic", "other")
	if !Rarely(t, "no grace period") {
		p.Spec.TerminationGracePeriodSeconds = new(graces.Draw(t, "grace"))
	}
	if Rarely(t, "negative grace period") {
		p.Spec.TerminationGracePeriodSeconds = new(Pick[int64](t, "negative", -5, math.MinInt64))
	}
	if Chance(t, "note") {
		p.Annotations = map[string]string{"note": "x"}
	}
	if Rarely(t, "record") {
		p.Annotations = map[string]string{v1alpha1.AnnotationProtected: "ReplicaSet.apps/web"}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", Controller: new(true)}}
	}
	if Rarely(t, "mirror pod") {
		p.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x"}
	}
	if Chance(t, "owner") {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n"}, {APIVersion: "apps/v1", Kind: Pick(t, "kind", "ReplicaSet", "StatefulSet", "Job"), Name: "web", Controller: new(true)}}
	}
	if rapid.IntRange(0, 60).Draw(t, "owners") == 60 {
		p.OwnerReferences = append(make([]metav1.OwnerReference, limits.MaxItems), p.OwnerReferences...)
	}
	for i := range rapid.IntRange(0, 3).Draw(t, "hooks") {
		c := corev1.Container{Name: fmt.Sprintf("c%d", i), Lifecycle: &corev1.Lifecycle{}}
		if hook := drawHook(t); Chance(t, "before") {
			c.Lifecycle.PreStop = hook
		} else {
			c.Lifecycle.PostStart = hook
		}
		c.LivenessProbe, c.StartupProbe = drawProbe(t), drawProbe(t)
		switch Pick(t, "where", "main", "sidecar", "init") {
		case "main":
			p.Spec.Containers = append(p.Spec.Containers, c)
		case "sidecar":
			c.RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		case "init":
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		}
	}
	if many := Pick(t, "many", slices.Concat(make([]int, 60), []int{limits.MaxItems, limits.MaxItems + 1})...); many > 0 { // of the last
		for last := p.Spec.Containers[len(p.Spec.Containers)-1]; len(p.Spec.Containers)+len(p.Spec.InitContainers) < many; {
			p.Spec.Containers = append(p.Spec.Containers, last)
		}
	}
	return p
}

// drawProbe is now and then a probe with a grace period of its own.
func drawProbe(t *rapid.T) *corev1.Probe {
	if Pick(t, "probe", 0, 0, 0, 0, 0, 0, 1) == 0 {
		return nil
	}
	return &corev1.Probe{TerminationGracePeriodSeconds: new(graces.Draw(t, "probe's grace"))}
}

func drawHook(t *rapid.T) *corev1.LifecycleHandler {
	n := fmt.Sprint(graces.Draw(t, "exec"))
	switch Pick(t, "hook", "sleep", "exec", "http") {
	case "sleep":
		return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: Pick(t, "sleep", graces.Draw(t, "seconds"), graces.Draw(t, "seconds"), 604800, 604801, -1)}}
	case "exec":
		return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: Pick(t, "command", []string{"sleep", n}, []string{"/bin/sleep", n + "s"}, []string{"sleep", "00000000000000000000" + n},
			[]string{"sleep", "99999999999999999999"}, []string{"sleep", "604801"}, []string{"sleep", n + "m"}, []string{"/opt/sleep", n}, []string{"sleep"}, nil,
			[]string{"sh", "-c", "sleep " + n}, []string{"/usr/bin/bash", "-c", " exec /bin/sleep\t" + n + "s ;\n"}, []string{"sh", "-c", "sleep " + n + " && true"}, []string{"sh", "-x", "sleep " + n},
			[]string{"dash", "-c", "/usr/bin/sleep " + n}, []string{"sleep", ".5m"}, []string{"sh", "-eu", "-c", "sleep " + n + ".7 && quit 2>&1"}, []string{"sh", "-c", "sleep " + n + " && a & b"},
			[]string{"bash", "-ec", "sleep " + n + "s; a &", "name"}, []string{"sh", "-c", "sleep " + n + " && " + strings.Repeat("é", limits.MaxCommand-16)}, []string{"sleep", strings.Repeat("0", limits.MaxCommand-9) + n})}}
	}
	return &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{}}
}

// show is for who has to look why.
func show(w world) string {
	var text []byte
	for _, p := range w.policies {
		spec, _ := yaml.Marshal(p.Spec)
		text = append(append(text, "--- "+p.Name+"\n"...), spec...)
	}
	for _, x := range w.exceptions {
		spec, _ := yaml.Marshal(x.Spec)
		text = append(append(text, fmt.Sprintf("--- %s granted by %q\n", x.Key(), x.GrantedBy)...), spec...)
	}
	for _, o := range []any{w.request.Pod, w.request.Namespace, w.request.User.Username, w.compiled.Policy} {
		part, _ := yaml.Marshal(o)
		text = append(append(text, "---\n"...), part...)
	}
	return string(text)
}

package defaulting_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/defaulting/topology"
	"github.com/podgrace/podgrace/policy"
)

// The vocabulary of the tests. A pod is as it arrives at the webhook: the API server has filled in grace period 30 and,
// without a globalDefault class, priority 0 and PreemptLowerPriority.

const zone, host, hash = corev1.LabelTopologyZone, corev1.LabelHostname, "pod-template-hash"

type podOption func(*corev1.Pod)

func pod(options ...podOption) *corev1.Pod {
	p := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(30)),
			Priority:                      new(int32(0)),
			PreemptionPolicy:              ptr.To(corev1.PreemptLowerPriority),
			Containers:                    []corev1.Container{{Name: "app", Image: "registry.example/app"}},
		},
	}
	for _, o := range options {
		o(p)
	}
	return p
}

// of gives the pod a class as the in-tree Priority plugin does.
func of(c *schedulingv1.PriorityClass) podOption {
	return func(p *corev1.Pod) {
		p.Spec.PriorityClassName, p.Spec.Priority, p.Spec.PreemptionPolicy = c.Name, new(c.Value), c.PreemptionPolicy
	}
}

func bare(p *corev1.Pod) {
	p.Spec.Priority, p.Spec.PreemptionPolicy, p.Spec.TerminationGracePeriodSeconds = nil, nil, nil
}

func grace(n int64) podOption {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &n }
}

func labelled(pairs ...string) podOption {
	return func(p *corev1.Pod) { maps.Copy(p.Labels, pairsOf(pairs)) }
}

func annotated(pairs ...string) podOption {
	return func(p *corev1.Pod) {
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		maps.Copy(p.Annotations, pairsOf(pairs))
	}
}

func skipping(text string) podOption { return annotated(v1alpha1.AnnotationSkip, text) }

// recorded is an owner whose record the pod has already, so that nothing is to be said of it.
func recorded(owner podOption) podOption {
	return func(p *corev1.Pod) {
		owner(p)
		annotated(v1alpha1.AnnotationProtected, policy.RecordOf(p))(p)
	}
}

func enforced(text string) podOption { return annotated(v1alpha1.AnnotationEnforcement, text) }

var mirrored = annotated(corev1.MirrorPodAnnotationKey, "hash")

func ownedBy(apiVersion, kind, name string) podOption {
	return func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: name, UID: "1", Controller: new(true)}}
	}
}

var (
	ofReplicaSet  = ownedBy("apps/v1", "ReplicaSet", "web-abc")
	ofStatefulSet = ownedBy("apps/v1", "StatefulSet", "db")
	ofPodSet      = ownedBy("core.strimzi.io/v1beta2", "StrimziPodSet", "kafka")
	ofDaemonSet   = ownedBy("apps/v1", "DaemonSet", "agent")
	ofJob         = ownedBy("batch/v1", "Job", "report")
)

func spreadItself(p *corev1.Pod) {
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 2, TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway}}
}

func bound(p *corev1.Pod) { p.Spec.NodeName = "node-1" }

func claims(names ...string) podOption {
	return func(p *corev1.Pod) {
		for _, n := range names {
			p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: n, VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: n},
			}})
		}
	}
}

// stopping adds a container with a preStop hook.
func stopping(name string, hook *corev1.LifecycleHandler) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Lifecycle: &corev1.Lifecycle{PreStop: hook}})
	}
}

// starting adds an init container with a preStop hook: a sidecar, if it restarts always.
func starting(name string, restart *corev1.ContainerRestartPolicy, hook *corev1.LifecycleHandler) podOption {
	return func(p *corev1.Pod) {
		p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: name, RestartPolicy: restart, Lifecycle: &corev1.Lifecycle{PreStop: hook}})
	}
}

func sleep(n int64) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: n}}
}

func run(command ...string) *corev1.LifecycleHandler {
	return &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: command}}
}

var callHTTP = &corev1.LifecycleHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/stop"}}

func probed(name string, seconds int64) podOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, LivenessProbe: &corev1.Probe{TerminationGracePeriodSeconds: &seconds}})
	}
}

type policyOption func(*v1alpha1.PodPolicySpec)

func podPolicy(name string, options ...policyOption) *v1alpha1.PodPolicy {
	p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}}
	for _, o := range options {
		o(&p.Spec)
	}
	return p
}

func weight(n int32) policyOption { return func(s *v1alpha1.PodPolicySpec) { s.Weight = n } }

func permitsSkip(sections ...v1alpha1.Section) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { s.AllowSkip = sections }
}

func priority(s *v1alpha1.PodPolicySpec) *v1alpha1.PrioritySection {
	if s.Priority == nil {
		s.Priority = &v1alpha1.PrioritySection{}
	}
	return s.Priority
}

func gives(class string) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { priority(s).ClassName = class }
}

func allows(classes ...string) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { priority(s).AllowedClassNames = classes }
}

func gracePeriod(s *v1alpha1.PodPolicySpec) *v1alpha1.GracePeriodSection {
	if s.GracePeriod == nil {
		s.GracePeriod = &v1alpha1.GracePeriodSection{}
	}
	return s.GracePeriod
}

func defaultGrace(n int64) policyOption {
	return func(s *v1alpha1.PodPolicySpec) {
		gracePeriod(s).DefaultSeconds, gracePeriod(s).AllowShorterDefault = &n, n < 30
	}
}

func minGrace(n int64) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { gracePeriod(s).MinSeconds = &n }
}

func maxGrace(n int64) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { gracePeriod(s).MaxSeconds = &n }
}

func margin(n int64) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { gracePeriod(s).PreStopMarginSeconds = &n }
}

func topologySpread(s *v1alpha1.PodPolicySpec) *v1alpha1.TopologySpreadSection {
	if s.TopologySpread == nil {
		s.TopologySpread = &v1alpha1.TopologySpreadSection{}
	}
	return s.TopologySpread
}

func spreads(constraints ...v1alpha1.TopologySpreadConstraint) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { topologySpread(s).Constraints = constraints }
}

func infeasible(a v1alpha1.InfeasibleAction) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { topologySpread(s).OnInfeasible = a }
}

func revisionAware(b bool) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { topologySpread(s).RevisionAware = &b }
}

func ownerRule(group, kind string, keys ...string) policyOption {
	return func(s *v1alpha1.PodPolicySpec) {
		topologySpread(s).OwnerRules = append(topologySpread(s).OwnerRules, v1alpha1.OwnerRule{APIGroup: group, Kind: kind, LabelKeys: keys})
	}
}

func hard(key string, options ...func(*v1alpha1.TopologySpreadConstraint)) v1alpha1.TopologySpreadConstraint {
	c := v1alpha1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: key, WhenUnsatisfiable: corev1.DoNotSchedule}
	for _, o := range options {
		o(&c)
	}
	return c
}

func soft(key string, options ...func(*v1alpha1.TopologySpreadConstraint)) v1alpha1.TopologySpreadConstraint {
	c := hard(key, options...)
	c.WhenUnsatisfiable = corev1.ScheduleAnyway
	return c
}

func minDomains(n int32) func(*v1alpha1.TopologySpreadConstraint) {
	return func(c *v1alpha1.TopologySpreadConstraint) { c.MinDomains = &n }
}

func byLabels(keys ...string) func(*v1alpha1.TopologySpreadConstraint) {
	return func(c *v1alpha1.TopologySpreadConstraint) { c.MatchLabelKeys = keys }
}

func node(e v1alpha1.Enforcement) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { s.Node = &e }
}

func cpuWeight(n int32) v1alpha1.Enforcement {
	return v1alpha1.Enforcement{CPU: &v1alpha1.WeightEnforcement{Weight: n}}
}

func removal(protect v1alpha1.Protection, zero v1alpha1.ZeroGraceAction) policyOption {
	return func(s *v1alpha1.PodPolicySpec) {
		s.Removal = &v1alpha1.RemovalSection{Protect: protect, ZeroGrace: zero}
	}
}

// protects adds kinds of owners to the removal section.
func protects(owners ...v1alpha1.ProtectedOwner) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { s.Removal.Owners = owners }
}

func protectsBlock(s *v1alpha1.PodPolicySpec) { s.Removal.BlockClaims = v1alpha1.BlockClaimsExclusive }

func match(s *v1alpha1.PodPolicySpec) *v1alpha1.PodMatch {
	if s.Match == nil {
		s.Match = &v1alpha1.PodMatch{}
	}
	return s.Match
}

func inNamespaces(pairs ...string) policyOption {
	return func(s *v1alpha1.PodPolicySpec) {
		match(s).NamespaceSelector = v1alpha1.SetAsLabelSelector(pairsOf(pairs))
	}
}

func forPods(pairs ...string) policyOption {
	return func(s *v1alpha1.PodPolicySpec) {
		match(s).PodSelector = v1alpha1.SetAsLabelSelector(pairsOf(pairs))
	}
}

func forOwners(kinds ...v1alpha1.OwnerKind) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { match(s).OwnerKinds = kinds }
}

func forClasses(names ...string) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { match(s).PriorityClassNames = names }
}

// ranked is for pods of a priority from min to max; nil is no end.
func ranked(low, high *int32) policyOption {
	return func(s *v1alpha1.PodPolicySpec) { match(s).Priority = &v1alpha1.PriorityRange{Min: low, Max: high} }
}

// where adds CEL conditions, named c0, c1 and so on.
func where(expressions ...string) policyOption {
	return func(s *v1alpha1.PodPolicySpec) {
		for i, e := range expressions {
			match(s).MatchConditions = append(match(s).MatchConditions, admissionregistrationv1.MatchCondition{Name: fmt.Sprintf("c%d", i), Expression: e})
		}
	}
}

func class(name string, value int32, options ...func(*schedulingv1.PriorityClass)) *schedulingv1.PriorityClass {
	c := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: ptr.To(corev1.PreemptLowerPriority)}
	for _, o := range options {
		o(c)
	}
	return c
}

func globalDefault(c *schedulingv1.PriorityClass) { c.GlobalDefault = true }
func never(c *schedulingv1.PriorityClass)         { c.PreemptionPolicy = ptr.To(corev1.PreemptNever) }
func silent(c *schedulingv1.PriorityClass)        { c.PreemptionPolicy = nil }

type factOption func(*defaulting.Facts)

func facts(options ...factOption) defaulting.Facts {
	var f defaulting.Facts
	for _, o := range options {
		o(&f)
	}
	return f
}

func classes(list ...*schedulingv1.PriorityClass) factOption {
	return func(f *defaulting.Facts) {
		f.PriorityClasses = map[string]*schedulingv1.PriorityClass{}
		for _, c := range list {
			f.PriorityClasses[c.Name] = c
		}
		f.GlobalDefault = defaulting.GlobalDefaultOf(f.PriorityClasses)
	}
}

func service(pairs ...string) factOption {
	return func(f *defaulting.Facts) { f.ServiceSelectors = append(f.ServiceSelectors, pairsOf(pairs)) }
}

func ownerSelects(pairs ...string) factOption {
	return func(f *defaulting.Facts) { f.OwnerSelector = &metav1.LabelSelector{MatchLabels: pairsOf(pairs)} }
}

func withNode(name string, pairs ...string) factOption {
	return withTaintedNode(name, nil, pairs...)
}

func withTaintedNode(name string, taints []corev1.Taint, pairs ...string) factOption {
	return func(f *defaulting.Facts) {
		if f.Nodes == nil {
			f.Nodes = topology.New()
		}
		f.Nodes.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: pairsOf(pairs)}, Spec: corev1.NodeSpec{Taints: taints}})
	}
}

// dedicated is a taint.
func dedicated(effect corev1.TaintEffect) []corev1.Taint {
	return []corev1.Taint{{Key: "dedicated", Effect: effect}}
}

func withPod(node string, pairs ...string) factOption { return withLabelledPod(node, pairsOf(pairs)) }

func withLabelledPod(node string, has map[string]string) factOption {
	return func(f *defaulting.Facts) {
		before := f.Pods
		f.Pods = func(selector labels.Selector) (nodes []string, known bool) {
			if before != nil {
				nodes, _ = before(selector)
			}
			if selector.Matches(labels.Set(has)) {
				nodes = append(nodes, node)
			}
			return nodes, true
		}
	}
}

func noPods(f *defaulting.Facts) {
	f.Pods = func(labels.Selector) ([]string, bool) { return nil, true }
}

func claimed(name string, modes ...corev1.PersistentVolumeAccessMode) factOption {
	return func(f *defaulting.Facts) {
		if f.Claims == nil {
			f.Claims = policy.Claims{}
		}
		f.Claims[name] = policy.Claim{Modes: modes}
	}
}

// blockClaimed is claimed, for a block device.
func blockClaimed(name string, modes ...corev1.PersistentVolumeAccessMode) factOption {
	return func(f *defaulting.Facts) {
		claimed(name, modes...)(f)
		f.Claims[name] = policy.Claim{Modes: modes, Block: true}
	}
}

func pairsOf(pairs []string) map[string]string {
	m := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return m
}

// shop is the namespace that pods of the tests are in.
var shop = policy.Namespace{Name: "shop", Labels: map[string]string{"team": "shop"}}

var (
	alice   = authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}}
	kubelet = authenticationv1.UserInfo{Username: "system:node:node-1", Groups: []string{"system:nodes", "system:authenticated"}}
)

// ownNamespace is where Podgrace runs in the tests.
const ownNamespace = "podgrace-system"

// scenario is one row: a pod meets policies.
type scenario struct {
	name      string // the trap
	pod       *corev1.Pod
	namespace policy.Namespace // shop where empty
	user      authenticationv1.UserInfo
	policies  []*v1alpha1.PodPolicy
	facts     defaulting.Facts
	changes   []string // "operation path JSON"
	warnings  []string // what each must contain, in order; … stands for anything between
	denials   []string // "Reason: what it must contain"
}

func (s scenario) request() policy.Request {
	if s.namespace.Name == "" {
		s.namespace = shop
	}
	if s.user.Username == "" {
		s.user = alice
	}
	return policy.Request{Pod: s.pod, Namespace: s.namespace, User: s.user}
}

func testApply(t *testing.T, rows []scenario) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			policies := compile(t, row.policies...)
			before := row.pod.DeepCopy()
			result := defaulting.For(policies, row.request(), ownNamespace).Apply(row.request(), row.facts)
			row.compare(t, result)
			if diff := cmp.Diff(before, row.pod); diff != "" {
				t.Errorf("Apply changed its input (-before +after):\n%s", diff)
			}
			if len(result.Denials) > 0 {
				return
			}
			again := row
			again.pod = patched(t, row.pod, result.Changes)
			if second := defaulting.For(policies, again.request(), ownNamespace).Apply(again.request(), row.facts); len(second.Changes)+len(second.Denials) > 0 {
				t.Errorf("applied twice, it still changes %q and denies %v", render(t, second.Changes), second.Denials)
			}
		})
	}
}

func testValidate(t *testing.T, rows []scenario) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			row.compare(t, defaulting.For(compile(t, row.policies...), row.request(), ownNamespace).Validate(row.request(), row.facts))
		})
	}
}

func (s scenario) compare(t *testing.T, got defaulting.Result) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, s.changes...), render(t, got.Changes)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	compareTexts(t, "warnings", s.warnings, texts(got.Warnings))
	var denials []string
	for _, d := range got.Denials {
		denials = append(denials, d.Reason.Code+": "+d.Message)
	}
	compareTexts(t, "denials", s.denials, denials)
	for _, w := range got.Warnings {
		if problem := unfit(w); problem != "" {
			t.Errorf("warning %q %s", w, problem)
		}
	}
}

func compareTexts(t *testing.T, what string, want, got []string) {
	t.Helper()
	ok := len(want) == len(got)
	for i := 0; ok && i < len(want); i++ {
		ok = contains(got[i], want[i])
	}
	if !ok {
		t.Errorf("%s:\n got  %q\n want %q", what, got, want)
	}
}

// contains says whether all parts of the pattern, which … separates, are in the text in that order.
func contains(text, pattern string) bool {
	for part := range strings.SplitSeq(pattern, "…") {
		i := strings.Index(text, part)
		if i < 0 {
			return false
		}
		text = text[i+len(part):]
	}
	return true
}

// unfit says why a warning would not reach the user: the API server truncates long ones and drops those with control
// characters (k8s.io/apimachinery/pkg/util/net NewWarningHeader).
func unfit(w defaulting.Warning) string {
	switch {
	case len(w) > 256:
		return fmt.Sprintf("has %d bytes", len(w))
	case !utf8.ValidString(string(w)):
		return "is not UTF-8"
	case strings.ContainsFunc(string(w), unicode.IsControl):
		return "has control characters: the API server drops it"
	case w == "":
		return "is empty"
	}
	return ""
}

func texts(warnings []defaulting.Warning) []string {
	var list []string
	for _, w := range warnings {
		list = append(list, string(w))
	}
	return list
}

func render(t testing.TB, changes []defaulting.Change) []string {
	t.Helper()
	lines := []string{}
	for _, c := range changes {
		line := string(c.Operation) + " " + c.Path
		if c.Operation != defaulting.OperationRemove {
			line += " " + encode(t, c.Value)
		}
		lines = append(lines, line)
		if c.Why == "" || c.Section == "" {
			t.Errorf("change %s says neither why nor from which section: %+v", line, c)
		}
	}
	return lines
}

func encode(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

type fataler interface {
	Helper()
	Fatalf(string, ...any)
}

// compile makes policies ready and orders them.
func compile(t fataler, list ...*v1alpha1.PodPolicy) policy.Policies {
	t.Helper()
	compiled := make([]*policy.Policy, 0, len(list))
	for _, p := range list {
		c, err := policy.Compile(p)
		if err != nil {
			t.Fatalf("compile: %v", err)
		}
		compiled = append(compiled, c)
	}
	return policy.Sort(compiled)
}

// patched does to the pod what the API server does with the answer: it applies the JSON patch.
func patched(t fataler, p *corev1.Pod, changes []defaulting.Change) *corev1.Pod {
	t.Helper()
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	operations := make([]operation, 0, len(changes))
	for _, c := range changes {
		operations = append(operations, operation{string(c.Operation), c.Path, c.Value})
	}
	text, err := json.Marshal(operations)
	if err != nil {
		t.Fatalf("encode patch: %v", err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatalf("decode patch %s: %v", text, err)
	}
	original, err := json.Marshal(p)
	if err != nil {
		t.Fatalf("encode pod: %v", err)
	}
	changed, err := patch.ApplyWithOptions(original, &jsonpatch.ApplyOptions{SupportNegativeIndices: false, AllowMissingPathOnRemove: false})
	if err != nil {
		t.Fatalf("apply patch %s: %v", text, err)
	}
	var out corev1.Pod
	if err := json.Unmarshal(changed, &out); err != nil {
		t.Fatalf("decode patched pod: %v", err)
	}
	return &out
}

// podT shortens options that are written in place.
type podT = corev1.Pod

type changeT = defaulting.Change

type factsT = defaulting.Facts

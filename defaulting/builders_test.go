package defaulting_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"
	"unicode/utf8"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/defaulting/topology"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// The vocabulary of the tests, besides that of policytest.

const zone, host, hash = corev1.LabelTopologyZone, corev1.LabelHostname, "pod-template-hash"

func bare(p *corev1.Pod) {
	p.Spec.Priority, p.Spec.PreemptionPolicy, p.Spec.TerminationGracePeriodSeconds = nil, nil, nil
}

func skipping(text string) PodOption { return Annotated(v1alpha1.AnnotationSkip, text) }

// recorded is an owner whose record the pod has already, so that nothing is to be said of it.
func recorded(owner PodOption) PodOption {
	return func(p *corev1.Pod) {
		owner(p)
		Annotated(v1alpha1.AnnotationProtected, policy.RecordOf(p))(p)
	}
}

func enforced(text string) PodOption { return Annotated(v1alpha1.AnnotationEnforcement, text) }

func spreadItself(p *corev1.Pod) {
	p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 2, TopologyKey: "rack", WhenUnsatisfiable: corev1.ScheduleAnyway}}
}

// stopping adds a container with a preStop hook.
func stopping(name string, hook *corev1.LifecycleHandler) PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, Lifecycle: &corev1.Lifecycle{PreStop: hook}})
	}
}

// starting adds an init container with a preStop hook: a sidecar, if it restarts always.
func starting(name string, restart *corev1.ContainerRestartPolicy, hook *corev1.LifecycleHandler) PodOption {
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

func probed(name string, seconds int64) PodOption {
	return func(p *corev1.Pod) {
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: name, LivenessProbe: &corev1.Probe{TerminationGracePeriodSeconds: &seconds}})
	}
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
	return func(f *defaulting.Facts) { f.ServiceSelectors = append(f.ServiceSelectors, Pairs(pairs...)) }
}

func ownerSelects(pairs ...string) factOption {
	return func(f *defaulting.Facts) { f.OwnerSelector = &metav1.LabelSelector{MatchLabels: Pairs(pairs...)} }
}

func withNode(name string, pairs ...string) factOption {
	return withTaintedNode(name, nil, pairs...)
}

func withTaintedNode(name string, taints []corev1.Taint, pairs ...string) factOption {
	return func(f *defaulting.Facts) {
		if f.Nodes == nil {
			f.Nodes = topology.New()
		}
		f.Nodes.Set(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: Pairs(pairs...)}, Spec: corev1.NodeSpec{Taints: taints}})
	}
}

// dedicated is a taint.
func dedicated(effect corev1.TaintEffect) []corev1.Taint {
	return []corev1.Taint{{Key: "dedicated", Effect: effect}}
}

func withPod(node string, pairs ...string) factOption { return withLabelledPod(node, Pairs(pairs...)) }

func withLabelledPod(node string, has map[string]string) factOption {
	return withNeighbour(defaulting.Neighbour{Node: node}, has)
}

func withNeighbour(pod defaulting.Neighbour, has map[string]string) factOption {
	return func(f *defaulting.Facts) {
		before := f.Pods
		f.Pods = func(selector labels.Selector) (pods []defaulting.Neighbour, known bool) {
			if before != nil {
				pods, _ = before(selector)
			}
			if selector.Matches(labels.Set(has)) {
				pods = append(pods, pod)
			}
			return pods, true
		}
	}
}

func noPods(f *defaulting.Facts) {
	f.Pods = func(labels.Selector) ([]defaulting.Neighbour, bool) { return nil, true }
}

func claimed(name string, modes ...corev1.PersistentVolumeAccessMode) factOption {
	return func(f *defaulting.Facts) { Known(&f.Claims, name, policy.Claim{Modes: modes}) }
}

// blockClaimed is claimed, for a block device.
func blockClaimed(name string, modes ...corev1.PersistentVolumeAccessMode) factOption {
	return func(f *defaulting.Facts) { Known(&f.Claims, name, policy.Claim{Modes: modes, Block: true}) }
}

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
		s.namespace = Shop
	}
	if s.user.Username == "" {
		s.user = Alice
	}
	return policy.Request{Pod: s.pod, Namespace: s.namespace, User: s.user}
}

func testApply(t *testing.T, rows []scenario) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			policies := Compile(t, row.policies...)
			before := row.pod.DeepCopy()
			result := defaulting.For(policies, row.request(), Exempt).Apply(row.request(), row.facts)
			row.compare(t, result)
			if diff := cmp.Diff(before, row.pod); diff != "" {
				t.Errorf("Apply changed its input (-before +after):\n%s", diff)
			}
			if len(result.Denials) > 0 {
				return
			}
			again := row
			again.pod = patched(t, row.pod, result.Changes)
			if second := defaulting.For(policies, again.request(), Exempt).Apply(again.request(), row.facts); len(second.Changes)+len(second.Denials) > 0 {
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
			row.compare(t, defaulting.For(Compile(t, row.policies...), row.request(), Exempt).Validate(row.request(), row.facts))
		})
	}
}

func (s scenario) compare(t *testing.T, got defaulting.Result) {
	t.Helper()
	if diff := cmp.Diff(append([]string{}, s.changes...), render(t, got.Changes)); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
	CompareTexts(t, "warnings", s.warnings, texts(got.Warnings))
	var denials []string
	for _, d := range got.Denials {
		denials = append(denials, d.Reason.Code+": "+d.Message)
		if !refusal().MatchString(d.Message) {
			t.Errorf("RefusalWords do not have: %s", d.Message)
		}
	}
	CompareTexts(t, "denials", s.denials, denials)
	for _, w := range got.Warnings {
		if problem := unfit(w.Message); problem != "" {
			t.Errorf("warning %q %s", w, problem)
		}
	}
}

// refusal matches what is said in the words of RefusalWords.
var refusal = sync.OnceValue(func() *regexp.Regexp {
	var all []string
	for _, words := range defaulting.RefusalWords() {
		all = append(all, regexp.MustCompile(`%[a-z]`).ReplaceAllString(regexp.QuoteMeta(words), ".*"))
	}
	return regexp.MustCompile("(?s)^(" + strings.Join(all, "|") + ")$")
})

// unfit says why a warning would not reach the user: the API server truncates long ones and drops those with control
// characters (k8s.io/apimachinery/pkg/util/net NewWarningHeader).
func unfit(w string) string {
	switch {
	case len(w) > 256:
		return fmt.Sprintf("has %d bytes", len(w))
	case !utf8.ValidString(w):
		return "is not UTF-8"
	case strings.ContainsFunc(w, unicode.IsControl):
		return "has control characters: the API server drops it"
	case w == "":
		return "is empty"
	}
	return ""
}

func texts(warnings []defaulting.Warning) []string {
	var list []string
	for _, w := range warnings {
		list = append(list, w.Message)
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

// patched does to the pod what the API server does with the answer: it applies the JSON patch.
func patched(t rapid.TB, p *corev1.Pod, changes []defaulting.Change) *corev1.Pod {
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

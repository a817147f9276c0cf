package policy_test

import (
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

// asked is one row: is the policy for the pod?
type asked struct {
	name      string
	pod       *corev1.Pod
	namespace policy.Namespace // Shop where empty
	match     []PolicyOption
	want      policy.Matching
	says      string // what the error says that tells why it is uncertain; empty: there is none
}

func (a asked) request() policy.Request {
	if a.namespace.Name == "" {
		a.namespace = Shop
	}
	return policy.Request{Pod: a.pod, Namespace: a.namespace, User: Alice}
}

func testMatch(t *testing.T, rows []asked) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			question := policy.NewEvaluation(row.request())
			defer question.Done()
			got, err := Compile(t, PodPolicy("p", row.match...))[0].Match(question)
			if got != row.want || (err != nil) != (row.says != "") || err != nil && !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, %v; want %v, %q", got, err, row.want, row.says)
			}
		})
	}
}

func TestMatch(t *testing.T) {
	t.Parallel()
	is := func(options ...PolicyOption) []PolicyOption { return options }
	everyNamespace := func(s *v1alpha1.PodPolicySpec) { Match(s).NamespaceSelector = &v1alpha1.LabelSelector{} }
	labelledUnknown := policy.Namespace{Name: "shop", Labels: map[string]string{"team": "shop"}, Unknown: true}
	testMatch(t, []asked{
		{name: "no match: every pod", pod: Pod(), want: policy.MatchYes},
		{name: "empty match: every pod", pod: Pod(), match: is(func(s *v1alpha1.PodPolicySpec) { Match(s) }), want: policy.MatchYes},
		{name: "namespace labels", pod: Pod(), match: is(InNamespaces("team", "shop")), want: policy.MatchYes},
		{name: "other namespace labels", pod: Pod(), match: is(InNamespaces("team", "bank"))},
		{name: "unknown namespace", pod: Pod(), namespace: Unknown, match: is(InNamespaces("team", "shop"))},
		{name: "unknown namespace: its labels mean nothing", pod: Pod(), namespace: labelledUnknown, match: is(InNamespaces("team", "shop"))},
		{name: "unknown namespace: a selector of everything needs no labels", pod: Pod(), namespace: Unknown, match: is(everyNamespace), want: policy.MatchYes},
		{name: "pod labels", pod: Pod(), match: is(ForPods("app", "web")), want: policy.MatchYes},
		{name: "other pod labels", pod: Pod(), match: is(ForPods("app", "db"))},
		{name: "owner kind", pod: Pod(OfJob), match: is(ForOwners("ReplicaSet", "Job")), want: policy.MatchYes},
		{name: "other owner kind", pod: Pod(OfJob), match: is(ForOwners("ReplicaSet"))},
		{name: "no owner is None", pod: Pod(), match: is(ForOwners(v1alpha1.OwnerKindNone)), want: policy.MatchYes},
		{name: "an owner is not None", pod: Pod(OfJob), match: is(ForOwners(v1alpha1.OwnerKindNone))},
		{name: "all of the fields", pod: Pod(), match: is(InNamespaces("team", "shop"), ForPods("app", "web"), ForOwners("Job"), Where("true"))},
	})
}

func TestConditions(t *testing.T) {
	t.Parallel()
	const fails = `object.metadata.annotations['absent'] == 'x'`
	given := func(expressions ...string) []PolicyOption { return []PolicyOption{Where(expressions...)} }
	const yes, no, uncertain = policy.MatchYes, policy.MatchNo, policy.MatchUncertain
	large := Pod(func(p *corev1.Pod) {
		for range 200 {
			p.Spec.Containers = append(p.Spec.Containers, p.Spec.Containers[0])
		}
	})
	testMatch(t, []asked{
		{name: "true", pod: Pod(), match: given("object.metadata.labels['app'] == 'web'"), want: yes},
		{name: "false", pod: Pod(), match: given("object.metadata.labels['app'] == 'db'"), want: no},
		{name: "all must be true", pod: Pod(), match: given("true", "false", "true"), want: no},
		{name: "error", pod: Pod(), match: given(fails), want: uncertain, says: "a match condition could not be evaluated: c0: no such key: annotations"},
		{name: "false decides, whatever fails before or after", pod: Pod(), match: given(fails, "false", fails), want: no},
		{name: "an error after an error is no false", pod: Pod(), match: given(fails, fails), want: uncertain, says: "c0: "},
		{name: "true does not make up for an error", pod: Pod(), match: given("true", fails), want: uncertain, says: "c1: "},
		{
			name: "cost: an expression that would run for long is stopped, which is an error", pod: large,
			match: given("object.spec.containers.all(a, object.spec.containers.all(b, object.spec.containers.all(c, a.name == b.name && b.name == c.name)))"),
			want:  uncertain, says: "it takes longer than the match conditions of a pod may",
		},
		{name: "request", pod: Pod(), match: given("request.userInfo.username == 'alice' && request.operation == 'CREATE' && request.namespace == 'shop' && !request.dryRun && request.kind.kind == 'Pod' && request.kind.version == 'v1' && request.resource.resource == 'pods' && request.resource.version == 'v1'"), want: yes},
		{name: "namespaceObject", pod: Pod(), match: given("namespaceObject.metadata.name == 'shop' && namespaceObject.metadata.labels['team'] == 'shop'"), want: yes},
		{name: "oldObject is null at creation", pod: Pod(), match: given("oldObject == null"), want: yes},
		{name: "object.kind of a pod that came typed, as in the API server", pod: Pod(func(p *corev1.Pod) { p.TypeMeta = metav1.TypeMeta{} }), match: given("object.kind == 'Pod' && object.apiVersion == 'v1'"), want: yes},
		{
			name: "unknown namespace: an absent label proves nothing", pod: Pod(), namespace: Unknown,
			match: given("!('tenant' in namespaceObject.metadata.?labels.orValue({}))"), want: uncertain, says: "the namespace could not be looked up",
		},
	})
}

// TestConditionsConcurrently: the webhook evaluates one policy in many requests at once (worth its time with -race).
func TestConditionsConcurrently(t *testing.T) {
	t.Parallel()
	p := Compile(t, PodPolicy("p", Where("object.metadata.labels['app'] == 'web'")))[0]
	want := []policy.Matching{policy.MatchYes, policy.MatchNo}
	var wait sync.WaitGroup
	for i := range 8 {
		wait.Go(func() {
			for range 50 {
				question := policy.NewEvaluation(asked{pod: Pod(Labelled("app", []string{"web", "db"}[i%2]))}.request())
				if got, err := p.Match(question); got != want[i%2] || err != nil {
					t.Errorf("got %v, %v", got, err)
				}
				question.Done()
			}
		})
	}
	wait.Wait()
}

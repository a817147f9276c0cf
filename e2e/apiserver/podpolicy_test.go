package apiserver

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// Each rule of the types, in the words of the API server; and the same YAML read as a file must meet the same rule.
func TestPodPolicyValidation(t *testing.T) {
	s := shared.Get(t)
	for name, tc := range map[string]struct{ spec, want string }{
		"default below 30":                   {`gracePeriod: {defaultSeconds: 10}`, "a default below 30 would shorten a 30 that somebody chose"},
		"default below 30 accepted":          {`gracePeriod: {defaultSeconds: 10, allowShorterDefault: true}`, ""},
		"min above max":                      {`gracePeriod: {minSeconds: 10, maxSeconds: 5}`, "minSeconds must not be above maxSeconds"},
		"default below min":                  {`gracePeriod: {minSeconds: 60, defaultSeconds: 40}`, "defaultSeconds must not be below minSeconds"},
		"default above max":                  {`gracePeriod: {maxSeconds: 60, defaultSeconds: 90}`, "defaultSeconds must not be above maxSeconds"},
		"empty section":                      {`gracePeriod: {}`, "should have at least 1 propert"},
		"grace too long":                     {`gracePeriod: {maxSeconds: 604801}`, "should be less than or equal to 604800"},
		"system class":                       {`priority: {className: system-node-critical}`, "system- classes are reserved"},
		"default not in the list":            {`priority: {className: a, allowedClassNames: [b]}`, "className must be one of allowedClassNames"},
		"class twice in the list":            {`priority: {allowedClassNames: [b, b]}`, "Duplicate value"},
		"minDomains on a soft constraint":    {`topologySpread: {constraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, minDomains: 2}]}`, "minDomains needs whenUnsatisfiable: DoNotSchedule"},
		"maxSkew 0":                          {`topologySpread: {constraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}`, "should be greater than or equal to 1"},
		"same key and action twice":          {`topologySpread: {constraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}, {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}`, "Duplicate value"},
		"unknown onInfeasible":               {`topologySpread: {onInfeasible: Hope, constraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}`, "Unsupported value"},
		"no constraints":                     {`topologySpread: {constraints: []}`, "should have at least 1 items"},
		"removal selects pods":               {"match: {podSelector: {matchLabels: {a: b}}}\n  removal: {forceDelete: Deny}", "a policy with removal may select by namespaceSelector only"},
		"removal selects owners":             {"match: {ownerKinds: [Job]}\n  removal: {forceDelete: Deny}", "a policy with removal may select by namespaceSelector only"},
		"removal selects by condition":       {"match: {matchConditions: [{name: a, expression: 'true'}]}\n  removal: {forceDelete: Deny}", "a policy with removal may select by namespaceSelector only"},
		"removal selects by class":           {"match: {priorityClassNames: [a]}\n  removal: {forceDelete: Deny}", "a policy with removal may select by namespaceSelector only"},
		"removal selects by priority":        {"match: {priority: {max: 0}}\n  removal: {forceDelete: Deny}", "a policy with removal may select by namespaceSelector only"},
		"a class by class":                   {"match: {priorityClassNames: [a]}\n  priority: {className: b}", "a policy that selects by priority cannot say which class pods get or may have"},
		"allowed classes by priority":        {"match: {priority: {min: 5}}\n  priority: {allowedClassNames: [b]}", "a policy that selects by priority cannot say which class pods get or may have"},
		"a grace period by class":            {"match: {priorityClassNames: [a, b], priority: {min: -2147483648, max: 2000001000}}\n  gracePeriod: {maxSeconds: 20}", ""},
		"a range of one":                     {"match: {priority: {min: 5, max: 5}}", ""},
		"a range the wrong way round":        {"match: {priority: {min: 6, max: 5}}", "min must not be above max"},
		"a range of nothing":                 {"match: {priority: {}}", "should have at least 1 propert"},
		"a priority that is none":            {"match: {priority: {max: 2147483648}}", "spec.match.priority.max"},
		"no class names":                     {"match: {priorityClassNames: []}", "should have at least 1 items"},
		"a class name twice":                 {"match: {priorityClassNames: [a, a]}", "Duplicate value"},
		"an empty class name":                {"match: {priorityClassNames: [\"\"]}", "priorityClassNames[0]: Invalid value"},
		"removal selects namespaces":         {"match: {namespaceSelector: {matchLabels: {a: b}}}\n  removal: {forceDelete: Deny}", ""},
		"owners":                             {`removal: {owners: [{group: core.strimzi.io, kind: StrimziPodSet}, {group: "", kind: ReplicationController}], blockClaims: Exclusive}`, ""},
		"an owner twice":                     {`removal: {owners: [{group: a.example, kind: Set}, {group: a.example, kind: Set}]}`, "Duplicate value"},
		"an owner without its group":         {`removal: {owners: [{kind: Set}]}`, "owners[0].group: Required value"},
		"an owner without its kind":          {`removal: {owners: [{group: a.example}]}`, "owners[0].kind: Required value"},
		"an owner's group with its version":  {`removal: {owners: [{group: a.example/v1, kind: Set}]}`, "owners[0].group: Invalid value"},
		"an owner's kind that is empty":      {`removal: {owners: [{group: a.example, kind: ""}]}`, "owners[0].kind: Invalid value"},
		"an owner's kind that is none":       {`removal: {owners: [{group: a.example, kind: Set.v1}]}`, "owners[0].kind: Invalid value"},
		"too many owners":                    {`removal: {owners: [` + strings.TrimSuffix(manyOwners(33), ", ") + `]}`, "Too many: 33: must have at most 32 items"},
		"unknown blockClaims":                {`removal: {blockClaims: Protect}`, "Unsupported value"},
		"weight out of range of io":          {`node: {io: {weight: 0}}`, "should be greater than or equal to 1"},
		"unknown memory protection":          {`node: {memory: {protection: Max}}`, "Unsupported value"},
		"skip of what can't be skipped":      {`allowSkip: [removal]`, "Unsupported value"},
		"operator that is none":              {`match: {namespaceSelector: {matchExpressions: [{key: team, operator: in, values: [shop]}]}}`, `matchExpressions[0].operator: Unsupported value: "in"`},
		"value that is no label's":           {`match: {namespaceSelector: {matchLabels: {team: shop team}}}`, "matchLabels.team: Invalid value"},
		"key that is no label's":             {`match: {podSelector: {matchLabels: {my team: shop}}}`, "a key is no label's"},
		"In without values":                  {`match: {podSelector: {matchExpressions: [{key: team, operator: In}]}}`, "In and NotIn need values"},
		"Exists with values":                 {`match: {podSelector: {matchExpressions: [{key: team, operator: Exists, values: [a]}]}}`, "Exists and DoesNotExist have none"},
		"values in an expression":            {`match: {podSelector: {matchExpressions: [{key: team, operator: In, values: [ok, shop team]}]}}`, "matchExpressions[0].values[1]: Invalid value"},
		"key of an expression":               {`match: {podSelector: {matchExpressions: [{key: my team, operator: Exists}]}}`, "matchExpressions[0].key: Invalid value"},
		"topology key":                       {`topologySpread: {constraints: [{maxSkew: 1, topologyKey: zone name, whenUnsatisfiable: ScheduleAnyway}]}`, "constraints[0].topologyKey: Invalid value"},
		"matchLabelKeys":                     {`topologySpread: {constraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway, matchLabelKeys: [a/b/c]}]}`, "matchLabelKeys[0]: Invalid value"},
		"labelKeys of an owner":              {`topologySpread: {ownerRules: [{apiGroup: batch, kind: Job, labelKeys: ["-"]}], constraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}`, "labelKeys[0]: Invalid value"},
		"selectors that can be read":         {`match: {namespaceSelector: {matchLabels: {example.com/team: ""}, matchExpressions: [{key: a.b/C_d, operator: In, values: ["", x.y]}, {key: e, operator: DoesNotExist}]}}`, ""},
		"unknown field":                      {`gracePeriods: {minSeconds: 1}`, "unknown field"},
		"nothing at all is a policy as well": {`weight: 3`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			text := "apiVersion: podgrace.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: invalid}\nspec:\n  " + tc.spec + "\n"
			file := filepath.Join(t.TempDir(), "policy.yaml")
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, stderr, err := s.Kubectl(t.Context(), "create", "--dry-run=server", "--validate=strict", "-f", file)
			check(t, "API server", tc.want, fmt.Sprint(err, stderr), err)
			_, err = policyfile.Load(file)
			check(t, "file", tc.want, fmt.Sprint(err), err)
		})
	}
}

func manyOwners(n int) string {
	var owners strings.Builder
	for i := range n {
		fmt.Fprintf(&owners, "{group: a.example, kind: Set%d}, ", i)
	}
	return owners.String()
}

func check(t *testing.T, who, want, said string, err error) {
	t.Helper()
	if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(said, want)) {
		t.Errorf("%s: got %v, want %q", who, err, want)
	}
}

// kubectl get shows at a glance what each policy does.
func TestPrinterColumns(t *testing.T) {
	s := shared.Get(t)
	text := `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: columns}
spec:
  match: {namespaceSelector: {matchLabels: {nowhere: "true"}}}
  weight: 7
  priority: {className: none-such, allowedClassNames: [none-such]}
  topologySpread:
    constraints:
    - {maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: DoNotSchedule}
    - {maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway}
  gracePeriod: {defaultSeconds: 45, minSeconds: 10, maxSeconds: 300, preStopMarginSeconds: 5}
  removal: {protect: All}
`
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Kubectl(t.Context(), "apply", "-f", file); err != nil {
		t.Fatal(err)
	}
	p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "columns"}}
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), p) })
	var got string
	suite.Eventually(t, "the columns filled", func(ctx context.Context) (bool, error) {
		var err error
		got, _, err = s.Kubectl(ctx, "get", "podpolicies", "columns")
		return strings.Contains(got, "False") && strings.Contains(got, "Partly"), err
	})
	want := regexp.MustCompile(`^NAME +READY +COMPILED +WEIGHT +PRIORITY +SPREAD +GRACE +REMOVAL +AGE
columns +False +Partly +7 +none-such of none-such +zone!,hostname +45s in 10..300s preStop\+5s +Deny All +[0-9]+s
$`)
	if !want.MatchString(got) {
		t.Errorf("got:\n%s", got)
	}
}

func conditionsOf(expressions ...string) []admissionregistrationv1.MatchCondition {
	var all []admissionregistrationv1.MatchCondition
	for i, e := range expressions {
		all = append(all, admissionregistrationv1.MatchCondition{Name: fmt.Sprintf("c%d", i), Expression: e})
	}
	return all
}

// Two policies of equal weight: the first by name decides, and both say so.
func TestEqualWeights(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	var policies []*v1alpha1.PodPolicy
	for name, seconds := range map[string]int64{ns + "-a": 50, ns + "-b": 60} {
		p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: gives(v1alpha1.GracePeriodSection{DefaultSeconds: &seconds})}
		p.Spec.Match = &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{"kubernetes.io/metadata.name": ns})}
		s.Create(t, p)
		s.WaitInForce(t, p)
		policies = append(policies, p)
	}
	p, _ := mustCreate(t, s, newPod(ns))
	if got := *p.Spec.TerminationGracePeriodSeconds; got != 50 {
		t.Errorf("got %d s, want that of the first by name", got)
	}
	same := regexp.MustCompile(`has the same weight 0 .* the first by name decides \(` + ns + `-a\)`)
	for _, policy := range policies {
		suite.Eventually(t, "the remark on equal weights", func(ctx context.Context) (bool, error) {
			err := s.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy)
			return len(policy.Status.Warnings) > 0 && same.MatchString(policy.Status.Warnings[0]), err
		})
	}
}

// A policy that can't work is refused when it is applied, with the field and the reason; the schema does not see why. What its status would
// only remark is a warning.
func TestPolicyThatCantWorkIsRefused(t *testing.T) {
	s := shared.Get(t)
	long := strings.Repeat("a", 260) + "/b"
	for name, tc := range map[string]struct{ kind, spec, want string }{
		"CEL":                  {"PodPolicy", `{match: {matchConditions: [{name: a, expression: "true"}, {name: b, expression: object.metadata.nam ==}]}}`, "spec.match.matchConditions[1].expression: Invalid value"},
		"a field of ours":      {"PodPolicy", `{match: {matchConditions: [{name: a, expression: "has(object.spec.priorityClassName)"}]}}`, "priorityClassName is written by Podgrace"},
		"a selector":           {"PodPolicy", `{match: {podSelector: {matchExpressions: [{key: ` + long + `, operator: Exists}]}}}`, "spec.match.podSelector: Invalid value"},
		"a NodePolicy's nodes": {"NodePolicy", `{nodeSelector: {matchExpressions: [{key: ` + long + `, operator: Exists}]}}`, "spec.nodeSelector: Invalid value"},
		"a NodePolicy":         {"NodePolicy", `{nodeSelector: {matchLabels: {a: b}}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "policy.yaml")
			text := "apiVersion: podgrace.dev/v1alpha1\nkind: " + tc.kind + "\nmetadata: {name: cant-work}\nspec: " + tc.spec + "\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, stderr, err := s.Kubectl(t.Context(), "apply", "--dry-run=server", "-f", file)
			check(t, "API server", tc.want, fmt.Sprint(err, stderr), err)
			if tc.kind == "PodPolicy" {
				_, err = policyfile.Load(file)
			} else {
				_, err = policyfile.LoadNodePolicies(nil, file)
			}
			check(t, "file", tc.want, fmt.Sprint(err), err)
		})
	}
	kube, warnings := s.Warned(t, "")
	p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "remarked"}, Spec: v1alpha1.PodPolicySpec{Priority: &v1alpha1.PrioritySection{ClassName: "none-such"}}}
	if err := kube.Create(t.Context(), p, client.DryRunAll); err != nil {
		t.Fatal(err)
	}
	if got := warnings.Take(); !slices.ContainsFunc(got, func(w string) bool { return strings.Contains(w, `PriorityClass "none-such" does not exist`) }) {
		t.Errorf("warned %q", got)
	}
}

// One that was stored while nobody looked, or by an earlier version, can be labelled and mended, but not changed into another that can't work.
func TestStoredPolicyThatCantWork(t *testing.T) {
	s := shared.Get(t)
	p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: "broken-"}, Spec: v1alpha1.PodPolicySpec{Match: &v1alpha1.PodMatch{MatchConditions: conditionsOf("object.metadata.nam ==")}}}
	s.UncheckedPolicies(t, func() { s.Create(t, p) })
	change := func(do func(*v1alpha1.PodPolicy)) error {
		changed := p.DeepCopy()
		do(changed)
		return s.Client.Patch(t.Context(), changed, client.MergeFrom(p), client.DryRunAll)
	}
	if err := change(func(p *v1alpha1.PodPolicy) { p.Labels = map[string]string{"seen": "true"} }); err != nil {
		t.Errorf("labelled: %v", err)
	}
	if err := change(func(p *v1alpha1.PodPolicy) { p.Spec.Match = nil }); err != nil {
		t.Errorf("mended: %v", err)
	}
	if err := change(func(p *v1alpha1.PodPolicy) { p.Spec.Weight = 7 }); err == nil || !strings.Contains(err.Error(), "spec.match.matchConditions[0].expression") {
		t.Errorf("changed: %v", err)
	}
}

// What only compiling can see shows in the status as well, and the policy is not in force.
func TestPolicyThatDoesNotCompile(t *testing.T) {
	s := shared.Get(t)
	for name, match := range map[string]*v1alpha1.PodMatch{
		"CEL": {MatchConditions: conditionsOf("object.metadata.nam ==")},
	} {
		t.Run(name, func(t *testing.T) {
			p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: "broken-"}, Spec: v1alpha1.PodPolicySpec{Match: match}}
			s.UncheckedPolicies(t, func() { s.Create(t, p) })
			suite.Eventually(t, "Ready=False", func(ctx context.Context) (bool, error) {
				err := s.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
				return len(p.Status.Conditions) == 1 && p.Status.Conditions[0].Status == metav1.ConditionFalse &&
					p.Status.Conditions[0].Reason == v1alpha1.ReasonInvalidSpec && strings.HasPrefix(p.Status.Conditions[0].Message, "not in force: ") && strings.Contains(p.Status.Conditions[0].Message, "spec.match"), err
			})
			// The status is the leader's; by what the metric tells a replica decides, which learns of the policy by itself.
			suite.Eventually(t, "the metric of a policy that does not compile", func(ctx context.Context) (bool, error) {
				text, err := s.Metrics(ctx)
				return strings.Contains(text, fmt.Sprintf("out_of_force{policy=%q} 1", p.Name)), err
			})
		})
	}
}

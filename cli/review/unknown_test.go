package review

import (
	"slices"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/internal/manifest"
)

// Services that nobody knows are told where one could change the selector of the constraints, and nowhere else.
func TestServicesMatter(t *testing.T) {
	const services = "Services of Namespace shop"
	more := func(labels string) string {
		return strings.Replace(deployment, "labels: {app: web}", "labels: "+labels, 1)
	}
	bare := `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop, labels: LABELS}, spec: {containers: [{name: c, image: i}]}}`
	job := `{apiVersion: batch/v1, kind: Job, metadata: {name: j, namespace: shop}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}`
	for name, test := range map[string]struct {
		object string
		none   bool // a list says that there are none
		want   bool
	}{
		"the selector has all labels":     {deployment, false, false},
		"a label more":                    {more("{app: web, tier: front}"), false, true},
		"a label more, and no Services":   {more("{app: web, tier: front}"), true, false},
		"a pod without labels":            {strings.Replace(bare, "LABELS", "{}", 1), false, false},
		"a pod that a Service may select": {strings.Replace(bare, "LABELS", "{app: p}", 1), false, true},
		"a Job's own labels":              {job, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, web, shop, high)
			if test.none {
				e.State.Listed([]manifest.Listed{{APIVersion: "v1", Kind: "Service"}})
			}
			if got := mustReview(t, e, test.object, Question{}).Unknown; slices.Contains(got, services) != test.want {
				t.Errorf("unknown: %q", got)
			}
		})
	}
}

// What counts is the answer: if servicesMatter says no, a Service by any of the pod's own labels leaves it as it is.
func TestServicesThatDoNotMatter(t *testing.T) {
	without := mustReview(t, engineOf(t, web, shop, high), deployment, Question{})
	with := mustReview(t, engineOf(t, web, shop, high, service), deployment, Question{})
	if len(without.Unknown) > 0 || string(without.After) != string(with.After) {
		t.Errorf("unknown %q:\n%s\n%s", without.Unknown, without.After, with.After)
	}
}

const upTo300 = `{apiVersion: podgrace.dev/v1alpha1, kind: PodPolicy, metadata: {name: p}, spec: {gracePeriod: {maxSeconds: 300}, removal: {forceDelete: Deny, protect: All}}}`

// A typed list has all objects of its kind, whatever kind that is: what is not in it is missing.
func TestListedIsComplete(t *testing.T) {
	const podOfNope = `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {priorityClassName: nope, containers: ` + containers + `}}`
	const podToCome = `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {containers: ` + containers + `}}`
	force := Question{Operation: OperationDelete, GracePeriodSeconds: new(int64(0))}
	for name, test := range map[string]struct {
		kind     manifest.Listed
		object   string
		question Question
		says     string
	}{
		"PriorityClass":                       {manifest.Listed{APIVersion: "scheduling.k8s.io/v1", Kind: "PriorityClass"}, podOfNope, Question{}, "no PriorityClass with name nope was found"},
		"Node":                                {manifest.Listed{APIVersion: "v1", Kind: "Node"}, running, force, ""},
		"Node of a pod that is to be created": {manifest.Listed{APIVersion: "v1", Kind: "Node"}, podToCome, force, ""},
		"something else":                      {manifest.Listed{APIVersion: "example.com/v1", Kind: "Thing"}, podOfNope, Question{}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, upTo300, shop, high)
			before := mustReview(t, e, test.object, test.question)
			e.State.Listed([]manifest.Listed{test.kind})
			after := mustReview(t, e, test.object, test.question)
			switch {
			case test.says != "" && (before.Decision != Allowed || len(before.Unknown) == 0 || after.Decision != Denied || !strings.Contains(after.Message, test.says)):
				t.Errorf("before %s %q, after %s %s", before.Decision, before.Unknown, after.Decision, after.Message)
			case name == "Node" && (before.Decision != Denied || after.Decision != Allowed):
				t.Errorf("before %s, after %s: %s", before.Decision, after.Decision, after.Message)
			case test.object == podToCome && (before.Decision != Denied || after.Decision != Denied):
				t.Errorf("before %s, after %s: the node on which it will run was not deleted", before.Decision, after.Decision)
			case name == "something else" && after.Decision != Allowed:
				t.Errorf("after %s", after.Message)
			}
		})
	}
}

// A name that begins with system- is none but Kubernetes' own two; for another one the nearest that is known is offered.
func TestNamesOfClasses(t *testing.T) {
	e := engineOf(t, upTo300, shop, high)
	for class, test := range map[string]struct {
		decision Decision
		unknown  string
		message  string
	}{
		"system-cluster-critical":  {decision: Allowed},
		"system-cluster-criticalx": {decision: Denied, message: "no PriorityClass with name system-cluster-criticalx was found; is it system-cluster-critical?"},
		"system-mine":              {decision: Denied, message: "no PriorityClass with name system-mine was found"},
		"High":                     {decision: Denied, message: "; is it high?"},
		"hihg":                     {decision: Allowed, unknown: "PriorityClass hihg (is it high?)"},
		"standard":                 {decision: Allowed, unknown: "PriorityClass standard"},
	} {
		r := mustReview(t, e, `{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: other}, spec: {priorityClassName: `+class+`, containers: `+containers+`}}`, Question{})
		unknown := slices.DeleteFunc(slices.Clone(r.Unknown), func(what string) bool { return !strings.HasPrefix(what, "PriorityClass ") })
		if r.Decision != test.decision || !strings.HasSuffix(r.Message, test.message) || strings.Join(unknown, ", ") != test.unknown {
			t.Errorf("%s: %s %q, unknown %q", class, r.Decision, r.Message, r.Unknown)
		}
	}
}

// What is reviewed is not its own state: a bare Pod is to be created, and says nothing of the pods that run.
func TestPodsUnderReview(t *testing.T) {
	const node = `{apiVersion: v1, kind: Node, metadata: {name: n1, uid: node-1}, status: {conditions: [{type: Ready, status: "True"}]}}`
	const other = `{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: shop}, spec: {containers: ` + containers + `}}`
	const guarding = `{apiVersion: podgrace.dev/v1alpha1, kind: PodPolicy, metadata: {name: guard}, spec: {removal: {forceDelete: Deny}}}`
	for name, test := range map[string]struct {
		pods     []string
		decision Decision
	}{
		"none":                       {nil, Denied},
		"a manifest":                 {[]string{other}, Denied},
		"one that runs elsewhere":    {[]string{strings.Replace(other, "spec: {", "spec: {nodeName: n2, ", 1)}, Allowed},
		"one that a cluster has":     {[]string{strings.Replace(other, "name: other", "name: other, uid: u", 1)}, Allowed},
		"a manifest beside that one": {[]string{other, strings.Replace(other, "name: other", "name: another, uid: u", 1)}, Allowed},
	} {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, guarding, node)
			for _, text := range test.pods {
				if err := e.State.AddManifest(document(t, text), "shop"); err != nil {
					t.Fatal(err)
				}
			}
			if r := mustReview(t, e, node, Question{Operation: OperationDelete}); r.Decision != test.decision {
				t.Errorf("%s: %s, unknown %q", r.Decision, r.Message, r.Unknown)
			}
		})
	}
}

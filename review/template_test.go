package review

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	rollout = `
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: web, namespace: shop}
spec:
  selector: {matchLabels: {app: web}}
  strategy: {canary: {}}
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 10, containers: ` + containers + `}
`
	cloneSet = `
apiVersion: apps.kruise.io/v1alpha1
kind: CloneSet
metadata: {name: web, namespace: shop}
spec:
  template:
    metadata: {labels: {app: web}}
    spec: {terminationGracePeriodSeconds: 10, containers: ` + containers + `}
`
	knative = `
apiVersion: serving.knative.dev/v1
kind: Service
metadata: {name: hello, namespace: shop}
spec:
  template:
    spec: {timeoutSeconds: 10, containers: [{image: "hello:1"}]}
`
)

// A custom workload is judged by the pod that comes of its template.
func TestCustomWorkloads(t *testing.T) {
	e := engineOf(t, web, shop, high, service)
	for kind, path := range map[string]string{"CloneSet.apps.kruise.io": "spec.template", "Farm.example.com": "spec.workers.podSpec"} {
		if err := e.State.SetTemplate(schema.ParseGroupKind(kind), path); err != nil {
			t.Fatal(err)
		}
	}
	for name, test := range map[string]struct{ text, kind, selector string }{
		"an Argo Rollout":               {rollout, "Rollout", `"labelSelector":{"matchLabels":{"app":"web","rollouts-pod-template-hash":"revision"}}`},
		"a Knative Service":             {knative, "Service", `"labelSelector":{"matchLabels":{"serving.knative.dev/revisionUID":"review"}},"matchLabelKeys":["pod-template-hash"]`},
		"one that a flag names":         {cloneSet, "CloneSet", `"labelSelector":{"matchLabels":{"app":"web"}}`},
		"another, by its Pods' spec":    {`{apiVersion: example.com/v1, kind: Farm, metadata: {name: f, namespace: shop}, spec: {workers: {podSpec: {terminationGracePeriodSeconds: 10, containers: [{name: c}]}}}}`, "Farm", ""},
		"of another version":            {strings.Replace(rollout, "v1alpha1", "v1", 1), "Rollout", `rollouts-pod-template-hash`},
		"whose group names one of ours": {`{apiVersion: example.com/v1, kind: Farm, metadata: {name: f, namespace: shop, uid: u}, spec: {workers: {podSpec: {terminationGracePeriodSeconds: 19, containers: [{name: c}]}}}}`, "Farm", ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := mustReview(t, e, test.text, Question{})
			if r == nil || r.Via != ViaTemplate || r.Resource.Kind != test.kind || r.Resource.Namespace != "shop" {
				t.Fatalf("%+v", r)
			}
			patch := patchOf(r)
			if patch["/spec/terminationGracePeriodSeconds"] != "20" || patch["/spec/priorityClassName"] != `"high"` {
				t.Errorf("%v", patch)
			}
			if !strings.Contains(patch["/spec/topologySpreadConstraints"], test.selector) {
				t.Errorf("%s", patch["/spec/topologySpreadConstraints"])
			}
			r = mustReview(t, e, test.text, Question{Operation: OperationDelete, GracePeriodSeconds: new(int64(0))})
			if r == nil || r.Decision != Denied {
				t.Errorf("force delete: %+v", r)
			}
			if in, err := e.Situation(t.Context(), document(t, test.text), Question{}); err != nil || in == nil || in.Pod.Namespace != "shop" {
				t.Errorf("explained: %+v, %v", in, err)
			}
		})
	}
}

// A policy that names the kind of a custom workload's controller is for its pods, and its own rules give a selector.
func TestOwnerOfCustomWorkloads(t *testing.T) {
	const policy = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: owners}
spec:
  match: {matchConditions: [{name: owner, expression: "object.metadata.ownerReferences.exists(o, o.kind == 'KIND')"}]}
  topologySpread:
    ownerRules: [{apiGroup: apps.kruise.io, kind: CloneSet, labelKeys: [app]}]
    constraints: [{maxSkew: 1, topologyKey: topology.kubernetes.io/zone, whenUnsatisfiable: ScheduleAnyway}]
`
	for kind, test := range map[string]struct{ text, selector string }{
		"CloneSet":   {cloneSet, `{"app":"web"}`},
		"ReplicaSet": {rollout, `{"app":"web","rollouts-pod-template-hash":"revision"}`},
	} {
		e := engineOf(t, strings.Replace(policy, "KIND", kind, 1), shop, `{apiVersion: v1, kind: Service, metadata: {name: s, namespace: shop}, spec: {selector: {app: other}}}`)
		if err := e.State.SetTemplate(schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}, "spec.template"); err != nil {
			t.Fatal(err)
		}
		r := mustReview(t, e, test.text, Question{})
		if got := patchOf(r)["/spec/topologySpreadConstraints"]; !strings.Contains(got, test.selector) {
			t.Errorf("%s: %q %v", kind, got, r.Warnings)
		}
	}
}

func TestCustomWorkloadsThatAreNone(t *testing.T) {
	e := engineOf(t, web, shop, high, service)
	for _, text := range []string{
		"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, spec: {workloadRef: {apiVersion: apps/v1, kind: Deployment, name: web}}}",
		"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}}",
		"{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: r}, spec: {template: null}}",
	} {
		if r := mustReview(t, e, text, Question{}); r != nil {
			t.Errorf("%s: %+v", text, r)
		}
	}
	for text, says := range map[string]string{
		"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, spec: {template: 7}}":                                                                  "Rollout r: spec.template is no pod template",
		"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, spec: {template: {spec: {containers: [{name: c}]}}}}":                                  "spec.selector is missing",
		"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, spec: {template: {spec: {nodeName: n1}}}}":                                             "spec.template.spec.containers is missing",
		"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, spec: {template: {spec: {containers: 7}}}}":                                            "decode spec.template",
		"{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: r}, spec: {template: {spec: {timeoutSeconds: soon, containers: [{image: i}]}}}}":         "Service r: spec.template.spec",
		"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, spec: {selector: 7, template: {spec: {containers: [{name: c}]}}}}":                     "spec.selector",
		"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, spec: {selector: {matchLabels: 7}, template: {spec: {containers: [{name: c}]}}}}":      "spec.selector",
		"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: r}, spec: {selector: {matchLabels: {a: b}}, template: {spec: {containers: [{name: c}]}}}}": "does not select",
	} {
		if r, wrong := e.Review(t.Context(), document(t, text), Question{}); wrong == nil || r != nil || !strings.Contains(wrong.Message, says) {
			t.Errorf("%s: %v, %+v", text, wrong, r)
		}
	}
}

func TestSetTemplate(t *testing.T) {
	for _, test := range []struct{ kind, path, says string }{
		{"CloneSet.apps.kruise.io", "spec.template", ""},
		{"Rollout.argoproj.io", "spec.template", ""},
		{"CloneSet.apps.kruise.io", "", "no path of a field"},
		{"CloneSet.apps.kruise.io", "spec..template", "no path of a field"},
		{"CloneSet", "spec.template", "no kind with its group"},
		{"", "spec.template", "no kind with its group"},
		{"Deployment.apps", "spec.template", "Kubernetes' own"},
	} {
		err := NewState().SetTemplate(schema.ParseGroupKind(test.kind), test.path)
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s=%s: %v", test.kind, test.path, err)
		}
	}
}

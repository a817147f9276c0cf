package review

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/internal/manifest"
)

// allowing refuses every class but one.
const allowing = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: allowing}
spec: {priority: {allowedClassNames: [high]}}
`

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
		"an Argo Rollout":               {rollout, "Rollout", `"labelSelector":{"matchLabels":{"app":"web"}},"matchLabelKeys":["rollouts-pod-template-hash"]`},
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
		"ReplicaSet": {rollout, `{"app":"web"}},"matchLabelKeys":["rollouts-pod-template-hash"]`},
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

// Each pod template of a custom workload is judged by itself, by the name that tells it from the others, and with the controller that its pods have.
func TestSeveralTemplates(t *testing.T) {
	const pod = `spec: {terminationGracePeriodSeconds: 10, containers: ` + containers + `}`
	const critical = `spec: {priorityClassName: system-node-critical, containers: ` + containers + `}`
	workload := func(apiVersion, kind, spec string) string {
		return `{apiVersion: ` + apiVersion + `, kind: ` + kind + `, metadata: {name: w, namespace: shop}, spec: {` + spec + `}}`
	}
	for name, test := range map[string]struct {
		text, set string
		want      []string // Resource, the controller of its pod, the decision
	}{
		"a LeaderWorkerSet": {workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", `leaderWorkerTemplate: {leaderTemplate: {`+pod+`}, workerTemplate: {`+critical+`}}`), "",
			[]string{"LeaderWorkerSet shop/w (leaderTemplate) StatefulSet Allowed", "LeaderWorkerSet shop/w (workerTemplate) StatefulSet Denied"}},
		"one without leaders": {workload("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", `leaderWorkerTemplate: {workerTemplate: {`+critical+`}}`), "",
			[]string{"LeaderWorkerSet shop/w StatefulSet Denied"}},
		"a ScaledJob": {workload("keda.sh/v1alpha1", "ScaledJob", `jobTargetRef: {template: {`+pod+`}}`), "", []string{"ScaledJob shop/w Job Allowed"}},
		"a JobSet": {workload("jobset.x-k8s.io/v1alpha2", "JobSet", `replicatedJobs: [{name: driver, template: {spec: {template: {`+pod+`}}}}, {name: workers, template: {spec: {template: {`+critical+`}}}}]`), "",
			[]string{"JobSet shop/w (replicatedJobs[driver].template.spec.template) Job Allowed", "JobSet shop/w (replicatedJobs[workers].template.spec.template) Job Denied"}},
		"a Volcano Job": {workload("batch.volcano.sh/v1alpha1", "Job", `tasks: [{name: master, template: {`+pod+`}}, {template: {`+critical+`}}]`), "",
			[]string{"Job shop/w (tasks[master].template) Job Allowed", "Job shop/w (tasks[1].template) Job Denied"}},
		"a RayCluster": {workload("ray.io/v1", "RayCluster", `headGroupSpec: {template: {`+pod+`}}, workerGroupSpecs: [{groupName: small, template: {`+critical+`}}]`), "",
			[]string{"RayCluster shop/w (headGroupSpec.template) RayCluster Allowed", "RayCluster shop/w (workerGroupSpecs[small].template) RayCluster Denied"}},
		"an Argo Workflow": {workload("argoproj.io/v1alpha1", "Workflow", `podPriorityClassName: system-node-critical, templates: [{name: main, dag: {tasks: []}}, {name: a, container: {image: i}}, {name: b, script: {image: i, source: x}, priorityClassName: high}]`), "",
			[]string{"Workflow shop/w (templates[a]) Workflow Denied", "Workflow shop/w (templates[b]) Workflow Allowed"}},
		"a Tekton Task": {workload("tekton.dev/v1", "Task", `steps: [{name: build, image: i}, {image: i}]`), "", []string{"Task shop/w TaskRun Allowed"}},
		"a Tekton Pipeline": {workload("tekton.dev/v1", "Pipeline", `tasks: [{name: a, taskRef: {name: b}}, {name: c, taskSpec: {steps: [{image: i}]}}], finally: [{name: d, taskSpec: {steps: [{image: i}]}}]`), "",
			[]string{"Pipeline shop/w (tasks[c].taskSpec) TaskRun Allowed", "Pipeline shop/w (finally[d].taskSpec) TaskRun Allowed"}},
		"a Kafka": {workload("kafka.strimzi.io/v1", "Kafka", `kafka: {template: {pod: {priorityClassName: system-node-critical}}}`), "", []string{"Kafka shop/w StrimziPodSet Denied"}},
		"a Spark application": {workload("sparkoperator.k8s.io/v1beta2", "SparkApplication", `driver: {labels: {app: s}}, executor: {template: {`+critical+`}}`), "",
			[]string{"SparkApplication shop/w (driver) SparkApplication Allowed", "SparkApplication shop/w (executor) Pod Denied"}},
		"a kind of one's own": {workload("example.com/v1", "Farm", `fields: [{name: north, pod: {`+pod+`}}, {name: south, pod: {`+critical+`}}]`), "Farm.example.com=spec.fields[*].pod@Job.batch",
			[]string{"Farm shop/w (fields[north].pod) Job Allowed", "Farm shop/w (fields[south].pod) Job Denied"}},
		"a built-in kind told as it is":  {workload("keda.sh/v1alpha1", "ScaledJob", `jobTargetRef: {template: {`+pod+`}}`), "ScaledJob.keda.sh=spec.jobTargetRef.template", []string{"ScaledJob shop/w Job Allowed"}},
		"a built-in kind told otherwise": {workload("keda.sh/v1alpha1", "ScaledJob", `other: {`+pod+`}`), "ScaledJob.keda.sh=spec.other", []string{"ScaledJob shop/w ScaledJob Allowed"}},
	} {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, web+"---\n"+allowing, shop, high, service)
			if kind, path, ok := strings.Cut(test.set, "="); ok {
				if err := e.State.SetTemplate(schema.ParseGroupKind(kind), path); err != nil {
					t.Fatal(err)
				}
			}
			var got []string
			for _, d := range e.State.Expand([]*manifest.Document{document(t, test.text)}) {
				r, wrong := e.Review(t.Context(), d, Question{})
				if wrong != nil {
					t.Fatal(wrong)
				}
				if r == nil { // a template that makes no pod
					continue
				}
				in, err := e.Situation(t.Context(), d, Question{})
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s %s %s", r.Resource, metav1.GetControllerOf(in.Pod).Kind, r.Decision))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A path that no object of its kind has is told; a kind of which there is no object is not.
func TestUnmet(t *testing.T) {
	s := NewState()
	for _, set := range []string{"Farm.example.com=spec.template", "Farm.example.com=spec.tempalte", "Barn.example.com=spec.template", "ScaledJob.keda.sh=spec.jobTarget.template", "Mill.example.com=-"} {
		kind, path, _ := strings.Cut(set, "=")
		if err := s.SetTemplate(schema.ParseGroupKind(kind), path); err != nil {
			t.Fatal(err)
		}
	}
	documents := []*manifest.Document{
		document(t, "{apiVersion: example.com/v1, kind: Farm, spec: {template: {spec: {}}}}"), document(t, "{apiVersion: example.com/v1, kind: Farm}"), document(t, "{apiVersion: example.com/v1, kind: Mill}"),
		document(t, "{apiVersion: keda.sh/v1alpha1, kind: ScaledJob, spec: {jobTargetRef: {template: {spec: {}}}}}"),
	}
	var got []string
	for _, err := range s.Unmet(documents) {
		got = append(got, err.Error())
	}
	if diff := cmp.Diff([]string{"no Farm.example.com has a pod template at spec.tempalte", "no ScaledJob.keda.sh has a pod template at spec.jobTarget.template"}, got); diff != "" {
		t.Error(diff)
	}
	if s.NotKnown(documents[2]) != "" {
		t.Error("a kind that makes no pods is not known")
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
		{"Farm.example.com", "spec.fields[*].template@Job.batch", ""},
		{"Farm.example.com", "-", ""},
		{"Farm.example.com", "spec.[*].template", "no path of a field"},
		{"Farm.example.com", "spec.template@", "no kind of a controller"},
	} {
		err := NewState().SetTemplate(schema.ParseGroupKind(test.kind), test.path)
		if test.says == "" && err != nil || test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says)) {
			t.Errorf("%s=%s: %v", test.kind, test.path, err)
		}
	}
}

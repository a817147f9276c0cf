package agreement

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/internal/manifest"
)

// document is a manifest of a namespace.
func document(t *testing.T, namespace, text string) *manifest.Document {
	t.Helper()
	o := unstructuredOf(t, text)
	o.SetNamespace(namespace)
	raw, err := o.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	return &manifest.Document{File: "f.yaml", Line: 1, APIVersion: o.GetAPIVersion(), Kind: o.GetKind(), Namespace: namespace, Name: o.GetName(), JSON: raw}
}

func unstructuredOf(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	var o unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
		t.Fatal(err)
	}
	return &o
}

// engineOf knows what the cluster has, and the manifests as a review does.
func engineOf(t *testing.T, s *suite.Suite, documents ...*manifest.Document) *review.Engine {
	t.Helper()
	state, err := review.FromCluster(t.Context(), s.Client)
	if err != nil {
		t.Fatal(err)
	}
	policies, err := review.PoliciesOf(t.Context(), s.Client)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		if err := state.AddManifest(d, d.Namespace); err != nil {
			t.Fatal(err)
		}
	}
	engine, err := review.NewEngine(state, policies...)
	if err != nil {
		t.Fatal(err)
	}
	return engine
}

// Bare pods with hard constraints are refused and warned about as the API server does, alone and beside others under review.
func TestCreationOfBarePods(t *testing.T) {
	s := shared.Get(t)
	if err := s.AddNode(t.Context(), "of-bare-pods", map[string]string{"zone": "a"}); err != nil {
		t.Fatal(err)
	}
	ns := s.Namespace(t)
	s.Create(t, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "a"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "a"}, Ports: []corev1.ServicePort{{Port: 80}}}})
	s.Policy(t, ns, v1alpha1.PodPolicySpec{
		TopologySpread: &v1alpha1.TopologySpreadSection{
			OnInfeasible: v1alpha1.InfeasibleDeny, Constraints: []v1alpha1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "rack-" + ns, WhenUnsatisfiable: corev1.DoNotSchedule}},
		},
		GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(45))},
	})
	const (
		pod  = `{apiVersion: v1, kind: Pod, metadata: {name: NAME, labels: {app: a}}, spec: {containers: [{name: c, image: i}], SPREAD}}`
		hard = `topologySpreadConstraints: [{maxSkew: 1, whenUnsatisfiable: DoNotSchedule, CONSTRAINT}]`
	)
	cases := map[string]string{
		"without":          "",
		"its-own":          "topologyKey: zone, labelSelector: {matchLabels: {app: a}}",
		"no-such-key":      "topologyKey: rack-" + ns + ", labelSelector: {matchLabels: {app: a}}",
		"no-selector":      "topologyKey: zone",
		"others-labels":    "topologyKey: zone, labelSelector: {matchLabels: {app: b}}",
		"too-many-domains": "topologyKey: zone, minDomains: 500, labelSelector: {matchLabels: {app: a}}",
	}
	var documents []*manifest.Document
	for name, constraint := range cases {
		spread := ""
		if constraint != "" {
			spread = strings.Replace(hard, "CONSTRAINT", constraint, 1)
		}
		documents = append(documents, document(t, ns, strings.NewReplacer("NAME", name, "SPREAD", spread).Replace(pod)))
	}
	refused, warned := 0, 0
	engine := engineOf(t, s, documents...)
	for _, d := range documents {
		r, wrong := engine.Review(t.Context(), d, review.Question{})
		if wrong != nil || r == nil {
			t.Fatal(d.Name, wrong)
		}
		if r.Decision == review.Denied {
			refused++
		}
		if r.Warned() {
			warned++
		}
		agreed(t, s, r)
	}
	if refused == 0 || warned < 2 {
		t.Errorf("%d are refused, %d are warned about", refused, warned)
	}
}

// agreed waits until the webhook knows the cluster and says what the review does.
func agreed(t *testing.T, s *suite.Suite, r *review.Result) {
	t.Helper()
	suite.Eventually(t, "agreement on "+r.Resource.String(), func(context.Context) (bool, error) {
		got, err := online(t, s, r)
		got.Warnings = slices.DeleteFunc(got.Warnings, func(w string) bool { return strings.HasPrefix(w, "spec.") }) // Kubernetes' own (pkg/api/pod/warnings.go, 1.36.3)
		if len(got.Warnings) == 0 {
			got.Warnings = nil
		}
		if diff := cmp.Diff(got, offline(t, r)); err != nil || diff != "" {
			return false, fmt.Errorf("(-API server +offline): %w\n%s", err, diff)
		}
		return true, nil
	})
}

// A template that the API server refuses is refused in a review, for the same fields and in the same words.
func TestTemplatesThatAreRefused(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(90))}}) // which would make the pod valid
	for name, spec := range map[string]string{
		"a sleep beyond the grace period": `containers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: 60}}}}]`,
		"a negative sleep":                `containers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: -1}}}}]`,
		"a probe without grace":           `containers: [{name: c, image: i, livenessProbe: {terminationGracePeriodSeconds: 0, exec: {command: [a]}}}]`,
		"a key alone":                     `containers: [{name: c, image: i}], topologySpreadConstraints: [{topologyKey: zone}]`,
		"a constraint twice":              `containers: [{name: c, image: i}], topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]`,
		"minDomains of a soft constraint": `containers: [{name: c, image: i}], topologySpreadConstraints: [{maxSkew: 1, minDomains: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]`,
		"a grace period below 0":          `terminationGracePeriodSeconds: -5, containers: [{name: c, image: i, livenessProbe: {terminationGracePeriodSeconds: -5, exec: {command: [a]}}}]`,
		"a class that is no name":         `priorityClassName: High_1, containers: [{name: c, image: i}]`,
		"a sleep within it":               `terminationGracePeriodSeconds: 61, containers: [{name: c, image: i, lifecycle: {preStop: {sleep: {seconds: 60}}}}]`,
	} {
		for _, kind := range []string{
			`{apiVersion: apps/v1, kind: Deployment, metadata: {name: w}, spec: {selector: {matchLabels: {app: a}}, template: {metadata: {labels: {app: a}}, spec: {SPEC}}}}`,
			`{apiVersion: batch/v1, kind: CronJob, metadata: {name: w}, spec: {schedule: "0 3 * * *", jobTemplate: {spec: {template: {spec: {restartPolicy: Never, SPEC}}}}}}`,
		} {
			d := document(t, ns, strings.Replace(kind, "SPEC", spec, 1))
			t.Run(name+" of a "+d.Kind, func(t *testing.T) {
				r, wrong := engineOf(t, s, d).Review(t.Context(), d, review.Question{})
				if wrong != nil || r == nil {
					t.Fatal(wrong)
				}
				o := &unstructured.Unstructured{}
				if err := yaml.Unmarshal(d.JSON, &o.Object); err != nil {
					t.Fatal(err)
				}
				o.SetNamespace(ns)
				err := s.Client.Create(t.Context(), o, client.DryRunAll)
				var status apierrors.APIStatus
				is := errors.As(err, &status)
				switch {
				case err == nil:
					if r.Decision == review.Denied {
						t.Errorf("the API server takes it: %s", r.Message)
					}
					return
				case !is || !apierrors.IsInvalid(err):
					t.Fatal(err)
				case r.Decision != review.Denied || r.Reason != string(metav1.StatusReasonInvalid):
					t.Errorf("%s %s %s; the API server refuses it: %v", r.Decision, r.Reason, r.Message, err)
				}
				for _, cause := range status.Status().Details.Causes {
					if !strings.Contains(r.Message, cause.Field+": "+cause.Message) {
						t.Errorf("%q lacks %s: %s", r.Message, cause.Field, cause.Message)
					}
				}
			})
		}
	}
}

// customKinds are workloads as the API server stores them: what their schema does not have would be dropped.
var customKinds = map[string]struct {
	definition apiextensionsv1.CustomResourceDefinition
	object     string
}{
	"JobSet": {
		definition("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets", object("spec", object("replicatedJobs", list(map[string]apiextensionsv1.JSONSchemaProps{
			"name": {Type: "string"}, "replicas": {Type: "integer"}, "template": any0(),
		})))),
		`{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet, metadata: {name: train}, spec: {replicatedJobs: [
			{name: leader, replicas: 1, template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}},
			{name: worker, replicas: 3, template: {spec: {template: {spec: {restartPolicy: Never, terminationGracePeriodSeconds: 100, containers: [{name: c, image: i}]}}}}}]}}`,
	},
	"LeaderWorkerSet": {
		definition("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", "leaderworkersets", object("spec", object("leaderWorkerTemplate", apiextensionsv1.JSONSchemaProps{
			Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"leaderTemplate": any0(), "workerTemplate": any0(), "size": {Type: "integer"}},
		}))),
		`{apiVersion: leaderworkerset.x-k8s.io/v1, kind: LeaderWorkerSet, metadata: {name: llm}, spec: {leaderWorkerTemplate: {size: 2,
			leaderTemplate: {metadata: {labels: {role: leader}}, spec: {containers: [{name: c, image: i}]}}, workerTemplate: {spec: {terminationGracePeriodSeconds: 5, containers: [{name: c, image: i}]}}}}}`,
	},
	"Rollout": {
		definition("argoproj.io", "v1alpha1", "Rollout", "rollouts", object("spec", any0())),
		`{apiVersion: argoproj.io/v1alpha1, kind: Rollout, metadata: {name: web}, spec: {replicas: 2, selector: {matchLabels: {app: web}}, template: {metadata: {labels: {app: web}}, spec: {containers: [{name: c, image: i}]}}}}`,
	},
}

func any0() apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "object", XPreserveUnknownFields: new(true)}
}

func object(field string, of apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{field: of}}
}

func list(of map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
	return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: of}}}
}

func definition(group, version, kind, plural string, schema apiextensionsv1.JSONSchemaProps) apiextensionsv1.CustomResourceDefinition {
	return apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: plural + "." + group, Annotations: map[string]string{apiextensionsv1.KubeAPIApprovedAnnotation: "https://github.com/kubernetes-sigs"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: group, Scope: apiextensionsv1.NamespaceScoped, Names: apiextensionsv1.CustomResourceDefinitionNames{Kind: kind, Plural: plural},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: version, Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &schema}}},
		},
	}
}

// A custom workload, as the API server stores it, is reviewed by each of its templates, and the pods of these are admitted as the review says.
func TestCreationOfCustomWorkloads(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{MinSeconds: new(int64(45)), MaxSeconds: new(int64(90))}})
	for kind, test := range customKinds {
		t.Run(kind, func(t *testing.T) {
			raw, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&test.definition)
			if err != nil {
				t.Fatal(err)
			}
			crd := &unstructured.Unstructured{Object: raw}
			crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
			s.Create(t, crd)
			o := unstructuredOf(t, test.object)
			o.SetNamespace(ns)
			suite.Eventually(t, kind+" to be served", func(ctx context.Context) (bool, error) {
				err := s.Client.Create(ctx, o)
				return err == nil || apierrors.IsAlreadyExists(err), err
			})
			text, err := o.MarshalJSON()
			if err != nil {
				t.Fatal(err)
			}
			d := document(t, ns, string(text))
			engine := engineOf(t, s, d)
			all := engine.State.Expand([]*manifest.Document{d})
			if want := map[string]int{"JobSet": 2, "LeaderWorkerSet": 2, "Rollout": 1}[kind]; len(all) != want {
				t.Fatalf("%d templates, want %d", len(all), want)
			}
			for _, one := range all {
				r, wrong := engine.Review(t.Context(), one, review.Question{})
				if wrong != nil || r == nil || r.Via != review.ViaTemplate {
					t.Fatal(wrong, r)
				}
				if len(r.Patch) == 0 && r.Decision == review.Allowed {
					t.Errorf("%s: the policy changes nothing", r.Resource)
				}
				agreed(t, s, r)
			}
		})
	}
}

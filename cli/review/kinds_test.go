package review

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/internal/manifest"
)

// A kind that the API server does not have is a mistake, and not an object that makes no pods.
func TestMisnamedKinds(t *testing.T) {
	for head, says := range map[string]string{
		"apps/v1 Deploymnet":              "apps/v1 has no kind Deploymnet; is it Deployment of apps/v1?",
		"apps/v1 deployment":              "is it Deployment of apps/v1?",
		"apps/v1 StatefullSet":            "is it StatefulSet of apps/v1?",
		"batch/v1 CronJo":                 "is it CronJob of batch/v1?",
		"v1 Deployment":                   "is it Deployment of apps/v1?",
		"v1 Namspace":                     "is it Namespace of v1?",
		"apps/v1 Pod":                     "is it Pod of v1?",
		"apps/v1 Workload":                "apps/v1 has no kind Workload",
		"podgrace.dev/v1alpha1 PodPolcy":  "is it PodPolicy of podgrace.dev/v1alpha1?",
		"podgrace.dev/v1alpha1 podpolicy": "is it PodPolicy of podgrace.dev/v1alpha1?",
		"extensions/v1beta1 Deployment":   "extensions/v1beta1 has no Deployment since Kubernetes 1.16: it is of apps/v1",
		"extensions/v1beta1 DaemonSet":    "since Kubernetes 1.16: it is of apps/v1",
		"apps/v1beta2 StatefulSet":        "since Kubernetes 1.16: it is of apps/v1",
		"batch/v1beta1 CronJob":           "since Kubernetes 1.25: it is of batch/v1",
	} {
		apiVersion, kind, _ := strings.Cut(head, " ")
		d := document(t, "{apiVersion: "+apiVersion+", kind: "+kind+", metadata: {name: x}}")
		if err := NewState().Add(d, ""); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", head, err)
		}
	}
	for _, text := range []string{
		"{apiVersion: example.com/v1, kind: Deploymnet}", "{apiVersion: apps/v9, kind: Deployment}", "{apiVersion: autoscaling/v2beta2, kind: HorizontalPodAutoscaler}",
		"{apiVersion: v1, kind: Config}", "{apiVersion: networking.k8s.io/v1, kind: Ingress}", "{apiVersion: extensions/v1beta1, kind: Ingress}",
		"{apiVersion: podgrace.dev/v1alpha1, kind: PolicySuite}", "{apiVersion: apps/v1, kind: Later, metadata: {uid: u}}",
	} {
		if err := NewState().Add(document(t, text), ""); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What may make pods for all one knows is counted by its kind, and nothing else is.
func TestNotKnown(t *testing.T) {
	s := NewState()
	if err := s.SetTemplate(schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}, "spec.template"); err != nil {
		t.Fatal(err)
	}
	var documents []*manifest.Document
	for _, text := range []string{
		"{apiVersion: example.com/v1, kind: Rollout}", "{apiVersion: example.com/v2, kind: Rollout}", "{apiVersion: example.com/v1, kind: Rollout}",
		"{apiVersion: kafka.strimzi.io/v1beta2, kind: Kafka}", "{apiVersion: jobset.x-k8s.io/v1alpha2, kind: JobSet}",
		"{apiVersion: apps/v9, kind: Deployment}",
		"{apiVersion: cert-manager.io/v1, kind: Certificate}", "{apiVersion: monitoring.coreos.com/v1, kind: ServiceMonitor}",
		"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, spec: {workloadRef: {kind: Deployment, name: web}}}", // no template of its own
		"{apiVersion: argoproj.io/v1alpha1, kind: Rollout, spec: {selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c}]}}}}",
		"{apiVersion: apps.kruise.io/v1alpha1, kind: CloneSet, spec: {template: {spec: {containers: [{name: c}]}}}}",
		"{apiVersion: networking.k8s.io/v1, kind: Ingress}", "{apiVersion: v1, kind: ConfigMap}", "{apiVersion: podgrace.dev/v1alpha1, kind: PodPolicy}", deployment, service,
		"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition}", "{apiVersion: admission.k8s.io/v1, kind: AdmissionReview}",
	} {
		documents = append(documents, document(t, text))
	}
	got := s.Count(documents)
	want := NotKnown{"Rollout.example.com": 3, "Deployment.apps": 1}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if text := got.String(); !strings.HasPrefix(text, "3 Rollout.example.com, 1 Deployment.apps") {
		t.Error(text)
	}
	if none := s.Count(documents[6:]); none != nil {
		t.Errorf("%v", none)
	}
	many := NotKnown{}
	for i := range 12 {
		many[string(rune('a'+i))] = 1
	}
	if text := many.String(); !strings.HasSuffix(text, ", 1 j, 2 more kinds") {
		t.Error(text)
	}
}

// What is not known is no other object, either, of which it is said that it makes no pods.
func TestAllCountsNotKnown(t *testing.T) {
	e := engineOf(t, web, shop, high)
	documents := []*manifest.Document{document(t, service), document(t, "{apiVersion: example.com/v1, kind: Rollout}"), document(t, "{apiVersion: example.com/v1, kind: Farm}"), document(t, deployment)}
	results, other, errs, err := e.All(t.Context(), documents, Question{}, nil)
	if err != nil || len(errs) > 0 || len(results) != 1 || other != 1 {
		t.Errorf("%d results, %d others, %v, %v", len(results), other, errs, err)
	}
}

package apiserver

import (
	"bytes"
	"fmt"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"

	"github.com/podgrace/podgrace/internal/manifest"
)

// manifests decodes what is of the group admissionregistration.k8s.io. A field that the group does not have is an error. The name is for errors.
func manifests(name string, text []byte) ([]runtime.Object, error) {
	scheme := runtime.NewScheme()
	utilruntime.Must(admissionregistrationv1.AddToScheme(scheme))
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDeserializer()
	var objects []runtime.Object
	for d, wrong := range manifest.Read(name, bytes.NewReader(text)) {
		if wrong != nil {
			return nil, wrong
		}
		object, _, err := decoder.Decode(d.JSON, nil, nil)
		if err != nil {
			return nil, fmt.Errorf("decode %w", d.Wrong(err))
		}
		objects = append(objects, object)
	}
	return objects, nil
}

// defaultRules, defaultWebhook and defaultPolicy set what the API server does when a configuration is stored
// (pkg/apis/admissionregistration/v1/defaults.go, 1.36.3).
func defaultRules(rules []admissionregistrationv1.RuleWithOperations) {
	for i := range rules {
		unset(&rules[i].Scope, admissionregistrationv1.AllScopes)
	}
}

func defaultWebhook(w *admissionregistrationv1.ValidatingWebhook) {
	unset(&w.FailurePolicy, admissionregistrationv1.Fail)
	unset(&w.MatchPolicy, admissionregistrationv1.Equivalent)
	unset(&w.NamespaceSelector, metav1.LabelSelector{})
	unset(&w.ObjectSelector, metav1.LabelSelector{})
	defaultRules(w.Rules)
}

func defaultPolicy(p *admissionregistrationv1.ValidatingAdmissionPolicy) {
	unset(&p.Spec.FailurePolicy, admissionregistrationv1.Fail)
	unset(&p.Spec.MatchConstraints, admissionregistrationv1.MatchResources{})
	m := p.Spec.MatchConstraints
	unset(&m.MatchPolicy, admissionregistrationv1.Equivalent)
	unset(&m.NamespaceSelector, metav1.LabelSelector{})
	unset(&m.ObjectSelector, metav1.LabelSelector{})
	for i := range m.ResourceRules {
		unset(&m.ResourceRules[i].Scope, admissionregistrationv1.AllScopes)
	}
}

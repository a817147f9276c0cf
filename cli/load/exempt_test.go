package load

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/webhook"
)

// A cluster's own list counts, as its API server has it, unless the flag names one; and who may not read it is told.
func TestExemptOf(t *testing.T) {
	installed := func(condition string) client.Object {
		o := &admissionregistrationv1.ValidatingWebhookConfiguration{}
		text := `
metadata: {name: podgrace}
webhooks:
- name: enforcer.removal.podgrace.dev
- name: pods.validate.podgrace.dev
  clientConfig: {service: {name: podgrace-webhook, namespace: elsewhere}}
  namespaceSelector:
    matchExpressions:
    - {key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system, elsewhere, calico-system]}
    - {key: control-plane, operator: DoesNotExist}
  matchConditions:
  - {name: not-excluded, expression: "` + condition + `"}
`
		if err := yaml.Unmarshal([]byte(text), o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	const openshift = "!['openshift-'].exists(prefix, request.?namespace.orValue('').startsWith(prefix))"
	refuse := func(err error) interceptor.Funcs {
		return interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return err
		}}
	}
	for name, tc := range map[string]struct {
		flag  []string
		have  []client.Object
		funcs interceptor.Funcs
		want  []string
		own   string
		says  string
	}{
		"the cluster's":     {have: []client.Object{installed(openshift)}, want: []string{"calico-system", "openshift-*"}, own: "elsewhere"},
		"the flag's":        {flag: []string{"shop"}, have: []client.Object{installed(openshift)}, want: []string{"shop"}, own: "podgrace-system"},
		"not installed":     {own: "podgrace-system"},
		"no right":          {funcs: refuse(apierrors.NewForbidden(schema.GroupResource{}, "podgrace", errors.New("no"))), own: "podgrace-system", says: "--exclude-namespaces names them"},
		"somebody else's":   {have: []client.Object{installed("request.namespace != 'x'")}, own: "podgrace-system", says: "is not as Podgrace writes it"},
		"an empty flag too": {flag: []string{}, have: []client.Object{installed(openshift)}, own: "podgrace-system"},
	} {
		t.Run(name, func(t *testing.T) {
			var told bytes.Buffer
			kube := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(tc.have...).WithInterceptorFuncs(tc.funcs).Build()
			o := &Options{ExcludeNamespaces: tc.flag}
			got, err := o.ExemptOf(t.Context(), terminal.Terminal{Err: &told}, kube)
			if err != nil || !slices.Equal(got.Excluded(), tc.want) || got.Own() != tc.own {
				t.Errorf("got %q in %s, %v", got.Excluded(), got.Own(), err)
			}
			if (tc.says == "") != (told.Len() == 0) || !strings.Contains(told.String(), tc.says) {
				t.Errorf("told %q", told.String())
			}
		})
	}
	if _, err := (&Options{ExcludeNamespaces: []string{"*"}}).ExemptOf(t.Context(), terminal.Terminal{}, nil); !strings.Contains(err.Error(), "--exclude-namespaces: ") {
		t.Errorf("a pattern that is none: %v", err)
	}
}

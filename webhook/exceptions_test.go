package webhook_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/policy/policytest"
	"github.com/podgrace/podgrace/webhook"
)

// A pod that is let through by an exception has it in the warning, in the audit log and in the count, once.
func TestExceptionIsTold(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop")), nil, policytest.PodPolicy("p", policytest.MinGrace(20)))
	registry := prometheus.NewRegistry()
	e.Metrics = webhook.NewMetrics(registry, e.Policies.(*webhook.PolicyStore), webhook.Namespaces{Most: 100})
	x, err := policy.CompileException(policytest.NamedException("batch"))
	if err != nil {
		t.Fatal(err)
	}
	e.Lookup.Exceptions = func(string) policy.Exceptions { return policy.Exceptions{x}.InForce(policytest.Noon) }
	short := strings.Replace(plainPod, `"terminationGracePeriodSeconds":30`, `"terminationGracePeriodSeconds":5`, 1)
	const warning = "PolicyException batch holds for this pod until 2026-06-01T13:00:00Z: it lifts gracePeriod.minSeconds of PodPolicy p (owner: team shop)"
	const audited = "shop/batch until 2026-06-01T13:00:00Z, granted by eve, owner team shop: gracePeriod.minSeconds of PodPolicy p"
	mutated := webhook.Handler(e.MutatePods).Handle(t.Context(), review(pods, short))
	if len(mutated.Patches) > 0 || !slices.Contains(mutated.Warnings, warning) || mutated.AuditAnnotations["exceptions"] != audited {
		t.Errorf("mutated: %+v", mutated)
	}
	validated := webhook.Handler(e.ValidatePods).Handle(t.Context(), review(pods, short))
	if !validated.Allowed || !slices.Contains(validated.Warnings, warning) || validated.AuditAnnotations["exceptions"] != audited {
		t.Errorf("validated: %+v", validated)
	}
	if got := webhook.Handler(e.ValidatePods).Handle(t.Context(), review(pods, plainPod)); slices.Contains(got.Warnings, warning) || got.AuditAnnotations["exceptions"] != "" {
		t.Errorf("where it makes no difference: %+v", got)
	}
	const count = `
# HELP podgrace_pod_exceptions_total Pods for which a PolicyException lifted a limit, by the exception's namespace and the PodPolicy whose limit it lifts. Dry runs are not counted.
# TYPE podgrace_pod_exceptions_total counter
podgrace_pod_exceptions_total{namespace="shop",policy="p"} 1
`
	if err := testutil.GatherAndCompare(registry, strings.NewReader(count), "podgrace_pod_exceptions_total"); err != nil {
		t.Error(err)
	}
}

// Who asks for an exception learns that it takes a grant, and what is wrong with it.
func TestValidateExceptions(t *testing.T) {
	e := newEngine(t, cluster(namespace("shop")), nil, policytest.PodPolicy("p", policytest.MinGrace(20)))
	e.Clock = testclock.NewFakePassiveClock(policytest.Noon)
	kind := metav1.GroupVersionKind{Group: v1alpha1.GroupVersion.Group, Version: "v1alpha1", Kind: "PolicyException"}
	const grant = "it lifts nothing before it is granted by who has the verb except on PodPolicy "
	for name, tc := range map[string]struct {
		change func(*v1alpha1.PolicyException)
		want   []string // what warnings begin with; nil: it is refused
	}{
		"fine":            {func(*v1alpha1.PolicyException) {}, []string{grant + "p: kubectl podgrace grant -n shop batch."}},
		"not granted":     {policytest.Ungranted, []string{grant}},
		"ended":           {func(x *v1alpha1.PolicyException) { x.Spec.Until = "2026-06-01T12:00:00Z" }, []string{"it ended at", grant}},
		"no such policy":  {func(x *v1alpha1.PolicyException) { x.Spec.Policy = "q" }, []string{"it lifts nothing: there is no PodPolicy q", grant}},
		"nothing to lift": {func(x *v1alpha1.PolicyException) { x.Spec.Limits[0] = v1alpha1.LiftZeroGrace }, []string{"it lifts nothing: PodPolicy p has no removal.zeroGrace", grant}},
		"no time":         {func(x *v1alpha1.PolicyException) { x.Spec.Until = "soon" }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			x := policytest.NamedException("batch")
			tc.change(x)
			text, err := json.Marshal(x)
			if err != nil {
				t.Fatal(err)
			}
			got := webhook.Handler(e.ValidatePolicies).Handle(t.Context(), review(kind, string(text)))
			if got.Allowed != (tc.want != nil) || !slices.EqualFunc(got.Warnings, tc.want, strings.HasPrefix) {
				t.Errorf("%v %q %s", got.Allowed, got.Warnings, message(got))
			}
		})
	}
}

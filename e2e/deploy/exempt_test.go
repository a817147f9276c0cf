package deploy

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// What the chart leaves out is what webhook, fencer and reviews take for exempt, in whatever order and however often it is written; and so is what it is read back as.
func TestExcludedNamespacesAreTheFlags(t *testing.T) {
	values := []string{"excludedNamespaces={zoo,openshift-*,calico-system,zoo,kube-system,gke-managed-*,podgrace-system,openshift-*}", "fencer.enabled=true"}
	plain := variant{values: []string{"fencer.enabled=true"}}.templated(t, namespace)
	excluding := variant{values: values}.templated(t, namespace)
	flag := ""
	for _, name := range []string{"podgrace-webhook", "podgrace-fencer"} {
		args := typed[appsv1.Deployment](t, find(t, excluding, "Deployment", name)).Spec.Template.Spec.Containers[0].Args
		last := args[len(args)-1]
		if flag == "" {
			flag = last
		}
		if last != flag {
			t.Errorf("%s has %s, another one %s", name, last, flag)
		}
	}
	patterns, found := strings.CutPrefix(flag, "--exclude-namespaces=")
	if !found {
		t.Fatalf("the last flag is %s", flag)
	}
	exempt, err := policy.ExemptIn(namespace).Excluding(strings.Split(patterns, ",")...)
	if err != nil {
		t.Fatal(err)
	}
	rendered := 0
	for _, was := range plain {
		var want, got runtime.Object
		switch name := was.GetName(); was.GetKind() {
		case "MutatingWebhookConfiguration":
			want, got = typed[admissionregistrationv1.MutatingWebhookConfiguration](t, was), typed[admissionregistrationv1.MutatingWebhookConfiguration](t, find(t, excluding, was.GetKind(), name))
		case "ValidatingWebhookConfiguration":
			configuration := typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, find(t, excluding, was.GetKind(), name))
			want, got = typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, was), configuration
			if read, err := controllers.ReadExempt(configuration, ""); err != nil || !slices.Equal(read.Excluded(), exempt.Excluded()) || read.Own() != namespace {
				t.Errorf("read back as %q in %s: %v", read.Excluded(), read.Own(), err)
			}
		case "ValidatingAdmissionPolicy":
			want, got = typed[admissionregistrationv1.ValidatingAdmissionPolicy](t, was), typed[admissionregistrationv1.ValidatingAdmissionPolicy](t, find(t, excluding, was.GetKind(), name))
		default:
			continue
		}
		rendered++
		controllers.RenderExempt(want, exempt)
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s %s: as the programs have it (-), the chart's (+):\n%s", was.GetKind(), was.GetName(), d)
		}
	}
	if rendered < 10 {
		t.Errorf("only %d objects", rendered)
	}
}

func TestValuesOfAdmission(t *testing.T) {
	for name, tc := range map[string]struct{ value, refused string }{
		"name":              {value: "excludedNamespaces={a-1}"},
		"beginning":         {value: "excludedNamespaces={openshift-*}"},
		"everything":        {"excludedNamespaces={*}", "/excludedNamespaces/0"},
		"no dash":           {"excludedNamespaces={openshift*}", "/excludedNamespaces/0"},
		"star within":       {"excludedNamespaces={a-*-b}", "/excludedNamespaces/0"},
		"a quote":           {"excludedNamespaces={a'b-*}", "/excludedNamespaces/0"},
		"no list":           {"excludedNamespaces=a", "/excludedNamespaces"},
		"longest":           {value: "webhook.timeoutSeconds.mutating=30"},
		"no time":           {"webhook.timeoutSeconds.validating=0", "/webhook/timeoutSeconds/validating"},
		"too long":          {"webhook.timeoutSeconds.mutating=31", "/webhook/timeoutSeconds/mutating"},
		"no failure policy": {"limits.failurePolicy=Open", "/limits/failurePolicy"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := helm(t, "template", "podgrace", chart, "--namespace", namespace, "--set", noRegistry, "--set", tc.value)
			if (err != nil) != (tc.refused != "") || err != nil && !strings.Contains(err.Error(), tc.refused) {
				t.Errorf("got %v, want %q", err, tc.refused)
			}
		})
	}
}

// Only what judges limits closes, and a drain never waits for longer than before.
func TestTimeoutsAndFailurePolicies(t *testing.T) {
	type answer struct {
		seconds int32
		policy  admissionregistrationv1.FailurePolicyType
	}
	read := func(values ...string) map[string]answer {
		all := map[string]answer{}
		objects := variant{values: values}.templated(t, namespace)
		for _, w := range typed[admissionregistrationv1.MutatingWebhookConfiguration](t, find(t, objects, "MutatingWebhookConfiguration", "podgrace")).Webhooks {
			all[w.Name] = answer{*w.TimeoutSeconds, *w.FailurePolicy}
		}
		for _, w := range typed[admissionregistrationv1.ValidatingWebhookConfiguration](t, find(t, objects, "ValidatingWebhookConfiguration", "podgrace")).Webhooks {
			all[w.Name] = answer{*w.TimeoutSeconds, *w.FailurePolicy}
		}
		return all
	}
	got, want := read("webhook.timeoutSeconds.mutating=7", "webhook.timeoutSeconds.validating=30", "limits.failurePolicy=Fail"), read()
	for name, a := range want {
		a.seconds = 30
		if name == "plain-eviction.removal.podgrace.dev" || strings.HasPrefix(name, "open-") {
			a.seconds = 2
		}
		switch name {
		case "pods.mutate.podgrace.dev", "evictions.mutate.podgrace.dev", "nodes.mutate.podgrace.dev":
			a.seconds = 7
		case "pods.validate.podgrace.dev", "pod-groups.validate.podgrace.dev":
			a.policy = admissionregistrationv1.Fail
		}
		if got[name] != a {
			t.Errorf("%s: got %+v, want %+v", name, got[name], a)
		}
	}
	if shortest := read("webhook.timeoutSeconds.mutating=1")["plain-eviction.removal.podgrace.dev"]; shortest.seconds != 1 {
		t.Errorf("an eviction waits for %d s where nothing else does", shortest.seconds)
	}
}

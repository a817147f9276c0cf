package peers

import (
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestReadToldCountsCreationsOfTheFourPlugins(t *testing.T) {
	got, err := readTold([]byte(`# TYPE apiserver_admission_controller_admission_duration_seconds histogram
apiserver_admission_controller_admission_duration_seconds_sum{name="MutatingAdmissionPolicy",operation="CREATE",rejected="false",type="admit"} 1
apiserver_admission_controller_admission_duration_seconds_sum{name="ValidatingAdmissionWebhook",operation="CREATE",rejected="true",type="validate"} 2
apiserver_admission_controller_admission_duration_seconds_sum{name="ValidatingAdmissionWebhook",operation="UPDATE",rejected="false",type="validate"} 4
apiserver_admission_controller_admission_duration_seconds_sum{name="ValidatingAdmissionPolicy",operation="CREATE",rejected="false",type="validate"} 5
apiserver_admission_controller_admission_duration_seconds_sum{name="Priority",operation="CREATE",rejected="false",type="admit"} 8
apiserver_admission_webhook_admission_duration_seconds_sum{name="a",operation="CREATE",rejected="false",type="admit"} 16
apiserver_admission_webhook_admission_duration_seconds_sum{name="b",operation="UPDATE",rejected="false",type="admit"} 32
apiserver_admission_webhook_admission_duration_seconds_count{name="a",operation="CREATE",rejected="false",type="admit"} 64
`))
	if want := (told{plugins: 8000, calls: 16000, policies: 5000}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

func TestSelects(t *testing.T) {
	only := func(namespaces ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: namespaces}}}
	}
	everything := podsCreated()
	everything[0].Operations, everything[0].APIGroups = []admissionregistrationv1.OperationType{admissionregistrationv1.OperationAll}, []string{"*"}
	everything[0].APIVersions, everything[0].Resources = []string{"*"}, []string{"*"}
	deleted := podsCreated()
	deleted[0].Operations = []admissionregistrationv1.OperationType{admissionregistrationv1.Delete}
	for _, test := range []struct {
		name     string
		rules    []admissionregistrationv1.RuleWithOperations
		selector *metav1.LabelSelector
		want     bool
	}{
		{"of all namespaces", podsCreated(), &metav1.LabelSelector{}, true},
		{"of this one", podsCreated(), only("a", "b"), true},
		{"of another one", podsCreated(), only("b"), false},
		{"of all resources", everything, only("a"), true},
		{"of another operation", deleted, only("a"), false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := selects(test.rules, test.selector, "a")
			if err != nil || got != test.want {
				t.Errorf("got %t, %v, want %t", got, err, test.want)
			}
		})
	}
}

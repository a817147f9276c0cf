package review

import (
	"strings"
	"testing"
)

// The API server refuses some PriorityClasses; whoever deletes one is told who names it.
func TestPriorityClasses(t *testing.T) {
	class := func(fields string) string {
		return `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, ` + fields + `}`
	}
	state := []string{
		class(`metadata: {name: basic}, value: 10, globalDefault: true`), high,
		`{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: shop}, spec: {priorityClassName: basic, nodeName: node-1, containers: ` + containers + `}}`,
	}
	for name, test := range map[string]struct {
		object, operation string
		decision          Decision // empty: nothing is said
		says              string
	}{
		"ordinary":             {class(`metadata: {name: low}, value: 1`), OperationCreate, "", ""},
		"a second default":     {class(`metadata: {name: other}, value: 20, globalDefault: true`), OperationCreate, Denied, "PriorityClass basic is already marked as default. Only one default can exist"},
		"the default itself":   {class(`metadata: {name: basic}, value: 10, globalDefault: true`), OperationCreate, "", ""},
		"the highest value":    {class(`metadata: {name: top}, value: 1000000000`), OperationCreate, "", ""},
		"above it":             {class(`metadata: {name: top}, value: 1000000001`), OperationCreate, Denied, "value: Forbidden: maximum allowed value of a user defined priority is 1000000000"},
		"a name of the system": {class(`metadata: {name: system-mine}, value: 1`), OperationCreate, Denied, "reserved for system use only"},
		"the system's own":     {class(`metadata: {name: system-node-critical}, value: 2000001000`), OperationCreate, "", ""},
		"deleted, of a pod":    {class(`metadata: {name: basic}, value: 10`), OperationDelete, Allowed, "it is named by Pod shop/p"},
		"deleted, of a policy": {class(`metadata: {name: high}, value: 1000`), OperationDelete, Allowed, "it is named by PodPolicy web"},
		"deleted, of nobody":   {class(`metadata: {name: low}, value: 1`), OperationDelete, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			policies := web
			if name == "deleted, of nobody" {
				policies = upTo300
			}
			r := mustReview(t, engineOf(t, policies, state...), test.object, Question{Operation: test.operation})
			switch {
			case r == nil:
				if test.decision != "" {
					t.Error("nothing is said")
				}
			case r.Decision != test.decision || !strings.Contains(r.Message+strings.Join(r.Warnings, " "), test.says):
				t.Errorf("%s %q %q", r.Decision, r.Message, r.Warnings)
			}
		})
	}
}

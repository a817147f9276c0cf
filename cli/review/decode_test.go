package review

import (
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/input"
)

func TestAWrongTypeIsSaidPlainly(t *testing.T) {
	for spec, want := range map[string]string{
		`terminationGracePeriodSeconds: "60"`: "decode the Pod: spec.terminationGracePeriodSeconds is a text, not a whole number",
		`containers: {name: a}`:               "decode the Pod: spec.containers is an object, not a list",
		`hostNetwork: 1`:                      "decode the Pod: spec.hostNetwork is a number, not a boolean",
		`nodeName: [a]`:                       "decode the Pod: spec.nodeName is a list, not a text",
		`priority: 1.5`:                       "decode the Pod: spec.priority is a number, not a whole number",
		`affinity: true`:                      "decode the Pod: spec.affinity is a boolean, not what belongs there (Affinity)",
	} {
		in := Read(&input.Reader{Stdin: strings.NewReader("apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  " + spec + "\n")}, "-")
		if err := NewState().Add(in.Documents[0], ""); err == nil || err.Error() != want {
			t.Errorf("%s: got %v", spec, err)
		}
	}
}

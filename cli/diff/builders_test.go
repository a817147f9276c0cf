package diff

import (
	"fmt"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// state of the tests' cluster: a namespace, three classes, a node that is there.
const state = `
{apiVersion: v1, kind: Namespace, metadata: {name: shop, labels: {team: web}}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: data, labels: {team: data}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 1000}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: 10}
---
{apiVersion: v1, kind: Node, metadata: {name: n1, uid: n1}}
`

// header of a policy in one line.
const policy = "apiVersion: podgrace.dev/v1alpha1\nkind: PodPolicy\nmetadata: {name: %s}\nspec: %s\n---\n"

// policies are specs by name, in pairs.
func policies(pairs ...string) string {
	var text strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		fmt.Fprintf(&text, policy, pairs[i], pairs[i+1])
	}
	return text.String()
}

func documents(t testing.TB, text string) []*manifest.Document {
	t.Helper()
	in := review.Read(&input.Reader{Stdin: strings.NewReader(text)}, "-")
	for _, err := range in.Errors {
		t.Fatal(err)
	}
	return in.Documents
}

func engine(t testing.TB, s *review.State, text string) *review.Engine {
	t.Helper()
	parsed, err := policyfile.Parse("policy.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	e, err := review.NewEngine(s, parsed...)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func stateOf(t testing.TB, documents ...*manifest.Document) *review.State {
	t.Helper()
	s := review.NewState()
	for _, d := range documents {
		if err := s.Add(d, "default"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// diff compares two sets of policies over manifests in the tests' cluster.
func diff(t testing.TB, from, to, manifests string) *Diff {
	t.Helper()
	s := stateOf(t, append(documents(t, state), documents(t, manifests)...)...)
	c := Comparison{From: engine(t, s, from), To: engine(t, s, to)}
	d, err := c.Of(t.Context(), documents(t, manifests))
	if err != nil {
		t.Fatal(err)
	}
	d.Summary.Files = 1
	return d
}

// workload of a kind with a pod's spec in flow style, without its containers.
func workload(kind, namespace, name, spec string) string {
	return fmt.Sprintf(`---
apiVersion: apps/v1
kind: %s
metadata: {namespace: %s, name: %s}
spec:
  selector: {matchLabels: {app: %[3]s}}
  template:
    metadata: {labels: {app: %[3]s}}
    spec: {%[4]s containers: [{name: c, image: "i:1"}]}
`, kind, namespace, name, spec)
}

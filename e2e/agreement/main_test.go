package agreement

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/webhook"
)

var shared = &suite.Shared{}

func TestMain(m *testing.M) { suite.Main(m, shared) }

// folders of the examples.
var folders = []string{"../../examples/production-web", "../../examples/batch", "../../examples/stateful", "../../examples/multi-tenant", "../../examples/exceptions"}

// read reads files and returns an engine that knows all of them, and the nodes of the cluster: by them a constraint can be met.
func read(t *testing.T, s *suite.Suite, paths ...string) (*review.Engine, []*manifest.Document) {
	t.Helper()
	in := review.Read(&input.Reader{}, paths...)
	policies, errs := review.LoadPolicies(nil, in.Documents)
	for _, err := range append(in.Errors, errs...) {
		t.Fatal(err)
	}
	state := review.NewState()
	for _, d := range in.Documents {
		if err := state.Add(d, "default"); err != nil {
			t.Fatal(err)
		}
	}
	for _, d := range nodes(t, s) {
		if err := state.Add(d, "default"); err != nil {
			t.Fatal(err)
		}
	}
	engine, err := review.NewEngine(state, policies...)
	if err != nil {
		t.Fatal(err)
	}
	return engine, in.Documents
}

// nodes are those of the cluster as a file would have them.
func nodes(t *testing.T, s *suite.Suite) (documents []*manifest.Document) {
	t.Helper()
	var list corev1.NodeList
	if err := s.Client.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	for i := range list.Items {
		n := &list.Items[i]
		n.APIVersion, n.Kind = "v1", "Node"
		raw, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		documents = append(documents, &manifest.Document{File: "live", Line: i + 1, APIVersion: n.APIVersion, Kind: n.Kind, Name: n.Name, JSON: raw})
	}
	return documents
}

// install puts a folder's cluster and policies into the API server, and takes them away at the end of the test.
func install(t *testing.T, s *suite.Suite, documents []*manifest.Document) {
	t.Helper()
	for _, d := range documents {
		var o client.Object
		switch d.Kind {
		case "Namespace":
			o = &corev1.Namespace{}
		case "PriorityClass":
			o = &schedulingv1.PriorityClass{}
		case "Service":
			o = &corev1.Service{}
		case "PodPolicy":
			o = &v1alpha1.PodPolicy{}
		default:
			continue
		}
		if err := json.Unmarshal(d.JSON, o); err != nil {
			t.Fatal(err)
		}
		s.Create(t, o)
		if p, ok := o.(*v1alpha1.PodPolicy); ok {
			s.WaitInForce(t, p)
		}
	}
}

// as is a client of a user, and the warnings that it gets.
func as(t *testing.T, s *suite.Suite, user string, groups ...string) (client.Client, *suite.Warnings) {
	t.Helper()
	warnings := &suite.Warnings{}
	config := rest.CopyConfig(s.Config)
	config.WarningHandler = warnings
	if user != "" {
		config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: groups}
	}
	c, err := client.New(config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	return c, warnings
}

// sorted is nil for an empty list, so that nil and empty are the same.
func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }

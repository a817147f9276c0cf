package deploy

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// readFiles reads the objects of YAML files.
func readFiles(t testing.TB, files ...string) []*unstructured.Unstructured {
	t.Helper()
	var all []*unstructured.Unstructured
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, objects(t, text)...)
	}
	return all
}

// In whatever order the objects of a variant come and go, and while their webhook does not answer, users' pods, workloads and
// nodes come and go too. It is the order of kubectl with a folder, of Helm, of Argo CD's waves and of a person at a loss.
func TestAnyOrder(t *testing.T) {
	w := empty(t)
	w.install(t, certManagerCRDs(t))
	seed := draw.Seed()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	first := readFiles(t, manifests+"/policies/first.yaml")
	for _, v := range variants[:4] {
		t.Run(v.name, func(t *testing.T) {
			all := append(v.kustomized(t), first...)
			shuffle := func() {
				random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
			}
			shuffle()
			w.applyAll(t, all)
			shuffle()
			w.applyAll(t, all[:len(all)/2]) // an update that ends half-way
			shuffle()
			w.deleteAll(t, all)
		})
	}
}

// The objects of both ways, those for the Prometheus operator too, pass the API server's own validation, strictly: each is known to it with every field.
func TestServerSideDryRun(t *testing.T) {
	w := empty(t)
	w.install(t, append(certManagerCRDs(t), prometheusCRDs(t)...))
	ground := map[string]*unstructured.Unstructured{} // what the rest is in, and of
	for _, v := range variants {
		for _, o := range v.kustomized(t) {
			if o.GetKind() == "Namespace" || o.GetKind() == "CustomResourceDefinition" {
				ground[key(o)] = o
			}
		}
	}
	w.install(t, slices.Collect(maps.Values(ground)))
	for _, v := range variants {
		v.values = append(v.values, "firstPolicy.create=true")
		for from, all := range map[string][]*unstructured.Unstructured{"kustomize": v.kustomized(t), "Helm": v.templated(t, namespace)} {
			for _, o := range all {
				if o.GetKind() == "SecurityContextConstraints" { // no module that is used here has OpenShift's definition
					continue
				}
				if err := w.strictDryRun(t.Context(), o); err != nil {
					t.Errorf("%s, %s: %s: %v", v.name, from, key(o), err)
				}
			}
		}
	}
}

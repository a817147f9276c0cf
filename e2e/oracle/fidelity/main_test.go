package fidelity

import (
	"flag"
	"os"
	"testing"

	"k8s.io/apimachinery/pkg/util/sets"
)

// Where neither flag nor environment says otherwise: so many cases for each property, and all properties at once, so that
// the longest does not run alone at the end.
const (
	defaultChecks   = "3000"
	defaultParallel = "8"
)

func TestMain(m *testing.M) {
	flag.Parse()
	given := sets.New[string]()
	flag.Visit(func(f *flag.Flag) { given.Insert(f.Name) })
	if _, inEnvironment := os.LookupEnv("RAPID_CHECKS"); !inEnvironment && !given.Has("rapid.checks") {
		set("rapid.checks", defaultChecks)
	}
	if !given.Has("test.parallel") {
		set("test.parallel", defaultParallel)
	}
	os.Exit(m.Run())
}

func set(name, value string) {
	if err := flag.Set(name, value); err != nil {
		panic(err)
	}
}

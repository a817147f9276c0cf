package schema_test

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"gotest.tools/v3/golden"

	"github.com/podgrace/podgrace/cli/suite"
	"github.com/podgrace/podgrace/deploy/schema"
)

func TestFilesAreFresh(t *testing.T) {
	want := files(t)
	for _, name := range slices.Sorted(maps.Keys(want)) {
		golden.Assert(t, string(want[name]), filepath.Join("..", name), "%s is stale: run make generate", name)
	}
}

// files are the schemas by the paths of their files: those of the CustomResourceDefinitions, and that of suites, which are no objects of a cluster.
func files(t *testing.T) map[string][]byte {
	t.Helper()
	all, err := schema.Files()
	if err != nil {
		t.Fatal(err)
	}
	path, text, err := schema.File(suite.Kind, suite.Schema())
	if err != nil {
		t.Fatal(err)
	}
	all[path] = text
	return all
}

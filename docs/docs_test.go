package docs_test

import (
	"flag"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the pages that are made from code")

// fresh compares a page with what the code gives, or writes it.
func fresh(t *testing.T, file, want string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(want), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	have, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test ./docs -update writes it)", err)
	}
	if diff := cmp.Diff(want, string(have)); diff != "" {
		t.Errorf("docs/%s is stale (-want +have; go test ./docs -update writes it):\n%s", file, diff)
	}
}

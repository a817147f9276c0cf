package docs_test

import (
	"path/filepath"
	"testing"

	"gotest.tools/v3/golden"
)

// fresh compares a page with what the code gives, or writes it.
func fresh(t *testing.T, file, want string) {
	t.Helper()
	golden.Assert(t, want, filepath.Join("..", file), "docs/%s is stale: go test ./docs -update writes it", file)
}

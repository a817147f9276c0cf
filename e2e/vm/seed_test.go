package vm

import (
	"os"
	"path/filepath"
	"testing"
)

// It holds the token that opens the agent, and keys.
func TestSeedIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seed.tar")
	if err := (seed{token: "secret"}).write(path); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info, err)
	}
}

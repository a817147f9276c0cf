package vm

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// One byte of an input gives another key; so does a file under another name. Tests are no input.
func TestHashFiles(t *testing.T) {
	dir := t.TempDir()
	hash := func() string {
		sum := sha256.New()
		if err := hashFiles(sum, dir); err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("%x", sum.Sum(nil))
	}
	seen := []string{hash()}
	for _, file := range []struct{ name, text string }{{"a", "1"}, {"a", "2"}, {"b", "2"}} {
		if err := os.WriteFile(filepath.Join(dir, file.name), []byte(file.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got := hash()
		if slices.Contains(seen, got) {
			t.Errorf("%v changes nothing", file)
		}
		seen = append(seen, got)
	}
	if err := os.WriteFile(filepath.Join(dir, "a_test.go"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if hash() != seen[len(seen)-1] {
		t.Error("a test changes the key")
	}
	if err := hashFiles(sha256.New(), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// No kernel of one package is taken for another's, however new it is, nor a cache's that has none.
func TestCachedKernelIsThePackages(t *testing.T) {
	cache := t.TempDir()
	for _, test := range []struct{ entry, version string }{{"kernel-", "6.1.0-56-cloud-amd64"}, {"full-kernel-", "6.1.0-99-amd64"}, {"kernel-", "6.1.0-57-cloud-amd64"}} {
		if _, err := (kernelPackage{"another", "other-"}).cached(cache); err == nil {
			t.Error("found one that is not there")
		}
		dir := filepath.Join(cache, test.entry+test.version)
		if err := errors.Join(os.MkdirAll(filepath.Join(dir, "lib/modules", test.version), 0o755), os.MkdirAll(filepath.Join(dir, "boot/vmlinuz-"+test.version), 0o755)); err != nil {
			t.Fatal(err)
		}
	}
	for want, p := range map[string]kernelPackage{"6.1.0-57-cloud-amd64": cloudKernel, "6.1.0-99-amd64": fullKernel} {
		if k, err := p.cached(cache); k.version != want || err != nil {
			t.Errorf("%s: got %q, %v", p.name, k.version, err)
		}
	}
}

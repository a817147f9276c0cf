package vm

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"
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

// A build that fails leaves neither the folder nor a part of it.
func TestAtomically(t *testing.T) {
	b := &builder{cache: t.TempDir(), progress: io.Discard}
	dir := filepath.Join(b.cache, "made")
	failure := errors.New("no room")
	half := func(_ context.Context, temp string) error {
		return errors.Join(os.WriteFile(filepath.Join(temp, "half"), nil, 0o600), failure)
	}
	if err := b.atomically(t.Context(), dir, half); !errors.Is(err, failure) {
		t.Errorf("got %v", err)
	}
	if left, _ := os.ReadDir(b.cache); len(left) != 0 {
		t.Errorf("left: %v", left)
	}
	whole := func(_ context.Context, temp string) error {
		return os.WriteFile(filepath.Join(temp, "whole"), nil, 0o600)
	}
	if err := b.atomically(t.Context(), dir, whole); err != nil || !exists(filepath.Join(dir, "whole")) {
		t.Errorf("got %v", err)
	}
}

func TestFindKernel(t *testing.T) {
	for _, lib := range []string{"lib", "usr/lib"} {
		dir := t.TempDir()
		if _, err := findKernel(dir); err == nil {
			t.Error("found one in an empty folder")
		}
		for _, sub := range []string{lib + "/modules/6.1.0", "boot"} {
			if err := os.MkdirAll(filepath.Join(dir, sub), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(filepath.Join(dir, "boot/vmlinuz-6.1.0"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if k, err := findKernel(dir); err != nil || k.version != "6.1.0" || !exists(k.image) || !exists(filepath.Join(k.modules, k.version)) {
			t.Errorf("%s: got %+v, %v", lib, k, err)
		}
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

// What a guest writes to its disk no other guest may find there.
func TestGuestsLeaveTheImageAlone(t *testing.T) {
	args := machineOptions{image: image{"/i"}}.arguments("/s")
	if !slices.Contains(args, "file=/i/root.ext4,format=raw,if=virtio,cache=unsafe,snapshot=on") {
		t.Errorf("the image is written to: %q", args)
	}
}

func TestForgetUnused(t *testing.T) {
	b := &builder{cache: t.TempDir()}
	old := time.Now().Add(-2 * unusedFor)
	for _, name := range []string{"vm-old-image", "vm-used-image", "vm-debian-old", "kubernetes-v1"} {
		dir := filepath.Join(b.cache, name)
		if err := errors.Join(os.Mkdir(dir, 0o755), os.Chtimes(dir, old, old)); err != nil {
			t.Fatal(err)
		}
	}
	if !use(filepath.Join(b.cache, "vm-used-image")) || use(filepath.Join(b.cache, "vm-none-image")) {
		t.Error("use does not tell what exists")
	}
	b.forgetUnused()
	var left []string
	entries, _ := os.ReadDir(b.cache)
	for _, entry := range entries {
		left = append(left, entry.Name())
	}
	if want := []string{"kubernetes-v1", "vm-debian-old", "vm-used-image"}; !slices.Equal(left, want) {
		t.Errorf("left: %v", left)
	}
}

package cluster

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestRequiredVersion(t *testing.T) {
	const gomod = `module example.com/m

require (
	k8s.io/kubernetes-extra v9.9.9
	k8s.io/kubernetes v1.36.3 // pinned
)

require go.etcd.io/etcd/server/v3 v3.6.8

replace k8s.io/api => k8s.io/api v0.36.3
`
	tests := []struct {
		module, want string
		found        bool
	}{
		{"k8s.io/kubernetes", "v1.36.3", true},
		{"go.etcd.io/etcd/server/v3", "v3.6.8", true},
		{"k8s.io/api", "", false},
		{"k8s.io/absent", "", false},
	}
	for _, test := range tests {
		t.Run(test.module, func(t *testing.T) {
			got, found := requiredVersion([]byte(gomod), test.module)
			if got != test.want || found != test.found {
				t.Errorf("got %q, %v, want %q, %v", got, found, test.want, test.found)
			}
		})
	}
}

func TestKubernetesModuleIsFoundFromAnyFolder(t *testing.T) {
	here, err := kubernetesModule()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := kubernetesVersion(here); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir()) // outside the repository: the place of compilation serves
	elsewhere, err := kubernetesModule()
	if err != nil {
		t.Skip("compiled with -trimpath:", err)
	}
	if elsewhere != here {
		t.Errorf("from outside: got %s, want %s", elsewhere, here)
	}
}

func TestVersionFlags(t *testing.T) {
	flags := versionFlags("v1.36.3")
	for _, want := range []string{"gitVersion=v1.36.3", "gitMajor=1 ", "gitMinor=36 "} {
		if !strings.Contains(flags, want) {
			t.Errorf("%q lacks %q", flags, want)
		}
	}
}

func TestBinariesFromAssets(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(assetsVariable, dir)
	_, err := Binaries(t.Context(), io.Discard)
	if err == nil || !strings.Contains(err.Error(), "etcd, kube-apiserver, kubectl") {
		t.Errorf("an empty folder: got %v", err)
	}
	for _, name := range assetPrograms {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Binaries(t.Context(), io.Discard)
	if err != nil || got != dir {
		t.Errorf("got %q, %v, want %q", got, err, dir)
	}
	if err := requirePrograms(dir, "kubelet"); err == nil {
		t.Error("a folder without a kubelet was accepted for one")
	}
}

func TestMissing(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "etcd"), nil, 0o755); err != nil {
		t.Fatal(err)
	}
	got := missing(dir, "etcd", "kubelet")
	if !slices.Equal(got, []string{"kubelet"}) {
		t.Errorf("got %v", got)
	}
}

func TestLockIsExclusive(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	unlock, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	var told strings.Builder
	if _, err := lock(ctx, path, &told); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the second lock: got %v", err)
	}
	if !strings.Contains(told.String(), "waiting") {
		t.Errorf("nothing said why it waits: %q", told.String())
	}
	unlock()
	again, err := lock(t.Context(), path, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	again()
}

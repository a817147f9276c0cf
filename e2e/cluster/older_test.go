package cluster

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// theirGoMod has the lines of Kubernetes' go.mod that matter here.
const theirGoMod = `module k8s.io/kubernetes

go 1.24.0

require (
	go.etcd.io/etcd/client/v3 v3.6.4
	k8s.io/api v0.0.0
	go.etcd.io/etcd/server/v3 v3.6.4 // indirect
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
	k8s.io/client-go => ./staging/src/k8s.io/client-go
)
`

func TestStandalone(t *testing.T) {
	const want = `module github.com/podgrace/podgrace/kubernetes

go 1.24.0

require (
	go.etcd.io/etcd/client/v3 v3.6.4
	k8s.io/api v0.0.0
	go.etcd.io/etcd/server/v3 v3.6.4 // indirect
)

replace (
	k8s.io/api => k8s.io/api v0.34.4
	k8s.io/client-go => k8s.io/client-go v0.34.4
)

require k8s.io/kubernetes v1.34.4
`
	if got := string(standalone([]byte(theirGoMod), "v1.34.4")); got != want {
		t.Errorf("got\n%s", got)
	}
}

// Each version of older.txt is built into a folder of its own, by a module that is generated once.
func TestVersionByVariable(t *testing.T) {
	fakeGo(t)
	for version := range strings.FieldsSeq(older) {
		major, minor := majorMinor(version)
		t.Setenv(VersionVariable, major+"."+minor)
		dir, err := Binaries(t.Context(), io.Discard, "etcd")
		if err != nil || filepath.Base(dir) != "kubernetes-"+version || len(missing(dir, "etcd")) > 0 {
			t.Fatalf("%s: got %s, %v", version, dir, err)
		}
		path := filepath.Join(dir, "module", "go.mod")
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), "require k8s.io/kubernetes "+version+"\n") {
			t.Fatalf("%s: %s, %v", version, text, err)
		}
		if err := os.WriteFile(path, []byte("module kept\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Binaries(t.Context(), io.Discard, "kubectl"); err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(path); string(text) != "module kept\n" {
			t.Errorf("%s: generated twice: %s, %v", version, text, err)
		}
	}
	for _, absent := range []string{"1", "1.9", "1.34.4"} {
		t.Setenv(VersionVariable, absent)
		if _, err := Binaries(t.Context(), io.Discard, "etcd"); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("no version %q", absent)) {
			t.Errorf("%s is not in older.txt: %v", absent, err)
		}
	}
}

// The nightly workflow runs make versions for each of them. The Makefile reads older.txt itself.
func TestNightlyHasAllVersions(t *testing.T) {
	root, err := ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	workflow, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "nightly.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var minors []string
	for version := range strings.FieldsSeq(older) {
		major, minor := majorMinor(version)
		minors = append(minors, fmt.Sprintf("%q", major+"."+minor))
	}
	if want := "matrix: {version: [" + strings.Join(minors, ", ") + "]}"; !strings.Contains(string(workflow), want) {
		t.Errorf("nightly.yaml lacks %s", want)
	}
}

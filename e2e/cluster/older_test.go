package cluster

import (
	"fmt"
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

package install

import (
	"strings"
	"testing"
)

// TestEtcdWaitsForNoDisk: an upgrade under churn is to fail because of Podgrace, and not because the machine's disk was busy for seconds.
func TestEtcdWaitsForNoDisk(t *testing.T) {
	w := get(t)
	command, err := w.Kubectl(t.Context(), "get", "pods", "--namespace=kube-system", "--selector=component=etcd", "--output=jsonpath={.items[*].spec.containers[*].command}")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(command, "--unsafe-no-fsync=true") {
		t.Errorf("etcd is started as %s", command)
	}
}

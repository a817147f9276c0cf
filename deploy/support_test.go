package deploy

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/podgrace/podgrace/internal/kube"
)

// Chart, docs and programs refuse the same versions of Kubernetes.
func TestSupportedVersions(t *testing.T) {
	for file, want := range map[string]string{
		"chart/podgrace/Chart.yaml": fmt.Sprintf(`kubeVersion: ">= 1.%d.0-0"`, kube.OldestMinor),
		"../docs/install.md":        fmt.Sprintf("You need Kubernetes 1.%d or newer", kube.OldestMinor),
		"../docs/nodeenforcer.md":   fmt.Sprintf("a kubelet older than 1.%d", kube.OldestMinor),
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q", file, want)
		}
	}
}

package kind

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

func TestContainerdConfig(t *testing.T) {
	got := containerdConfig(`version = 2
  base_runtime_spec = "/etc/containerd/cri-base.json"
  sandbox_image = "example.test/pause:1"
  restrict_oom_score_adj = false
  SystemdCgroup = true
`, "example.test/pause:2")
	want := `version = 2
  sandbox_image = "example.test/pause:2"
  restrict_oom_score_adj = true
  SystemdCgroup = true
`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("want (-), got (+):\n%s", d)
	}
}

// A node image of somebody else has kind's own network and CoreDNS.
func TestClusterConfig(t *testing.T) {
	for ours, want := range map[bool]int{true: 2, false: 1} {
		var config struct {
			Networking           struct{ DisableDefaultCNI bool }
			KubeadmConfigPatches []string
		}
		if err := yaml.Unmarshal([]byte(clusterConfig(ours)), &config); err != nil {
			t.Fatal(err)
		}
		if len(config.KubeadmConfigPatches) != want || config.Networking.DisableDefaultCNI != ours {
			t.Errorf("ours %v: got %+v", ours, config)
		}
	}
}

package plan_test

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// goldenNode is the node of a golden file.
type goldenNode struct {
	Capacity       corev1.ResourceList                        `json:"capacity"`
	PIDs           int64                                      `json:"pids,omitempty"`
	KubeletVersion string                                     `json:"kubeletVersion,omitempty"`
	Kubelet        *kubeletconfigv1beta1.KubeletConfiguration `json:"kubelet,omitempty"`
	CPUs           *plan.CPUManagerState                      `json:"cpus,omitempty"`
	Memory         *plan.MemoryManagerState                   `json:"memory,omitempty"`
	Swap           int64                                      `json:"swap,omitempty"`
}

// variants are the forms of one plan.
var variants = []struct {
	name    string
	version cgroupfile.Version
	driver  plan.Driver
}{
	{"v1-cgroupfs", cgroupfile.V1, plan.Cgroupfs},
	{"v1-systemd", cgroupfile.V1, plan.Systemd},
	{"v2-cgroupfs", cgroupfile.V2, plan.Cgroupfs},
	{"v2-systemd", cgroupfile.V2, plan.Systemd},
}

// TestGolden reads node.yaml, policy.yaml (optional) and pods.yaml of each archive, and compares the plan in all forms that the
// archive has, or with -update in all that there are.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			node, policy, pods := readGolden(t, archive)
			want := *archive
			want.Files = inputs(archive)
			for _, v := range variants {
				node.Version, node.Driver = v.version, v.driver
				want.Files = append(want.Files, txtar.File{Name: v.name, Data: []byte(render(plan.Build(node, policy, pods)))})
			}
			golden.Assert(t, string(txtar.Format(&want)), filepath.Base(file))
		})
	}
}

func inputs(archive *txtar.Archive) (files []txtar.File) {
	for _, f := range archive.Files {
		if strings.HasSuffix(f.Name, ".yaml") {
			files = append(files, f)
		}
	}
	return files
}

func readGolden(t *testing.T, archive *txtar.Archive) (plan.Node, *v1alpha1.NodePolicySpec, []*corev1.Pod) {
	t.Helper()
	var (
		n      goldenNode
		policy *v1alpha1.NodePolicySpec
		pods   []*corev1.Pod
	)
	read := func(data []byte, into any) {
		if err := yaml.UnmarshalStrict(data, into); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range archive.Files {
		switch f.Name {
		case "node.yaml":
			read(f.Data, &n)
		case "policy.yaml":
			policy = &v1alpha1.NodePolicySpec{}
			read(f.Data, policy)
		case "pods.yaml":
			for document := range strings.SplitSeq(string(f.Data), "\n---\n") {
				pod := &corev1.Pod{}
				read([]byte(document), pod)
				pods = append(pods, pod)
			}
		}
	}
	return plan.Node{Name: "n1", Capacity: n.Capacity, PIDs: n.PIDs, Kubelet: n.Kubelet, KubeletVersion: n.KubeletVersion, CPUs: n.CPUs, Memory: n.Memory, Swap: n.Swap}, policy, pods
}

// render is a tree as text: groups with their files, then processes, then notes.
func render(tree *plan.Tree) string {
	var b strings.Builder
	for _, g := range tree.Groups {
		fmt.Fprintln(&b, strings.Join(slices.DeleteFunc([]string{g.Path, string(g.Level), string(g.QOS), podName(g), g.Container}, func(s string) bool { return s == "" }), "  "))
		for _, file := range slices.Sorted(maps.Keys(g.Files)) {
			v, also := g.Files[file], ""
			if v.Also != "" {
				also = ", or " + v.Also
			}
			fmt.Fprintf(&b, "    %-30s %-20s %s%s\n", file, v.Want, v.Owner, also)
		}
	}
	for _, p := range tree.Processes {
		fmt.Fprintf(&b, "oom_score_adj %s %s: %d %s\n", p.Pod, p.Container, p.OOMScoreAdj, p.Owner)
	}
	for _, d := range tree.Daemons {
		score := "none"
		if d.OOMScoreAdj != nil {
			score = strconv.Itoa(*d.OOMScoreAdj)
		}
		fmt.Fprintf(&b, "daemon %s: cgroup %q, oom_score_adj %s\n", d.Name, d.Path, score)
	}
	for _, n := range tree.Notes {
		subject := "node"
		if n.Pod.Name != "" {
			subject = n.Pod.String()
		}
		kind := "note"
		if n.Unusable {
			kind = "unusable"
		}
		fmt.Fprintf(&b, "%s %s: %s\n", kind, subject, n.Message)
	}
	return b.String()
}

func podName(g plan.Group) string {
	if g.Pod.Name == "" {
		return ""
	}
	return g.Pod.String()
}

package nodeplan_test

import (
	"bytes"
	"errors"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"gotest.tools/v3/golden"
	corev1 "k8s.io/api/core/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// situation is case.yaml of an archive: a machine that is as planned, but for this.
type situation struct {
	Node, Policy, From string
	Capacity           corev1.ResourceList
	Mode               v1alpha1.NodeMode
	Version            cgroupfile.Version
	Driver             plan.Driver
	Kubelet            *kubeletconfigv1beta1.KubeletConfiguration
	// Offline: nothing was read.
	Offline bool
	// Drift is by path and file; "-" is a file that is not there.
	Drift     map[string]map[string]string
	Missing   []string
	Usage     map[string]int64
	Counted   map[string]cgroup.Statistics
	Processes map[string]map[int]int
}

// TestGolden reads case.yaml, policy.yaml (optional) and pods.yaml (optional) of each archive, and compares what is printed.
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
			want := txtar.Archive{Comment: archive.Comment}
			for _, f := range archive.Files {
				if strings.HasSuffix(f.Name, ".yaml") {
					want.Files = append(want.Files, f)
				}
			}
			in := input(t, archive)
			var text, json bytes.Buffer
			if err := nodeplan.Text(&text, in); err != nil {
				t.Fatal(err)
			}
			if err := nodeplan.JSON(&json, in); err != nil {
				t.Fatal(err)
			}
			want.Files = append(want.Files, txtar.File{Name: "text", Data: text.Bytes()}, txtar.File{Name: "json", Data: json.Bytes()})
			golden.Assert(t, string(txtar.Format(&want)), filepath.Base(file))
		})
	}
}

func input(t *testing.T, archive *txtar.Archive) nodeplan.Input {
	t.Helper()
	read := func(data []byte, into any) {
		if err := yaml.UnmarshalStrict(data, into); err != nil {
			t.Fatal(err)
		}
	}
	var s situation
	var policy *v1alpha1.NodePolicySpec
	var pods []*corev1.Pod
	for _, f := range archive.Files {
		switch f.Name {
		case "case.yaml":
			read(f.Data, &s)
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
	node := plan.Node{Name: s.Node, Version: s.Version, Driver: s.Driver, Capacity: s.Capacity, Kubelet: s.Kubelet}
	in := nodeplan.Input{Counted: s.Counted, Node: s.Node, Policy: s.Policy, Mode: s.Mode, Version: s.Version, Driver: s.Driver, Pods: pods, From: s.From, Tree: plan.Build(node, policy, pods)}
	if s.Offline {
		return in
	}
	in.Have = have(in.Tree, s)
	diff := drift.Diff(in.Tree, in.Have, s.Mode, drift.Options{})
	in.Drift, in.Missing = diff.Drift, diff.Missing
	in.ProcessDrift = drift.ProcessOperations(in.Tree, s.Processes, s.Mode, drift.Options{}).Drift
	return in
}

func have(tree *plan.Tree, s situation) drift.Have {
	have := drift.Have{}
	for _, g := range tree.Groups {
		seen := drift.Observed{Files: map[string]string{}, MemoryUsage: -1}
		if usage, ok := s.Usage[g.Path]; ok {
			seen.MemoryUsage = usage
		}
		for file, v := range g.Files {
			seen.Files[file] = v.Want
			if value, drifted := s.Drift[g.Path][file]; drifted {
				seen.Files[file] = value
			}
			if seen.Files[file] == "-" {
				delete(seen.Files, file)
			}
		}
		have[g.Path] = seen
	}
	for _, path := range s.Missing {
		delete(have, path)
	}
	return have
}

// The kernel's names of what is printed are not cut: whoever reads a file by its path needs all of it.
func TestNothingIsCut(t *testing.T) {
	archive, err := txtar.ParseFile("testdata/wide.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	if err := nodeplan.Text(&text, input(t, archive)); err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("n", 63) + "/" + strings.Repeat("a", 253) + " "; !strings.Contains(text.String(), want) {
		t.Error("the longest name is cut")
	}
}

// A reader that goes away is an error and no crash.
func TestNobodyReads(t *testing.T) {
	in := nodeplan.Input{Tree: &plan.Tree{}}
	for name, print := range map[string]func(io.Writer, nodeplan.Input) error{"text": nodeplan.Text, "json": nodeplan.JSON} {
		if err := print(closed{}, in); !errors.Is(err, io.ErrClosedPipe) || !strings.Contains(err.Error(), "print the plan") {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

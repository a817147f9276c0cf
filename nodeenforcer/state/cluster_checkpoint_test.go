package state_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

func TestClusterFromCheckpoint(t *testing.T) {
	file, want := saved(t)
	c, log := newTestCluster(t, nowhere, state.ClusterOptions{Checkpoint: file})
	startCluster(t, c)
	s := awaitNews(t, c, "the checkpoint", isKnown)
	if diff := cmp.Diff(state.State{Node: want.Node, Policy: want.Policy, Pods: want.Pods, Config: want.Config, Old: true, From: "the checkpoint of 2026-03-04T05:06:07Z"}, s); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := c.Save(s); err != nil || log.Count("checkpoint") > 0 {
		t.Errorf("it was saved again: %v, %q", err, log.Lines())
	}

	// What the command line says goes before it.
	c, _ = newTestCluster(t, nowhere, state.ClusterOptions{Checkpoint: file, Policies: []*v1alpha1.NodePolicy{nodePolicy("file", 1, nil)}})
	if s, _ := c.State(); s.Policy == nil || s.Policy.Name != "file" {
		t.Errorf("the policy is %v", s.Policy)
	}
	c, _ = newTestCluster(t, nowhere, state.ClusterOptions{Checkpoint: file, Policies: []*v1alpha1.NodePolicy{}})
	if s, _ := c.State(); s.Policy != nil {
		t.Errorf("the policy is %v", s.Policy)
	}
}

// A checkpoint that is damaged, or of another node, is as good as none.
func TestClusterWithoutCheckpoint(t *testing.T) {
	damaged, _ := saved(t)
	if err := os.WriteFile(damaged, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	others := filepath.Join(t.TempDir(), "checkpoint")
	if err := state.SaveCheckpoint(others, &state.Checkpoint{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other"}}}); err != nil {
		t.Fatal(err)
	}
	for file, told := range map[string]string{damaged: "it is damaged", others: "it is another node's", filepath.Join(t.TempDir(), "none"): ""} {
		c, log := newTestCluster(t, nowhere, state.ClusterOptions{Checkpoint: file})
		if s, known := c.State(); known {
			t.Errorf("%s: got %+v", told, s)
		}
		if len(log.Lines()) != min(len(told), 1) || log.Count(told) != len(log.Lines()) {
			t.Errorf("told %q, want %q", log.Lines(), told)
		}
	}
}

// What a save that was killed left behind is removed, unless another enforcer may be writing it.
func TestLeftoversOfSaves(t *testing.T) {
	folder := t.TempDir()
	for name, age := range map[string]time.Duration{".checkpoint123": 2 * time.Hour, ".checkpoint456": time.Minute, ".checkpoints": 2 * time.Hour, "checkpoint9": 2 * time.Hour} {
		file := filepath.Join(folder, name)
		if err := os.WriteFile(file, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(file, time.Time{}, statetest.LongAgo.Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	newTestCluster(t, nowhere, state.ClusterOptions{Checkpoint: filepath.Join(folder, "checkpoint")})
	left, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 3 || slices.Contains(left, filepath.Join(folder, ".checkpoint123")) {
		t.Errorf("there are %v", left)
	}
}

func TestClusterSaves(t *testing.T) {
	file := filepath.Join(t.TempDir(), "checkpoint")
	c, _ := newTestCluster(t, nowhere, state.ClusterOptions{Checkpoint: file})
	live := state.State{Node: nodeWith(nil), Pods: []*corev1.Pod{statetest.Pod("a")}, Live: true}
	if err := c.Save(live); err != nil {
		t.Fatal(err)
	}
	if got, err := state.LoadCheckpoint(file); err != nil || len(got.Pods) != 1 || !got.Saved.Equal(statetest.LongAgo) {
		t.Errorf("got %+v, %v", got, err)
	}
	c, _ = newTestCluster(t, nowhere, state.ClusterOptions{Checkpoint: filepath.Join(file, "none")})
	if err := c.Save(live); err == nil {
		t.Error("it was saved where it can't be")
	}
	if s, known := c.State(); !known || len(s.Pods) != 1 {
		t.Errorf("it is forgotten: %+v", s)
	}
}

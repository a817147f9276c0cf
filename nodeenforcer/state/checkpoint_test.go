package state_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

func saved(t testing.TB) (string, *state.Checkpoint) {
	t.Helper()
	c := &state.Checkpoint{
		Saved:  time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC),
		Node:   &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}},
		Policy: &v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "workers"}, Spec: v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeTune}},
		Pods:   []*corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "1"}}},
		Config: &kubeletconfigv1beta1.KubeletConfiguration{CgroupDriver: "systemd"},
	}
	name := filepath.Join(t.TempDir(), "checkpoint")
	if err := state.SaveCheckpoint(name, c); err != nil {
		t.Fatal(err)
	}
	return name, c
}

func TestCheckpoint(t *testing.T) {
	name, want := saved(t)
	got, err := state.LoadCheckpoint(name)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("it is not what was saved (-want +got):\n%s", diff)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others can read it: %v, %v", info.Mode(), err)
	}
	if _, err := state.LoadCheckpoint(name + "-none"); !errors.Is(err, state.ErrNoCheckpoint) {
		t.Errorf("got %v", err)
	}
	if err := state.SaveCheckpoint(filepath.Join(name, "not-a-folder"), want); err == nil {
		t.Error("it was saved where it can't be")
	}
}

// Whatever happens to a byte of the file, or to its end, nothing of it is believed.
func TestCheckpointDamaged(t *testing.T) {
	name, want := saved(t)
	whole, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		for what, text := range map[string][]byte{"cut": whole[:i], "changed": append(append(bytes.Clone(whole[:i]), whole[i]^1), whole[i+1:]...)} {
			if err := os.WriteFile(name, text, 0o600); err != nil {
				t.Fatal(err)
			}
			if got, err := state.LoadCheckpoint(name); err == nil && !cmp.Equal(want, got) {
				t.Fatalf("%s at byte %d: it was believed", what, i)
			}
		}
	}
}

func TestCheckpointOfAnotherVersion(t *testing.T) {
	name, _ := saved(t)
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, bytes.Replace(text, []byte(`"version":1`), []byte(`"version":2`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := state.LoadCheckpoint(name); err == nil || !strings.Contains(err.Error(), "of version 2, this program reads 1") {
		t.Errorf("got %v", err)
	}
}

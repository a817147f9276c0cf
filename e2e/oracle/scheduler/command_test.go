package scheduler

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/preview/scheduler/schedulertest"
)

var role = regexp.MustCompile("(?ms)^```yaml\n(apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRole\n.*?)^```$")

// TestCommand: a user who has the rights that docs/preview.md names, and so can write nothing, gets the answer that the scheduler gives.
func TestCommand(t *testing.T) {
	w := start(t)
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "preview.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := role.FindSubmatch(page)
	if found == nil {
		t.Fatal("the page has no ClusterRole")
	}
	var rights rbacv1.ClusterRole
	if err := yaml.UnmarshalStrict(found[1], &rights); err != nil {
		t.Fatal(err)
	}
	w.create(t, &rights)
	w.create(t, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: rights.Name}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: rights.Name},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "previewer"}},
	})
	kubeconfig, err := w.cluster.KubeconfigFor("previewer")
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "podgrace-preview")
	if err := cluster.GoBuild(t.Context(), program, "preview/cmd/podgrace-preview"); err != nil {
		t.Fatal(err)
	}
	for _, e := range schedulertest.Examples() {
		t.Run(e.Name, func(t *testing.T) {
			w.clear(t)
			w.build(t, &e.Case)
			e.Pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
			manifest, err := json.Marshal(e.Pod)
			if err != nil {
				t.Fatal(err)
			}
			var out, complaints bytes.Buffer
			cmd := exec.CommandContext(t.Context(), program, "--kubeconfig="+kubeconfig, "-f", "-", "-o", "json")
			cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(manifest), &out, &complaints
			err = cmd.Run()
			if says := complaints.String(); cmd.ProcessState == nil || says != "Podgrace is not installed in the cluster: no policy holds there\n" {
				t.Fatalf("%v: %s", err, says)
			}
			var report scheduling.Report
			if err := json.Unmarshal(out.Bytes(), &report); err != nil || len(report.Previews) != 1 {
				t.Fatalf("%v: %s", err, out.String())
			}
			p := report.Previews[0]
			pod := e.Pod.DeepCopy()
			d := w.decision(t, pod)
			switch code := cmd.ProcessState.ExitCode(); {
			case d.node == "" && (code != 4 || p.Outcome != scheduling.Nowhere):
				t.Errorf("exit code %d, %s: the scheduler says %s", code, p.Outcome, d.message)
			case d.node != "" && (code != 0 || p.Fit != 1 || p.Groups[0].Nodes[0] != d.node):
				t.Errorf("exit code %d, %+v: the scheduler took %s", code, p, d.node)
			}
			var kept corev1.PodList // the pods that were there, the marker and the one in question
			if err := w.kube.List(t.Context(), &kept); err != nil || len(kept.Items) != len(e.Pods)+2 {
				t.Errorf("%d pods, %v", len(kept.Items), err)
			}
		})
	}
}

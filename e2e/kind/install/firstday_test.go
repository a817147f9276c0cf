package install

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/firstday"
	"github.com/podgrace/podgrace/e2e/kind"
)

// firstDaysPause is the image of the page's workload.
const firstDaysPause = "registry.k8s.io/pause:3.10"

// Whoever follows docs/first-day.md line by line, from a registry on this machine to a force delete that is refused, sees what it says. The cluster and the images
// are the test's: they are there already.
func TestFirstDay(t *testing.T) {
	w := get(t)
	parts, err := firstday.Parts("1", "2", "3", "4", "5", "6", "7")
	if err != nil {
		t.Fatal(err)
	}
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	env, err := w.Shell(bin)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(bin, "kubeconfig")
	if err := firstday.Kubeconfig(w.Kubeconfig, kubeconfig); err != nil {
		t.Fatal(err)
	}
	program, err := w.commandLine()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program, filepath.Join(bin, "podgrace")); err != nil {
		t.Fatal(err)
	}
	if err := w.lab.BuildProgram(t.Context(), "registry:3", "e2e/kind/registry"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.lab.Docker.Run(t.Context(), "tag", cluster.PauseImage, firstDaysPause); err != nil {
		t.Fatal(err)
	}
	if err := w.Load(t.Context(), firstDaysPause); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_, _ = w.lab.Docker.Run(context.Background(), "rm", "--force", "first-day-registry") // gone where the page was followed to its end
		if t.Failed() {
			_ = helm.remove(context.Background(), w, selfManaged, current)
			_ = w.waitRemoved(context.Background())
		}
	})
	// The images are other ones, not only other names: what a kubelet has pulled itself it does not let a pod have under a name by which it was never pulled
	// (KEP-2535, on from 1.35 on), and the next test's are called as they were loaded.
	const images = `for i in webhook nodeenforcer; do echo FROM podgrace/$i:` + current + ` | docker build --label=first-day --tag=podgrace/$i:v0.1.0 -; done
`
	here := strings.NewReplacer(
		"kind create cluster --name first-day\n", "", "kind delete cluster --name first-day\n", "", "first-day-control-plane", kind.Node,
		"make images TAG=v0.1.0\n", images, "make build\n", "",
	)
	start := time.Now()
	for _, part := range parts {
		began := time.Now()
		cmd := exec.CommandContext(t.Context(), "bash", "-e", "-x", "-o", "pipefail", "-c", here.Replace(part.Commands)) //nolint:gosec // of our own page
		cmd.Dir = root
		cmd.Env = append(cmd.Environ(), append(env, "KUBECONFIG="+kubeconfig)...)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v:\n%s\n%s", part.Title, err, out, w.state())
		}
		if piece := part.Lacks(string(out)); piece != "" {
			t.Errorf("%s: the page shows %q, which is not in\n%s", part.Title, piece, out)
		}
		w.lab.Logf("%s: %s: %.1f s", t.Name(), part.Title, time.Since(began).Seconds())
	}
	w.lab.Logf("%s: %.0f s from a registry to its end, with images and programs that were there", t.Name(), time.Since(start).Seconds())
	w.uninstall(t, helm, selfManaged)
}

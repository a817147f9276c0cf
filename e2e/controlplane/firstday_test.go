package controlplane

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/firstday"
	"github.com/podgrace/podgrace/e2e/suite"
)

// Whoever follows the page line by line sees what it says. What it does to Docker and kind is not done here, and Podgrace is installed already.
func TestFirstDay(t *testing.T) {
	s := start(t)
	podgrace(t, s, s.Kubeconfig, "version") // builds it
	bin := t.TempDir()
	for name, program := range map[string]string{"podgrace": filepath.Join(s.Dir, "bin", "kubectl-podgrace"), "kubectl": filepath.Join(s.BinDir, "kubectl")} {
		if err := os.Symlink(program, filepath.Join(bin, name)); err != nil {
			t.Fatal(err)
		}
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := firstday.Kubeconfig(s.Kubeconfig, kubeconfig); err != nil {
		t.Fatal(err)
	}
	parts, err := firstday.Parts("4", "5", "6", "7") // those after the installation
	if err != nil {
		t.Fatal(err)
	}
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // where it ends before its end
		for _, o := range []client.Object{
			&v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "first"}},
			&v1alpha1.NodePolicy{ObjectMeta: metav1.ObjectMeta{Name: "first"}}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		} {
			if err := client.IgnoreNotFound(s.Client.Delete(context.Background(), o)); err != nil {
				t.Error(err)
			}
		}
	})
	stop := kubelets(t, s, "shop")
	defer stop()
	if s.Webhook == nil { // installed as the page does, and not as a process of the test's
		if said, code := podgrace(t, s, kubeconfig, "doctor"); code != 0 {
			t.Errorf("the doctor ends with %d:\n%s", code, said)
		}
	}
	elsewhere := regexp.MustCompile(`(?m)^(kind|docker) .*\n`)
	for _, part := range parts {
		commands := elsewhere.ReplaceAllString(part.Commands, "")
		cmd := exec.CommandContext(t.Context(), "bash", "-e", "-x", "-c", commands)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "KUBECONFIG="+kubeconfig)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v:\n%s", part.Title, err, out)
		}
		if piece := part.Lacks(string(out)); piece != "" {
			t.Errorf("%s: the page shows %q, which is not in\n%s", part.Title, piece, out)
		}
	}
}

// kubelets run the pods of a namespace, as the kubelets of nodes do that are only objects: what is bound is ready, and what is to be stopped has
// stopped at once. The function ends them.
func kubelets(t *testing.T, s *suite.Suite, ns string) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	nodes := map[string]client.Client{}
	of := func(node string) (client.Client, error) {
		if nodes[node] == nil {
			config, err := s.User("system:node:"+node, "system:nodes")
			if err != nil {
				return nil, err
			}
			if nodes[node], err = suite.NewClient(config); err != nil {
				return nil, err
			}
		}
		return nodes[node], nil
	}
	watches, err := client.NewWithWatch(s.Config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := watches.Watch(ctx, &corev1.PodList{}, client.InNamespace(ns))
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(done)
		for event := range w.ResultChan() {
			pod, ok := event.Object.(*corev1.Pod)
			if !ok || pod.Spec.NodeName == "" {
				continue
			}
			if err := runs(ctx, of, pod); err != nil && ctx.Err() == nil {
				t.Error(err)
			}
		}
	}()
	return func() {
		cancel()
		w.Stop()
		<-done
	}
}

// runs does for a pod what its kubelet would.
func runs(ctx context.Context, of func(string) (client.Client, error), pod *corev1.Pod) error {
	kubelet, err := of(pod.Spec.NodeName)
	if err != nil {
		return err
	}
	switch {
	case pod.DeletionTimestamp != nil:
		err = kubelet.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	case pod.Status.Phase == corev1.PodPending:
		patch := `{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`
		err = kubelet.Status().Patch(ctx, pod, client.RawPatch("application/strategic-merge-patch+json", []byte(patch)))
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) { // it is gone, and another of its name may be there
		return nil
	}
	if err != nil {
		return fmt.Errorf("as the kubelet of %s: %w", pod.Spec.NodeName, err)
	}
	return nil
}

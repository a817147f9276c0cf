package controlplane

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/guard"
)

var (
	buildOnce sync.Once
	errBuild  error
)

// podgrace runs the built program as somebody, without a terminal, and returns all that it wrote and its exit code.
func podgrace(t *testing.T, s *suite.Suite, kubeconfig string, args ...string) (said string, code int) {
	t.Helper()
	program := filepath.Join(s.Dir, "bin", "kubectl-podgrace")
	buildOnce.Do(func() { errBuild = cluster.GoBuild(context.Background(), program, "cmd/podgrace") })
	if errBuild != nil {
		t.Fatal(errBuild)
	}
	var out bytes.Buffer
	cmd := exec.CommandContext(t.Context(), program, append(args, "--kubeconfig="+kubeconfig)...)
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func wantSaid(t *testing.T, said string, code, want int, parts ...string) {
	t.Helper()
	if code != want {
		t.Errorf("exit %d, want %d:\n%s", code, want, said)
	}
	for _, part := range parts {
		if !strings.Contains(said, part) {
			t.Errorf("it lacks %q:\n%s", part, said)
		}
	}
}

// next runs the last command with these words that the output says to type.
func next(t *testing.T, s *suite.Suite, said, words string, more ...string) error {
	t.Helper()
	var command []string
	for line := range strings.Lines(said) {
		if line, ok := strings.CutPrefix(strings.TrimSpace(line), "kubectl "); ok && strings.HasPrefix(line, words) {
			command = strings.Fields(line)
		}
	}
	if command == nil {
		t.Fatalf("nothing says to type %q:\n%s", words, said)
	}
	_, _, err := s.Kubectl(t.Context(), append(command, more...)...)
	return err
}

func annotationOf(t *testing.T, s *suite.Suite, o client.Object, key string) string {
	t.Helper()
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
		t.Fatal(err)
	}
	return o.GetAnnotations()[key]
}

func TestConfirmPod(t *testing.T) {
	s := start(t)
	pod := guarded(t, s)
	args := []string{"confirm", "-n", pod.Namespace, pod.Name}

	said, code := podgrace(t, s, s.Kubeconfig, args...)
	wantSaid(t, said, code, 2, "kubectl podgrace: stdin is no terminal", "--yes")
	said, code = podgrace(t, s, s.Kubeconfig, append(args, "--dry-run")...)
	wantSaid(t, said, code, 0, "Pod "+pod.Namespace+"/db-0 runs on "+pod.Spec.NodeName+", which is ready", "it is a pod of StatefulSet db", "It would set podgrace.dev/confirm-force-delete="+string(pod.UID))
	if got := annotationOf(t, s, pod, guard.AnnotationConfirmForceDelete); got != "" {
		t.Errorf("the dry run wrote %q", got)
	}

	said, code = podgrace(t, s, s.Kubeconfig, append(args, "--yes")...)
	wantSaid(t, said, code, 0, "CONFIRMED", "Nothing was deleted yet")
	if got := annotationOf(t, s, pod, guard.AnnotationConfirmForceDelete); !strings.HasPrefix(got, string(pod.UID)+"/") || pod.DeletionTimestamp != nil {
		t.Errorf("got %q, deleted at %v", got, pod.DeletionTimestamp)
	}
	again, code := podgrace(t, s, s.Kubeconfig, "confirm", "pod/"+pod.Name, "-n", pod.Namespace, "--yes")
	wantSaid(t, again, code, 0, "is confirmed already")

	if err := next(t, s, said, "delete pod", "--wait=false"); err != nil {
		t.Fatal(err)
	}
	// Its successor is not confirmed.
	suite.Eventually(t, "the successor", func(ctx context.Context) (bool, error) {
		var successor corev1.Pod
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), &successor)
		return err == nil && successor.UID != pod.UID && successor.Spec.NodeName != "", client.IgnoreNotFound(err)
	})
	wantRefused(t, next(t, s, said, "delete pod", "--wait=false"), "it is a pod of StatefulSet db")
}

func TestConfirmPodNotPermitted(t *testing.T) {
	s := start(t)
	pod := guarded(t, s)
	as(t, s, "trainee") // with all rights on pods, but for the verb
	kubeconfig, err := s.KubeconfigFor("trainee")
	if err != nil {
		t.Fatal(err)
	}
	said, code := podgrace(t, s, kubeconfig, "confirm", "-n", pod.Namespace, pod.Name, "--yes")
	wantSaid(t, said, code, 1, "REFUSED", "trainee may not confirm this, and lacks: force-delete on pods.podgrace.dev in namespace "+pod.Namespace+".", "an administrator of namespace")
	if got := annotationOf(t, s, pod, guard.AnnotationConfirmForceDelete); got != "" {
		t.Errorf("it wrote %q", got)
	}

	// What it says to apply is what is needed.
	_, manifest, _ := strings.Cut(said, "<<'EOF'\n")
	manifest, _, _ = strings.Cut(manifest, "EOF\n")
	file := filepath.Join(t.TempDir(), "rbac.yaml")
	if err := writeFile(file, []byte(manifest)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Kubectl(t.Context(), "apply", "-f", file); err != nil {
		t.Fatalf("%v:\n%s", err, manifest)
	}
	suite.Eventually(t, "the right to be known", func(context.Context) (bool, error) {
		said, code = podgrace(t, s, kubeconfig, "confirm", "-n", pod.Namespace, pod.Name, "--dry-run")
		return code == 0, nil
	})
	said, code = podgrace(t, s, kubeconfig, "confirm", "-n", pod.Namespace, pod.Name, "--yes")
	wantSaid(t, said, code, 0, "CONFIRMED")
}

// The pod is replaced while the person reads.
func TestConfirmPodReplaced(t *testing.T) {
	s := start(t)
	pod := guarded(t, s)
	stale := pod.DeepCopy()
	stale.UID = "3fa85f64-5717-4562-b3fc-2c963f66afa6"
	err := confirmClient(t, s).ConfirmPod(t.Context(), stale, suite.Confirmation(stale))
	if err == nil || !strings.Contains(err.Error(), "was replaced meanwhile, it is another one now (UID "+string(pod.UID)+")") {
		t.Errorf("got %v", err)
	}
	if got := annotationOf(t, s, pod, guard.AnnotationConfirmForceDelete); got != "" {
		t.Errorf("it wrote %q", got)
	}
}

func TestConfirmNode(t *testing.T) {
	s := start(t)
	node := partition(t, s)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}})
	pinned := template("db", func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"e2e": node.Name} })
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: pinned,
	}})
	bound(t, s, ns, 1)
	args := []string{"confirm", "node/" + node.Name, "--yes"}

	said, code := podgrace(t, s, s.Kubeconfig, args...)
	wantSaid(t, said, code, 1, "REFUSED", "node "+node.Name+" is not off: it is ready")
	if got := annotationOf(t, s, node, guard.AnnotationConfirmOff); got != "" {
		t.Errorf("it wrote %q", got)
	}

	silence(t, s, node)
	tainted(t, s, node, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)
	said, code = podgrace(t, s, s.Kubeconfig, args...)
	wantSaid(t, said, code, 0, "NOT READY, silent since", "! "+ns+"/db-0 ", " it is a pod of StatefulSet db", "CONFIRMED")
	if got, is := annotationOf(t, s, node, guard.AnnotationConfirmOff), guard.ConfirmOff(node, nil); !strings.HasPrefix(got, is) || got == is {
		t.Errorf("got %q, which lacks the lease or %q", got, is)
	}
	for _, words := range []string{"taint node", "delete pod", "delete node"} {
		if err := suite.Judged(t, func() error { return next(t, s, said, words, "--dry-run=server") }); err != nil {
			t.Errorf("confirmed off: %v", err)
		}
	}

	s.Revive(t, node.Name)
	withTaint := said
	taint := func() error { return next(t, s, withTaint, "taint node", "--dry-run=server") }
	wantRefused(t, suite.Judged(t, taint), "(ready)")
	said, code = podgrace(t, s, s.Kubeconfig, args...)
	wantSaid(t, said, code, 1, "is not off")
	tainted(t, s, node)

	// Silent again, it takes another confirmation.
	silence(t, s, node)
	tainted(t, s, node, corev1.TaintEffectNoSchedule, corev1.TaintEffectNoExecute)
	first := annotationOf(t, s, node, guard.AnnotationConfirmOff)
	wantRefused(t, suite.Judged(t, taint), "not ready, silent since")
	said, code = podgrace(t, s, s.Kubeconfig, args...)
	wantSaid(t, said, code, 0, "there is a confirmation, which is void", "CONFIRMED")
	if again := annotationOf(t, s, node, guard.AnnotationConfirmOff); again == first {
		t.Errorf("confirmed anew with the same text: %s", again)
	}
	if err := next(t, s, said, "taint node", "--dry-run=server"); err != nil {
		t.Error(err)
	}
}

// tainted returns when the node lifecycle controller has written what it writes of a node that is silent, or of one that is heard of
// again: a confirmation is refused of a node that was written to since it was looked at.
func tainted(t *testing.T, s *suite.Suite, node *corev1.Node, want ...corev1.TaintEffect) {
	t.Helper()
	suite.Eventually(t, fmt.Sprintf("the taints %q of node %s", want, node.Name), func(ctx context.Context) (bool, error) {
		if err := s.Client.Get(ctx, client.ObjectKeyFromObject(node), node); err != nil {
			return false, err
		}
		effects := map[corev1.TaintEffect]bool{}
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeUnreachable {
				effects[taint.Effect] = true
			}
		}
		return len(effects) == len(want) && !slices.ContainsFunc(want, func(e corev1.TaintEffect) bool { return !effects[e] }), nil
	})
}

// The node's status is written between the look and the patch.
func TestConfirmNodeConflict(t *testing.T) {
	s := start(t)
	node := partition(t, s)
	silence(t, s, node)
	shown := node.DeepCopy()
	s.Revive(t, node.Name)
	err := confirmClient(t, s).ConfirmNode(t.Context(), shown, guard.ConfirmOff(shown, nil))
	if err == nil || !strings.Contains(err.Error(), "was written to meanwhile, perhaps by its kubelet: it was not confirmed") {
		t.Errorf("got %v", err)
	}
	shown.UID, shown.ResourceVersion = "3fa85f64-5717-4562-b3fc-2c963f66afa6", ""
	if err := confirmClient(t, s).ConfirmNode(t.Context(), shown, guard.ConfirmOff(shown, nil)); err == nil {
		t.Error("a node of another UID was confirmed")
	}
	if got := annotationOf(t, s, node, guard.AnnotationConfirmOff); got != "" {
		t.Errorf("it wrote %q", got)
	}
}

func confirmClient(t *testing.T, s *suite.Suite) *confirm.Client {
	t.Helper()
	kube, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	return &confirm.Client{Kube: kube, Clock: clock.RealClock{}}
}

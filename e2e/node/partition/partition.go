package partition

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
)

// Image is of the workloads; a node needs it. ImageSource is the folder of its program.
const (
	Image       = "localhost/podgrace/linger:1"
	ImageSource = "e2e/node/partition/linger"
)

// Run runs the tests on a node, whose kubelet they stop and start.
func Run(t *testing.T, s *suite.Suite, n *cluster.Node) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, *suite.Suite, *cluster.Node)
	}{
		{"StatefulSetRollout", statefulSetRollout}, {"KubeletKilledDuringTermination", kubeletKilledDuringTermination}, {"NamespaceDeletion", namespaceDeletion},
	} {
		t.Run(test.name, func(t *testing.T) {
			// A kubelet that has just registered its node makes its lease 10 s later.
			suite.Eventually(t, "the lease of "+n.Name, func(ctx context.Context) (bool, error) {
				err := s.Client.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: n.Name}, &coordinationv1.Lease{})
				return err == nil, client.IgnoreNotFound(err)
			})
			t.Cleanup(func() {
				if t.Failed() { // the next test wants a kubelet
					_ = n.RestartKubelet(context.Background())
				}
			})
			test.run(t, s, n)
		})
	}
}

// guarded makes a namespace whose stateful pods are protected.
func guarded(t *testing.T, s *suite.Suite) string {
	t.Helper()
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectStateful}})
	return ns
}

// database makes a StatefulSet db.
func database(t *testing.T, s *suite.Suite, ns string, replicas int32, change func(*corev1.PodSpec)) *appsv1.StatefulSet {
	t.Helper()
	field := func(name, path string) corev1.EnvVar {
		return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}}
	}
	labels := map[string]string{"app": "db"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "main", Image: Image, ImagePullPolicy: corev1.PullNever,
		Env: []corev1.EnvVar{
			field("NAMESPACE", "metadata.namespace"), field("NAME", "metadata.name"), field("UID", "metadata.uid"),
			{Name: copyVariable, Value: "$(NAMESPACE)/$(NAME)/$(UID)"},
		},
	}}}}
	change(&template.Spec)
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: template,
	}}
	s.Create(t, set)
	return set
}

// running returns the pods db-0, db-1, ... of the namespace once they are ready, and checks that each has one process.
func running(t *testing.T, s *suite.Suite, set *appsv1.StatefulSet) []corev1.Pod {
	t.Helper()
	suite.Eventually(t, "the rollout of "+set.Name, func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(set), set)
		status, want := set.Status, *set.Spec.Replicas
		return status.ObservedGeneration == set.Generation && status.UpdateRevision == status.CurrentRevision &&
			status.Replicas == want && status.UpdatedReplicas == want && status.ReadyReplicas == want, err
	})
	var list corev1.PodList
	if err := s.Client.List(t.Context(), &list, client.InNamespace(set.Namespace)); err != nil {
		t.Fatal(err)
	}
	if len(list.Items) != int(*set.Spec.Replicas) {
		t.Fatalf("%d pods, want %d", len(list.Items), *set.Spec.Replicas)
	}
	started(t, list.Items...)
	return list.Items
}

// addSpare adds a node that is free to run a replacement, and returns what closes it again. It comes after the pods that
// are to be on the real node.
func addSpare(t *testing.T, s *suite.Suite, ns string) (closeSpare func()) {
	t.Helper()
	spare := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "spare-" + ns}}
	if err := s.AddNode(t.Context(), spare.Name, nil); err != nil {
		t.Fatal(err)
	}
	cordon := func() {
		if err := s.Client.Patch(context.Background(), spare, mergePatch(`{"spec":{"unschedulable":true}}`)); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(cordon)
	return cordon
}

// A rollout meets a node whose kubelet is away. Its own delete is an ordinary one, as are that of the taint that a silent
// node gets and that of kubectl drain: nobody is hindered, the pods stay Terminating. What people do next is refused. When
// the kubelet is back all ends by itself.
func statefulSetRollout(t *testing.T, s *suite.Suite, n *cluster.Node) {
	ns := guarded(t, s)
	w := observe(t, s, ns)
	set := database(t, s, ns, 2, func(p *corev1.PodSpec) {
		p.TerminationGracePeriodSeconds = new(int64(5))
		// The default is 300 s.
		p.Tolerations = []corev1.Toleration{{Key: corev1.TaintNodeUnreachable, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute, TolerationSeconds: new(int64(5))}}
	})
	first := running(t, s, set)
	closeSpare := addSpare(t, s, ns)

	if err := n.StopKubelet(); err != nil {
		t.Fatal(err)
	}
	runs(t, first...)
	for _, pod := range first {
		wantRefused(t, s, pod, "(ready)")
	}
	if err := s.Client.Patch(t.Context(), set, mergePatch(`{"spec":{"template":{"metadata":{"annotations":{"version":"2"}}}}}`)); err != nil {
		t.Fatal(err)
	}
	terminating(t, s, first[1])                         // by the rollout, from the last to the first
	wantRefused(t, s, first[1], first[1].Spec.NodeName) // whatever the node lifecycle controller thinks of it by now

	silence(t, s, n.Name)
	terminating(t, s, first[0]) // by the taint
	for _, pod := range first {
		wantRefused(t, s, pod, "(not ready, silent since")
		hasten(t, s, pod)
		wantRefused(t, s, pod, "(not ready, silent since")
	}
	runs(t, first...)
	for _, pod := range first {
		if seen := w.seen(pod.Name); len(seen) != 1 {
			t.Errorf("under the partition there were %v of %s, want the first only", seen, pod.Name)
		}
	}

	closeSpare() // what replaces them is to run on the node that comes back
	if err := n.RestartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, pod := range running(t, s, set) {
		if pod.UID == first[i].UID || pod.Annotations["version"] != "2" || pod.Spec.NodeName != n.Name {
			t.Errorf("%s (%s) on %s is not its replacement", pod.Name, pod.UID, pod.Spec.NodeName)
		}
		wantExit(t, w, first[i])
	}
}

// hasten does all that shortens an ordinary deletion, and evicts the pod as kubectl drain does: it is overdue, and stays.
func hasten(t *testing.T, s *suite.Suite, pod corev1.Pod) {
	t.Helper()
	for _, args := range [][]string{{}, {"--now"}, {"--grace-period=1"}, {}} {
		if _, _, err := s.Kubectl(t.Context(), append([]string{"delete", "pod", "--wait=false", "-n", pod.Namespace, pod.Name}, args...)...); err != nil {
			t.Errorf("an ordinary delete %v: %v", args, err)
		}
	}
	if err := s.Client.SubResource("eviction").Create(t.Context(), pod.DeepCopy(), &policyv1.Eviction{}); err != nil {
		t.Errorf("an ordinary eviction: %v", err)
	}
	terminating(t, s, pod)
}

// wantExit checks that the pod's container had the time that it wanted to stop.
func wantExit(t *testing.T, w *witness, pod corev1.Pod) {
	t.Helper()
	if code, known := w.exit(pod.UID); !known || code != 0 {
		t.Errorf("the first %s ended with exit code %d (known: %v), want 0", pod.Name, code, known)
	}
}

// The kubelet dies after it has told the container to stop, and before that has. It comes back, and waits for the container
// again.
func kubeletKilledDuringTermination(t *testing.T, s *suite.Suite, n *cluster.Node) {
	ns := guarded(t, s)
	w := observe(t, s, ns)
	set := database(t, s, ns, 1, func(p *corev1.PodSpec) {
		p.TerminationGracePeriodSeconds = new(int64(300)) // it ends when we tell it to
		p.Containers[0].Args = []string{"until-told"}
	})
	first := running(t, s, set)[0]
	closeSpare := addSpare(t, s, ns)

	if err := s.Client.Delete(t.Context(), first.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the process to be stopping", func(context.Context) (bool, error) { return len(stopping(ns)) == 1, nil })
	killKubelet(t, n)
	wantRefused(t, s, first, "(ready)")
	silence(t, s, n.Name)
	wantRefused(t, s, first, "(not ready, silent since")
	runs(t, first)

	closeSpare() // what replaces it is to run on the node that comes back
	if err := n.RestartKubelet(t.Context()); err != nil {
		t.Fatal(err)
	}
	ready(t, s, n.Name)
	wantRefused(t, s, first, "(ready)")
	runs(t, first)
	if seen := w.seen(first.Name); len(seen) != 1 {
		t.Errorf("while the first stopped there were %v", seen)
	}
	pids := stopping(ns)
	if len(pids) != 1 {
		t.Fatalf("%d processes are stopping, want the first", len(pids))
	}
	if err := syscall.Kill(pids[0], syscall.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	gone(t, s, &first)
	if second := running(t, s, set)[0]; second.Spec.NodeName != n.Name {
		t.Errorf("the replacement runs on %s, want %s", second.Spec.NodeName, n.Name)
	}
	wantExit(t, w, first)
}

// gone returns when there is no such object any more, or another one of its name.
func gone(t *testing.T, s *suite.Suite, o client.Object) {
	t.Helper()
	now := o.DeepCopyObject().(client.Object) // what the caller has stays what is gone
	suite.Eventually(t, fmt.Sprintf("%T %s gone", o, o.GetName()), func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), now)
		return apierrors.IsNotFound(err) || now.GetUID() != o.GetUID(), client.IgnoreNotFound(err)
	})
}

// stopping are the processes that were told to stop and have not ended.
func stopping(ns string) []int {
	var pids []int
	for _, p := range processes(ns) {
		if p.name == "stopping" {
			pids = append(pids, p.pid)
		}
	}
	return pids
}

// ready returns when the kubelet has said that its node is ready.
func ready(t *testing.T, s *suite.Suite, name string) {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	suite.Eventually(t, "node "+name+" ready", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(node), node)
		return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
		}), err
	})
}

// killKubelet gives the kubelet no time to put anything in order.
func killKubelet(t *testing.T, n *cluster.Node) {
	t.Helper()
	pid, err := child("kubelet")
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := n.StopKubelet(); err != nil { // waits for its end
		t.Fatal(err)
	}
}

// child returns the process of this name that this test has started.
func child(name string) (int, error) {
	files, _ := filepath.Glob("/proc/[0-9]*/status")
	for _, file := range files {
		status, _ := os.ReadFile(file)
		if bytes.HasPrefix(status, []byte("Name:\t"+name+"\n")) && strings.Contains(string(status), fmt.Sprintf("\nPPid:\t%d\n", os.Getpid())) {
			return strconv.Atoi(filepath.Base(filepath.Dir(file)))
		}
	}
	return 0, errors.New("we have no child " + name)
}

// A namespace can't be deleted while a pod of it may run on a node without a heartbeat. Who knows that the node is off says
// so, and taints it, as Kubernetes wants it anyway; pod garbage collection and the namespace controller do the rest.
func namespaceDeletion(t *testing.T, s *suite.Suite, _ *cluster.Node) {
	ns := guarded(t, s)
	w := observe(t, s, ns)
	name := "silent-" + ns
	if err := s.AddNode(t.Context(), name, map[string]string{"e2e": name}); err != nil {
		t.Fatal(err)
	}
	database(t, s, ns, 1, func(p *corev1.PodSpec) {
		p.NodeSelector = map[string]string{"e2e": name}
		p.TerminationGracePeriodSeconds = new(int64(5))
	})
	pod := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db-0"}}
	suite.Eventually(t, "db-0 bound", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(&pod), &pod)
		return pod.Spec.NodeName == name, client.IgnoreNotFound(err)
	})
	s.StopHeartbeat(name)
	n := silence(t, s, name)

	namespace := &corev1.Namespace{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: ns}, namespace); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), namespace.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	terminating(t, s, pod)
	waitsForItsPods(t, s, namespace)
	wantRefused(t, s, pod, "(not ready, silent since", evictionWithoutGrace) // nothing can be created in it

	s.ConfirmOff(t, n.Name)
	if err := taintOutOfService(t.Context(), s, &pod); err != nil {
		t.Fatalf("confirmed off: %v", err)
	}
	first := pod.DeepCopy()
	gone(t, s, &pod)
	gone(t, s, namespace)
	if seen := w.seen(first.Name); len(seen) != 1 {
		t.Errorf("there were %v, want the first only", seen)
	}
}

// waitsForItsPods returns when the namespace controller complains that a pod is left. It deletes pods first, and nothing else
// before they are gone.
func waitsForItsPods(t *testing.T, s *suite.Suite, namespace *corev1.Namespace) {
	t.Helper()
	suite.Eventually(t, "the namespace controller to complain about the pod", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(namespace), namespace)
		for _, c := range namespace.Status.Conditions {
			if c.Type == corev1.NamespaceDeletionContentFailure && c.Status == corev1.ConditionTrue {
				return strings.Contains(c.Message, "Resource=pods"), err
			}
		}
		return false, err
	})
	var set appsv1.StatefulSet
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace.Name, Name: "db"}, &set); err != nil || set.DeletionTimestamp != nil {
		t.Errorf("the StatefulSet was not kept for its pod: deletion %v, %v", set.DeletionTimestamp, err)
	}
}

package deploy

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/nodeenforcer"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// uninstaller is the name of the Job that the chart runs before an uninstallation, and of its account.
const uninstaller = "podgrace-nodeenforcer-uninstall"

// helm uninstall removes what node enforcers left on Nodes, by a Job whose rights suffice for that, and leaves neither the Job nor its rights.
func TestHelmUninstallCleansNodes(t *testing.T) {
	w := empty(t)
	program, err := podgrace.BuildEnforcer(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	w.helmIn(t, "install", chart, "--create-namespace", "--set", "nodeEnforcer.enabled=true,nodeEnforcer.mode=Enforce")
	w.wantUpgradeRefused(t)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "written"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: enforcement.TaintPressure, Value: "memory", Effect: corev1.TaintEffectNoSchedule}}}}
	if err := w.kube.Create(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	before := client.StrategicMergeFrom(node.DeepCopy())
	for _, kind := range enforcement.NodeConditions {
		node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{Type: kind, Status: corev1.ConditionFalse})
	}
	if err := w.kube.Status().Patch(t.Context(), node, before); err != nil {
		t.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- w.runUninstaller(t.Context(), program) }()
	w.helmIn(t, "uninstall")
	if err := <-ran; err != nil {
		t.Error(err)
	}
	if err := w.kube.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil {
		t.Fatal(err)
	}
	taint := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == enforcement.TaintPressure })
	condition := slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return slices.Contains(enforcement.NodeConditions, c.Type) })
	if taint || condition {
		t.Errorf("left are taints %v, conditions %v", node.Spec.Taints, node.Status.Conditions)
	}
	var set appsv1.DaemonSet
	if err := w.kube.Get(t.Context(), client.ObjectKey{Namespace: podgrace.EnforcerNamespace, Name: "podgrace-nodeenforcer"}, &set); !apierrors.IsNotFound(err) {
		t.Errorf("the DaemonSet: got %v", err)
	}
	for _, kind := range []string{"ClusterRole", "ClusterRoleBinding"} {
		o := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: kind}}
		if err := w.kube.Get(t.Context(), client.ObjectKey{Name: uninstaller}, o); !apierrors.IsNotFound(err) {
			t.Errorf("the %s of the Job: got %v", kind, err)
		}
	}
}

// wantUpgradeRefused fails if helm upgrade goes on while node enforcers of an earlier version, in the namespace of the release, feed watchdogs.
func (w *world) wantUpgradeRefused(t *testing.T) {
	t.Helper()
	labels := map[string]string{"app": "earlier"}
	earlier := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "podgrace-nodeenforcer"}, Spec: appsv1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: nodeenforcer.SelfFenceContainer, Image: "x"}}}},
	}}
	if err := w.kube.Create(t.Context(), earlier); err != nil {
		t.Fatal(err)
	}
	const first = "kubectl -n " + namespace + " delete daemonset podgrace-nodeenforcer --cascade=foreground"
	out, err := helm(t, "upgrade", "podgrace", chart, "--kubeconfig", w.Kubeconfig, "--namespace", namespace, "--reuse-values")
	if err == nil || !strings.Contains(err.Error(), first) {
		t.Errorf("helm upgrade beside an earlier node enforcer that feeds watchdogs: got %v %s", err, out)
	}
	if err := w.kube.Delete(t.Context(), earlier); err != nil {
		t.Fatal(err)
	}
}

// runUninstaller does what a kubelet would with the Job's pod: it runs its program with the pod's rights, and writes its end.
func (w *world) runUninstaller(ctx context.Context, program string) error {
	var pods corev1.PodList
	err := cluster.Until(ctx, "the Job's pod", func(ctx context.Context) (bool, error) {
		err := w.kube.List(ctx, &pods, client.InNamespace(podgrace.EnforcerNamespace), client.MatchingLabels{"app.kubernetes.io/name": uninstaller})
		return err == nil && len(pods.Items) == 1, err
	})
	if err != nil {
		return err
	}
	pod := &pods.Items[0]
	kubeconfig, err := w.TokenKubeconfig(ctx, pod.Namespace, pod.Spec.ServiceAccountName)
	if err != nil {
		return err
	}
	out, failed := exec.CommandContext(ctx, program, append(pod.Spec.Containers[0].Args, "--kubeconfig", kubeconfig)...).CombinedOutput()
	pod.Status.Phase = corev1.PodSucceeded
	if failed != nil {
		pod.Status.Phase = corev1.PodFailed
		failed = fmt.Errorf("%w: %s", failed, out)
	}
	if err := w.kube.Status().Update(ctx, pod); err != nil {
		return err
	}
	return failed
}

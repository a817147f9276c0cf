package partition

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/suite"
)

const (
	outOfService         = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
	evictionWithoutGrace = "eviction with grace 0"
)

// removals are what people and controllers try when a pod stays Terminating, or its node is away. Each would let a
// replacement start beside the pod.
var removals = []struct {
	name string
	try  func(context.Context, *suite.Suite, *corev1.Pod) error
	// of is what the refusal must be about.
	of func(*corev1.Pod) string
}{
	{"kubectl delete --force", forceDelete, ofPod},
	{"delete with grace 0", func(ctx context.Context, s *suite.Suite, p *corev1.Pod) error {
		return s.Client.Delete(ctx, p.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
	}, ofPod},
	{"delete of all with grace 0", func(ctx context.Context, s *suite.Suite, p *corev1.Pod) error {
		return s.Client.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(p.Namespace), client.MatchingLabels(p.Labels), client.GracePeriodSeconds(0))
	}, ofPod},
	{evictionWithoutGrace, func(ctx context.Context, s *suite.Suite, p *corev1.Pod) error {
		return s.Client.SubResource("eviction").Create(ctx, p.DeepCopy(), &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}})
	}, ofPod},
	{"status Failed", writePhase(corev1.PodFailed), ofPod},
	{"status Succeeded", writePhase(corev1.PodSucceeded), ofPod},
	{"delete of the node", func(ctx context.Context, s *suite.Suite, p *corev1.Pod) error {
		_, _, err := s.Kubectl(ctx, "delete", "node", p.Spec.NodeName, "--wait=false")
		return err
	}, func(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }},
	{"taint out-of-service", taintOutOfService, func(p *corev1.Pod) string { return "pods may still run on node " + p.Spec.NodeName }},
}

func forceDelete(ctx context.Context, s *suite.Suite, p *corev1.Pod) error {
	_, _, err := s.Kubectl(ctx, "delete", "pod", "--force", "--wait=false", "-n", p.Namespace, p.Name)
	return err
}

func taintOutOfService(ctx context.Context, s *suite.Suite, p *corev1.Pod) error {
	_, _, err := s.Kubectl(ctx, "taint", "node", p.Spec.NodeName, outOfService)
	return err
}

func writePhase(phase corev1.PodPhase) func(context.Context, *suite.Suite, *corev1.Pod) error {
	return func(ctx context.Context, s *suite.Suite, p *corev1.Pod) error {
		return s.Client.Status().Patch(ctx, p.DeepCopy(), mergePatch(`{"status":{"phase":%q}}`, phase))
	}
}

func ofPod(p *corev1.Pod) string {
	return "pod " + p.Namespace + "/" + p.Name + " may still run on " + p.Spec.NodeName
}

func mergePatch(format string, args ...any) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))
}

// wantRefused tries all removals on a pod. Each must be refused, in words about the state that its node is in, and leave the
// pod as it was. Those that are named last Kubernetes itself refuses, because the namespace is being terminated.
func wantRefused(t *testing.T, s *suite.Suite, pod corev1.Pod, nodeState string, byKubernetes ...string) {
	t.Helper()
	for _, r := range removals {
		before := get(t, s, pod)
		want := []string{"denied the request", r.of(before), nodeState}
		if slices.Contains(byKubernetes, r.name) {
			want = []string{"because it is being terminated"}
		}
		err := r.try(t.Context(), s, before)
		if err == nil {
			t.Fatalf("%s of %s went through, with its node %s", r.name, pod.Name, nodeState)
		}
		for _, words := range want {
			if !strings.Contains(err.Error(), words) {
				t.Errorf("%s: the refusal lacks %q: %v", r.name, words, err)
			}
		}
		after := get(t, s, pod)
		if !after.DeletionTimestamp.Equal(before.DeletionTimestamp) || after.Status.Phase != before.Status.Phase {
			t.Errorf("%s was refused, but left deletion %v and phase %s behind", r.name, after.DeletionTimestamp, after.Status.Phase)
		}
	}
}

// get returns the pod as it is now; it fails the test if it is gone, or another one has taken its name.
func get(t *testing.T, s *suite.Suite, pod corev1.Pod) *corev1.Pod {
	t.Helper()
	var now corev1.Pod
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(&pod), &now); err != nil {
		t.Fatal(err)
	}
	if now.UID != pod.UID {
		t.Fatalf("pod %s was replaced: it is %s, was %s", pod.Name, now.UID, pod.UID)
	}
	return &now
}

// terminating returns when somebody else's ordinary delete of the pod has come, and its grace period is over: then nobody
// but the kubelet keeps it from being removed.
func terminating(t *testing.T, s *suite.Suite, pod corev1.Pod) {
	t.Helper()
	suite.Eventually(t, "pod "+pod.Name+" to be overdue", func(context.Context) (bool, error) {
		now := get(t, s, pod)
		return now.DeletionTimestamp != nil && time.Now().After(now.DeletionTimestamp.Time), nil
	})
}

// silence makes a node that nobody speaks for a silent one. The controller then taints it.
func silence(t *testing.T, s *suite.Suite, name string) *corev1.Node {
	t.Helper()
	node := s.Silence(t, name)
	suite.Eventually(t, "node "+name+" tainted unreachable", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(node), node)
		for _, taint := range node.Spec.Taints {
			if taint.Key == corev1.TaintNodeUnreachable && taint.Effect == corev1.TaintEffectNoExecute {
				return true, err
			}
		}
		return false, err
	})
	return node
}

package ordinary

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
)

// Image is of the jobs; a node needs it. ImageSource is the folder of its program.
const (
	Image       = "localhost/podgrace/done:1"
	ImageSource = "e2e/node/done"
)

// work is one kind of ordinary work in a namespace whose policy guards every pod.
var work = []struct {
	name string
	do   func(*testing.T, *suite.Suite, string)
}{
	{"plain delete", plainDelete},
	{"delete of a pending pod", pendingDelete},
	{"scale down", scaleDown},
	{"rollout", rollout},
	{"job completion and TTL", job},
	{"replacement of a failed pod", failedStatefulPod},
	{"garbage collection by owner", garbageCollection},
	{"drain", drain},
	{"namespace deletion", namespaceDeletion},
}

// Run does all kinds of work in a cluster with one real node: with credentials of each controller, which the cluster has at first, and with credentials that all share.
func Run(t *testing.T, s *suite.Suite) {
	t.Run("credentials of each controller", func(t *testing.T) { all(t, s) })
	t.Run("credentials shared by all", func(t *testing.T) {
		share := func(shared bool) {
			if err := s.ShareControllerCredentials(context.Background(), shared); err != nil {
				t.Fatal(err)
			}
		}
		share(true)
		t.Cleanup(func() { share(false) })
		all(t, s)
	})
}

func all(t *testing.T, s *suite.Suite) {
	for _, w := range work {
		t.Run(w.name, func(t *testing.T) {
			ns := s.Namespace(t)
			s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll}})
			before, evictedBefore := calls(t, s)
			w.do(t, s, ns)
			after, evicted := calls(t, s)
			if after != before {
				t.Errorf("the API server made %d calls to the removal guard", after-before)
			}
			if drains := w.name == "drain"; drains != (evicted > evictedBefore) {
				t.Errorf("the API server asked about %d ordinary evictions", evicted-evictedBefore)
			}
		})
	}
	t.Run("but a force delete is judged", func(t *testing.T) { forceDelete(t, s) })
}

var callCount = regexp.MustCompile(`(?m)^apiserver_admission_webhook_request_total\{.*name="([a-z-]+\.removal|evictions\.mutate)\.podgrace\.dev".*\} ([0-9.e+]+)$`)

// calls returns how many calls to the removal guard the API server has made, and how many about ordinary evictions.
func calls(t *testing.T, s *suite.Suite) (guard, evictions int) {
	t.Helper()
	text, _, err := s.Kubectl(t.Context(), "get", "--raw", "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range callCount.FindAllStringSubmatch(text, -1) {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		if m[1] == "plain-eviction.removal" {
			evictions += int(n)
		} else {
			guard += int(n)
		}
	}
	return guard, evictions
}

func spec(image string, args ...string) corev1.PodSpec {
	return corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(10)),
		Containers:                    []corev1.Container{{Name: "main", Image: image, Args: args, ImagePullPolicy: corev1.PullNever}},
	}
}

func template(app string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": app}}, Spec: spec(cluster.PauseImage)}
}

func selector(app string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}
}

func deployment(ns string, replicas int32) *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &replicas, Selector: selector("web"), Template: template("web")}}
}

func create(t *testing.T, s *suite.Suite, o client.Object) {
	t.Helper()
	if err := s.Client.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// running waits until exactly so many pods of a namespace exist, all of them running and none of them being deleted.
func running(t *testing.T, s *suite.Suite, ns string, want int) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	suite.Eventually(t, fmt.Sprintf("%d pods running in %s", want, ns), func(ctx context.Context) (bool, error) {
		if err := s.Client.List(ctx, &list, client.InNamespace(ns)); err != nil {
			return false, err
		}
		for i := range list.Items {
			if p := &list.Items[i]; p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil {
				return false, nil
			}
		}
		return len(list.Items) == want, nil
	})
	return list.Items
}

func gone(t *testing.T, s *suite.Suite, o client.Object) {
	t.Helper()
	suite.Eventually(t, fmt.Sprintf("%T %s gone", o, o.GetName()), func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

func plainDelete(t *testing.T, s *suite.Suite, ns string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "plain"}, Spec: spec(cluster.PauseImage)}
	create(t, s, p)
	running(t, s, ns, 1)
	if err := s.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	gone(t, s, p)
}

func pendingDelete(t *testing.T, s *suite.Suite, ns string) {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "pending"}, Spec: spec(cluster.PauseImage)}
	p.Spec.NodeSelector = map[string]string{"no": "where"}
	create(t, s, p)
	if err := s.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	gone(t, s, p)
}

func scaleDown(t *testing.T, s *suite.Suite, ns string) {
	d := deployment(ns, 3)
	create(t, s, d)
	running(t, s, ns, 3)
	scale(t, s, d, 1)
	running(t, s, ns, 1)
}

func scale(t *testing.T, s *suite.Suite, d *appsv1.Deployment, replicas int32) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, replicas))
	if err := s.Client.Patch(t.Context(), d, patch); err != nil {
		t.Fatal(err)
	}
}

func rollout(t *testing.T, s *suite.Suite, ns string) {
	d := deployment(ns, 2)
	create(t, s, d)
	first := running(t, s, ns, 2)
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"template":{"metadata":{"annotations":{"v":"2"}}}}}`))
	if err := s.Client.Patch(t.Context(), d, patch); err != nil {
		t.Fatal(err)
	}
	for i := range first {
		gone(t, s, &first[i])
	}
	running(t, s, ns, 2)
}

func job(t *testing.T, s *suite.Suite, ns string) {
	template := corev1.PodTemplateSpec{Spec: spec(Image)}
	template.Spec.RestartPolicy = corev1.RestartPolicyNever
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "job"}, Spec: batchv1.JobSpec{Completions: new(int32(2)), Parallelism: new(int32(2)), TTLSecondsAfterFinished: new(int32(1)), Template: template}}
	create(t, s, j)
	gone(t, s, j)
	running(t, s, ns, 0)

	failing := corev1.PodTemplateSpec{Spec: spec(Image, "fail")}
	failing.Spec.RestartPolicy = corev1.RestartPolicyNever
	f := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "failing"}, Spec: batchv1.JobSpec{BackoffLimit: new(int32(0)), TTLSecondsAfterFinished: new(int32(1)), Template: failing}}
	create(t, s, f)
	gone(t, s, f)
	running(t, s, ns, 0)
}

func failedStatefulPod(t *testing.T, s *suite.Suite, ns string) {
	create(t, s, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{Replicas: new(int32(1)), Selector: selector("db"), Template: template("db")}})
	first := running(t, s, ns, 1)[0]
	// The kubelet fails a pod that outlives its deadline.
	if err := s.Client.Patch(t.Context(), first.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"activeDeadlineSeconds":1}}`))); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the failed pod replaced", func(ctx context.Context) (bool, error) {
		var p corev1.Pod
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(&first), &p)
		return err == nil && p.UID != first.UID && p.Status.Phase == corev1.PodRunning, client.IgnoreNotFound(err)
	})
}

func garbageCollection(t *testing.T, s *suite.Suite, ns string) {
	for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground} {
		d := deployment(ns, 2)
		create(t, s, d)
		running(t, s, ns, 2)
		if err := s.Client.Delete(t.Context(), d, client.PropagationPolicy(policy)); err != nil {
			t.Fatal(err)
		}
		gone(t, s, d)
		running(t, s, ns, 0)
	}
}

func drain(t *testing.T, s *suite.Suite, ns string) {
	d := deployment(ns, 2)
	create(t, s, d)
	pods := running(t, s, ns, 2)
	node := pods[0].Spec.NodeName
	if _, _, err := s.Kubectl(t.Context(), "drain", node, "--force", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=3m"); err != nil {
		t.Fatal(err)
	}
	for i := range pods {
		gone(t, s, &pods[i])
	}
	if _, _, err := s.Kubectl(t.Context(), "uncordon", node); err != nil {
		t.Fatal(err)
	}
	running(t, s, ns, 2)
}

func namespaceDeletion(t *testing.T, s *suite.Suite, ns string) {
	create(t, s, deployment(ns, 2))
	create(t, s, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "bare"}, Spec: spec(cluster.PauseImage)})
	running(t, s, ns, 3)
	o := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}
	if err := s.Client.Delete(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	gone(t, s, o)
}

// forceDelete shows that the counting counts.
func forceDelete(t *testing.T, s *suite.Suite) {
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll}})
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "p"}, Spec: spec(cluster.PauseImage)}
	create(t, s, p)
	node := running(t, s, ns, 1)[0].Spec.NodeName
	before, _ := calls(t, s)
	err := s.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0))
	if err == nil || !strings.Contains(err.Error(), "may still run on "+node+" (ready)") {
		t.Errorf("want a refusal, got %v", err)
	}
	if after, _ := calls(t, s); after <= before {
		t.Errorf("%d calls before and %d after a force delete: this test counts nothing", before, after)
	}
	if err := s.Client.Delete(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	gone(t, s, p)
}

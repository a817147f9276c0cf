package controlplane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	installation "github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/guard"
)

// guarded returns a pod of a StatefulSet that is bound to a node, in a namespace whose policy guards it.
func guarded(t *testing.T, s *suite.Suite, change ...func(*v1alpha1.RemovalSection)) *corev1.Pod {
	t.Helper()
	ns := s.Namespace(t)
	removal := &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectStateful, AllowedActors: []string{"system:serviceaccount:ops:repair"}}
	for _, c := range change {
		c(removal)
	}
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: removal})
	return protected(t, s, ns)
}

// protected returns a pod of a StatefulSet that is bound to a node.
func protected(t *testing.T, s *suite.Suite, ns string) *corev1.Pod {
	t.Helper()
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: template("db"),
	}})
	pod := bound(t, s, ns, 1)[0]
	t.Cleanup(func() { _ = letGo(context.Background(), s, &pod) })
	return &pod
}

// letGo removes a pod as its kubelet does, so that the namespace does not stay full.
func letGo(ctx context.Context, s *suite.Suite, pod *corev1.Pod) error {
	config, err := s.User("system:node:"+pod.Spec.NodeName, "system:nodes")
	if err != nil {
		return err
	}
	kube, err := suite.NewClient(config)
	if err != nil {
		return err
	}
	return kube.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
}

// as returns a client for a user with all rights of an administrator but that of Podgrace's own verb.
func as(t *testing.T, s *suite.Suite, user string, groups ...string) client.Client {
	t.Helper()
	s.Grant(t, rbacv1.UserKind, user, "", rbacv1.PolicyRule{APIGroups: []string{"", "policy", "storage.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	kube, _ := s.Warned(t, user, groups...)
	return kube
}

func wantRefused(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Error("it went through")
		return
	}
	for _, part := range append([]string{"denied the request"}, parts...) {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the refusal lacks %q: %v", part, err)
		}
	}
}

// wantForbidden expects a refusal by one of the API server's own policies.
func wantForbidden(t *testing.T, err error, says string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "denied request: ") || !strings.Contains(err.Error(), says) {
		t.Errorf("got %v, want a refusal that says %q", err, says)
	}
}

// partition silences a node: no heartbeat for two minutes, and Ready unknown, as the node lifecycle controller would write.
func partition(t *testing.T, s *suite.Suite) *corev1.Node {
	t.Helper()
	name := fmt.Sprintf("silent-%d", time.Now().UnixNano())
	if err := s.AddNode(t.Context(), name, map[string]string{corev1.LabelHostname: name, "e2e": name}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.StopHeartbeat(name)
		deleteNode(s, name)
	})
	node := &corev1.Node{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	return node
}

func silence(t *testing.T, s *suite.Suite, node *corev1.Node) {
	t.Helper()
	s.StopHeartbeat(node.Name)
	s.Silence(t, node.Name).DeepCopyInto(node)
}

// deleteNode confirms that the node is off, and deletes it.
func deleteNode(s *suite.Suite, name string) {
	node := &corev1.Node{}
	if err := s.Client.Get(context.Background(), client.ObjectKey{Name: name}, node); err != nil {
		return
	}
	_ = s.Client.Delete(context.Background(), node)
}

func annotate(t *testing.T, s *suite.Suite, o client.Object, key, value string) {
	t.Helper()
	patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, key, value))
	if err := s.Client.Patch(t.Context(), o, patch); err != nil {
		t.Fatal(err)
	}
}

func TestForceDelete(t *testing.T) {
	s := start(t)
	pod := guarded(t, s)
	err := suite.Judged(t, func() error {
		_, _, err := s.Kubectl(t.Context(), "delete", "pod", "--force", "--wait=false", "-n", pod.Namespace, pod.Name)
		return err
	})
	wantRefused(t, err, "pod "+pod.Namespace+"/db-0 may still run on "+pod.Spec.NodeName+" (ready)", "it is a pod of StatefulSet db", "let its kubelet stop it: kubectl delete pod -n "+pod.Namespace+" db-0, without --force", "kubectl podgrace confirm -n "+pod.Namespace+" db-0")

	// An ordinary delete goes through, and makes no force delete safe.
	if err := s.Client.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || *pod.DeletionGracePeriodSeconds != 30 {
		t.Errorf("the refused force delete left %v behind, %v", pod.DeletionGracePeriodSeconds, err)
	}
}

func TestForceDeleteCollection(t *testing.T) {
	s := start(t)
	pod := guarded(t, s)
	err := s.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(pod.Namespace), client.GracePeriodSeconds(0))
	wantRefused(t, err, "it is a pod of StatefulSet db")
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.DeletionTimestamp != nil {
		t.Errorf("got %v, %v", pod.DeletionTimestamp, err)
	}
}

// A stored grace of 0 was left by a force delete before there was a policy; a finalizer kept the pod.
func TestStoredZeroAndLastFinalizer(t *testing.T) {
	s := start(t)
	ns := s.Namespace(t)
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: template("db"),
	}})
	pod := &bound(t, s, ns, 1)[0]
	finalizers := func(list string) error {
		return s.Client.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":`+list+`}}`)))
	}
	if err := finalizers(`["example.com/hold"]`); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatalf("nothing is guarded yet: %v", err)
	}
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}})
	wantRefused(t, s.Client.Delete(t.Context(), pod, client.Preconditions{UID: &pod.UID}), "it is a pod of StatefulSet db")
	wantRefused(t, finalizers(`null`), "it is a pod of StatefulSet db")
	if err := s.Client.Patch(t.Context(), pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))); err != nil {
		t.Errorf("an update that leaves the finalizer: %v", err)
	}
	// The kubelet of its node says that it has ended: then the finalizer may go, as the Job controller's does daily.
	kubelet, _ := s.Warned(t, "system:node:"+pod.Spec.NodeName, "system:nodes")
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	pod.Status.Phase = corev1.PodFailed
	if err := kubelet.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := finalizers(`null`); err != nil {
		t.Errorf("a finished pod: %v", err)
	}
}

func TestEvictionWithoutGrace(t *testing.T) {
	s := start(t)
	evict := func(pod *corev1.Pod) error {
		return s.Client.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}})
	}
	t.Run("refused", func(t *testing.T) {
		wantRefused(t, evict(guarded(t, s)), "it is a pod of StatefulSet db", "evict or drain without --grace-period=0")
	})
	t.Run("raised", func(t *testing.T) {
		pod := guarded(t, s, func(r *v1alpha1.RemovalSection) { r.EvictionWithoutGrace = v1alpha1.GraceRaise })
		if err := evict(pod); err != nil {
			t.Fatal(err)
		}
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds != 30 {
			t.Errorf("got grace %v, %v; want the pod's own", pod.DeletionGracePeriodSeconds, err)
		}
	})
	t.Run("policy v1beta1", func(t *testing.T) {
		pod := guarded(t, s)
		body := fmt.Appendf(nil, `{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":%q,"namespace":%q},"deleteOptions":{"gracePeriodSeconds":0}}`, pod.Name, pod.Namespace)
		wantRefused(t, raw(t, s, "/api/v1/namespaces/"+pod.Namespace+"/pods/"+pod.Name+"/eviction", body), "it is a pod of StatefulSet db")
	})
	t.Run("with grace", func(t *testing.T) {
		pod := guarded(t, s)
		if err := s.Client.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{}); err != nil {
			t.Error(err)
		}
	})
}

// A pod whose own grace is 0 was made before there was a policy. A drain's eviction, which says nothing of grace, would remove it at once while
// its node is silent.
func TestEvictionByOwnGrace(t *testing.T) {
	s := start(t)
	node := partition(t, s)
	pinned := func(p *corev1.PodSpec) {
		p.TerminationGracePeriodSeconds, p.NodeSelector = new(int64(0)), map[string]string{"e2e": node.Name}
	}
	// hasty returns the one pod of a workload, whose own grace is 0, in a namespace that is guarded since.
	hasty := func(t *testing.T, workload func(ns string) client.Object, removal v1alpha1.RemovalSection) *corev1.Pod {
		t.Helper()
		ns := s.Namespace(t)
		s.Create(t, workload(ns))
		pod := bound(t, s, ns, 1)[0]
		t.Cleanup(func() { _ = letGo(context.Background(), s, &pod) })
		s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &removal})
		return &pod
	}
	set := func(ns string) client.Object {
		return &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: template("db", pinned),
		}}
	}
	refusing := hasty(t, set, v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny})
	raising := hasty(t, set, v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, EvictionWithoutGrace: v1alpha1.GraceRaise})
	unprotected := hasty(t, func(ns string) client.Object { return deployment(ns, "web", 1, pinned) }, v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny})
	silence(t, s, node)
	kube, warnings := s.Warned(t, "")
	evict := func(pod *corev1.Pod, options *metav1.DeleteOptions) error {
		return kube.SubResource("eviction").Create(t.Context(), pod.DeepCopy(), &policyv1.Eviction{DeleteOptions: options})
	}
	deleting := func(pod *corev1.Pod) *int64 {
		t.Helper()
		now := &corev1.Pod{}
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), now); err != nil || now.UID != pod.UID {
			t.Fatalf("the pod is gone: %s, %v", now.UID, err)
		}
		return now.DeletionGracePeriodSeconds
	}
	says := []string{"pod " + refusing.Namespace + "/db-0 may still run on " + node.Name + " (not ready, silent since", "it is a pod of StatefulSet db",
		"its own grace period is 0, give it one: kubectl drain --grace-period=30", "kubectl podgrace confirm -n " + refusing.Namespace + " db-0"}
	wantRefused(t, suite.Judged(t, func() error { return evict(refusing, nil) }), says...)
	wantRefused(t, suite.Judged(t, func() error {
		return evict(refusing, &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}, Preconditions: &metav1.Preconditions{UID: &refusing.UID}})
	}), says...)
	body := fmt.Appendf(nil, `{"apiVersion":"policy/v1beta1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, refusing.Name, refusing.Namespace)
	wantRefused(t, suite.Judged(t, func() error {
		return raw(t, s, "/api/v1/namespaces/"+refusing.Namespace+"/pods/"+refusing.Name+"/eviction", body)
	}), says...)
	wantRefused(t, suite.Judged(t, func() error {
		_, _, err := s.Kubectl(t.Context(), "drain", node.Name, "--pod-selector=app=db", "--dry-run=server")
		return err
	}), says...)
	if grace := deleting(refusing); grace != nil {
		t.Errorf("a refused eviction has stored a grace of %d s", *grace)
	}
	if err := evict(refusing, &metav1.DeleteOptions{GracePeriodSeconds: new(int64(30))}); err != nil {
		t.Errorf("as the refusal says: %v", err)
	}
	if grace := deleting(refusing); grace == nil || *grace != 30 {
		t.Errorf("evicted with 30 s, it has %v", grace)
	}
	warnings.Take()
	if err := evict(raising, nil); err != nil {
		t.Errorf("the policy raises it: %v", err)
	}
	if got := strings.Join(warnings.Take(), "\n"); !strings.Contains(got, "a grace period of 0 was raised to 30 s, because it is protected") {
		t.Errorf("warned %q", got)
	}
	if grace := deleting(raising); grace == nil || *grace != 30 {
		t.Errorf("raised, it has %v", grace)
	}
	if err := evict(unprotected, nil); err != nil {
		t.Errorf("nothing protects it: %v", err)
	}
	if got := strings.Join(warnings.Take(), "\n"); !strings.Contains(got, "it may still run on "+node.Name) {
		t.Errorf("warned %q", got)
	}
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(unprotected), &corev1.Pod{}); !apierrors.IsNotFound(err) {
		t.Errorf("with a grace of 0 it goes at once: %v", err)
	}
	gone := evict(unprotected, nil)
	if !apierrors.IsNotFound(gone) {
		t.Errorf("a drain takes not found for done: %v", gone)
	}
}

func TestStatusWrittenByOthers(t *testing.T) {
	s := start(t)
	for _, phase := range []corev1.PodPhase{corev1.PodFailed, corev1.PodSucceeded} {
		pod := guarded(t, s)
		pod.Status.Phase = phase
		wantRefused(t, s.Client.Status().Update(t.Context(), pod.DeepCopy()), "may still run on", "it is a pod of StatefulSet db")
		other, _ := s.Warned(t, "system:node:elsewhere", "system:nodes")
		if err := other.Status().Update(t.Context(), pod.DeepCopy()); err == nil {
			t.Error("the kubelet of another node wrote the phase")
		}
		kubelet, _ := s.Warned(t, "system:node:"+pod.Spec.NodeName, "system:nodes")
		if err := kubelet.Status().Update(t.Context(), pod.DeepCopy()); err != nil {
			t.Errorf("its own kubelet: %v", err)
		}
	}
}

func TestNodeDeleteAndOutOfService(t *testing.T) {
	s := start(t)
	node := partition(t, s)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}})
	pinned := template("db", func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"e2e": node.Name} })
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: pinned,
	}})
	bound(t, s, ns, 1)
	taint := func() error {
		return s.Client.Patch(t.Context(), node.DeepCopy(), client.RawPatch("application/strategic-merge-patch+json", []byte(`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}`)), client.DryRunAll)
	}
	remove := func() error { return s.Client.Delete(t.Context(), node.DeepCopy(), client.DryRunAll) }
	// The reviews of a collection have no name.
	removeAll := func() error {
		return s.Client.DeleteAllOf(t.Context(), &corev1.Node{}, client.MatchingLabels{"e2e": node.Name}, client.DryRunAll)
	}

	wantRefused(t, suite.Judged(t, taint), "pods may still run on node "+node.Name+" (ready)", "drain it: kubectl drain "+node.Name)
	wantRefused(t, suite.Judged(t, remove), ns+"/db-0", "kubectl podgrace confirm node/"+node.Name)
	wantRefused(t, suite.Judged(t, removeAll), ns+"/db-0", "kubectl podgrace confirm node/"+node.Name)
	silence(t, s, node)
	wantRefused(t, suite.Judged(t, taint), "not ready, silent since")
	wantRefused(t, suite.Judged(t, remove), "not ready, silent since")
	wantRefused(t, suite.Judged(t, removeAll), "not ready, silent since")

	s.ConfirmOff(t, node.Name)
	if err := taint(); err != nil {
		t.Errorf("confirmed off: %v", err)
	}
	if err := remove(); err != nil {
		t.Errorf("confirmed off: %v", err)
	}
	if err := removeAll(); err != nil {
		t.Errorf("a collection, confirmed off: %v", err)
	}
	pod := &bound(t, s, ns, 1)[0]
	if err := suite.Judged(t, func() error { return s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0), client.DryRunAll) }); err != nil {
		t.Errorf("a pod of a node that is confirmed off: %v", err)
	}
}

// A kubelet whose clock is an hour behind renews its lease every ten seconds: it is not silent, whatever stands in the lease.
func TestClockBehind(t *testing.T) {
	s := start(t)
	node := partition(t, s)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{}})
	pod := template("db", func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"e2e": node.Name} })
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: pod,
	}})
	bound(t, s, ns, 1)
	silence(t, s, node)
	s.ConfirmOff(t, node.Name)
	remove := func() error { return s.Client.Delete(t.Context(), node.DeepCopy(), client.DryRunAll) }
	if err := remove(); err != nil {
		t.Fatalf("confirmed off, and silent: %v", err)
	}
	var lease coordinationv1.Lease
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, &lease); err != nil {
		t.Fatal(err)
	}
	// Recreated: of one whose managed fields are forgotten the API server notes nothing any more (k8s.io/apimachinery/pkg/util/managedfields,
	// skipNonAppliedManager, 0.36.3).
	if err := s.Client.Delete(t.Context(), &lease); err != nil {
		t.Fatal(err)
	}
	lease.ObjectMeta = metav1.ObjectMeta{Namespace: lease.Namespace, Name: lease.Name}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now().Add(-time.Hour)}
	if err := s.Client.Create(t.Context(), &lease, client.FieldOwner("kubelet")); err != nil {
		t.Fatal(err)
	}
	left := &bound(t, s, ns, 1)[0]
	wantRefused(t, suite.Judged(t, func() error {
		return s.Client.Delete(t.Context(), left, client.GracePeriodSeconds(0), client.DryRunAll)
	}), "(not ready, but heard of at")
}

func TestVolumeAttachment(t *testing.T) {
	s := start(t)
	guarded(t, s) // the strictest policy of the cluster counts
	name := "claim-1"
	va := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{GenerateName: "va-"}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "example.com", NodeName: "node-0", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &name},
	}}
	if err := s.Client.Create(t.Context(), va); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), va.DeepCopy(), client.DryRunAll); err != nil {
		t.Errorf("not attached: %v", err)
	}
	va.Status.Attached = true
	if err := s.Client.Status().Update(t.Context(), va); err != nil {
		t.Fatal(err)
	}
	const says = "node-0 (ready) may still write to volume claim-1"
	wantRefused(t, suite.Judged(t, func() error { return s.Client.Delete(t.Context(), va) }), says)
	wantRefused(t, suite.Judged(t, func() error {
		return s.Client.DeleteAllOf(t.Context(), &storagev1.VolumeAttachment{}, client.MatchingFields{"metadata.name": va.Name})
	}), says)
	repair := as(t, s, "system:serviceaccount:ops:repair")
	if err := repair.Delete(t.Context(), va); err != nil {
		t.Errorf("an actor that the policy allows: %v", err)
	}
}

// A confirmation is for one UID, by somebody who may; it can be used again, and it needs no webhook.
func TestConfirmation(t *testing.T) {
	s := start(t)
	pod := guarded(t, s)
	intern := as(t, s, "intern")
	confirm := func(kube client.Client, text string) error {
		return kube.Patch(t.Context(), pod.DeepCopy(), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, guard.AnnotationConfirmForceDelete, text)))
	}
	const notThis = "a confirmation must be of this very pod, and say when it was made"
	wantForbidden(t, confirm(s.Client, "another-uid/2026-01-31T12:00:00Z"), notThis)
	wantForbidden(t, confirm(s.Client, string(pod.UID)), notThis)
	wantForbidden(t, confirm(intern, suite.Confirmation(pod)), "you need the verb force-delete on pods.podgrace.dev in "+pod.Namespace)
	wantRefused(t, s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
	// Nobody but its kubelet, which may remove the pod anyway, can write one that has ended.
	kubelet, _ := s.Warned(t, "system:node:"+pod.Spec.NodeName, "system:nodes")
	ended := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, guard.AnnotationConfirmForceDelete, guard.ConfirmPod(pod, guard.Node{}, time.Now().Add(-56*time.Minute)))
	if err := kubelet.Status().Patch(t.Context(), pod.DeepCopy(), client.RawPatch("application/merge-patch+json", ended)); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)), "its confirmation is void, it is older than 55 minutes")
	if err := confirm(s.Client, suite.Confirmation(pod)); err != nil {
		t.Fatal(err)
	}
	// It is proof by itself: who deletes the pod then need not have the verb.
	if err := intern.Delete(t.Context(), pod, client.GracePeriodSeconds(0), client.DryRunAll); err != nil {
		t.Errorf("confirmed by another: %v", err)
	}
	for range 2 {
		if err := s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0), client.DryRunAll); err != nil {
			t.Errorf("dry run of a confirmed force delete: %v", err)
		}
	}
	if err := s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Errorf("confirmed: %v", err)
	}
	told(t, s, pod.Namespace, pod.Name, "delete by ", " allowed: it was confirmed that the pod may run twice")
}

// A confirmation has the time at which the API server notes that it is written, on whatever way, and whatever the writer says of that.
func TestConfirmationIsOfNow(t *testing.T) {
	s := start(t)
	pod := guarded(t, s)
	const notNow = "a confirmation must say when it is made, at most 5 minutes off"
	of := func(at time.Time) string { return guard.ConfirmPod(pod, guard.Node{}, at) }
	merge := func(text, more string) client.Patch {
		return client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}%s}}`, guard.AnnotationConfirmForceDelete, text, more))
	}
	apply := func(text string) client.Patch {
		return client.RawPatch("application/apply-patch+yaml", fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":%q,"namespace":%q,"annotations":{%q:%q}}}`, pod.Name, pod.Namespace, guard.AnnotationConfirmForceDelete, text))
	}
	put := func(text, managed string) error {
		now := &corev1.Pod{}
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), now); err != nil {
			return err
		}
		now.Annotations = map[string]string{guard.AnnotationConfirmForceDelete: text}
		if managed != "" {
			if err := json.Unmarshal([]byte(managed), &now.ManagedFields); err != nil {
				return err
			}
		}
		return s.Client.Update(t.Context(), now)
	}
	ages := time.Date(2099, 1, 1, 0, 0, 0, 0, time.UTC)
	forged := fmt.Sprintf(`[{"manager":"x","operation":"Update","apiVersion":"v1","time":%q,"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{"f:%s":{}}}}}]`, ages.Format(time.RFC3339), guard.AnnotationConfirmForceDelete)
	for how, write := range map[string]func(text string) error{
		"a patch": func(text string) error { return s.Client.Patch(t.Context(), pod.DeepCopy(), merge(text, "")) },
		"a patch, and more": func(text string) error {
			return s.Client.Patch(t.Context(), pod.DeepCopy(), merge(text, `,"labels":{"x":"y"}`))
		},
		"the status": func(text string) error { return s.Client.Status().Patch(t.Context(), pod.DeepCopy(), merge(text, "")) },
		"an apply": func(text string) error {
			return s.Client.Patch(t.Context(), pod.DeepCopy(), apply(text), client.FieldOwner("e2e-"+strings.ToLower(t.Name())), client.ForceOwnership)
		},
		"an update":                func(text string) error { return put(text, "") },
		"an update, and a forgery": func(text string) error { return put(text, forged) },
		"a patch, and a forgery": func(text string) error {
			return s.Client.Patch(t.Context(), pod.DeepCopy(), merge(text, `,"managedFields":`+forged))
		},
	} {
		for _, off := range []time.Duration{6 * time.Minute, -6 * time.Minute, time.Until(ages)} {
			if err := write(of(time.Now().Add(off))); err == nil || !strings.Contains(err.Error(), notNow) {
				t.Errorf("by %s, %s ahead: %v", how, off, err)
			}
		}
		for _, off := range []time.Duration{4 * time.Minute, 0, -4 * time.Minute} {
			if err := write(of(time.Now().Add(off))); err != nil {
				t.Errorf("by %s, %s ahead: %v", how, off, err)
			}
		}
	}

	// Once managedFields were emptied nothing is noted, but of an apply. The program knows that.
	if err := s.Client.Patch(t.Context(), pod.DeepCopy(), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"managedFields":[{}],"annotations":{%q:null}}}`, guard.AnnotationConfirmForceDelete))); err != nil {
		t.Fatal(err)
	}
	const notNoted = "the API server does not note when pod "
	for _, at := range []time.Time{ages, time.Now()} {
		if err := s.Client.Patch(t.Context(), pod.DeepCopy(), merge(of(at), "")); err == nil || !strings.Contains(err.Error(), notNoted) {
			t.Errorf("of a pod of which nothing is noted: %v", err)
		}
		if err := s.Client.Patch(t.Context(), pod.DeepCopy(), merge(of(at), `,"managedFields":[{}]`)); err == nil || !strings.Contains(err.Error(), notNoted) {
			t.Errorf("emptied again: %v", err)
		}
	}
	if err := confirmClient(t, s).ConfirmPod(t.Context(), pod, suite.Confirmation(pod)); err != nil {
		t.Errorf("by the program: %v", err)
	}
	if err := s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0), client.DryRunAll); err != nil {
		t.Errorf("confirmed: %v", err)
	}
}

// told returns when an Event tells of a removal that was let go by a confirmation.
func told(t *testing.T, s *suite.Suite, namespace, name string, note ...string) {
	t.Helper()
	suite.Eventually(t, "the Event of "+name, func(ctx context.Context) (bool, error) {
		var events corev1.EventList
		err := s.Client.List(ctx, &events, client.InNamespace(namespace), client.MatchingFields{"involvedObject.name": name, "reason": "RemovalConfirmed"})
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return !slices.ContainsFunc(note, func(part string) bool { return !strings.Contains(e.Message, part) })
		}), err
	})
}

// What is not protected goes, with a warning that says what may be.
func TestUnprotectedIsWarnedAbout(t *testing.T) {
	s := start(t)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}})
	s.Create(t, deployment(ns, "web", 1))
	pod := &bound(t, s, ns, 1)[0]
	kube, warnings := s.Warned(t, "")
	force := func(options ...client.DeleteOption) (said string) {
		t.Helper()
		if err := kube.Delete(t.Context(), pod.DeepCopy(), append(options, client.GracePeriodSeconds(0))...); err != nil {
			t.Fatal(err)
		}
		return strings.Join(warnings.Take(), "\n")
	}
	// It goes the first time. So what its node's state is the dry run says.
	said := suite.Judged(t, func() error { return errors.New(force(client.DryRunAll)) }).Error()
	for _, got := range []string{said, force()} {
		if !strings.Contains(got, "it may still run on "+pod.Spec.NodeName+" (") {
			t.Errorf("got %q", got)
		}
	}
	if !strings.Contains(said, " (ready)") {
		t.Errorf("got %q", said)
	}
}

// raw posts a body that the typed client has no type for.
func raw(t *testing.T, s *suite.Suite, path string, body []byte) error {
	t.Helper()
	file := t.TempDir() + "/body.json"
	if err := writeFile(file, body); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Kubectl(t.Context(), "create", "--raw", path, "-f", file)
	return err
}

// A first call stored a grace of 0, and the second was refused: then any update whatever would remove the pod.
func TestHalfDone(t *testing.T) {
	s := start(t)
	ns := s.Namespace(t)
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: template("db"),
	}})
	pod := &bound(t, s, ns, 1)[0]
	patch := func(kube client.Client, text string) error {
		return kube.Patch(t.Context(), pod.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	if err := patch(s.Client, `{"metadata":{"finalizers":["example.com/hold"]}}`); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny}})
	// One update that takes the last finalizer away and means something else, by the main resource and by the status.
	wantRefused(t, patch(s.Client, `{"metadata":{"labels":{"a":"b"},"finalizers":null}}`), "it is being deleted already: wait until its kubelet has stopped it")
	status := pod.DeepCopy()
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), status); err != nil {
		t.Fatal(err)
	}
	status.Finalizers, status.Status.Message = nil, "harmless"
	wantRefused(t, s.Client.Status().Update(t.Context(), status), "it is a pod of StatefulSet db")
	// Who may confirms with the very update that completes it.
	if err := patch(s.Client, `{"metadata":{"finalizers":null,"annotations":{"`+guard.AnnotationConfirmForceDelete+`":"`+suite.Confirmation(pod)+`"}}}`); err != nil {
		t.Errorf("confirmed by the update itself: %v", err)
	}
}

// All node enforcers share a service account; each may remove pods of the node that its token names, with whatever grace.
func TestEnforcerOfAnotherNode(t *testing.T) {
	s := start(t)
	pod := guarded(t, s)
	enforcer := func(node string) client.Client {
		config := rest.CopyConfig(s.Config)
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:podgrace-node:podgrace-nodeenforcer", Groups: []string{"system:masters"},
			Extra: map[string][]string{"authentication.kubernetes.io/node-name": {node}}}
		kube, err := suite.NewClient(config)
		if err != nil {
			t.Fatal(err)
		}
		return kube
	}
	other, own := enforcer("elsewhere"), enforcer(pod.Spec.NodeName)
	for what, err := range map[string]error{
		"deletes": other.Delete(t.Context(), pod, client.DryRunAll),
		"evicts":  other.SubResource("eviction").Create(t.Context(), pod, &policyv1.Eviction{}, &client.SubResourceCreateOptions{CreateOptions: client.CreateOptions{DryRun: []string{metav1.DryRunAll}}}),
	} {
		// By the webhook, or by the ValidatingAdmissionPolicy that is installed with the node enforcer.
		if err == nil || !strings.Contains(err.Error(), "pods of its own node only") {
			t.Errorf("it %s a pod of another node: %v", what, err)
		}
	}
	if err := own.Delete(t.Context(), pod, client.DryRunAll); err != nil {
		t.Errorf("its own node's: %v", err)
	}
	wantRefused(t, own.Delete(t.Context(), pod, client.GracePeriodSeconds(0), client.DryRunAll), "it is a pod of StatefulSet db")
}

// Who may patch nodes may not thereby say that one is off, nor who may say it of a node that is ready, or of another than it is; whoever it is
// may take the word back.
func TestConfirmOffIsAuthorised(t *testing.T) {
	s := start(t)
	node := partition(t, s)
	agent := as(t, s, "agent")
	var lease coordinationv1.Lease
	set := func(kube client.Client, text string) error {
		patch := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, guard.AnnotationConfirmOff, text))
		return errors.Join(kube.Patch(t.Context(), node.DeepCopy(), patch, client.DryRunAll), kube.Status().Patch(t.Context(), node.DeepCopy(), patch, client.DryRunAll))
	}
	const notThis = "is ready, or this is no confirmation of it as it is now"
	wantForbidden(t, set(s.Client, guard.ConfirmOff(node, nil)), "node "+node.Name+" "+notThis)
	silence(t, s, node)
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: node.Name}, &lease); err != nil {
		t.Fatal(err)
	}
	wantForbidden(t, set(agent, guard.ConfirmOff(node, &lease)), "you need the verb force-delete on nodes.podgrace.dev")
	later := node.DeepCopy()
	for i := range later.Status.Conditions {
		later.Status.Conditions[i].LastHeartbeatTime = metav1.NewTime(time.Now().Add(time.Hour))
	}
	for _, text := range []string{"true", "another-uid/another-boot", guard.ConfirmOff(later, &lease), string(node.UID) + "/" + node.Status.NodeInfo.BootID} {
		wantForbidden(t, set(s.Client, text), notThis)
	}
	if err := set(s.Client, guard.ConfirmOff(node, &lease)); err != nil {
		t.Errorf("an administrator: %v", err)
	}
	s.ConfirmOff(t, node.Name)
	unset := client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, guard.AnnotationConfirmOff))
	if err := agent.Patch(t.Context(), node.DeepCopy(), unset); err != nil {
		t.Errorf("taking it back: %v", err)
	}
}

// A confirmation that is void stays void, whatever is written of it in the Node's managed fields, which are a client's to write. That they
// were cleared makes none void.
func TestVoidConfirmationIsNotRevived(t *testing.T) {
	s := start(t)
	node := partition(t, s)
	guarded(t, s) // a policy
	agent := as(t, s, "agent")
	taint := func() error {
		return agent.Patch(t.Context(), node.DeepCopy(), client.RawPatch("application/strategic-merge-patch+json", []byte(`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}`)), client.DryRunAll)
	}
	silence(t, s, node)
	s.ConfirmOff(t, node.Name)
	if err := agent.Patch(t.Context(), node.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"managedFields":[{}]}}`))); err != nil {
		t.Fatal(err)
	}
	if err := taint(); err != nil {
		t.Errorf("confirmed, and nobody owns the annotation: %v", err)
	}
	s.Revive(t, node.Name)
	silence(t, s, node)
	wantRefused(t, suite.Judged(t, taint), "not ready, silent since")
	label := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"a":"b"}}}`))
	if err := agent.Patch(t.Context(), node.DeepCopy(), label, client.FieldOwner("podgrace-confirm")); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, suite.Judged(t, taint), "not ready, silent since")
	fields := fmt.Appendf(nil, `{"metadata":{"managedFields":[{"manager":"podgrace-confirm","operation":"Update","apiVersion":"v1","time":%q,"fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{%q:{}}}}}]}}`,
		time.Now().Add(time.Hour).UTC().Format(time.RFC3339), "f:"+guard.AnnotationConfirmOff)
	if err := agent.Patch(t.Context(), node.DeepCopy(), client.RawPatch("application/merge-patch+json", fields)); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, suite.Judged(t, taint), "not ready, silent since")
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil || node.Annotations[guard.AnnotationConfirmOff] == "" {
		t.Errorf("the annotation should be there still: %v, %v", node.Annotations, err)
	}
}

// A Node that is created with the taint, beside pods that were left of one before it, is judged like one that gets it.
func TestNodeCreatedOutOfService(t *testing.T) {
	s := start(t)
	guarded(t, s)
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "created-out-of-service"}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: corev1.TaintNodeOutOfService, Effect: corev1.TaintEffectNoExecute}}}}
	wantRefused(t, s.Client.Create(t.Context(), node.DeepCopy(), client.DryRunAll), "which has no Node object any more", "create it without the taint")
	node.Spec.Taints = nil
	if err := s.Client.Create(t.Context(), node, client.DryRunAll); err != nil {
		t.Error(err)
	}
}

// The group of kubelets alone is anybody's who may impersonate groups, and a certificate of no node can have it.
func TestGroupOfKubeletsIsNoKubelet(t *testing.T) {
	s := start(t)
	pod := guarded(t, s)
	config, err := s.User("ghost", "system:nodes", "system:masters")
	if err != nil {
		t.Fatal(err)
	}
	ghost, err := suite.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	wantRefused(t, ghost.Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(0)), "it is a pod of StatefulSet db")
	failed := pod.DeepCopy()
	failed.Status.Phase = corev1.PodFailed
	wantRefused(t, ghost.Status().Update(t.Context(), failed), "it is a pod of StatefulSet db")
	wantForbidden(t, ghost.Patch(t.Context(), pod.DeepCopy(), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"{}"}}}`, v1alpha1.AnnotationEnforcement))), "records what was decided")
}

// A confirmed force delete of a Job's pod ends: the Job controller, which takes its finalizer away, needs no verb of ours, and it is told of.
func TestConfirmedForceDeleteOfAJobsPodEnds(t *testing.T) {
	s := start(t)
	node := partition(t, s)
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{Protect: v1alpha1.ProtectAll}})
	work := template("batch", func(p *corev1.PodSpec) {
		p.NodeSelector, p.RestartPolicy = map[string]string{"e2e": node.Name}, corev1.RestartPolicyNever
	})
	s.Create(t, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "batch"}, Spec: batchv1.JobSpec{BackoffLimit: new(int32(6)), Template: work}})
	pod := &bound(t, s, ns, 1)[0]
	silence(t, s, node)
	wantRefused(t, s.Client.Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(0)), "the policy protects all pods")
	annotate(t, s, pod, guard.AnnotationConfirmForceDelete, suite.Confirmation(pod))
	if err := s.Client.Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the confirmed pod gone", func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), &now)
		return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID, client.IgnoreNotFound(err)
	})
	told(t, s, ns, pod.Name, "finalizer by system:serviceaccount:kube-system:job-controller allowed: it was confirmed that the pod may run twice")
}

// protectedOn binds the pod of a StatefulSet to a node of its own.
func protectedOn(t *testing.T, s *suite.Suite, node *corev1.Node) *corev1.Pod {
	t.Helper()
	ns := s.Namespace(t)
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{}})
	pinned := template("db", func(p *corev1.PodSpec) {
		p.NodeSelector, p.Tolerations = map[string]string{"e2e": node.Name}, []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	})
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: pinned,
	}})
	return &bound(t, s, ns, 1)[0]
}

// Finalizers that a DELETE takes away itself, and those that come while a DELETE is on its way, hold no Node: the store goes on with what it
// read before them.
func TestDeleteOfANodeThatNothingHolds(t *testing.T) {
	s := start(t)
	node := partition(t, s)
	pod := protectedOn(t, s, node)
	remover := as(t, s, "node-remover")
	hold := func(ctx context.Context, finalizers string) error {
		return remover.Patch(ctx, node.DeepCopy(), client.RawPatch("application/merge-patch+json", fmt.Appendf(nil, `{"metadata":{"finalizers":%s}}`, finalizers)))
	}
	for _, finalizers := range []string{`["orphan"]`, `["foregroundDeletion"]`} {
		if err := hold(t.Context(), finalizers); err != nil {
			t.Fatal(err)
		}
		for _, policy := range []metav1.DeletionPropagation{metav1.DeletePropagationBackground, metav1.DeletePropagationForeground, metav1.DeletePropagationOrphan} {
			wantRefused(t, remover.Delete(t.Context(), node.DeepCopy(), client.PropagationPolicy(policy)), "pods may still run on node "+node.Name, pod.Namespace+"/"+pod.Name)
		}
		wantRefused(t, remover.DeleteAllOf(t.Context(), &corev1.Node{}, client.MatchingLabels{"e2e": node.Name}, client.PropagationPolicy(metav1.DeletePropagationBackground)), pod.Name)
	}
	for range 50 {
		if err := hold(t.Context(), "null"); err != nil {
			t.Fatal(err)
		}
		added := make(chan error)
		go func() { added <- hold(context.Background(), `["example.org/hold"]`) }()
		wantRefused(t, remover.Delete(t.Context(), node.DeepCopy()), "pods may still run on node "+node.Name)
		if err := <-added; err != nil {
			t.Fatal(err)
		}
	}
	wantRefused(t, remover.Delete(t.Context(), node.DeepCopy()), "its finalizers are too new to be sure to hold it")
	now := &corev1.Node{}
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(node), now); err != nil || now.UID != node.UID || now.DeletionTimestamp != nil {
		t.Errorf("the Node should be there as before: %+v %v", now.ObjectMeta, err)
	}
	if err := hold(t.Context(), "null"); err != nil {
		t.Error(err)
	}
}

// The DELETE of a Node that a finalizer has held for longer than a request takes only begins its drain, as Karpenter does: it goes through, and
// whoever takes the last finalizer away, by whichever resource, is judged, because the Node goes then.
func TestNodeWithFinalizer(t *testing.T) {
	s := start(t)
	node := partition(t, s)
	pod := protectedOn(t, s, node)
	ns := pod.Namespace
	karpenter := as(t, s, "system:serviceaccount:kube-system:karpenter")
	patch := func(text string) error {
		return karpenter.Patch(t.Context(), node.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(text)))
	}
	begun := time.Now() // the webhook can see the finalizers before the patch has returned here
	if err := patch(`{"metadata":{"finalizers":["karpenter.sh/termination","example.org/hold"]}}`); err != nil {
		t.Fatal(err)
	}
	suite.EventuallyWithin(t, 2*time.Minute, "the DELETE that begins a drain", func(ctx context.Context) (bool, error) {
		err := karpenter.Delete(ctx, node.DeepCopy())
		if err != nil && !strings.Contains(err.Error(), "its finalizers are too new to be sure to hold it") {
			t.Error(err)
		}
		return err == nil, err
	})
	if took := time.Since(begun); took < installation.RequestTimeout {
		t.Errorf("it went through after %s", took)
	}
	if err := karpenter.DeleteAllOf(t.Context(), &corev1.Node{}, client.MatchingLabels{"e2e": node.Name}); err != nil {
		t.Errorf("once more, as a collection: %v", err)
	}
	if err := patch(`{"metadata":{"finalizers":["karpenter.sh/termination"]}}`); err != nil {
		t.Errorf("one of two finalizers: %v", err)
	}
	const last = `{"metadata":{"finalizers":null}}`
	wantRefused(t, suite.Judged(t, func() error { return patch(last) }), "pods may still run on node "+node.Name, ns+"/db-0")
	wantRefused(t, karpenter.Status().Patch(t.Context(), node.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(last))), ns+"/db-0")
	now := &corev1.Node{}
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(node), now); err != nil || now.DeletionTimestamp == nil || len(now.Finalizers) != 1 {
		t.Fatalf("the Node should stay: %v %v", now.Finalizers, err)
	}
	// Drained: the StatefulSet asks for nothing any more, and the kubelet has stopped the pod.
	if err := s.Client.Patch(t.Context(), &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}}, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"replicas":0}}`))); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "the pod deleted", func(ctx context.Context) (bool, error) { // before, another one would take its place
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return pod.DeletionTimestamp != nil, err
	})
	suite.Eventually(t, "the pod gone", func(ctx context.Context) (bool, error) {
		err := letGo(ctx, s, pod)
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
	if err := patch(last); err != nil {
		t.Errorf("drained: %v", err)
	}
}

// A Binding's annotations become the pod's, which is no update of it: none of ours gets in by that.
func TestBindingWritesNoAnnotationOfOurs(t *testing.T) {
	s := start(t)
	ns := s.Namespace(t)
	scheduler := as(t, s, "another-scheduler")
	for _, key := range []string{v1alpha1.AnnotationEnforcement, guard.AnnotationConfirmForceDelete} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, GenerateName: "p-"}, Spec: corev1.PodSpec{SchedulerName: "another", Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
		s.Create(t, pod)
		binding := &corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: pod.Name, Annotations: map[string]string{key: string(pod.UID) + "/2026-01-31T12:00:00Z"}}, Target: corev1.ObjectReference{Kind: "Node", Name: "node-0"}}
		const says = "a Binding's annotations become the pod's"
		wantForbidden(t, scheduler.SubResource("binding").Create(t.Context(), pod.DeepCopy(), binding.DeepCopy()), says)
		wantForbidden(t, scheduler.Create(t.Context(), binding.DeepCopy()), says)
		binding.Annotations = map[string]string{"example.org/rack": "7"}
		if err := scheduler.SubResource("binding").Create(t.Context(), pod.DeepCopy(), binding); err != nil {
			t.Errorf("another annotation: %v", err)
		}
		if got := annotationOf(t, s, pod, "example.org/rack"); got != "7" {
			t.Errorf("the pod has %v: what this test is about is no more", pod.Annotations)
		}
		suite.Eventually(t, "the pod let go", func(ctx context.Context) (bool, error) {
			// Refused until the API server's own informer knows to which node the pod was bound (NodeRestriction).
			err := letGo(ctx, s, pod)
			return err == nil, err
		})
	}
}

// A fencing operator that every policy allows sets the out-of-service taint: that is its confirmation, and what Kubernetes does then, pod garbage
// collection first of all, goes to its end. For that it needs the verb, or is refused before anything is detached.
func TestTaintOfAnAllowedActorConfirms(t *testing.T) {
	s := start(t)
	node := partition(t, s)
	ns := s.Namespace(t)
	const operator = "system:serviceaccount:ops:fencing"
	s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{AllowedActors: []string{operator}}})
	pinned := template("db", func(p *corev1.PodSpec) { p.NodeSelector = map[string]string{"e2e": node.Name} })
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}}, Template: pinned,
	}})
	pod := &bound(t, s, ns, 1)[0]
	kube := as(t, s, operator)
	taint := func() error {
		return kube.Patch(t.Context(), node.DeepCopy(), client.RawPatch("application/strategic-merge-patch+json", []byte(`{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","value":"nodeshutdown","effect":"NoExecute"}]}}`)))
	}
	silence(t, s, node)
	wantForbidden(t, taint(), "to confirm that a node is off you need the verb force-delete on nodes.podgrace.dev")
	s.Bind(t, rbacv1.UserKind, operator, "", "podgrace-confirm-node")
	suite.Eventually(t, "the taint", func(context.Context) (bool, error) {
		err := taint()
		return err == nil, err
	})
	if got := annotationOf(t, s, node, guard.AnnotationConfirmOff); !strings.HasPrefix(got, guard.ConfirmOff(node, nil)) {
		t.Errorf("the confirmation is %q", got)
	}
	suite.Eventually(t, "the pod gone by pod garbage collection", func(ctx context.Context) (bool, error) {
		var now corev1.Pod
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), &now)
		return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID, client.IgnoreNotFound(err)
	})
	told(t, s, ns, pod.Name, " by system:serviceaccount:kube-system:pod-garbage-collector allowed: the node is known to have stopped")
}

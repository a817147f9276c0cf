package install

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/guard"
)

// The users of the smoke test. They are impersonated, and none is an administrator of the cluster.
const (
	tenant   = "smoke-tenant"   // edits in its namespaces
	owner    = "smoke-owner"    // admin in its namespaces
	operator = "smoke-operator" // has all rights on pods, nodes and attachments, but not the verb force-delete
	fencer   = "smoke-fencer"   // is in allowedActors of all policies and may confirm that a node is off
	writer   = "smoke-writer"   // writes policies
)

// smoke is the part of the suites that depends on the installation: the Service, the rights and the images. It sends one request for each webhook and kind of decision.
type smoke struct {
	*suite.Suite
	w *world
	// Namespaces: what is unsafe is refused in guarded, warned about in warned, and raised in raised.
	guarded, warned, raised string
	node                    *corev1.Node // without a kubelet
	tenant, operator        client.Client
	tenantWarnings          *suite.Warnings
}

func (w *world) smoke(t *testing.T) {
	start := time.Now()
	s := w.newSmoke(t)
	s.podsAndWorkloads(t)
	s.policies(t)
	s.removals(t)
	s.evictions(t)
	s.confirmedPod(t)
	s.silentNode(t)
	w.lab.Logf("%s: one request of each kind: %.1f s", t.Name(), time.Since(start).Seconds())
}

// newSmoke makes users, a node, namespaces and policies, and returns when every replica decides by them.
func (w *world) newSmoke(t *testing.T) *smoke {
	t.Helper()
	connected, err := cluster.Connect(t.Context(), w.Kubeconfig, cluster.Options{Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := connected.Stop(); err != nil {
			t.Error(err)
		}
	})
	s := &smoke{Suite: &suite.Suite{Cluster: connected, Client: w.client}, w: w}
	name := fmt.Sprintf("smoke-%d", time.Now().UnixNano())
	if err := s.AddNode(t.Context(), name, nil); err != nil {
		t.Fatal(err)
	}
	s.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	s.Create(t, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "smoke-allowed"}, Value: 1})
	s.Create(t, &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "smoke-forbidden"}, Value: 2})
	s.guarded = s.namespace(t, v1alpha1.PodPolicySpec{
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45))},
		Priority:    &v1alpha1.PrioritySection{AllowedClassNames: []string{"smoke-allowed"}},
		Removal:     &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny},
	})
	s.warned = s.namespace(t, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn}})
	s.raised = s.namespace(t, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{
		ForceDelete: v1alpha1.RemovalDeny, ZeroGrace: v1alpha1.ZeroGraceWarn, EvictionWithoutGrace: v1alpha1.GraceRaise,
	}})
	s.users(t)
	w.waitPolicies(t)
	w.waitInForce(t)
	return s
}

// namespace makes a namespace and a policy for it.
func (s *smoke) namespace(t *testing.T, spec v1alpha1.PodPolicySpec) string {
	t.Helper()
	ns := s.Namespace(t)
	spec.Removal.Protect, spec.Removal.AllowedActors = v1alpha1.ProtectAll, []string{fencer}
	s.Create(t, suite.PolicyFor(ns, spec))
	return ns
}

// users binds the users to their roles: those of Kubernetes, to which Podgrace adds its verbs, and Podgrace's own.
func (s *smoke) users(t *testing.T) {
	t.Helper()
	for _, ns := range []string{s.guarded, s.warned, s.raised} {
		for user, role := range map[string]string{tenant: "edit", owner: "admin"} {
			s.Create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: user}, RoleRef: clusterRole(role), Subjects: subject(user)})
		}
	}
	s.Create(t, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: operator}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"", "storage.k8s.io"}, Resources: []string{"*"}, Verbs: []string{"*"}},
	}})
	for user, role := range map[string]string{operator: operator, fencer: "podgrace-confirm-node", writer: "podgrace-editor"} {
		s.Create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: user}, RoleRef: clusterRole(role), Subjects: subject(user)})
	}
	s.tenant, s.tenantWarnings = s.Warned(t, tenant)
	s.operator, _ = s.Warned(t, operator)
	// The RoleBindings in raised are the last, and the API server's informer gets them in the order of their creation.
	for user, may := range map[string]func(context.Context, client.Client) error{
		tenant: func(ctx context.Context, c client.Client) error {
			return c.List(ctx, &corev1.PodList{}, client.InNamespace(s.raised))
		},
		owner: func(ctx context.Context, c client.Client) error {
			return c.List(ctx, &corev1.PodList{}, client.InNamespace(s.raised))
		},
		operator: func(ctx context.Context, c client.Client) error { return c.List(ctx, &corev1.NodeList{}) },
		fencer:   func(ctx context.Context, c client.Client) error { return c.List(ctx, &corev1.NodeList{}) },
		writer:   func(ctx context.Context, c client.Client) error { return c.List(ctx, &v1alpha1.PodPolicyList{}) },
	} {
		kube, _ := s.Warned(t, user)
		suite.EventuallyWithin(t, time.Minute, "the rights of "+user, func(ctx context.Context) (bool, error) {
			err := may(ctx, kube)
			return err == nil, err
		})
	}
}

func clusterRole(name string) rbacv1.RoleRef {
	return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
}

func subject(user string) []rbacv1.Subject {
	return []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}}
}

// pod is a pod on the node without a kubelet, not created yet.
func (s *smoke) pod(ns, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: corev1.PodSpec{
		NodeName: s.node.Name, Containers: []corev1.Container{{Name: "main", Image: cluster.PauseImage}},
	}}
	for _, c := range change {
		c(pod)
	}
	return pod
}

// created creates such a pod as the tenant.
func (s *smoke) created(t *testing.T, ns, name string, change ...func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	pod := s.pod(ns, name, change...)
	if err := s.tenant.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// podsAndWorkloads: a pod gets its default, what is beyond a limit is refused, and its workload is warned about.
func (s *smoke) podsAndWorkloads(t *testing.T) {
	t.Helper()
	if got := *s.created(t, s.guarded, "default").Spec.TerminationGracePeriodSeconds; got != 45 {
		t.Errorf("a pod has %d s to stop, want the policy's 45", got)
	}
	const limit = "smoke-forbidden"
	forbidden := s.pod(s.guarded, "forbidden", func(p *corev1.Pod) { p.Spec.PriorityClassName = limit })
	// The webhook denies it, or the limits that are compiled for the API server.
	if err := s.tenant.Create(t.Context(), forbidden.DeepCopy()); err == nil || !strings.Contains(err.Error(), "denied") || !strings.Contains(err.Error(), limit) {
		t.Errorf("a pod of a class that the policy does not allow: %v", err)
	}
	labels := map[string]string{"app": "forbidden"}
	s.tenantWarnings.Take()
	if err := s.tenant.Create(t.Context(), &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.guarded, Name: "forbidden"}, Spec: appsv1.DeploymentSpec{
		Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: forbidden.Spec},
	}}); err != nil {
		t.Errorf("a Deployment whose pods will be refused: %v", err)
	}
	if got := strings.Join(s.tenantWarnings.Take(), "\n"); !strings.Contains(got, limit) {
		t.Errorf("its creator is warned %q", got)
	}
}

// policies: a policy that can't work is refused.
func (s *smoke) policies(t *testing.T) {
	t.Helper()
	kube, _ := s.Warned(t, writer)
	broken := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: "smoke-broken"}, Spec: v1alpha1.PodPolicySpec{
		Match: &v1alpha1.PodMatch{MatchConditions: []admissionregistrationv1.MatchCondition{{Name: "no-bool", Expression: "1"}}},
	}}
	wantDenied(t, "a policy that can't work", kube.Create(t.Context(), broken), "policies.validate.podgrace.dev")
}

// removals: the ways to remove a pod that may run, on a node that is ready.
func (s *smoke) removals(t *testing.T) {
	t.Helper()
	pod, now := s.created(t, s.guarded, "removed"), client.GracePeriodSeconds(0)
	wantDenied(t, "a force delete", suite.Judged(t, func() error { return s.tenant.Delete(t.Context(), pod.DeepCopy(), now) }), "delete.removal.podgrace.dev", "kubectl podgrace confirm -n "+s.guarded+" removed")

	failed := pod.DeepCopy()
	failed.Status.Phase = corev1.PodFailed
	wantDenied(t, "the phase Failed by an operator", suite.Judged(t, func() error { return s.operator.Status().Update(t.Context(), failed.DeepCopy()) }), "status.removal.podgrace.dev")

	held := s.created(t, s.guarded, "held", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/hold"} })
	kubelet, _ := s.Warned(t, "system:node:"+s.node.Name, "system:nodes")
	suite.EventuallyWithin(t, time.Minute, "the kubelet's delete", func(ctx context.Context) (bool, error) {
		err := kubelet.Delete(ctx, held.DeepCopy(), now) // refused until the API server's own informer knows to which node the pod was bound (NodeRestriction)
		return err == nil, err
	})
	wantDenied(t, "the last finalizer of a pod with a stored grace of 0", suite.Judged(t, func() error { return s.release(t.Context(), held) }), "finalizer.removal.podgrace.dev")

	wantDenied(t, "the delete of the Node", suite.Judged(t, func() error { return s.operator.Delete(t.Context(), s.node.DeepCopy()) }), "node.removal.podgrace.dev", s.guarded+"/")
	wantDenied(t, "the taint out-of-service", suite.Judged(t, func() error { return s.taint(t, s.operator) }), "out-of-service.removal.podgrace.dev")

	config, err := s.User("system:serviceaccount:"+nodeNamespace+":podgrace-nodeenforcer", "system:serviceaccounts", "system:serviceaccounts:"+nodeNamespace)
	if err != nil {
		t.Fatal(err)
	}
	config.Impersonate.Extra = map[string][]string{"authentication.kubernetes.io/node-name": {"elsewhere"}}
	enforcer, err := suite.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	// The webhook denies it, or the ValidatingAdmissionPolicy that is installed with the node enforcer.
	if err := enforcer.Delete(t.Context(), pod.DeepCopy()); err == nil || !strings.Contains(err.Error(), "pods of its own node only") {
		t.Errorf("the node enforcer of another node deletes a pod: %v", err)
	}

	s.tenantWarnings.Take()
	if err := suite.Judged(t, func() error { return s.tenant.Delete(t.Context(), s.created(t, s.warned, "removed"), now) }); err != nil {
		t.Errorf("a force delete under a policy that warns: %v", err)
	}
	if got := strings.Join(s.tenantWarnings.Take(), "\n"); !strings.Contains(got, "may still run on "+s.node.Name) {
		t.Errorf("the user is warned %q", got)
	}
}

// evictions: one without grace is refused or raised, by the eviction's grace period or the pod's.
func (s *smoke) evictions(t *testing.T) {
	t.Helper()
	evict := func(pod *corev1.Pod, seconds *int64) error {
		return suite.Judged(t, func() error {
			return s.tenant.SubResource("eviction").Create(t.Context(), pod.DeepCopy(), &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: seconds}})
		})
	}
	wantDenied(t, "an eviction without grace", evict(s.created(t, s.guarded, "evicted"), new(int64(0))), "eviction.removal.podgrace.dev")
	for name, c := range map[string]struct{ own, eviction *int64 }{
		"evicted":   {new(int64(20)), new(int64(0))}, // evictions.mutate.podgrace.dev
		"own-grace": {new(int64(0)), nil},            // plain-eviction.removal.podgrace.dev
	} {
		pod := s.created(t, s.raised, name, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = c.own })
		if err := evict(pod, c.eviction); err != nil {
			t.Errorf("%s: an eviction that the policy raises: %v", name, err)
		}
		if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil || pod.DeletionGracePeriodSeconds == nil || *pod.DeletionGracePeriodSeconds == 0 {
			t.Errorf("%s: a raised eviction left %v, %v", name, pod.DeletionGracePeriodSeconds, err)
		}
	}
}

// confirmedPod: the owner of a namespace may confirm, and then anybody may force-delete; the tenant may not confirm.
func (s *smoke) confirmedPod(t *testing.T) {
	t.Helper()
	pod := s.created(t, s.guarded, "confirmed")
	for _, c := range []struct{ user, want string }{{tenant, "REFUSED"}, {owner, "CONFIRMED"}} {
		kubeconfig, err := s.KubeconfigFor(c.user)
		if err != nil {
			t.Fatal(err)
		}
		said, err := s.w.podgraceAs(t, kubeconfig, "confirm", "-n", pod.Namespace, pod.Name, "--yes")
		if (err == nil) != (c.user == owner) || !strings.Contains(said, c.want) {
			t.Errorf("%s confirms: %v, want %s:\n%s", c.user, err, c.want, said)
		}
	}
	if err := s.tenant.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Errorf("confirmed: %v", err)
	}
	suite.EventuallyWithin(t, time.Minute, "the Event of the confirmed removal", func(ctx context.Context) (bool, error) { // confirmed-pod.removal.podgrace.dev
		var events corev1.EventList
		err := s.Client.List(ctx, &events, client.InNamespace(pod.Namespace), client.MatchingFields{"involvedObject.name": pod.Name, "reason": "RemovalConfirmed"})
		for _, e := range events.Items {
			if strings.Contains(e.Message, "delete by "+tenant+" allowed") {
				return true, err
			}
		}
		return false, err
	})
}

// silentNode: a volume stays attached to a node that may write to it. An allowed actor confirms with the taint that the node is off; then its pods and the Node may be removed.
func (s *smoke) silentNode(t *testing.T) {
	t.Helper()
	volume := "smoke"
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: s.node.Name}, Spec: storagev1.VolumeAttachmentSpec{
		Attacher: "smoke.example.com", NodeName: s.node.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume},
	}}
	s.Create(t, attachment)
	attachment.Status.Attached = true
	if err := s.Client.Status().Update(t.Context(), attachment); err != nil {
		t.Fatal(err)
	}
	controller, _ := s.Warned(t, "system:serviceaccount:kube-system:attachdetach-controller", "system:serviceaccounts", "system:serviceaccounts:kube-system")
	detach := func(kube client.Client) error {
		return suite.Judged(t, func() error { return kube.Delete(t.Context(), attachment.DeepCopy()) })
	}
	inUse := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"volumesInUse":["kubernetes.io/csi/smoke.example.com^disk"]}}`))
	if err := s.Client.Status().Patch(t.Context(), s.node.DeepCopy(), inUse); err != nil {
		t.Fatal(err)
	}
	s.StopHeartbeat(s.node.Name)
	s.node = s.Silence(t, s.node.Name)
	wantDenied(t, "the delete of a VolumeAttachment", detach(s.operator), "volume-attachment.removal.podgrace.dev")
	wantDenied(t, "a detach by force", detach(controller), "detach.removal.podgrace.dev")

	kube, _ := s.Warned(t, fencer)
	if err := suite.Judged(t, func() error { return s.taint(t, kube) }); err != nil {
		t.Fatalf("the taint of an allowed actor: %v", err)
	}
	var off corev1.Node
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(s.node), &off); err != nil || !strings.HasPrefix(off.Annotations[guard.AnnotationConfirmOff], guard.ConfirmOff(s.node, nil)) {
		t.Errorf("the taint confirms by %v, %v", off.Annotations, err) // nodes.mutate.podgrace.dev
	}
	if err := client.IgnoreNotFound(detach(controller)); err != nil {
		t.Errorf("a detach from a node that is off: %v", err)
	}
	var pods corev1.PodList
	if err := s.Client.List(t.Context(), &pods, client.MatchingFields{"spec.nodeName": s.node.Name}); err != nil || len(pods.Items) == 0 {
		t.Errorf("%d pods, %v", len(pods.Items), err)
	}
	for i := range pods.Items { // pod garbage collection does the same meanwhile
		pod := &pods.Items[i]
		if !slices.Contains([]string{s.guarded, s.warned, s.raised}, pod.Namespace) {
			continue // of a DaemonSet
		}
		for what, remove := range map[string]func() error{
			"the force delete": func() error { return s.operator.Delete(t.Context(), pod.DeepCopy(), client.GracePeriodSeconds(0)) },
			"the finalizer":    func() error { return s.release(t.Context(), pod) },
		} {
			if err := client.IgnoreNotFound(suite.Judged(t, remove)); err != nil {
				t.Errorf("%s of pod %s, of a node that is off: %v", what, pod.Name, err)
			}
		}
	}
	if err := suite.Judged(t, func() error { return s.operator.Delete(t.Context(), s.node.DeepCopy()) }); err != nil { // confirmed-node.removal.podgrace.dev
		t.Errorf("the delete of a Node that is off: %v", err)
	}
}

// release takes the finalizers of a pod away, as the tenant.
func (s *smoke) release(ctx context.Context, pod *corev1.Pod) error {
	return s.tenant.Patch(ctx, pod.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)))
}

// taint sets the taint out-of-service.
func (s *smoke) taint(t *testing.T, kube client.Client) error {
	t.Helper()
	patch := fmt.Sprintf(`{"spec":{"taints":[{"key":%q,"value":"nodeshutdown","effect":"NoExecute"}]}}`, corev1.TaintNodeOutOfService)
	return kube.Patch(t.Context(), s.node.DeepCopy(), client.RawPatch("application/strategic-merge-patch+json", []byte(patch)))
}

// wantDenied expects that a webhook denies a request, and says so in these words.
func wantDenied(t *testing.T, what string, err error, webhook string, words ...string) {
	t.Helper()
	for _, part := range append([]string{fmt.Sprintf("admission webhook %q denied the request", webhook)}, words...) {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: got %v, want %q", what, err, part)
		}
	}
}

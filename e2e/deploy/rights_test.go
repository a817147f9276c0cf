package deploy

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/webhook"
)

// rights are single rights: group/resource (name) verb.
type rights map[string]bool

func (r rights) add(groups, resources, names, verbs []string) {
	if len(names) == 0 {
		names = []string{"any"}
	}
	for _, group := range groups {
		for _, resource := range resources {
			for _, name := range names {
				for _, verb := range verbs {
					r[fmt.Sprintf("%s/%s (%s) %s", group, resource, name, verb)] = true
				}
			}
		}
	}
}

// declaredFor returns what the roles among objects give to a service account in a namespace.
func declaredFor(t *testing.T, all []*unstructured.Unstructured, account, in string) rights {
	t.Helper()
	given := rights{}
	for _, o := range all {
		if !strings.HasSuffix(o.GetKind(), "RoleBinding") || o.GetNamespace() != "" && o.GetNamespace() != in {
			continue
		}
		binding := typed[rbacv1.RoleBinding](t, o) // a ClusterRoleBinding has the same fields
		if !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return s.Kind == rbacv1.ServiceAccountKind && s.Name == account }) {
			continue
		}
		for _, r := range typed[rbacv1.Role](t, find(t, all, binding.RoleRef.Kind, binding.RoleRef.Name)).Rules {
			given.add(r.APIGroups, r.Resources, r.ResourceNames, r.Verbs)
		}
	}
	return given
}

// has returns what the API server allows a service account of a namespace to do in a namespace.
func has(t *testing.T, s *suite.Suite, account, of, in string) rights {
	t.Helper()
	config := rest.CopyConfig(s.Config)
	config.Impersonate = rest.ImpersonationConfig{
		UserName: "system:serviceaccount:" + of + ":" + account, Groups: []string{"system:serviceaccounts", "system:serviceaccounts:" + of},
	}
	kube, err := client.New(config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	review := &authorizationv1.SelfSubjectRulesReview{Spec: authorizationv1.SelfSubjectRulesReviewSpec{Namespace: in}}
	if err := kube.Create(t.Context(), review); err != nil {
		t.Fatal(err)
	}
	given := rights{}
	for _, r := range review.Status.ResourceRules {
		given.add(r.APIGroups, r.Resources, r.ResourceNames, r.Verbs)
	}
	return given
}

func without(all, some rights) rights {
	left := maps.Clone(all)
	maps.DeleteFunc(left, func(right string, _ bool) bool { return some[right] })
	return left
}

// The programs under test run with exactly the rights that are shipped: no more, so that what they do in the tests they can do
// where they are installed, and no fewer.
func TestProgramsHaveExactlyTheseRights(t *testing.T) {
	s := shared.Get(t)
	if err := podgrace.AllowEnforcer(t.Context(), s.Cluster); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(podgrace.AllowFencer(t.Context(), s.Cluster), podgrace.AllowVolumeLock(t.Context(), s.Cluster)); err != nil {
		t.Fatal(err)
	}
	all := variant{overlay: "selfmanaged", components: []string{"nodeenforcer-enforce", "fencer", "volumelock"}}.kustomized(t)
	for _, in := range []string{namespace, nodeNamespace, corev1.NamespaceNodeLease, "podgrace-fencing", metav1.NamespaceDefault} {
		for account, of := range map[string]string{"podgrace-webhook": namespace, "podgrace-nodeenforcer": nodeNamespace, "podgrace-fencer": namespace, "podgrace-volumelock": namespace} {
			everybody := has(t, s, "somebody", of, in)
			want := declaredFor(t, all, account, in)
			if len(want) < 10 {
				t.Errorf("%s: only %d rights are declared", account, len(want))
			}
			suite.Eventually(t, "the rights of "+account+" in "+in, func(context.Context) (bool, error) {
				got := without(has(t, s, account, of, in), everybody)
				more, fewer := slices.Sorted(maps.Keys(without(got, want))), slices.Sorted(maps.Keys(without(want, got)))
				if len(more)+len(fewer) > 0 {
					return false, fmt.Errorf("more than declared: %q; fewer: %q", more, fewer)
				}
				return true, nil
			})
		}
	}
}

// The fencer may read the Secrets of the namespace that FenceAgents' have, and no other: not the key of the webhook's CA.
func TestFencerReadsNoOtherSecrets(t *testing.T) {
	all := variant{overlay: "selfmanaged", components: []string{"fencer"}}.kustomized(t)
	for in, want := range map[string][]string{namespace: nil, metav1.NamespaceDefault: nil, "podgrace-fencing": {"/secrets (any) get"}} {
		var got []string
		for right := range declaredFor(t, all, "podgrace-fencer", in) {
			if strings.HasPrefix(right, "/secrets ") {
				got = append(got, right)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("in %s: %s", in, d)
		}
	}
}

// The namespace of the fencer's Secrets has the name that a value gives, for the program as well, and is not created if it exists.
func TestFencersSecretsNamespace(t *testing.T) {
	rendered := func(values ...string) (names []string, args []string) {
		for _, o := range (variant{values: append([]string{"fencer.enabled=true"}, values...)}).templated(t, namespace) {
			switch {
			case o.GetKind() == "Namespace":
				names = append(names, o.GetName())
			case o.GetName() == "podgrace-fencer-credentials":
				names = append(names, o.GetKind()+" in "+o.GetNamespace())
			case o.GetKind() == "Deployment" && o.GetName() == "podgrace-fencer":
				args = typed[appsv1.Deployment](t, o).Spec.Template.Spec.Containers[0].Args
			}
		}
		slices.Sort(names)
		return names, args
	}
	names, args := rendered()
	if d := cmp.Diff([]string{"Role in podgrace-fencing", "RoleBinding in podgrace-fencing", "podgrace-fencing"}, names); d != "" || len(args) > 0 {
		t.Errorf("by default: %s, args %q", d, args)
	}
	names, args = rendered("fencer.secretsNamespace=bmcs", "fencer.createSecretsNamespace=false")
	if d := cmp.Diff([]string{"Role in bmcs", "RoleBinding in bmcs"}, names); d != "" || !slices.Equal(args, []string{"--secrets-namespace=bmcs"}) {
		t.Errorf("another one: %s, args %q", d, args)
	}
	if out, err := helm(t, "template", "podgrace", chart, "--namespace", "podgrace-fencing", "--set", noRegistry, "--set", "fencer.enabled=true"); err == nil || !strings.Contains(out+err.Error(), "must not be the release's namespace") {
		t.Errorf("the release's own: %v", err)
	}
}

// A node enforcer that observes may write its conditions and nothing else, has nothing of the host but the cgroups, to read, and is not root. By Helm it is the same (TestHelmAndKustomizeAreTheSame).
func TestObserverOnlyReads(t *testing.T) {
	all := variant{overlay: "selfmanaged", components: []string{"nodeenforcer"}}.kustomized(t)
	var writes []string
	for _, o := range all {
		if !strings.HasSuffix(o.GetKind(), "Role") || !strings.HasPrefix(o.GetName(), "podgrace-nodeenforcer") {
			continue
		}
		for _, rule := range typed[rbacv1.ClusterRole](t, o).Rules {
			for _, verb := range rule.Verbs {
				if verb != "get" && verb != "list" && verb != "watch" {
					writes = append(writes, verb+" "+strings.Join(rule.Resources, " "))
				}
			}
		}
	}
	if !slices.Equal(writes, []string{"patch nodes/status"}) {
		t.Errorf("it may %q", writes)
	}
	pod := typed[appsv1.DaemonSet](t, find(t, all, "DaemonSet", "podgrace-nodeenforcer")).Spec.Template.Spec
	c := pod.Containers[0]
	if len(pod.Volumes) != 1 || len(c.VolumeMounts) != 1 || c.VolumeMounts[0].MountPath != "/host/cgroup" || !c.VolumeMounts[0].ReadOnly || pod.HostPID {
		t.Errorf("it has of the host: %v, mounted %v, its processes %t", pod.Volumes, c.VolumeMounts, pod.HostPID)
	}
	if sc := c.SecurityContext; sc.RunAsNonRoot == nil || !*sc.RunAsNonRoot || *sc.RunAsUser == 0 || len(sc.Capabilities.Add) > 0 || sc.AppArmorProfile != nil {
		t.Errorf("it runs as %+v", sc)
	}
	if !slices.Contains(c.Args, "--mode=Observe") || !slices.Contains(c.Args, "--daemonset=$(POD_NAMESPACE)/podgrace-nodeenforcer") {
		t.Errorf("its flags are %q", c.Args)
	}
}

// With cert-manager the webhook has no right on Secrets.
func TestRightsWithCertManager(t *testing.T) {
	given := declaredFor(t, variants[1].kustomized(t), "podgrace-webhook", namespace)
	for right := range given {
		if strings.HasPrefix(right, "/secrets ") {
			t.Error(right)
		}
	}
}

// The webhook does all that it is for with these rights, and asks for nothing that it is refused.
func TestWebhookIsRefusedNothing(t *testing.T) {
	s := shared.Get(t)
	ns := s.Namespace(t)
	p := s.Policy(t, ns, v1alpha1.PodPolicySpec{
		TopologySpread: &v1alpha1.TopologySpreadSection{Constraints: []v1alpha1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, MinDomains: new(int32(2)),
		}}},
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(40))},
		Removal:     &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, AllowedActors: []string{"system:serviceaccount:ops:repair"}},
	})
	suite.Eventually(t, "the policy's status", func(ctx context.Context) (bool, error) { // PolicyStatus
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return len(p.Status.Conditions) > 0, err
	})
	s.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "refused"}})
	replicas, labels := int32(1), map[string]string{"app": "db"}
	s.Create(t, &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db"}, Spec: appsv1.StatefulSetSpec{
		Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: func() corev1.PodSpec { s := podSpec(); s.NodeName = "refused"; return s }()},
	}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db-0"}}
	suite.Eventually(t, "the pod", func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return err == nil, client.IgnoreNotFound(err)
	})
	free := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "db-1", Labels: labels, OwnerReferences: pod.OwnerReferences}, Spec: podSpec()}
	if err := s.Client.Create(t.Context(), free, client.DryRunAll); err != nil {
		t.Error(err)
	}
	if *pod.Spec.TerminationGracePeriodSeconds != 40 || len(free.Spec.TopologySpreadConstraints) != 1 {
		t.Errorf("the pods got %d and %v", *pod.Spec.TerminationGracePeriodSeconds, free.Spec.TopologySpreadConstraints)
	}
	if err := s.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err == nil || !strings.Contains(err.Error(), "removal.podgrace.dev") {
		t.Errorf("force delete: got %v", err)
	}
	if err := s.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "refused"}}, client.DryRunAll); err != nil && !strings.Contains(err.Error(), "removal.podgrace.dev") {
		t.Errorf("delete the node: %v", err)
	}
	log, err := os.ReadFile(s.Webhook.LogPath)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(string(log), "\n") {
		if strings.Contains(line, "forbidden") && strings.Contains(line, "User ") {
			t.Error(line)
		}
	}
}

// Who is admin of a namespace may accept that a pod of it runs twice, and of no other one: the role is a part of admin. Who may edit it may not.
func TestAdminsMayForceDelete(t *testing.T) {
	s := shared.Get(t)
	ns, elsewhere := s.Namespace(t), s.Namespace(t)
	// Where edit has this part, Kubernetes' controller has seen all that came before it.
	s.Create(t, &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: "later-part", Labels: map[string]string{"rbac.authorization.k8s.io/aggregate-to-edit": "true"}},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"example.org"}, Resources: []string{"things"}, Verbs: []string{"get"}}},
	})
	for _, role := range []string{"admin", "edit"} {
		s.Bind(t, rbacv1.UserKind, "the-"+role, ns, role)
	}
	may := func(ctx context.Context, user, in, verb, resource, group string) (bool, error) {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user, ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: in, Verb: verb, Resource: resource, Group: group},
		}}
		err := s.Client.Create(ctx, review)
		return review.Status.Allowed, err
	}
	suite.Eventually(t, "the admin's right", func(ctx context.Context) (bool, error) {
		return may(ctx, "the-admin", ns, "force-delete", "pods", "podgrace.dev")
	})
	suite.Eventually(t, "the editor's later part", func(ctx context.Context) (bool, error) {
		return may(ctx, "the-edit", ns, "get", "things", "example.org")
	})
	for user, in := range map[string]string{"the-edit": ns, "the-admin": elsewhere} {
		if allowed, err := may(t.Context(), user, in, "force-delete", "pods", "podgrace.dev"); err != nil || allowed {
			t.Errorf("%s may force-delete in %s: %t, %v", user, in, allowed, err)
		}
	}
}

// The right to confirm that a pod may run twice is part of the cluster's role admin, or of no other role, as the value says. What else is
// aggregated stays.
func TestForceDeleteOfAdmins(t *testing.T) {
	aggregated := func(value string) map[string]string {
		to := map[string]string{}
		for _, o := range (variant{values: []string{"forceDelete.aggregateToAdmin=" + value}}).templated(t, namespace) {
			for label := range o.GetLabels() {
				if role, ok := strings.CutPrefix(label, "rbac.authorization.k8s.io/aggregate-to-"); ok {
					to[o.GetName()] = role
				}
			}
		}
		return to
	}
	want := map[string]string{"podgrace-force-delete": "admin", "podgrace-exceptions-requester": "edit", "podgrace-exceptions-viewer": "view", "podgrace-viewer": "view"}
	if d := cmp.Diff(want, aggregated("true")); d != "" {
		t.Error(d)
	}
	delete(want, "podgrace-force-delete")
	if d := cmp.Diff(want, aggregated("false")); d != "" {
		t.Errorf("forceDelete.aggregateToAdmin=false: %s", d)
	}
}

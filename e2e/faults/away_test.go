package faults

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/guard"
)

// TestRefusedWhileAway holds the table of docs/operations.md, "While the webhook is away": what the API server refuses while no replica answers is as wide as
// the policies that deny.
func TestRefusedWhileAway(t *testing.T) {
	a := newArmory(t)
	shop, bank := a.namespace(t, "shop"), a.namespace(t, "bank")
	warns := suite.PolicyFor(shop, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, Protect: v1alpha1.ProtectAll, ZeroGrace: v1alpha1.ZeroGraceWarn}})
	denies := suite.PolicyFor(bank, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll, ZeroGrace: v1alpha1.ZeroGraceWarn, AllowedActors: []string{"autoscaler"}}})
	warns.Name, denies.Name = "warns", "denies"
	a.create(t, warns)
	a.ready(t, warns, metav1.ConditionTrue, v1alpha1.ReasonValid)
	a.stop(t)
	requests := map[string]map[string]func(context.Context) error{shop: a.removals(t, shop), bank: a.removals(t, bank)}
	table := awayTable(t)
	check := func(column, namespace string) {
		t.Helper()
		seen := map[string]bool{}
		for _, row := range table {
			request := requests[namespace][row[0]]
			seen[row[0]] = true
			if request == nil {
				t.Errorf("the table has %q, which is not tried", row[0])
				continue
			}
			err := request(t.Context())
			refused := err != nil && strings.Contains(err.Error(), "failed calling webhook") && strings.Contains(err.Error(), "podgrace.dev")
			want := row[map[string]int{"warn": 1, "elsewhere": 2, "here": 3}[column]]
			if err != nil && !refused || refused != (want == "**refused**") {
				t.Errorf("%s (%s): got %v, the table says %s", row[0], column, err, want)
			}
		}
		for name := range requests[namespace] {
			if !seen[name] {
				t.Errorf("%q is not in the table", name)
			}
		}
	}
	check("warn", shop)
	check("warn", bank)

	a.start(t)
	a.create(t, denies)
	a.ready(t, denies, metav1.ConditionTrue, v1alpha1.ReasonValid)
	suite.Eventually(t, "the allowed actor in the match conditions", func(ctx context.Context) (bool, error) {
		var configuration admissionregistrationv1.ValidatingWebhookConfiguration
		err := a.kube.Get(ctx, client.ObjectKey{Name: certs.ConfigurationName}, &configuration)
		return slices.ContainsFunc(configuration.Webhooks, func(w admissionregistrationv1.ValidatingWebhook) bool {
			return w.Name == "node.removal.podgrace.dev" && slices.ContainsFunc(w.MatchConditions, func(c admissionregistrationv1.MatchCondition) bool {
				return strings.Contains(c.Expression, "autoscaler")
			})
		}), err
	})
	a.stop(t)
	check("elsewhere", shop)
	check("here", bank)

	// With the last policy that denies the outage is as small as before.
	a.start(t)
	if err := a.kube.Delete(t.Context(), denies); err != nil {
		t.Fatal(err)
	}
	a.armed(t, false)
	a.stop(t)
	suite.OutOfForce(t, "what the policy that denies closed", requests[bank]["delete a Node"])
	check("warn", bank)
}

func (a *armory) namespace(t *testing.T, name string) string {
	t.Helper()
	a.create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	suite.Eventually(t, "the service account of "+name, func(ctx context.Context) (bool, error) {
		err := a.kube.Get(ctx, client.ObjectKey{Namespace: name, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
	return name
}

// removals are the requests of the table in a namespace, each a dry run.
func (a *armory) removals(t *testing.T, namespace string) map[string]func(context.Context) error {
	t.Helper()
	pod := func(name string, change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PodSpec{NodeName: a.node.Name, Containers: []corev1.Container{{Name: "c", Image: "localhost/none:1"}}}}
		if change != nil {
			change(p)
		}
		return p
	}
	stored := func(p *corev1.Pod, phase corev1.PodPhase) *corev1.Pod {
		a.create(t, p)
		p.Status.Phase = phase
		if err := a.kube.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	runs, ended := stored(pod("runs", nil), corev1.PodRunning), stored(pod("ended", nil), corev1.PodSucceeded)
	hasty := stored(pod("hasty", func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = new(int64(0)) }), corev1.PodRunning)
	half := stored(pod("half", held), corev1.PodRunning)
	if err := a.kube.Delete(t.Context(), half.DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	confirmed := stored(pod("confirmed", nil), corev1.PodRunning)
	patch := func(o client.Object, text string) {
		if err := a.kube.Patch(t.Context(), o, client.RawPatch("application/merge-patch+json", []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	patch(confirmed.DeepCopy(), `{"metadata":{"annotations":{"`+guard.AnnotationConfirmForceDelete+`":"`+suite.Confirmation(confirmed)+`"}}}`)
	off := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "off-" + namespace}}
	a.create(t, off)
	status := `{"status":{"nodeInfo":{"bootID":"boot"},"conditions":[{"type":"Ready","status":"Unknown"}]}}`
	if err := a.kube.Status().Patch(t.Context(), off, client.RawPatch("application/merge-patch+json", []byte(status))); err != nil {
		t.Fatal(err)
	}
	patch(off.DeepCopy(), `{"metadata":{"annotations":{"`+guard.AnnotationConfirmOff+`":"`+guard.ConfirmOff(off, nil)+`"}}}`)
	going := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "going-" + namespace, Finalizers: []string{"example.com/hold"}}}
	a.create(t, going)
	if err := a.kube.Delete(t.Context(), going.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	attachment := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "attached-" + namespace}, Spec: storagev1.VolumeAttachmentSpec{Attacher: "example.com", NodeName: a.node.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("v")}}}
	a.create(t, attachment)
	attachment.Status.Attached = true
	if err := a.kube.Status().Update(t.Context(), attachment); err != nil {
		t.Fatal(err)
	}
	config := rest.CopyConfig(a.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: "autoscaler", Groups: []string{"system:masters"}}
	autoscaler, err := suite.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	remove := func(o client.Object, options ...client.DeleteOption) func(context.Context) error {
		return func(ctx context.Context) error {
			return a.kube.Delete(ctx, o.DeepCopyObject().(client.Object), append(options, client.DryRunAll)...)
		}
	}
	evict := func(seconds *int64) func(context.Context) error {
		return func(ctx context.Context) error {
			return a.kube.SubResource("eviction").Create(ctx, runs.DeepCopy(), &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: seconds}}, client.DryRunAll)
		}
	}
	return map[string]func(context.Context) error{
		"create a pod":                             func(ctx context.Context) error { return a.kube.Create(ctx, pod("new", nil), client.DryRunAll) },
		"delete a pod":                             remove(runs),
		"evict a pod":                              evict(nil),
		"force delete a pod that may run":          remove(runs, client.GracePeriodSeconds(0)),
		"delete a pod whose own grace period is 0": remove(hasty),
		"evict a pod with grace period 0":          evict(new(int64(0))),
		"force delete a pod that has ended":        remove(ended, client.GracePeriodSeconds(0)),
		"force delete a pod that was confirmed":    remove(confirmed, client.GracePeriodSeconds(0)),
		"delete a Node":                            remove(a.node),
		"delete a Node that was confirmed off":     remove(off),
		"delete an attached VolumeAttachment":      remove(attachment),
		"delete a Node, by a user whom all policies that deny allow": func(ctx context.Context) error {
			return autoscaler.Delete(ctx, a.node.DeepCopy(), client.DryRunAll)
		},
		"set the status of a running pod to Failed, not by its kubelet": func(ctx context.Context) error {
			var p corev1.Pod
			if err := a.kube.Get(ctx, client.ObjectKeyFromObject(runs), &p); err != nil {
				return err
			}
			p.Status.Phase = corev1.PodFailed
			return a.kube.Status().Update(ctx, &p, client.DryRunAll)
		},
		"remove the last finalizer of a pod that is being removed with grace period 0": func(ctx context.Context) error {
			return a.kube.Patch(ctx, half.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)), client.DryRunAll)
		},
		"remove the last finalizer of a Node that is being deleted": func(ctx context.Context) error {
			return a.kube.Patch(ctx, going.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`)), client.DryRunAll)
		},
		"add the out-of-service taint": func(ctx context.Context) error {
			taint := `{"spec":{"taints":[{"key":"node.kubernetes.io/out-of-service","effect":"NoExecute"}]}}`
			return a.kube.Patch(ctx, a.node.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(taint)), client.DryRunAll)
		},
	}
}

// awayTable are the rows of the table: the request, and what becomes of it under policies that warn, that deny elsewhere, and that deny in its namespace.
func awayTable(t *testing.T) (rows [][]string) {
	t.Helper()
	text, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "### While the webhook is away")
	section, _, _ = strings.Cut(section, "\n### ")
	for line := range strings.SplitSeq(section, "\n") {
		cells := strings.Split(strings.Trim(line, "| "), " | ")
		if len(cells) == 4 && cells[0] != "request" && !strings.HasPrefix(cells[0], "---") {
			rows = append(rows, cells)
		}
	}
	if len(rows) < 15 {
		t.Fatalf("docs/operations.md has %d rows of requests", len(rows))
	}
	return rows
}

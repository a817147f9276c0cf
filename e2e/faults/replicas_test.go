package faults

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/webhook"
)

var guarding = v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll}}

// older is a policy that lets everything pass, for a replica that reads its policies from a file: it does not follow those
// of the cluster.
const older = `apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: older}
spec:
  removal: {forceDelete: Allow}
`

// outOfStep is a guarded namespace, of which one of two replicas knows an older policy.
type outOfStep struct {
	*ground
	*front
	node         string
	stale, fresh *podgrace.Webhook
	pods         map[string]*corev1.Pod
}

// newOutOfStep makes the replicas and the pods: those whose name begins with held have a finalizer.
func newOutOfStep(t *testing.T, node string, names ...string) *outOfStep {
	t.Helper()
	return newOutOfStepIn(t, shared.Get(t), node, names...)
}

func newOutOfStepIn(t *testing.T, s *suite.Suite, node string, names ...string) *outOfStep {
	t.Helper()
	o := &outOfStep{ground: &ground{Suite: s, namespace: s.Namespace(t)}, fresh: s.Webhook, pods: map[string]*corev1.Pod{}}
	o.node = o.ground.node(t, node)
	for _, name := range names {
		var change []func(*corev1.Pod)
		if strings.HasPrefix(name, "held") {
			change = append(change, held)
		}
		o.pods[name] = o.runs(t, o.node, name, change...)
	}
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(older), 0o600); err != nil {
		t.Fatal(err)
	}
	o.stale = o.replica(t, "--policy="+file)
	s.Policy(t, o.namespace, guarding)
	o.front = o.newFront(t)
	return o
}

// halfDone lets the stale replica allow the first step of a force delete, and the fresh one refuse the second.
func (o *outOfStep) halfDone(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	o.bySteps(o.stale, o.fresh)
	wantRefused(t, "the force delete of "+name, suite.Judged(t, func() error { return o.Client.Delete(t.Context(), o.pods[name], client.GracePeriodSeconds(0)) }),
		"may still run on "+o.node+" (ready)", "the policy protects all pods", "it is being deleted already: wait until its kubelet has stopped it",
		"kubectl podgrace confirm -n "+o.namespace+" "+name)
	seen := o.seen()
	first := 0
	for first < len(seen) && seen[first].by == o.stale && seen[first].res.AuditAnnotations["reason"] == "NotGuarded" {
		first++
	}
	if first == 0 || first == len(seen) || slices.ContainsFunc(seen[first:], func(a answered) bool { return a.by != o.fresh || a.res.Allowed }) {
		t.Fatalf("the reviews were %s", told(seen))
	}
	p := o.stays(t, o.pods[name], "a force delete of which the second step was refused")
	if p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds != 0 || len(p.Finalizers) != 0 {
		t.Fatalf("the first step stored a grace of %v, finalizers %v", p.DeletionGracePeriodSeconds, p.Finalizers)
	}
	o.inTurn(o.fresh)
	return p
}

// onlyBy reports whether there are reviews, and all were answered by one replica.
func onlyBy(seen []answered, by *podgrace.Webhook) bool {
	return len(seen) > 0 && !slices.ContainsFunc(seen, func(a answered) bool { return a.by != by })
}

// told is what was answered, for messages.
func told(all []answered) string {
	var b strings.Builder
	for _, a := range all {
		fmt.Fprintf(&b, "%s %s at %s: %v %v; ", a.req.Operation, a.path, a.by.URL, a.res.Allowed, a.res.AuditAnnotations)
	}
	return b.String()
}

// One replica decides by an older policy: it lets the first step of a force delete pass, which stores a grace of 0. Of what
// was stored nobody can make a removal at the replica that has.
func TestReplicasOutOfStep(t *testing.T) {
	o := newOutOfStep(t, "out-of-step", "p", "held", "by-kubelet", "by-command")
	p := o.halfDone(t, "p")
	status := func(change func(*corev1.Pod)) error {
		now := o.stays(t, p, "what went before")
		change(now)
		return o.Client.Status().Update(t.Context(), now)
	}
	for _, tc := range []struct {
		what string
		try  func() error
	}{
		{"a plain delete of just this pod", func() error { return o.Client.Delete(t.Context(), p, client.Preconditions{UID: &p.UID}) }},
		{"a force delete", func() error { return o.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0)) }},
		{"a force delete of just this pod", func() error {
			return o.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
		}},
		{"an eviction without grace", func() error {
			return o.Client.SubResource("eviction").Create(t.Context(), p.DeepCopy(), &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}})
		}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			wantRefused(t, tc.what, tc.try(), "may still run on "+o.node)
			o.stays(t, p, tc.what)
		})
	}
	// Of these nobody is asked.
	for _, tc := range []struct {
		what string
		try  func() error
	}{
		{"a label", func() error { return o.patch(t, o.Client, p, `{"metadata":{"labels":{"a":"b"}}}`) }},
		{"an annotation", func() error { return o.patch(t, o.Client, p, `{"metadata":{"annotations":{"a":"b"}}}`) }},
		{"finalizers, of which it has none", func() error { return o.patch(t, o.Client, p, `{"metadata":{"finalizers":null}}`) }},
		{"a confirmation taken back", func() error {
			return o.patch(t, o.Client, p, `{"metadata":{"annotations":{"`+guard.AnnotationConfirmForceDelete+`":null,"a":"c"}}}`)
		}},
		{"a harmless status", func() error { return status(func(p *corev1.Pod) { p.Status.Message = "harmless" }) }},
		{"a status that it failed", func() error { return status(func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed }) }},
		{"an ephemeral container", func() error {
			now := o.stays(t, p, "what went before")
			now.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "debug", Image: "localhost/none:1", TerminationMessagePolicy: corev1.TerminationMessageReadFile, ImagePullPolicy: corev1.PullNever,
			}}}
			return o.Client.SubResource("ephemeralcontainers").Update(t.Context(), now)
		}},
		{"a resize that changes nothing", func() error {
			return o.Client.SubResource("resize").Update(t.Context(), o.stays(t, p, "what went before"))
		}},
	} {
		t.Run(tc.what, func(t *testing.T) {
			wantRefused(t, tc.what, tc.try(), "is being removed with grace period 0, and this update would remove it")
			o.stays(t, p, tc.what)
		})
	}

	for what, options := range map[string][]client.DeleteOption{
		"a plain delete": nil, "a delete with a long grace": {client.GracePeriodSeconds(300)}, "a delete of this version": {client.Preconditions{ResourceVersion: &p.ResourceVersion}},
	} {
		wantRefused(t, what, o.Client.Delete(t.Context(), p, options...), "pod "+o.namespace+"/p is being removed with grace period 0, and is gone once its kubelet reports its end")
		o.stays(t, p, what)
	}
	wantRefused(t, "a plain delete of all", o.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(o.namespace), client.MatchingFields{"metadata.name": p.Name}),
		"is being removed with grace period 0")
	o.stays(t, p, "a plain delete of all")

	t.Run("last finalizer", func(t *testing.T) {
		pod := o.pods["held"]
		o.bySteps(o.stale, o.fresh)
		if err := o.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
			t.Fatalf("the finalizer holds it: %v", err)
		}
		if seen := o.seen(); !onlyBy(seen, o.stale) {
			t.Errorf("the reviews were %s", told(seen))
		}
		o.inTurn(o.fresh)
		wantRefused(t, "the last finalizer", o.patch(t, o.Client, pod, `{"metadata":{"finalizers":null}}`), "the policy protects all pods")
		wantRefused(t, "a plain delete", o.Client.Delete(t.Context(), pod), "the policy protects all pods")
		if now := o.stays(t, pod, "the last finalizer"); len(now.Finalizers) != 1 || *now.DeletionGracePeriodSeconds != 0 {
			t.Errorf("got finalizers %v, a stored grace of %d", now.Finalizers, *now.DeletionGracePeriodSeconds)
		}
		if err := o.patch(t, o.Client, pod, `{"metadata":{"finalizers":null,"annotations":{"`+guard.AnnotationConfirmForceDelete+`":"`+suite.Confirmation(pod)+`"}}}`); err != nil {
			t.Errorf("confirmed by the update itself: %v", err)
		}
		o.gone(t, pod, "a confirmed removal of the last finalizer")
	})

	t.Run("its kubelet", func(t *testing.T) {
		pod := o.halfDone(t, "by-kubelet")
		theirs := o.kubelet(t, o.node)
		now := o.stays(t, pod, "what went before")
		now.Status.Message = "the containers are being stopped"
		wantRefused(t, "a status of a pod that has not ended", theirs.Status().Update(t.Context(), now), "is being removed with grace period 0, and this update would remove it while it runs")
		o.stays(t, pod, "its kubelet's status")
		if err := o.kubelet(t, o.node).Delete(t.Context(), pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID}); err != nil {
			t.Errorf("the kubelet, which has stopped it: %v", err)
		}
		o.gone(t, pod, "its kubelet's delete")
	})

	t.Run("kubectl podgrace confirm", func(t *testing.T) {
		pod := o.halfDone(t, "by-command")
		if err := o.confirms().ConfirmPod(t.Context(), pod, suite.Confirmation(pod)); err != nil {
			t.Error(err)
		}
		o.gone(t, pod, "its confirmation")
	})

	t.Run("confirmation", func(t *testing.T) {
		confirm := `{"metadata":{"annotations":{"` + guard.AnnotationConfirmForceDelete + `":"` + suite.Confirmation(p) + `"}}}`
		wantRefused(t, "a confirmation without the right", o.patch(t, o.remover(t, "trainee"), p, confirm), "you need the verb force-delete on pods.podgrace.dev in "+o.namespace)
		o.stays(t, p, "a confirmation without the right")
		if err := o.patch(t, o.Client, p, confirm); err != nil {
			t.Errorf("a confirmation: %v", err)
		}
		o.gone(t, p, "a confirmation")
	})
}

// hold is where reviews wait.
type hold struct {
	waits   chan struct{} // closed once one does
	waiting func()
	ended   chan struct{}
	release func() // also when the test ends
}

func newHold(t *testing.T) *hold {
	h := &hold{waits: make(chan struct{}), ended: make(chan struct{})}
	h.waiting, h.release = sync.OnceFunc(func() { close(h.waits) }), sync.OnceFunc(func() { close(h.ended) })
	t.Cleanup(h.release)
	return h
}

func (h *hold) wait() {
	h.waiting()
	<-h.ended
}

// An update of a pod that is force-deleted half-way removes who has its name once it was reviewed, and asks nobody about that one. So it is not let so far. The API server reviews an update twice
// where the pod has become another meanwhile, and only where it is so does it not look once more.
func TestNextPodOfTheName(t *testing.T) {
	o := newOutOfStep(t, "next-of-name", "p")
	o.inTurn(o.stale) // which would let anybody say that it has ended
	begun, again := newHold(t), newHold(t)
	o.meanwhile(func(r *admissionv1.AdmissionRequest) {
		switch {
		case r.Operation != admissionv1.Update || r.Name != "p":
		case secondStep(r):
			again.wait()
		default:
			begun.wait()
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- o.patchStatus(t, o.pods["p"], `{"status":{"phase":"Failed"}}`) }()
	select {
	case <-begun.waits:
	case err := <-ended:
		t.Fatalf("the update was not reviewed: %v", err)
	}
	p := o.halfDone(t, "p")
	o.inTurn(o.stale)
	begun.release()

	var err error
	reviewed := false
	select {
	case <-again.waits:
		reviewed = true
	case err = <-ended:
	}
	if err := o.kubelet(t, o.node).Delete(t.Context(), p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID}); err != nil {
		t.Fatal(err)
	}
	next := o.runs(t, o.node, "p")
	if reviewed {
		again.release()
		err = <-ended
	}
	wantRefused(t, "the update", err, "pod "+o.namespace+"/p is being removed with grace period 0, and this update would remove it while it runs, or the next pod of its name: nothing was written", "kubectl podgrace confirm -n "+o.namespace+" p removes it")
	o.stays(t, next, "an update of the pod that had its name before")
}

// What a confirmation removes is the pod that was confirmed, also where another one has its name by the time that it was reviewed. An API server that has a watch cache has most updates reviewed by what that says,
// and looks again where another pod is there then. While it has none, as when it starts, it does not.
func TestConfirmationIsNotOfTheNextPod(t *testing.T) {
	uncached := &suite.Shared{Options: cluster.Options{APIServerArgs: []string{"--watch-cache=false"}}}
	t.Cleanup(func() {
		if err := uncached.Stop(); err != nil {
			t.Error(err)
		}
	})
	o := newOutOfStepIn(t, uncached.Get(t), "confirmed-once", "p")
	p := o.halfDone(t, "p")
	reviewed := newHold(t)
	o.meanwhile(func(r *admissionv1.AdmissionRequest) {
		if r.Operation == admissionv1.Update && r.Name == "p" {
			reviewed.wait()
		}
	})
	ended := make(chan error, 1)
	go func() { ended <- o.confirms().ConfirmPod(t.Context(), p, suite.Confirmation(p)) }()
	select {
	case <-reviewed.waits:
	case err := <-ended:
		t.Fatalf("the confirmation was not reviewed: %v", err)
	}
	if err := o.kubelet(t, o.node).Delete(t.Context(), p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID}); err != nil {
		t.Fatal(err)
	}
	next := o.runs(t, o.node, "p")
	reviewed.release()
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "pod "+o.namespace+"/p was replaced meanwhile, it is another one now (UID "+string(next.UID)+"): nothing was changed") {
		t.Errorf("got %v", err)
	}
	o.stays(t, next, "a confirmation of the pod that had its name before")
}

// confirms is what kubectl podgrace confirm writes by.
func (g *ground) confirms() *confirm.Client {
	return &confirm.Client{Kube: kubernetes.NewForConfigOrDie(g.Config), Dynamic: dynamic.NewForConfigOrDie(g.Config), Clock: clock.RealClock{}}
}

// The API server writes to a pod before it deletes it for an eviction: of one of which a force delete is half done nothing would be left. The
// webhook, which reads the pod, sees it. Each eviction costs one call.
func TestReplicasOutOfStepEviction(t *testing.T) {
	o := newOutOfStep(t, "out-of-step-eviction", "p", "neighbour", "held")
	p := o.halfDone(t, "p")
	evict := func(p *corev1.Pod, options *metav1.DeleteOptions) error {
		return o.Client.SubResource("eviction").Create(t.Context(), p.DeepCopy(), &policyv1.Eviction{DeleteOptions: options})
	}
	for what, options := range map[string]*metav1.DeleteOptions{
		"an eviction without options":   nil,
		"an eviction with a long grace": {GracePeriodSeconds: new(int64(300))},
		"an eviction of just this pod":  {Preconditions: &metav1.Preconditions{UID: &p.UID}},
	} {
		wantRefused(t, what, evict(p, options), "pod "+o.namespace+"/p may still run on "+o.node, "a force delete of it was refused half-way, so evicting it would remove it at once", "kubectl podgrace confirm -n "+o.namespace+" p")
		o.stays(t, p, what)
	}
	for name, ordinary := range map[string]*corev1.Pod{"a neighbour": o.pods["neighbour"], "a pod with a finalizer": o.pods["held"]} {
		if err := evict(ordinary, nil); err != nil {
			t.Errorf("the eviction of %s: %v", name, err)
		}
	}
	seen := o.seen()
	if len(seen) != 5 || slices.ContainsFunc(seen, func(a answered) bool { return a.path != webhook.PathMutateEvictions }) {
		t.Errorf("five evictions were reviewed so: %s", told(seen))
	}
}

// A policy is made between the two reviews of one force delete: the second is refused, and the pod stays.
func TestPolicyMadeBetweenReviews(t *testing.T) {
	s := shared.Get(t)
	s.Policy(t, s.Namespace(t), guarding) // of another namespace: without any policy that guards the API server asks nobody
	g := &ground{Suite: s, namespace: s.Namespace(t)}
	node := g.node(t, "between-reviews")
	p := g.runs(t, node, "p")
	f := g.newFront(t)
	policy, created := suite.PolicyFor(g.namespace, guarding), error(nil)
	t.Cleanup(func() { _ = s.Client.Delete(context.Background(), policy) })
	made := false
	f.send(func(r *admissionv1.AdmissionRequest) *podgrace.Webhook {
		if !made && secondStep(r) {
			made = true
			// Not waited for: the API server waits 5 s for this answer, and removals are judged by policies read at that moment.
			created = s.Client.Create(t.Context(), policy)
		}
		return g.Webhook
	})
	wantRefused(t, "the force delete", suite.Judged(t, func() error { return g.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0)) }),
		"may still run on "+node+" (ready)", "the policy protects all pods")
	if seen := f.seen(); len(seen) < 2 || seen[0].res.AuditAnnotations["reason"] != "NotGuarded" || created != nil {
		t.Errorf("the reviews were %s, the policy %v", told(seen), created)
	}
	f.inTurn(g.Webhook)
	s.WaitInForce(t, policy)
	if now := g.stays(t, p, "the force delete"); now.DeletionGracePeriodSeconds == nil || *now.DeletionGracePeriodSeconds != 0 {
		t.Errorf("the first step stored a grace of %v", now.DeletionGracePeriodSeconds)
	}
	wantRefused(t, "a plain delete", g.Client.Delete(t.Context(), p), "is being removed with grace period 0")
	wantRefused(t, "a label", g.patch(t, g.Client, p, `{"metadata":{"labels":{"a":"b"}}}`), "is being removed with grace period 0, and this update would remove it")
	g.stays(t, p, "a plain delete or a label")
}

// A plain delete of a pod whose force delete is under way meets the next pod of its name, which is made during its review: the API server removes that
// one at once. So it must say which pod it means.
func TestDeleteMeetsTheNextPod(t *testing.T) {
	s := shared.Get(t)
	g := &ground{Suite: s, namespace: s.Namespace(t)}
	node := g.node(t, "next-pod")
	s.Policy(t, g.namespace, v1alpha1.PodPolicySpec{Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectStateful}})
	waits := g.runs(t, node, "waits", held)
	if err := s.Client.Delete(t.Context(), waits, client.GracePeriodSeconds(0)); err != nil {
		t.Fatalf("the force delete of a pod that is not protected: %v", err)
	}
	// What waits for a finalizer holds up nothing: no delete of one pod or of all.
	for what, options := range map[string][]client.DeleteOption{"a plain delete": nil, "of just this pod": {client.Preconditions{UID: &waits.UID}}, "a force delete": {client.GracePeriodSeconds(0)}} {
		if err := s.Client.Delete(t.Context(), waits.DeepCopy(), options...); err != nil {
			t.Errorf("%s of a pod that waits for a finalizer: %v", what, err)
		}
	}
	if err := s.Client.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(g.namespace)); err != nil {
		t.Errorf("all of a namespace: %v", err)
	}

	const rule = "half-done-delete.podgrace.dev"
	f := g.newFront(t)
	wantRefused(t, "a plain delete during the force delete", g.deleteTwice(t, f, node, "db-0"), "is being removed with grace period 0, and is gone once its kubelet reports its end")
	g.deleteHeld(t, f, node, "db-2")
	// Without the rule. That the API server does so is why there is one.
	binding := &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: rule}}
	if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(binding), binding); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), binding.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		binding.ResourceVersion, binding.UID = "", ""
		if err := s.Client.Create(context.Background(), binding); err != nil {
			t.Error(err)
		}
	})
	last := ""
	n := 10
	suite.Eventually(t, rule+" out of force", func(context.Context) (bool, error) {
		n++
		last = fmt.Sprintf("db-%d", n)
		err := g.deleteTwice(t, f, node, last)
		return err == nil, err
	})
	next := &corev1.Pod{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: g.namespace, Name: last}, next); !apierrors.IsNotFound(err) {
		t.Errorf("the API server asks whether the next pod may be deleted with its grace, and leaves it (%v, deleted %v): then the rule has no reason", err, next.DeletionTimestamp)
	}
}

// deleteHeld deletes a pod that is being removed with grace period 0 and waits for a finalizer. While the delete is reviewed the pod goes, and a protected pod
// takes its name: that one gets its own grace period.
func (g *ground) deleteHeld(t *testing.T, f *front, node, name string) {
	t.Helper()
	first := g.runs(t, node, name, held)
	if err := g.Client.Delete(t.Context(), first.DeepCopy(), client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	once := sync.OnceFunc(func() {
		if err := g.patch(t, g.Client, first, `{"metadata":{"finalizers":null}}`); err != nil {
			t.Error(err)
		}
		g.gone(t, first, "its last finalizer")
		g.takesName(t, node, name)
	})
	f.meanwhile(func(r *admissionv1.AdmissionRequest) {
		if r.Operation == admissionv1.Delete && r.Name == name {
			once()
		}
	})
	if err := g.Client.Delete(t.Context(), first.DeepCopy()); err != nil {
		t.Errorf("a plain delete of a pod that waits for a finalizer: %v", err)
	}
	f.meanwhile(nil)
	next := &corev1.Pod{}
	if err := g.Client.Get(t.Context(), client.ObjectKeyFromObject(first), next); err != nil || next.UID == first.UID || next.DeletionGracePeriodSeconds != nil && *next.DeletionGracePeriodSeconds == 0 {
		t.Errorf("the next pod did not get its grace period: %v, deleted %v with %v", err, next.DeletionTimestamp, next.DeletionGracePeriodSeconds)
	}
}

// takesName makes a protected pod of the name.
func (g *ground) takesName(t *testing.T, node, name string) {
	next := g.unbound(name)
	next.Spec.NodeName = node
	next.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "StatefulSet", Name: "db", UID: "1", Controller: new(true)}}
	if err := g.Client.Create(t.Context(), next); err != nil {
		t.Error(err)
	}
}

// deleteTwice deletes a pod that is not protected, while its force delete is reviewed for the second time. Before that is answered a protected pod
// has taken the name.
func (g *ground) deleteTwice(t *testing.T, f *front, node, name string) (second error) {
	t.Helper()
	first := g.runs(t, node, name)
	reviews := 0
	var mu sync.Mutex
	f.meanwhile(func(r *admissionv1.AdmissionRequest) {
		if r.Operation != admissionv1.Delete || r.Name != name || !secondStep(r) {
			return
		}
		mu.Lock()
		reviews++
		n := reviews
		mu.Unlock()
		switch n {
		case 1: // what the force delete asks before the pod is removed
			second = g.Client.Delete(t.Context(), first.DeepCopy())
		case 2:
			if err := g.kubelet(t, node).Delete(t.Context(), first.DeepCopy(), client.GracePeriodSeconds(0), client.Preconditions{UID: &first.UID}); err != nil {
				t.Error(err)
			}
			g.takesName(t, node, name)
		}
	})
	_ = g.Client.Delete(t.Context(), first.DeepCopy(), client.GracePeriodSeconds(0)) // which may miss the pod by then
	f.meanwhile(nil)
	return second
}

// One of two replicas is cut off from the API server, before it hears that a policy guards, and goes on answering: pods are created by
// what it last knew, and it lets no removal pass by that, so that nothing is stored. Afterwards it decides like the other.
func TestReplicaCutOff(t *testing.T) {
	s := shared.Get(t)
	g := &ground{Suite: s, namespace: s.Namespace(t)}
	free := &ground{Suite: s, namespace: s.Namespace(t)} // of no policy
	node := g.node(t, "cut-off")
	p, unguarded := g.runs(t, node, "p"), free.runs(t, node, "unguarded")
	policy := s.Policy(t, g.namespace, v1alpha1.PodPolicySpec{GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(40))}})
	w, gate := g.behind(t) // it is ready: it knows the namespace and the policy, and that nothing guards
	gate.way.Lock()
	thaw := sync.OnceFunc(gate.way.Unlock)
	t.Cleanup(thaw)
	was := client.MergeFrom(policy.DeepCopy())
	policy.Spec.Removal, policy.Spec.GracePeriod = guarding.Removal, &v1alpha1.GracePeriodSection{DefaultSeconds: new(int64(45)), MaxSeconds: new(int64(100))}
	if err := s.Client.Patch(t.Context(), policy, was); err != nil {
		t.Fatal(err)
	}
	s.WaitInForce(t, policy)
	f := g.newFront(t)

	const unknown = "which policies guard it could not be read"
	for _, tc := range []struct {
		name          string
		first, second *podgrace.Webhook
		grace         int64    // by the first
		refusal       []string // of the first
	}{
		{"cut-off", w, w, 40, []string{"(whose state could not be read)", unknown}},
		{"cut-off-then-healthy", w, s.Webhook, 40, []string{"(whose state could not be read)", unknown}},
		{"healthy-then-cut-off", s.Webhook, w, 45, []string{"(ready)", "the policy protects all pods"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			f.inTurn(tc.first, tc.second)
			created := g.runs(t, node, tc.name)
			if got := *created.Spec.TerminationGracePeriodSeconds; got != tc.grace {
				t.Errorf("a new pod has a grace period of %d s", got)
			}
			if seen := f.seen(); len(seen) != 2 || seen[0].by != tc.first || seen[1].by != tc.second {
				t.Errorf("the reviews were %s", told(seen))
			}
			f.bySteps(tc.first, tc.second)
			force := func() error { return g.Client.Delete(t.Context(), created, client.GracePeriodSeconds(0)) }
			if tc.first == w {
				f.wantRefusedBy(t, w, "a force delete", force(), tc.refusal...)
			} else {
				wantRefused(t, "a force delete", suite.Judged(t, force), tc.refusal...)
			}
			if seen := f.seen(); !onlyBy(seen, tc.first) {
				t.Errorf("the reviews of a force delete were %s", told(seen))
			}
			if now := g.stays(t, created, "a force delete"); now.DeletionTimestamp != nil {
				t.Errorf("what was refused left it deleted at %v", now.DeletionTimestamp)
			}
			f.inTurn(tc.first, tc.second)
			if err := g.Client.Delete(t.Context(), created); err != nil {
				t.Errorf("an ordinary delete: %v", err)
			}
			if seen := f.seen(); len(seen) != 0 {
				t.Errorf("an ordinary delete called the webhook: %s", told(seen))
			}
		})
	}

	// What only the healthy one knows to be forbidden is refused, and goes through when that one is asked first.
	beyond := g.unbound("beyond")
	beyond.Spec.TerminationGracePeriodSeconds = new(int64(200))
	f.inTurn(w, s.Webhook)
	wantRefused(t, "a pod beyond a limit", g.Client.Create(t.Context(), beyond.DeepCopy()), "terminationGracePeriodSeconds is 200 but must be 100", "or try again")
	f.inTurn(s.Webhook, w)
	if err := g.Client.Create(t.Context(), beyond); err != nil || *beyond.Spec.TerminationGracePeriodSeconds != 100 {
		t.Errorf("it has a grace period of %d s: %v", *beyond.Spec.TerminationGracePeriodSeconds, err)
	}

	// In a namespace that no policy which denies selects a replica that knows nothing refuses nothing, in neither step.
	f.bySteps(s.Webhook, w)
	if err := free.Client.Delete(t.Context(), unguarded, client.GracePeriodSeconds(0)); err != nil {
		t.Errorf("a force delete that nothing guards: %v", err)
	}
	free.gone(t, unguarded, "a force delete that nothing guards")

	f.inTurn(w)
	f.wantRefusedBy(t, w, "a status that it failed", g.patchStatus(t, p, `{"status":{"phase":"Failed"}}`), unknown)
	f.inTurn(w)
	f.wantRefusedBy(t, w, "an eviction without grace", g.Client.SubResource("eviction").Create(t.Context(), p.DeepCopy(), &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}}))
	if now := g.stays(t, p, "what was refused"); now.DeletionTimestamp != nil || now.Status.Phase != corev1.PodRunning {
		t.Errorf("what was refused left it %s, deleted at %v", now.Status.Phase, now.DeletionTimestamp)
	}

	inForce := func(generation int64) string {
		return fmt.Sprintf("podgrace_pod_policy_in_force_generation{policy=%q} %d\n", policy.Name, generation)
	}
	_, text, err := get(t.Context(), w.MetricsURL+"/metrics")
	// The first two are what PodgracePoliciesDiffer stands on: the other replica has generation 2.
	for _, tells := range []string{inForce(1), "podgrace_webhook_ready 1\n", `rest_client_requests_total{code="<error>"`} {
		if err != nil || !strings.Contains(text, tells) {
			t.Errorf("its metrics lack %q: %v", tells, err)
		}
	}
	suite.Eventually(t, "its log, which tells of it", func(context.Context) (bool, error) {
		text, err := os.ReadFile(w.LogPath)
		return strings.Contains(string(text), "Error retrieving lease lock"), err
	})
	thaw()
	suite.Eventually(t, "the policy in force at the replica", func(ctx context.Context) (bool, error) {
		_, text, err := get(ctx, w.MetricsURL+"/metrics")
		return strings.Contains(text, inForce(policy.Generation)), err
	})
	wantRefused(t, "a force delete", suite.Judged(t, func() error { return g.Client.Delete(t.Context(), p, client.GracePeriodSeconds(0)) }),
		"may still run on "+node+" (ready)", "the policy protects all pods")
}

// remover returns a client for a user who may do everything with pods, but for Podgrace's own verb.
func (g *ground) remover(t *testing.T, user string) client.Client {
	t.Helper()
	g.Grant(t, rbacv1.UserKind, user, g.namespace, rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"*"}, Verbs: []string{"*"}})
	theirs, _ := g.Warned(t, user)
	return theirs
}

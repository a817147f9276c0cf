package faults

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// The reviews of removals that an API server 1.36.3 sent, in the order in which they came: a force delete of f1, a delete of
// f2 with --now and one of f3 with 3 s, each finished by its kubelet, and an eviction of be with a grace of 0.
//
//go:embed testdata/removals.jsonl
var recorded []byte

// The recorded reviews, by their place.
const (
	forceFirst = iota
	forceSecond
	now2
	kubelet2First
	kubelet2Second
	grace3
	kubelet3First
	kubelet3Second
	evictBE
	recordedReviews
)

// The user, the node and the namespace of the recorded reviews.
const (
	recordedUser      = "lab-admin"
	recordedNode      = "node1"
	recordedNamespace = "default"
)

func recordedRemovals(t *testing.T) (raw [][]byte, requests []*admissionv1.AdmissionRequest) {
	t.Helper()
	for line := range bytes.Lines(recorded) {
		var review admissionv1.AdmissionReview
		if err := json.Unmarshal(line, &review); err != nil {
			t.Fatal(err)
		}
		raw, requests = append(raw, bytes.TrimSpace(line)), append(requests, review.Request)
	}
	if len(requests) != recordedReviews {
		t.Fatalf("%d reviews, want %d", len(requests), recordedReviews)
	}
	return raw, requests
}

// world is what is known when the recorded reviews come, and what must become of them by the rules.
type world struct {
	name    string
	removal *v1alpha1.RemovalSection
	// node changes the state of the node, which is ready at first; the worlds follow one another.
	node func(*testing.T, *ground)
	// force is what becomes of both reviews of the force delete, and of the eviction without grace: "Verdict Reason".
	force string
	// raised: the eviction gets the pod's own grace.
	raised bool
}

var worlds = []world{
	{name: "no policy", force: "Allow NotGuarded"},
	{name: "all protected", removal: removal(), force: "Deny Unsafe"},
	{name: "stateful protected", removal: removal(func(r *v1alpha1.RemovalSection) { r.Protect = v1alpha1.ProtectStateful }), force: "Warn Unprotected"},
	{name: "warned about", removal: removal(func(r *v1alpha1.RemovalSection) { r.ForceDelete = v1alpha1.RemovalWarn }), force: "Warn Unsafe"},
	{name: "let be", removal: removal(func(r *v1alpha1.RemovalSection) { r.ForceDelete = v1alpha1.RemovalAllow }), force: "Allow NotGuarded"},
	{name: "eviction raised", removal: removal(func(r *v1alpha1.RemovalSection) { r.EvictionWithoutGrace = v1alpha1.GraceRaise }), force: "Deny Unsafe", raised: true},
	{name: "node silent", removal: removal(), node: silence, force: "Deny Unsafe"},
	{name: "node confirmed off", removal: removal(), node: confirmOff, force: "Allow NodeStopped"},
	{name: "node gone", removal: removal(), node: removeNode, force: "Allow NodeGone"},
	// The last, because the leader writes the actors into the match conditions, and takes them out in its own time.
	{name: "allowed actor", removal: removal(func(r *v1alpha1.RemovalSection) { r.AllowedActors = []string{recordedUser} }), force: "Allow AllowedActor"},
}

func removal(change ...func(*v1alpha1.RemovalSection)) *v1alpha1.RemovalSection {
	r := &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll}
	for _, c := range change {
		c(r)
	}
	return r
}

// want is what must become of each review.
func (w world) want() []string {
	all := make([]string, recordedReviews)
	for i := range all {
		switch i {
		case forceFirst, forceSecond, evictBE:
			all[i] = w.force
		case now2, grace3:
			all[i] = "Allow NotForced"
		default: // a kubelet's: its pod has succeeded
			all[i] = "Allow Finished"
		}
	}
	return all
}

// Recorded reviews are answered alike by the live webhook and by its handlers in this process, as the rules say, and the same
// operations through the API server come out alike.
func TestRecordedReviewsAgree(t *testing.T) {
	s := shared.Get(t)
	g := &ground{Suite: s, namespace: recordedNamespace}
	g.node(t, recordedNode)
	raw, requests := recordedRemovals(t)
	for _, w := range worlds {
		t.Run(w.name, func(t *testing.T) {
			if w.node != nil {
				w.node(t, g)
			}
			// It was force-deleted before anything was guarded; its finalizer keeps it.
			half := g.runs(t, recordedNode, "f1", held)
			g.unguarded(t)
			if err := g.Client.Delete(t.Context(), half, client.GracePeriodSeconds(0)); err != nil {
				t.Fatal(err)
			}
			var policies []*v1alpha1.PodPolicy
			if w.removal != nil {
				policies = append(policies, s.Policy(t, recordedNamespace, v1alpha1.PodPolicySpec{Removal: w.removal}))
			}
			be := g.runs(t, recordedNode, "be")
			engine := g.inProcess(t, be, policies...)
			answers := g.replay(t, w, engine, raw, requests)
			g.forReal(t, w, answers, half, be)
		})
	}
}

// unguarded returns when the policy of the world before holds no more.
func (g *ground) unguarded(t *testing.T) {
	t.Helper()
	suite.Eventually(t, "no policy in force", func(ctx context.Context) (bool, error) {
		text, err := g.Metrics(ctx)
		return !strings.Contains(text, `podgrace_pod_policy_in_force_generation{policy="`+recordedNamespace+"-"), err
	})
}

// inProcess is an engine over the objects that the live webhook sees.
func (g *ground) inProcess(t *testing.T, be *corev1.Pod, policies ...*v1alpha1.PodPolicy) *webhook.Engine {
	t.Helper()
	var objects []client.Object
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: recordedNamespace}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: recordedNode}},
		&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: recordedNode}},
		be.DeepCopy(),
	} {
		err := g.Client.Get(t.Context(), client.ObjectKeyFromObject(o), o)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		objects = append(objects, o)
	}
	store, err := webhook.NewPolicyStore(logr.Discard(), policies...)
	if err != nil {
		t.Fatal(err)
	}
	reader := fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(objects...).WithReturnManagedFields().Build()
	return &webhook.Engine{Policies: store, Lookup: &lookup.Lookup{Informers: reader, Live: reader}, Ready: func() bool { return true }, Exempt: policy.ExemptIn("podgrace-system")}
}

// ago is the part of a message that depends on when it is said.
var ago = regexp.MustCompile(`, [0-9hms]+ ago`)

// replay sends the reviews to the process, as the API server does, and to the engine.
func (g *ground) replay(t *testing.T, w world, engine *webhook.Engine, raw [][]byte, requests []*admissionv1.AdmissionRequest) []*admissionv1.AdmissionResponse {
	t.Helper()
	c := caller(g.roots(t))
	defer c.CloseIdleConnections()
	answers := make([]*admissionv1.AdmissionResponse, len(raw))
	for i, want := range w.want() {
		for path, handle := range map[string]webhook.Handler{webhook.PathValidateRemoval: engine.ValidateRemoval, webhook.PathMutateEvictions: engine.MutateEvictions} {
			if path == webhook.PathMutateEvictions && i != evictBE {
				continue
			}
			_, live, err := post(t.Context(), c, g.Webhook.URL+path+"?timeout=5s", raw[i])
			if err != nil {
				t.Fatalf("review %d: %v", i, err)
			}
			req := admission.Request{AdmissionRequest: *requests[i]}
			here := handle.Handle(t.Context(), req)
			if err := here.Complete(req); err != nil {
				t.Fatal(err)
			}
			for _, r := range []*admissionv1.AdmissionResponse{live, &here.AdmissionResponse} {
				if r.Result != nil {
					r.Result.Message = ago.ReplaceAllString(r.Result.Message, "")
				}
			}
			if diff := cmp.Diff(&here.AdmissionResponse, live); diff != "" {
				t.Errorf("review %d: in process (-) and live (+) differ at %s:\n%s", i, path, diff)
			}
			switch {
			case path == webhook.PathValidateRemoval:
				answers[i] = live
				if got := live.AuditAnnotations["verdict"] + " " + live.AuditAnnotations["reason"]; got != want || live.Allowed == strings.HasPrefix(want, "Deny") {
					t.Errorf("review %d: got %s (allowed: %v), want %s", i, got, live.Allowed, want)
				}
			case w.raised != bytes.Contains(live.Patch, []byte("gracePeriodSeconds")) || !live.Allowed:
				t.Errorf("review %d: mutated by %s, want raised %v", i, live.Patch, w.raised)
			}
		}
	}
	return answers
}

// forReal does through the API server what the reviews were about, as the same users with the same options.
func (g *ground) forReal(t *testing.T, w world, answers []*admissionv1.AdmissionResponse, half, be *corev1.Pod) {
	t.Helper()
	person, warnings := g.Warned(t, recordedUser, "system:masters")
	kubelet := g.kubelet(t, recordedNode)
	options := func(grace int64) []client.DeleteOption {
		return []client.DeleteOption{client.GracePeriodSeconds(grace), client.PropagationPolicy(metav1.DeletePropagationBackground)}
	}
	agree := func(what string, i int, err error) bool {
		t.Helper()
		wantOutcome(t, what, answers[i], err, warnings.Take())
		return err == nil
	}

	// The second review of the force delete: a grace of 0 is stored.
	agree("a delete where 0 is stored", forceSecond, person.Delete(t.Context(), half, options(0)...))
	if now := g.stays(t, half, "its finalizer"); *now.DeletionGracePeriodSeconds != 0 {
		t.Fatalf("a grace of %d is stored", *now.DeletionGracePeriodSeconds)
	}
	err := g.patch(t, person, half, `{"metadata":{"finalizers":null}}`)
	if (err == nil) != answers[forceSecond].Allowed {
		t.Errorf("the last finalizer of what a force delete left: %v", err)
	}
	warnings.Take()
	if err != nil {
		g.confirm(t, half)
	}
	g.gone(t, half, "the last finalizer")

	first := g.runs(t, recordedNode, "f1")
	if agree("a force delete", forceFirst, person.Delete(t.Context(), first, options(0)...)) {
		g.gone(t, first, "a force delete that was allowed")
	} else if now := g.stays(t, first, "a refused force delete"); now.DeletionTimestamp != nil {
		t.Error("a refused force delete stored something")
	}

	for _, tc := range []struct {
		name            string
		grace           int64
		by, byKubelet   int
		byKubeletsAgain int
	}{{"f2", 1, now2, kubelet2First, kubelet2Second}, {"f3", 3, grace3, kubelet3First, kubelet3Second}} {
		p := g.runs(t, recordedNode, tc.name)
		agree("a delete of "+tc.name, tc.by, person.Delete(t.Context(), p, options(tc.grace)...))
		now := g.stays(t, p, "a delete with grace")
		if *now.DeletionGracePeriodSeconds != tc.grace {
			t.Errorf("%s got %d s", tc.name, *now.DeletionGracePeriodSeconds)
		}
		now.Status.Phase = corev1.PodSucceeded
		if err := kubelet.Status().Update(t.Context(), now); err != nil {
			t.Errorf("the kubelet says that it has ended: %v", err)
		}
		err := kubelet.Delete(t.Context(), p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
		agree("the kubelet's delete", tc.byKubelet, err)
		agree("the kubelet's delete", tc.byKubeletsAgain, err) // one delete, two reviews
		g.gone(t, p, "the kubelet's delete")
	}

	err = person.SubResource("eviction").Create(t.Context(), be.DeepCopy(), &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))}})
	switch {
	case w.raised:
		if all := warnings.Take(); err != nil || len(all) != 1 || !strings.Contains(all[0], "was raised to its own 30 s") {
			t.Errorf("an eviction that is raised: %v, warnings %q", err, all)
		}
		if now := g.stays(t, be, "an eviction that was raised"); *now.DeletionGracePeriodSeconds != 30 {
			t.Errorf("it was raised to %d s", *now.DeletionGracePeriodSeconds)
		}
	case agree("an eviction without grace", evictBE, err):
		g.gone(t, be, "an eviction that was allowed")
	default:
		if now := g.stays(t, be, "a refused eviction"); now.DeletionTimestamp != nil {
			t.Error("a refused eviction stored something")
		}
	}
}

// wantOutcome compares what somebody got from the API server with the answer of a webhook.
func wantOutcome(t *testing.T, what string, answer *admissionv1.AdmissionResponse, err error, warnings []string) {
	t.Helper()
	if !answer.Allowed {
		if err == nil || !strings.HasSuffix(ago.ReplaceAllString(err.Error(), ""), "denied the request: "+answer.Result.Message) {
			t.Errorf("%s: got %v, and the replay: %s", what, err, answer.Result.Message)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: got %v, and the replay allowed it", what, err)
	}
	// One operation is reviewed several times, and may be warned about each time with other ways on.
	for _, want := range answer.Warnings {
		if !slices.Contains(warnings, want) {
			t.Errorf("%s: got warnings %q, and the replay: %q", what, warnings, want)
		}
	}
	if len(answer.Warnings) == 0 && len(warnings) > 0 {
		t.Errorf("%s: got warnings %q, and the replay none", what, warnings)
	}
}

// confirm completes a force delete that was left behind.
func (g *ground) confirm(t *testing.T, p *corev1.Pod) {
	t.Helper()
	if err := g.patch(t, g.Client, p, `{"metadata":{"finalizers":null,"annotations":{"`+guard.AnnotationConfirmForceDelete+`":"`+suite.Confirmation(p)+`"}}}`); err != nil {
		t.Errorf("confirmed: %v", err)
	}
}

func silence(t *testing.T, g *ground) {
	t.Helper()
	g.StopHeartbeat(recordedNode)
	g.Silence(t, recordedNode)
}

func confirmOff(t *testing.T, g *ground) { g.ConfirmOff(t, recordedNode) }

func removeNode(t *testing.T, g *ground) {
	if err := g.Client.Delete(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: recordedNode}}); err != nil {
		t.Fatal(err)
	}
}

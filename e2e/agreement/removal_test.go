package agreement

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/internal/manifest"
)

// jane may do anything by RBAC, so that what refuses her is Podgrace. There is one a namespace: about whom a policy has allowed the API server asks nobody until the leader has taken the
// name out of its configuration, in its own time.
const (
	jane    = "jane"
	masters = "system:masters"
)

// removals are what is tried on each pod.
var removals = map[string]review.Question{
	"delete":                   {Operation: review.OperationDelete},
	"delete with grace 7":      {Operation: review.OperationDelete, GracePeriodSeconds: new(int64(7))},
	"delete without grace":     {Operation: review.OperationDelete, GracePeriodSeconds: new(int64(0))},
	"eviction":                 {Operation: review.OperationEvict},
	"eviction without grace":   {Operation: review.OperationEvict, GracePeriodSeconds: new(int64(0))},
	"eviction with a long one": {Operation: review.OperationEvict, GracePeriodSeconds: new(int64(600))},
}

// Pods as a cluster has them, and what it knows, read from it: every removal has the same answer here and there.
func TestRemovals(t *testing.T) {
	s := shared.Get(t)
	// With heartbeats: where controllers run they would call it silent 50 s later.
	if err := s.AddNode(t.Context(), "ready", nil); err != nil {
		t.Fatal(err)
	}
	silent(t, s)
	for name, sections := range map[string][]v1alpha1.RemovalSection{
		"refused":     {{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll}},
		"stateful":    {{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectStateful, EvictionWithoutGrace: v1alpha1.GraceRaise}},
		"named":       {{Owners: []v1alpha1.ProtectedOwner{{Group: "example.org", Kind: "Set"}}, BlockClaims: v1alpha1.BlockClaimsExclusive}},
		"warned":      {{ForceDelete: v1alpha1.RemovalWarn, Protect: v1alpha1.ProtectAll}},
		"jane's":      {{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectAll, AllowedActors: []string{jane}}},
		"all allowed": {{ForceDelete: v1alpha1.RemovalAllow}},
		"jane's, and one that warns": {
			{ForceDelete: v1alpha1.RemovalDeny, Protect: v1alpha1.ProtectStateful, EvictionWithoutGrace: v1alpha1.GraceRaise, AllowedActors: []string{jane}},
			{ForceDelete: v1alpha1.RemovalWarn, Protect: v1alpha1.ProtectAll},
		},
	} {
		t.Run(name, func(t *testing.T) {
			ns := s.Namespace(t)
			actor := jane + "-" + ns
			for i := range sections {
				if len(sections[i].AllowedActors) > 0 {
					sections[i].AllowedActors = []string{actor}
				}
				s.Policy(t, ns, v1alpha1.PodPolicySpec{Removal: &sections[i]})
			}
			var pods []*corev1.Pod
			for _, change := range []func(*corev1.Pod){bound("ready"), bound("silent"), bound("gone-" + ns), bound(""), finished, stateful, operated, anothers} {
				pods = append(pods, stored(t, s, ns, fmt.Sprintf("p-%d", len(pods)), change))
			}
			agree(t, s, actor, pods)
		})
	}
}

// agree compares all removals of all pods by an actor.
func agree(t *testing.T, s *suite.Suite, actor string, pods []*corev1.Pod) {
	t.Helper()
	state, err := review.FromCluster(t.Context(), s.Client)
	if err != nil {
		t.Fatal(err)
	}
	policies, err := review.PoliciesOf(t.Context(), s.Client)
	if err != nil {
		t.Fatal(err)
	}
	engine, err := review.NewEngine(state, policies...)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range pods {
		for name, q := range removals {
			q.User.Username, q.User.Groups = actor, []string{masters, "system:authenticated"}
			raw, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			r, wrong := engine.Review(t.Context(), &manifest.Document{File: "live", Line: 1, APIVersion: "v1", Kind: "Pod", Namespace: p.Namespace, Name: p.Name, JSON: raw}, q)
			if wrong != nil {
				t.Fatal(wrong)
			}
			want := answer{Refusal: r.Message, Warnings: sorted(r.Warnings)}
			if r.Decision == review.Allowed {
				want.Refusal = ""
			}
			if diff := cmp.Diff(timeless(remove(t, s, p, q)), timeless(want)); diff != "" {
				t.Errorf("%s of %s on %q (-API server +offline):\n%s", name, p.Name, p.Spec.NodeName, diff)
			}
		}
	}
}

// ago is how long before an answer something was.
var ago = regexp.MustCompile(`, [0-9hms]+ ago\b`)

// timeless is an answer without that: the one side answers a second later than the other.
func timeless(a answer) answer {
	a.Refusal = ago.ReplaceAllString(a.Refusal, ", AGO")
	for i, w := range a.Warnings {
		a.Warnings[i] = ago.ReplaceAllString(w, ", AGO")
	}
	return a
}

// remove asks the API server, which removes nothing.
func remove(t *testing.T, s *suite.Suite, p *corev1.Pod, q review.Question) (a answer) {
	t.Helper()
	c, warnings := as(t, s, q.User.Username, masters)
	dry := []string{metav1.DryRunAll}
	// An eviction that the webhook can't judge in time goes on, and its warning says so, as the answer does where a node could not be
	// read in time: on a slow machine that is no answer yet.
	suite.Eventually(t, "a judgement", func(ctx context.Context) (bool, error) {
		var err error
		if q.Operation == review.OperationEvict {
			err = c.SubResource("eviction").Create(ctx, p.DeepCopy(), &policyv1.Eviction{DeleteOptions: &metav1.DeleteOptions{GracePeriodSeconds: q.GracePeriodSeconds, DryRun: dry}}, client.DryRunAll)
		} else {
			err = c.Delete(ctx, p.DeepCopy(), &client.DeleteOptions{GracePeriodSeconds: q.GracePeriodSeconds, DryRun: dry})
		}
		a = answer{Warnings: sorted(warnings.Take())}
		switch {
		case apierrors.IsForbidden(err) || apierrors.ReasonForError(err) == "Unsafe":
			a.Refusal = refusal(err)
		case err != nil:
			t.Fatalf("%s of %s: %v", q.Operation, p.Name, err)
		}
		return !slices.ContainsFunc(append(a.Warnings, a.Refusal), func(w string) bool {
			return strings.Contains(w, "was not judged") || strings.Contains(w, "could not be read")
		}), nil
	})
	return a
}

// silent makes a node of this name.
func silent(t *testing.T, s *suite.Suite) {
	t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "silent"}}
	s.Create(t, n)
	patch := client.MergeFrom(n.DeepCopy()) // controllers write to it as well
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))}}
	if err := s.Client.Status().Patch(t.Context(), n, patch); err != nil {
		t.Fatal(err)
	}
}

// bound pods have this node, or keep none where a scheduler runs.
func bound(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.SchedulerName = node, "nobody" }
}

func finished(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "ready", corev1.PodSucceeded }

// stateful is a pod of a StatefulSet, in a version that is served no more: the garbage collector, which deletes pods whose owner is gone, can't find out.
func stateful(p *corev1.Pod) {
	p.Spec.NodeName = "ready"
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1beta2", Kind: "StatefulSet", Name: "db", UID: "1", Controller: new(true)}}
}

// operated is a pod of an operator.
func operated(p *corev1.Pod) {
	p.Spec.NodeName = "ready"
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "example.org/v1", Kind: "Set", Name: "kafka", UID: "1", Controller: new(true)}}
}

// anothers is a pod with a claim that nobody knows.
func anothers(p *corev1.Pod) {
	p.Spec.NodeName = "ready"
	p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
}

// stored makes a pod and returns it as the API server has it.
func stored(t *testing.T, s *suite.Suite, namespace, name string, change func(*corev1.Pod)) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "localhost/none:1"}}},
	}
	change(p)
	phase := p.Status.Phase
	s.Create(t, p)
	if phase != "" {
		p.Status.Phase = phase
		kubelet, _ := as(t, s, "system:node:"+p.Spec.NodeName, "system:nodes", masters)
		if err := kubelet.Status().Update(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

package defaulting_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

const (
	addRecord = "add /metadata/annotations/podgrace.dev~1protected "
	delRecord = "remove /metadata/annotations/podgrace.dev~1protected"
	ofKafka   = "StrimziPodSet.core.strimzi.io/kafka"
)

// says puts a record into the pod, as anybody may at its creation.
func says(text string) PodOption { return Annotated(v1alpha1.AnnotationProtected, text) }

func TestApplyProtected(t *testing.T) {
	t.Parallel()
	guarding, naming := One(PodPolicy("safe", ZeroGrace("", ""))), One(PodPolicy("safe", ZeroGrace("", ""), ProtectsOwners(PodSets)))
	const removed, replaced = "annotation podgrace.dev/protected is written by Podgrace only: it was removed", "annotation podgrace.dev/protected is written by Podgrace only: it was replaced"
	testApply(t, []scenario{
		{name: "a StatefulSet's", pod: Pod(OfStatefulSet), policies: guarding, changes: []string{`add /metadata/annotations {"podgrace.dev/protected":"StatefulSet.apps/db"}`}},
		{name: "other annotations stay", pod: Pod(OfStatefulSet, Annotated("a", "b")), policies: guarding, changes: []string{addRecord + `"StatefulSet.apps/db"`}},
		{name: "an operator's", pod: Pod(OfPodSet, Annotated("a", "b")), policies: naming, changes: []string{addRecord + `"` + ofKafka + `"`}},
		{name: "an operator's that no policy names", pod: Pod(OfPodSet), policies: guarding},
		{name: "one of two policies names it", pod: Pod(OfPodSet, Annotated("a", "b")), policies: append(One(PodPolicy("z", ZeroGrace("", ""))), naming...), changes: []string{addRecord + `"` + ofKafka + `"`}},
		{name: "a policy that only warns changes nothing", pod: Pod(OfStatefulSet), policies: One(PodPolicy("p", Removal(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn})))},
		{name: "nor does one that allows", pod: Pod(OfStatefulSet), policies: One(PodPolicy("p", Removal(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalAllow})))},
		{name: "an action that is not known here denies", pod: Pod(OfStatefulSet, Annotated("a", "b")), policies: One(PodPolicy("p", Removal(v1alpha1.RemovalSection{ForceDelete: "Ask"}))), changes: []string{addRecord + `"StatefulSet.apps/db"`}},
		{name: "one that denies beside one that warns", pod: Pod(OfPodSet, Annotated("a", "b")), changes: []string{addRecord + `"` + ofKafka + `"`},
			policies: []*v1alpha1.PodPolicy{PodPolicy("a", Removal(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, Owners: []v1alpha1.ProtectedOwner{PodSets}})), PodPolicy("b", ZeroGrace("", ""), ProtectsOwners(PodSets))}},
		{name: "a policy without removal", pod: Pod(OfStatefulSet), policies: One(PodPolicy("web", MaxGrace(60)))},
		{name: "a policy for other namespaces", pod: Pod(OfStatefulSet), policies: One(PodPolicy("safe", ZeroGrace("", ""), InNamespaces("team", "till")))},
		{name: "a ReplicaSet's where all are protected", pod: Pod(OfReplicaSet), policies: One(PodPolicy("safe", ZeroGrace(v1alpha1.ProtectAll, "")))},
		{name: "volumes and hostname need no record", pod: Pod(WithClaims("data"), func(p *podT) { p.Spec.Hostname = p.Name }), policies: guarding, facts: facts(claimed("data", corev1.ReadWriteOnce))},
		{name: "reinvocation: what is right already stays", pod: Pod(OfStatefulSet, says("StatefulSet.apps/db")), policies: guarding},
		{name: "forged, replaced", pod: Pod(OfStatefulSet, says("all is well")), policies: guarding, changes: []string{addRecord + `"StatefulSet.apps/db"`}, warnings: []string{replaced}},
		{name: "forged, removed where no policy protects it for its controller", pod: Pod(OfReplicaSet, says("StatefulSet.apps/db")), policies: guarding, changes: []string{delRecord}, warnings: []string{removed}},
		{name: "true, and removed where no policy matches at all", pod: Pod(OfStatefulSet, says("StatefulSet.apps/db")), changes: []string{delRecord}, warnings: []string{removed}},
		{name: "beside the contract, in a pod without annotations", pod: Pod(OfStatefulSet), policies: One(PodPolicy("safe", ZeroGrace("", ""), Node(CPUWeight(500)))),
			changes: []string{`add /metadata/annotations {"podgrace.dev/enforcement":"{\"cpu\":{\"weight\":500}}"}`, addRecord + `"StatefulSet.apps/db"`}},
		{name: "an owner that can't be: its name is text, and none of ours", pod: Pod(OwnedBy("apps/v1", "StatefulSet", "db, which may go")), policies: guarding},
	})
}

func TestValidateProtected(t *testing.T) {
	t.Parallel()
	guarding := One(PodPolicy("safe", ZeroGrace("", ""), ProtectsOwners(PodSets)))
	forged := []string{"ProtectionForged: annotation podgrace.dev/protected is written by Podgrace only, and does not name the controller of this pod. Remove it"}
	testValidate(t, []scenario{
		{name: "as it was decided", pod: Pod(recorded(OfStatefulSet)), policies: guarding},
		{name: "an operator's", pod: Pod(recorded(OfPodSet)), policies: guarding},
		{name: "neither asked for nor there", pod: Pod(OfReplicaSet), policies: guarding},
		{name: "missing", pod: Pod(OfPodSet), policies: guarding, warnings: []string{"annotation podgrace.dev/protected is missing: the mutating webhook was not called…for which PodPolicy safe protects it"}},
		{name: "true, though no policy asks for it: they may have changed since", pod: Pod(recorded(OfPodSet)), policies: One(PodPolicy("safe", ZeroGrace("", "")))},
		{name: "true, and of no policy", pod: Pod(recorded(OfReplicaSet))},
		{name: "another controller's", pod: Pod(OfStatefulSet, says(ofKafka)), policies: guarding, denials: forged},
		{name: "of a pod without one", pod: Pod(says("StatefulSet.apps/db")), policies: guarding, denials: forged},
		{name: "the same without a policy", pod: Pod(says("StatefulSet.apps/db")), denials: forged},
		{name: "text", pod: Pod(OfStatefulSet, says("all is well")), policies: guarding, denials: forged},
		{name: "empty", pod: Pod(OfStatefulSet, says("")), policies: guarding, denials: forged},
		{name: "empty, of a pod without one", pod: Pod(says("")), denials: forged},
	})
}

// FuzzProtectedAnnotation: what Validate accepts names the pod's own controller; what Apply leaves is that, or nothing.
func FuzzProtectedAnnotation(f *testing.F) {
	for _, text := range []string{"StatefulSet.apps/db", "StatefulSet.apps/d", "", "/", "StatefulSet.apps/db ", "statefulset.apps/db", "StatefulSet/db", "\xff", "StatefulSet.apps/db/"} {
		f.Add(text, "db")
		f.Add(text, text)
	}
	policies := Compile(f, PodPolicy("p", ZeroGrace("", "")))
	f.Fuzz(func(t *testing.T, text, name string) {
		s := scenario{pod: Pod(OwnedBy("apps/v1", "StatefulSet", name), says(text))}
		want := policy.RecordOf(s.pod)
		if want != "" && want != "StatefulSet.apps/"+name || strings.ContainsAny(want, " \n\x1b\"") {
			t.Fatalf("%q is recorded as %q", name, want)
		}
		if accepted := len(defaulting.For(policies, s.request(), policy.Exempt{}).Validate(s.request(), s.facts).Denials) == 0; accepted != (text == want && want != "") {
			t.Fatalf("%q of %q: accepted %v", text, name, accepted)
		}
		changes := defaulting.For(policies, s.request(), policy.Exempt{}).Apply(s.request(), s.facts).Changes
		left, ok := defaulting.Patch(s.pod, changes).Annotations[v1alpha1.AnnotationProtected]
		if ok != (want != "") || left != want {
			t.Fatalf("%q of %q: %q is left, want %q", text, name, left, want)
		}
	})
}

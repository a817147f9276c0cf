package defaulting_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
)

const (
	addRecord = "add /metadata/annotations/podgrace.dev~1protected "
	delRecord = "remove /metadata/annotations/podgrace.dev~1protected"
	ofKafka   = "StrimziPodSet.core.strimzi.io/kafka"
)

// says puts a record into the pod, as anybody may at its creation.
func says(text string) podOption { return annotated(v1alpha1.AnnotationProtected, text) }

func TestApplyProtected(t *testing.T) {
	t.Parallel()
	guarding, naming := one(podPolicy("safe", removal("", ""))), one(podPolicy("safe", removal("", ""), protects(podSets)))
	const removed, replaced = "annotation podgrace.dev/protected is written by Podgrace only: it was removed", "annotation podgrace.dev/protected is written by Podgrace only: it was replaced"
	testApply(t, []scenario{
		{name: "a StatefulSet's", pod: pod(ofStatefulSet), policies: guarding, changes: []string{`add /metadata/annotations {"podgrace.dev/protected":"StatefulSet.apps/db"}`}},
		{name: "other annotations stay", pod: pod(ofStatefulSet, annotated("a", "b")), policies: guarding, changes: []string{addRecord + `"StatefulSet.apps/db"`}},
		{name: "an operator's", pod: pod(ofPodSet, annotated("a", "b")), policies: naming, changes: []string{addRecord + `"` + ofKafka + `"`}},
		{name: "an operator's that no policy names", pod: pod(ofPodSet), policies: guarding},
		{name: "one of two policies names it", pod: pod(ofPodSet, annotated("a", "b")), policies: append(one(podPolicy("z", removal("", ""))), naming...), changes: []string{addRecord + `"` + ofKafka + `"`}},
		{name: "a policy that only warns changes nothing", pod: pod(ofStatefulSet), policies: one(podPolicy("p", removes(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn})))},
		{name: "nor does one that allows", pod: pod(ofStatefulSet), policies: one(podPolicy("p", removes(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalAllow})))},
		{name: "an action that is not known here denies", pod: pod(ofStatefulSet, annotated("a", "b")), policies: one(podPolicy("p", removes(v1alpha1.RemovalSection{ForceDelete: "Ask"}))), changes: []string{addRecord + `"StatefulSet.apps/db"`}},
		{name: "one that denies beside one that warns", pod: pod(ofPodSet, annotated("a", "b")), changes: []string{addRecord + `"` + ofKafka + `"`},
			policies: []*v1alpha1.PodPolicy{podPolicy("a", removes(v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, Owners: []v1alpha1.ProtectedOwner{podSets}})), podPolicy("b", removal("", ""), protects(podSets))}},
		{name: "a policy without removal", pod: pod(ofStatefulSet), policies: one(podPolicy("web", maxGrace(60)))},
		{name: "a policy for other namespaces", pod: pod(ofStatefulSet), policies: one(podPolicy("safe", removal("", ""), inNamespaces("team", "till")))},
		{name: "a ReplicaSet's where all are protected", pod: pod(ofReplicaSet), policies: one(podPolicy("safe", removal(v1alpha1.ProtectAll, "")))},
		{name: "volumes and hostname need no record", pod: pod(claims("data"), func(p *podT) { p.Spec.Hostname = p.Name }), policies: guarding, facts: facts(claimed("data", corev1.ReadWriteOnce))},
		{name: "reinvocation: what is right already stays", pod: pod(ofStatefulSet, says("StatefulSet.apps/db")), policies: guarding},
		{name: "forged, replaced", pod: pod(ofStatefulSet, says("all is well")), policies: guarding, changes: []string{addRecord + `"StatefulSet.apps/db"`}, warnings: []string{replaced}},
		{name: "forged, removed where no policy protects it for its controller", pod: pod(ofReplicaSet, says("StatefulSet.apps/db")), policies: guarding, changes: []string{delRecord}, warnings: []string{removed}},
		{name: "true, and removed where no policy matches at all", pod: pod(ofStatefulSet, says("StatefulSet.apps/db")), changes: []string{delRecord}, warnings: []string{removed}},
		{name: "beside the contract, in a pod without annotations", pod: pod(ofStatefulSet), policies: one(podPolicy("safe", removal("", ""), node(cpuWeight(500)))),
			changes: []string{`add /metadata/annotations {"podgrace.dev/enforcement":"{\"cpu\":{\"weight\":500}}"}`, addRecord + `"StatefulSet.apps/db"`}},
		{name: "an owner that can't be: its name is text, and none of ours", pod: pod(ownedBy("apps/v1", "StatefulSet", "db, which may go")), policies: guarding},
	})
}

func TestValidateProtected(t *testing.T) {
	t.Parallel()
	guarding := one(podPolicy("safe", removal("", ""), protects(podSets)))
	forged := []string{"ProtectionForged: annotation podgrace.dev/protected is written by Podgrace only, and does not name the controller of this pod. Remove it"}
	testValidate(t, []scenario{
		{name: "as it was decided", pod: pod(recorded(ofStatefulSet)), policies: guarding},
		{name: "an operator's", pod: pod(recorded(ofPodSet)), policies: guarding},
		{name: "neither asked for nor there", pod: pod(ofReplicaSet), policies: guarding},
		{name: "missing", pod: pod(ofPodSet), policies: guarding, warnings: []string{"annotation podgrace.dev/protected is missing: the mutating webhook was not called…for which PodPolicy safe protects it"}},
		{name: "true, though no policy asks for it: they may have changed since", pod: pod(recorded(ofPodSet)), policies: one(podPolicy("safe", removal("", "")))},
		{name: "true, and of no policy", pod: pod(recorded(ofReplicaSet))},
		{name: "another controller's", pod: pod(ofStatefulSet, says(ofKafka)), policies: guarding, denials: forged},
		{name: "of a pod without one", pod: pod(says("StatefulSet.apps/db")), policies: guarding, denials: forged},
		{name: "the same without a policy", pod: pod(says("StatefulSet.apps/db")), denials: forged},
		{name: "text", pod: pod(ofStatefulSet, says("all is well")), policies: guarding, denials: forged},
		{name: "empty", pod: pod(ofStatefulSet, says("")), policies: guarding, denials: forged},
		{name: "empty, of a pod without one", pod: pod(says("")), denials: forged},
	})
}

// FuzzProtectedAnnotation: what Validate accepts names the pod's own controller; what Apply leaves is that, or nothing.
func FuzzProtectedAnnotation(f *testing.F) {
	for _, text := range []string{"StatefulSet.apps/db", "StatefulSet.apps/d", "", "/", "StatefulSet.apps/db ", "statefulset.apps/db", "StatefulSet/db", "\xff", "StatefulSet.apps/db/"} {
		f.Add(text, "db")
		f.Add(text, text)
	}
	policies := compile(f, podPolicy("p", removal("", "")))
	f.Fuzz(func(t *testing.T, text, name string) {
		s := scenario{pod: pod(ownedBy("apps/v1", "StatefulSet", name), says(text))}
		want := policy.RecordOf(s.pod)
		if want != "" && want != "StatefulSet.apps/"+name || strings.ContainsAny(want, " \n\x1b\"") {
			t.Fatalf("%q is recorded as %q", name, want)
		}
		if accepted := len(defaulting.For(policies, s.request(), "").Validate(s.request(), s.facts).Denials) == 0; accepted != (text == want && want != "") {
			t.Fatalf("%q of %q: accepted %v", text, name, accepted)
		}
		changes := defaulting.For(policies, s.request(), "").Apply(s.request(), s.facts).Changes
		left, is := defaulting.Patch(s.pod, changes).Annotations[v1alpha1.AnnotationProtected]
		if is != (want != "") || left != want {
			t.Fatalf("%q of %q: %q is left, want %q", text, name, left, want)
		}
	})
}

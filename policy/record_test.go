package policy_test

import (
	"strings"
	"testing"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pgregory.net/rapid"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
	. "github.com/podgrace/podgrace/policy/policytest"
)

func TestRecord(t *testing.T) {
	t.Parallel()
	of := func(apiVersion, kind, name string) option {
		return func(g *guarded) {
			ownedBy(kind, name)(g)
			g.pod.OwnerReferences[0].APIVersion = apiVersion
		}
	}
	for _, tt := range []struct {
		name    string
		options []option
		want    string // by the policy
		fact    string // whatever policies say
	}{
		{"a StatefulSet's", nil, "StatefulSet.apps/db", "StatefulSet.apps/db"},
		{"somebody else's StatefulSet's", []option{of("apps.kruise.io/v1beta1", "StatefulSet", "db")}, "StatefulSet.apps.kruise.io/db", "StatefulSet.apps.kruise.io/db"},
		{"an operator's", []option{ownedByPodSet, owners(podSet)}, "StrimziPodSet.core.strimzi.io/kafka", "StrimziPodSet.core.strimzi.io/kafka"},
		{"an operator's that the policy does not name", []option{ownedByPodSet}, "", "StrimziPodSet.core.strimzi.io/kafka"},
		{"a ReplicaSet's under a policy that protects all", []option{ownedBy("ReplicaSet", "web"), protectAll}, "", "ReplicaSet.apps/web"},
		{"of the core group", []option{of("v1", "ReplicationController", "web"), owners(schema.GroupKind{Kind: "ReplicationController"})}, "ReplicationController/web", "ReplicationController/web"},
		{"nobody's", []option{unowned}, "", ""},
		{"owned, but not controlled", []option{func(g *guarded) { g.pod.OwnerReferences[0].Controller = nil }}, "", ""},
		{"its hostname and its volumes need no record", []option{unowned, hostname("db-0"), claims("data"), claimed("data", corev1.ReadWriteOnce)}, "", ""},
		{"what it says of itself is no record", []option{unowned, record("StatefulSet.apps/db")}, "", ""},
		{"a name that is text", []option{of("apps/v1", "StatefulSet", "db (safe to delete)")}, "", ""},
		{"a name with a line in it", []option{of("apps/v1", "StatefulSet", "db\nall is well")}, "", ""},
		{"a group that is text", []option{of("any thing/v1", "StatefulSet", "db")}, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g := database(tt.options...)
			if got := g.protect.Record(g.pod); got != tt.want {
				t.Errorf("recorded is %q, want %q", got, tt.want)
			}
			if got := policy.RecordOf(g.pod); got != tt.fact {
				t.Errorf("true is %q, want %q", got, tt.fact)
			}
		})
	}
}

// TestRecordKeepsWhatTheOwnerGave: whatever becomes of a pod's owners, who was protected for one stays so, at its node as well; whatever the
// owner is called, its record is one word of a few characters.
func TestRecordKeepsWhatTheOwnerGave(t *testing.T) {
	t.Parallel()
	kept := 0
	rapid.Check(t, func(t *rapid.T) {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p"}}
		draw := func() {
			odd := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z./ -]{0,12}`))
			pod.OwnerReferences = []metav1.OwnerReference{{
				APIVersion: rapid.OneOf(rapid.SampledFrom([]string{"v1", "apps/v1", "core.strimzi.io/v1", "a/b/c"}), odd).Draw(t, "apiVersion"),
				Kind:       rapid.OneOf(rapid.SampledFrom([]string{"StatefulSet", "StrimziPodSet", "ReplicaSet", "DaemonSet"}), odd).Draw(t, "kind"),
				Name:       rapid.OneOf(rapid.SampledFrom([]string{"db", "kafka.a"}), odd).Draw(t, "name"), Controller: new(true),
			}}
		}
		draw()
		protect := DrawProtection(t)
		text := protect.Record(pod)
		if strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII || !unicode.IsPrint(r) || unicode.IsSpace(r) }) || len(text) > 600 {
			t.Fatalf("the record is %q", text)
		}
		if text == "" {
			return
		}
		kept++
		if text != policy.RecordOf(pod) {
			t.Fatalf("%q is not true of the pod: %q", text, policy.RecordOf(pod))
		}
		p := policy.Removal{Names: []string{"p"}, ForceDelete: v1alpha1.RemovalDeny, Protect: protect}
		metav1.SetMetaDataAnnotation(&pod.ObjectMeta, v1alpha1.AnnotationProtected, text)
		for _, change := range []func(){func() { pod.OwnerReferences = nil }, draw, func() {
			pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "DaemonSet", Name: "agent", Controller: new(true)}}
		}} {
			change()
			if len(p.ProtectedBy(pod, nil)) == 0 || len(p.HoldsNode(pod, nil)) == 0 {
				t.Fatalf("created as %s, it is not protected with owners %+v", text, pod.OwnerReferences)
			}
			if why := policy.AsRecorded(pod).Why(pod, nil); why == "" {
				t.Fatalf("who knows no policies is not told of %s", text)
			}
		}
	})
	if kept < 50 { // some 400 as a rule
		t.Errorf("only %d pods got a record", kept)
	}
}

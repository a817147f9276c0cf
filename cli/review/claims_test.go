package review

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// queue is a message queue that keeps its log for itself and shares its archive, and orders is one whose names can be taken for its.
const (
	queue = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: mq-eu, namespace: shop}
spec:
  serviceName: mq
  selector: {matchLabels: {app: mq}}
  template:
    metadata: {labels: {app: mq}}
    spec: {containers: [{name: mq, image: "mq:3"}], volumes: [{name: log, emptyDir: {}}, {name: tmp, emptyDir: {}}]}
  volumeClaimTemplates:
  - {metadata: {name: log}, spec: {accessModes: [ReadWriteOncePod]}}
  - {metadata: {name: archive}, spec: {accessModes: [ReadWriteMany]}}
  - {metadata: {name: raw}, spec: {accessModes: [ReadWriteMany], volumeMode: Block}}
`
	alike = `
apiVersion: apps/v1
kind: StatefulSet
metadata: {name: eu, namespace: shop}
spec:
  selector: {matchLabels: {app: eu}}
  template:
    metadata: {labels: {app: eu}}
    spec: {containers: [{name: c, image: "c:1"}]}
  volumeClaimTemplates:
  - {metadata: {name: archive-mq}, spec: {accessModes: [ReadWriteOnce]}}
  - {metadata: {name: log-mq}, spec: {accessModes: [ReadWriteOncePod]}}
`
	keeps = `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: keeps}
spec: {removal: {forceDelete: Deny, protect: Stateful, blockClaims: Exclusive}}
`
)

// A claim that is in no file is what the template of its StatefulSet says: for whoever else mounts it, too.
func TestClaimsOfTemplates(t *testing.T) {
	archive := `{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: archive-mq-eu-0, namespace: shop}, spec: {accessModes: [ReadWriteOnce]}}`
	for name, test := range map[string]struct {
		claim   string
		state   []string
		says    string
		unknown bool
	}{
		"for one pod":            {"log-mq-eu-0", []string{queue}, "its claim log-mq-eu-0 is ReadWriteOncePod", false},
		"for all":                {"archive-mq-eu-11", []string{queue}, "", false},
		"a block device":         {"raw-mq-eu-1", []string{queue}, "its claim raw-mq-eu-1 is a block device", false},
		"a claim that is there":  {"archive-mq-eu-0", []string{queue, archive}, "its claim archive-mq-eu-0 is ReadWriteOnce,", false},
		"no such template":       {"data-mq-eu-0", []string{queue}, "claim data-mq-eu-0 is not known", true},
		"no such set":            {"log-mq-us-0", []string{queue}, "claim log-mq-us-0 is not known", true},
		"no ordinal":             {"log-mq-eu-00", []string{queue}, "claim log-mq-eu-00 is not known", true},
		"no number":              {"log-mq-eu-a", []string{queue}, "claim log-mq-eu-a is not known", true},
		"no set":                 {"archive", nil, "claim archive is not known", true},
		"of two, which differ":   {"archive-mq-eu-0", []string{queue, alike}, "claim archive-mq-eu-0 is not known", true},
		"of two, which are same": {"log-mq-eu-0", []string{queue, alike}, "its claim log-mq-eu-0 is ReadWriteOncePod", false},
		"of another namespace":   {"log-mq-eu-0", []string{strings.Replace(queue, "namespace: shop", "namespace: other", 1)}, "claim log-mq-eu-0 is not known", true},
	} {
		t.Run(name, func(t *testing.T) {
			e := engineOf(t, keeps, append(test.state, shop)...)
			r := mustReview(t, e, `{apiVersion: v1, kind: Pod, metadata: {name: backup, namespace: shop}, spec: {containers: [{name: c, image: i}], volumes: [{name: v, persistentVolumeClaim: {claimName: `+test.claim+`}}]}}`,
				Question{Operation: OperationDelete, GracePeriodSeconds: new(int64(0))})
			if denied := r.Decision == Denied; denied != (test.says != "") || !strings.Contains(r.Message, test.says) {
				t.Errorf("%s: %s", r.Decision, r.Message)
			}
			if unknown := strings.Contains(strings.Join(r.Unknown, "\n"), "PersistentVolumeClaim shop/"+test.claim); unknown != test.unknown {
				t.Errorf("not known: %q", r.Unknown)
			}
		})
	}
}

// Where all claims are known, as of a live cluster, one that is not there is absent, as it is for the webhook.
func TestClaimsOfAClusterAreAllThereAre(t *testing.T) {
	e := engineOf(t, keeps, queue)
	e.State.Complete(&corev1.PersistentVolumeClaim{})
	err := (&view{State: e.State}).Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "log-mq-eu-0"}, &corev1.PersistentVolumeClaim{})
	if err == nil {
		t.Error("made up")
	}
}

// The pod of a StatefulSet has a volume for each of its claims, which match conditions see.
func TestVolumesOfAStatefulSetsPod(t *testing.T) {
	e := engineOf(t, `
apiVersion: podgrace.dev/v1alpha1
kind: PodPolicy
metadata: {name: claims}
spec:
  match: {matchConditions: [{name: claims, expression: "has(object.spec.volumes) && object.spec.volumes.exists(v, has(v.persistentVolumeClaim))"}]}
  gracePeriod: {defaultSeconds: 300}
`, shop)
	r := mustReview(t, e, queue, Question{})
	if len(r.Policies) != 1 {
		t.Errorf("policies %q", r.Policies)
	}
}

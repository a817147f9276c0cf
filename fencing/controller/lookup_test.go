package controller

import (
	"context"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// What happens between the API server's answer and the moment at which the fencer goes by it is not in the answer: neither that time counts as silence, nor is a watchdog reckoned with that
// was armed by a renewal which the fencer has not read.
func TestWhatIsReadLive(t *testing.T) {
	tests := map[string]func(*testing.T, *cluster){
		"the fencer is paused": func(_ *testing.T, c *cluster) { c.clock.Step(14 * time.Second) },
		"the node comes back, and arms its watchdog": func(t *testing.T, c *cluster) {
			lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: "n1"}}
			n := node("n1")
			for _, o := range []client.Object{lease, n} {
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(o), o); err != nil {
					t.Fatal(err)
				}
			}
			lease.Spec.RenewTime = &metav1.MicroTime{Time: c.clock.Now()}
			n.Annotations = map[string]string{v1alpha1.AnnotationSelfFence: `{"nodeUID":"uid-n1","bootID":"boot-n1","patience":"30s","timeout":"10s","watchdog":"iTCO_wdt","pausable":false}`}
			for _, o := range []client.Object{lease, n} {
				if err := c.Update(t.Context(), o); err != nil {
					t.Fatal(err)
				}
			}
		},
	}
	for name, happens := range tests {
		for _, kind := range []client.Object{&corev1.Node{}, &coordinationv1.Lease{}} {
			var then func()
			c := newCluster(t, interceptor.Funcs{Get: func(ctx context.Context, kube client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				err := kube.Get(ctx, key, o, opts...)
				_, isNode := o.(*corev1.Node)
				_, nodes := kind.(*corev1.Node)
				if do := then; do != nil && key.Name == "n1" && isNode == nodes {
					then = nil
					do()
				}
				return err
			}})
			c.later(t, time.Minute, "n1")
			before, _ := c.silence.Of("uid-n1", c.now().Led)
			then = func() { happens(t, c) }
			facts, err := c.facts(t.Context())
			if err != nil || then != nil {
				t.Fatalf("%s after its %T was read: it was not read, or %v", name, kind, err)
			}
			for _, n := range facts.Nodes {
				if n.Name == "n1" && (!n.Live || n.Silent > before || n.SelfFence != nil && n.Silent > 0) {
					t.Errorf("%s after its %T was read: live %v, silent for %s, before that for %s, and says of its watchdog %+v", name, kind, n.Live, n.Silent, before, n.SelfFence)
				}
			}
		}
	}
}

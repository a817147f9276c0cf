package main

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/e2e/chaos/plan"
)

// scripted is a laboratory without a cluster.
func scripted() *lab {
	l := &lab{progress: io.Discard, weather: &weather{}, counts: newCounts(), refused: map[types.UID]removal{}, began: time.Now(), roundBegan: time.Now()}
	l.copies = newCopies(func(what string) { l.violated("%s", what) })
	return l
}

// What came of a removal that must not be is looked for, whatever was answered, and only what was refused is asked for again.
func TestTryRemoval(t *testing.T) {
	lost, forbidden, missing := errors.New("context deadline exceeded"), apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "db-0", errors.New("no")), apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, "db-0")
	for name, tc := range map[string]struct {
		verb            plan.Verb
		answer          error
		carriedOut, end bool // the pod is gone; its containers end meanwhile
		confirmed       bool // by somebody, meanwhile
		want            result
	}{
		"refused":                         {verb: plan.ForceProtected, answer: forbidden, want: refused},
		"let go":                          {verb: plan.ForceProtected, carriedOut: true, want: failed},
		"let go, and the answer was lost": {verb: plan.ForceProtected, answer: lost, carriedOut: true, want: failed},
		"nobody answered":                 {verb: plan.ForceProtected, answer: lost, want: unanswered},
		"gone while it runs":              {verb: plan.ForceProtected, answer: missing, carriedOut: true, want: failed},
		"gone, and it has ended":          {verb: plan.ForceProtected, answer: missing, carriedOut: true, end: true, want: moot},
		"gone, as somebody confirmed":     {verb: plan.ForceProtected, answer: missing, carriedOut: true, confirmed: true, want: moot},
		"only told to stop":               {verb: plan.ForceProtected, want: moot},
		"a node, let go":                  {verb: plan.DeleteNode, want: failed},
		"a node, and nobody answered":     {verb: plan.DeleteNode, answer: lost, want: unanswered},
	} {
		t.Run(name, func(t *testing.T) {
			l := scripted()
			c := podCopy{uid: "1", namespace: guardedNamespace, name: "db-0", node: "node-0", only: true}
			l.copies.start(c)
			deleted := func(ctx context.Context, kube client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
				if tc.carriedOut {
					if err := kube.Delete(ctx, o); err != nil {
						t.Error(err)
					}
				}
				if tc.end {
					l.copies.end(c.uid)
				}
				if tc.confirmed {
					l.copies.confirm(c.uid)
				}
				return tc.answer
			}
			l.kube = fake.NewClientBuilder().WithObjects(c.pod()).WithInterceptorFuncs(interceptor.Funcs{Delete: deleted}).Build()
			if got := l.tryRemoval(t.Context(), removal{verb: tc.verb, of: c}); got != tc.want || (len(l.found()) == 1) != (tc.want == failed) {
				t.Errorf("%d, not %d; %q", got, tc.want, l.found())
			}
			if again := len(l.refusals()) == 1; again != (tc.want == refused) {
				t.Errorf("it is asked for again: %t", again)
			}
		})
	}
}

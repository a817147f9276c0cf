package certs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// ready is a leader whose CA is settled.
func ready(t *testing.T, funcs interceptor.Funcs) (*leader, Pair) {
	t.Helper()
	one := newTestPair(t, epoch)
	l := newLeader(epoch, funcs, append(threeWebhooks("https://localhost:1/x"), secretOf(one))...)
	l.work(t)
	l.clock.SetTime(epoch.Add(day))
	l.work(t)
	l.want(t, "settled", Ready, one.ID)
	l.reasons = nil
	return l, one
}

func (l *leader) ask(t *testing.T, token string) {
	t.Helper()
	var s corev1.Secret
	if err := l.kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: SecretName}, &s); err != nil {
		t.Fatal(err)
	}
	s.Annotations[AnnotationReplace] = token
	if err := l.kube.Update(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
}

// A replacement that somebody asked for, and another that he asked for in the middle; and that a new leader finds all in the Secret.
func TestReplacement(t *testing.T) {
	l, one := ready(t, interceptor.Funcs{})
	now := l.clock.Now()
	pass := func(d time.Duration) {
		now = now.Add(d)
		next := &leader{CABundle: &CABundle{Client: l.kube, Namespace: namespace, Timing: tested}, kube: l.kube, clock: testclock.NewFakePassiveClock(now), reasons: l.reasons}
		next.Clock, next.Events = next.clock, next
		l = next
	}
	l.ask(t, "please")
	if after := l.work(t); after != day {
		t.Errorf("it waits %s for the API servers", after)
	}
	two := l.state(t).Next
	l.want(t, "published", Publishing, one.ID, two.ID)
	l.ask(t, "again")
	pass(day - time.Second)
	l.work(t)
	l.want(t, "not long enough", Publishing, one.ID, two.ID)
	pass(time.Second)
	if after := l.work(t); after != 7*day {
		t.Errorf("it waits %s for the leaves", after)
	}
	l.want(t, "swapped", Retiring, one.ID, two.ID)
	if got := l.state(t); got.Current.ID != two.ID || got.Current.Key != two.Key || got.Handled != "please" {
		t.Errorf("got CA %s, handled %q", got.Current.ID, got.Handled)
	}
	pass(7 * day)
	l.work(t)
	three := l.state(t).Next
	l.want(t, "the second request", Publishing, two.ID, three.ID)
	for range 2 {
		pass(7 * day)
		l.work(t)
	}
	l.want(t, "the end", Ready, three.ID)
	replaced := []string{"Normal CAReplacementBegan", "Normal CABundleWritten", "Normal CAReplaced", "Normal CARetired"}
	want := append(append(slices.Clone(replaced), replaced[:3]...), "Normal CARetired", "Normal CABundleWritten")
	// What retires the first CA begins the next replacement: its caBundle is written in between.
	want = slices.Insert(want, 4, "Normal CABundleWritten")
	if diff := cmp.Diff(want, l.reasons); diff != "" {
		t.Errorf("Events (-want +got):\n%s", diff)
	}
}

// At half of its life a CA is replaced without anybody asking, long before cert-manager's library would do it at once.
func TestReplacementByAge(t *testing.T) {
	l, one := ready(t, interceptor.Funcs{})
	half := epoch.Add(50*day - sooner/2) // it begins sooner than it was made, and ends 100 days later than that
	l.clock.SetTime(half.Add(-time.Second))
	if after := l.work(t); after != time.Second {
		t.Errorf("it wants to be asked after %s", after)
	}
	l.want(t, "before", Ready, one.ID)
	l.clock.SetTime(half)
	l.work(t)
	l.want(t, "half", Publishing, one.ID, l.state(t).Next.ID)
	l.clock.SetTime(half.Add(day))
	l.work(t)
	if got := l.state(t).Current.NotAfter; !got.Equal(half.Add(100 * day)) {
		t.Errorf("the next CA ends at %s", got)
	}
}

// A replica makes another CA after the Secret was deleted: both are trusted until the API servers have the new one and the leaves of
// the old one have ended.
func TestLostSecret(t *testing.T) {
	l, one := ready(t, interceptor.Funcs{})
	l.ask(t, "in the middle")
	l.work(t)
	next := l.state(t).Next
	if err := l.kube.Delete(t.Context(), secretOf(one)); err != nil {
		t.Fatal(err)
	}
	l.work(t)
	two := newTestPair(t, l.clock.Now().Add(time.Hour))
	if err := l.kube.Create(t.Context(), secretOf(two)); err != nil {
		t.Fatal(err)
	}
	l.work(t)
	l.want(t, "lost", Settling, one.ID, next.ID, two.ID)
	if !slices.Contains(l.reasons, "Warning CALost") {
		t.Errorf("Events %q", l.reasons)
	}
	l.clock.SetTime(l.clock.Now().Add(day))
	l.work(t)
	l.want(t, "settled", Retiring, one.ID, next.ID, two.ID)
	l.clock.SetTime(l.clock.Now().Add(7 * day))
	l.work(t)
	l.want(t, "retired", Ready, two.ID)
}

// Wherever a write fails, the leader that comes next ends what was begun, and never writes a caBundle that lacks a CA which is in use.
func TestLeaderEndsAtAnyWrite(t *testing.T) {
	for fails := 1; ; fails++ {
		writes, failed := 0, false
		count := func() error {
			if writes++; writes == fails {
				failed = true
				return apierrors.NewInternalError(fmt.Errorf("write %d", writes))
			}
			return nil
		}
		var armed bool
		l, one := ready(t, interceptor.Funcs{
			Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
				if armed {
					if err := count(); err != nil {
						return err
					}
				}
				return c.Update(ctx, o, opts...)
			},
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				if armed {
					if err := count(); err != nil {
						return err
					}
				}
				return c.Apply(ctx, o, opts...)
			},
		})
		l.ask(t, "please")
		armed = true
		for range 60 {
			_, _ = l.Reconcile(t.Context(), reconcile.Request{}) // one fails; the next is another leader's
			state := l.state(t)
			for _, have := range l.bundles(t) {
				if !slices.Contains(have, state.Current.ID) {
					t.Fatalf("write %d failed: caBundle lacks the CA that signs", fails)
				}
			}
			l.clock.SetTime(l.clock.Now().Add(day / 2))
		}
		if l.state(t).Current.ID == one.ID {
			t.Errorf("write %d failed: the CA was not replaced", fails)
		}
		l.want(t, fmt.Sprintf("write %d failed", fails), Ready, l.state(t).Current.ID)
		if !failed {
			if fails < 8 {
				t.Errorf("a replacement has only %d writes", fails-1)
			}
			return
		}
	}
}

// A leader that reads what is no longer so changes nothing.
func TestStaleLeader(t *testing.T) {
	l, one := ready(t, interceptor.Funcs{})
	stale, err := readConfigurations(t.Context(), l.kube)
	if err != nil {
		t.Fatal(err)
	}
	l.ask(t, "please")
	l.work(t)
	want := []string{one.ID, l.state(t).Next.ID}
	_, err = stale.write(t.Context(), l.kube, []byte("old"))
	if !apierrors.IsConflict(err) {
		t.Errorf("got %v", err)
	}
	l.want(t, "a stale write", Publishing, want...)
}

// without removes keys of the Secret, as an administrator may.
func (l *leader) without(t *testing.T, keys ...string) {
	t.Helper()
	var s corev1.Secret
	if err := l.kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: SecretName}, &s); err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if len(s.Data[key]) == 0 {
			t.Fatalf("the Secret has no %s", key)
		}
		delete(s.Data, key)
	}
	if err := l.kube.Update(t.Context(), &s); err != nil {
		t.Fatal(err)
	}
}

// An administrator who can't wait removes the old CA, and one who has changed his mind the next one.
func TestReplacementCutShort(t *testing.T) {
	l, one := ready(t, interceptor.Funcs{})
	l.ask(t, "please")
	l.work(t)
	l.without(t, keyNext, keyNextKey)
	l.work(t)
	if got := l.state(t).Phase(); got != Ready {
		t.Errorf("cancelled: phase %s", got)
	}
	l.want(t, "cancelled", Ready, one.ID)

	l.ask(t, "after all")
	l.work(t)
	l.clock.SetTime(l.clock.Now().Add(day))
	l.work(t)
	two := l.state(t).Current
	l.want(t, "swapped", Retiring, one.ID, two.ID)
	l.without(t, keyPrevious)
	l.work(t)
	l.want(t, "dropped", Ready, two.ID)
}

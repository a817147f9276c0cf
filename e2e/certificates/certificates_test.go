package certificates

import (
	"context"
	"crypto/x509"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/suite"
)

// Some leaves a replica and a new CA, and no request notices.
func TestRotationsAndANewCA(t *testing.T) {
	before, all := 1, 3 // rotations
	if suite.All() {
		before, all = 3, 10
	}
	p, namespace := newPair(t)
	old := p.now(t)
	c, end := p.churn(t, namespace)
	defer end()
	first, endFirst := p.watch(t, p.replicas[0])
	defer endFirst()
	second, endSecond := p.watch(t, p.replicas[1])
	defer endSecond()

	first.rotated(t, before)
	asked := time.Now()
	p.ask(t, "rotations")
	after := p.ready(t, "rotations")
	t.Logf("the CA was replaced within %s, with leaves of %s and %s to settle", time.Since(asked).Round(time.Second), leafLife, settle)
	first.rotated(t, all)
	second.rotated(t, all)
	end()
	endFirst()
	endSecond()

	if after == old {
		t.Error("the CA is as it was")
	}
	c.report(t, "rotations and a new CA")
	first.report(t, "first replica")
	second.report(t, "second replica")
	t.Logf("connections to each replica: %v", p.balancer.Connections())
}

// The leader is killed at the worst moments, between two requests. The other replica goes on serving, and once the lease has
// run out it ends what was begun.
func TestLeaderKilled(t *testing.T) {
	for _, tc := range []struct {
		name, token string
		until       func(t *testing.T, p *pair)
	}{
		{"in a rotation", "", func(t *testing.T, p *pair) {
			l, end := p.watch(t, p.replicas[0])
			defer end()
			l.rotated(t, 1)
		}},
		{"while the next CA is published", "published", func(t *testing.T, p *pair) { p.phase(t, certs.Publishing) }},
		{"while the old CA is retired", "retired", func(t *testing.T, p *pair) { p.phase(t, certs.Retiring) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p, namespace := newPair(t)
			before := p.now(t)
			c, end := p.churn(t, namespace)
			defer end()
			other, endOther := p.watch(t, p.replicas[1])
			defer endOther()
			if tc.token != "" {
				p.ask(t, tc.token)
			}
			tc.until(t, p)
			c.between.Lock()
			p.killLeader(t)
			c.between.Unlock()
			killed := time.Now()
			if tc.token != "" {
				after := p.ready(t, tc.token)
				t.Logf("the replacement ended %s after its leader", time.Since(killed).Round(time.Second))
				if after == before {
					t.Error("the CA is as it was")
				}
			}
			other.rotated(t, other.rotations()+2)
			end()
			endOther()
			c.report(t, "leader killed "+tc.name)
			other.report(t, "the other replica")
		})
	}
}

// An administrator drops the old CA by hand, as docs/certificates.md says, once both replicas serve leaves of the new one.
func TestOldCADroppedByHand(t *testing.T) {
	p, namespace := newPair(t)
	before := p.now(t)
	c, end := p.churn(t, namespace)
	defer end()
	p.ask(t, "leaked")
	s := p.phase(t, certs.Retiring)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(s.Data[corev1.TLSCertKey])
	for _, w := range p.replicas {
		suite.Eventually(t, "a leaf of the new CA at "+w.URL, func(ctx context.Context) (bool, error) {
			leaf, err := served(ctx, w)
			if err != nil {
				return false, err
			}
			_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, DNSName: "localhost"})
			return err == nil, nil
		})
	}
	if _, _, err := p.Kubectl(t.Context(), "-n", "podgrace-system", "patch", "secret", certs.SecretName, "--type=json", "-p", `[{"op":"remove","path":"/data/previous.crt"}]`); err != nil {
		t.Fatal(err)
	}
	if after := p.ready(t, "leaked"); after == before || after != string(s.Data[corev1.TLSCertKey]) {
		t.Error("it is the old one")
	}
	c.once()
	end()
	c.report(t, "old CA dropped by hand")
}

// The Secret is deleted. Both replicas serve the leaves that they have until the API server trusts the CA that replaces it.
func TestSecretDeleted(t *testing.T) {
	p, namespace := newPair(t)
	before, err := p.secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c, end := p.churn(t, namespace)
	defer end()
	l, endLeaves := p.watch(t, p.replicas[0])
	defer endLeaves()
	l.rotated(t, 1)
	deleted := time.Now()
	if err := p.Client.Delete(t.Context(), before.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	suite.Eventually(t, "another CA that signs", func(ctx context.Context) (bool, error) {
		s, err := p.secret(ctx)
		return err == nil && s.UID != before.UID && s.Annotations[certs.AnnotationPhase] == string(certs.Retiring), client.IgnoreNotFound(err)
	})
	t.Logf("the CA that replaces a lost one signed after %s, with %s to settle", time.Since(deleted).Round(100*time.Millisecond), settle)
	p.event(t, "CALost")
	p.ready(t, "")
	l.rotated(t, l.rotations()+1)
	end()
	endLeaves()
	c.report(t, "Secret deleted")
	l.report(t, "first replica")
}

// event returns when there is an Event of the Secret for a reason.
func (p *pair) event(t *testing.T, reason string) {
	t.Helper()
	suite.Eventually(t, "Event "+reason, func(ctx context.Context) (bool, error) {
		var all corev1.EventList
		err := p.Client.List(ctx, &all, client.InNamespace("podgrace-system"), client.MatchingFields{"reason": reason, "involvedObject.name": certs.SecretName})
		return len(all.Items) > 0, err
	})
}

// Somebody empties caBundle, as an update of the manifests with another tool may. Pods are created all the same, and the leader
// puts it back.
func TestCABundleEmptied(t *testing.T) {
	p, namespace := newPair(t)
	want := p.now(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	pods, bare := 0, 0
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			pod := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, GenerateName: "p-"},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "localhost/none:1"}}},
			}
			if err := p.Client.Create(context.Background(), pod); err != nil {
				t.Errorf("an ordinary pod: %v", err)
				continue
			}
			pods++
			if *pod.Spec.TerminationGracePeriodSeconds != graceSeconds {
				bare++
			}
			if err := p.Client.Delete(context.Background(), pod); err != nil {
				t.Errorf("an ordinary delete: %v", err)
			}
		}
	}()
	const times = 10
	var longest time.Duration
	for i := range times {
		m, v, err := p.configurations(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		o, of := client.Object(m), clientConfigs(m, nil)
		if i%2 == 1 {
			o, of = v, clientConfigs(nil, v)
		}
		generation := o.GetGeneration()
		patch := client.MergeFrom(o.DeepCopyObject().(client.Object))
		for _, c := range of {
			c.CABundle = nil
		}
		emptied := time.Now()
		if err := p.Client.Patch(t.Context(), o, patch); err != nil {
			t.Fatal(err)
		}
		if o.GetGeneration() == generation {
			t.Fatal("caBundle was not emptied")
		}
		suite.Eventually(t, "caBundle repaired", func(ctx context.Context) (bool, error) {
			have, err := p.cas(ctx)
			return have == want, err
		})
		longest = max(longest, time.Since(emptied))
	}
	cancel()
	<-ended
	t.Logf("caBundle emptied %d times: repaired within %s; %d ordinary pods created and deleted, none failed, %d without the policy's defaults", times, longest.Round(time.Millisecond), pods, bare)
}

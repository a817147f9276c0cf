package certificates

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
)

// leafLife is short, so that a test sees many leaves; settle is what is left for the API server to see a caBundle.
const (
	leafLife = 12 * time.Second
	settle   = 2 * time.Second
)

var flags = []string{"--leaf-duration=" + leafLife.String(), "--ca-settle=" + settle.String()}

// pair is a cluster with two replicas behind a balancer. The first leads: the other was started when it did.
type pair struct {
	*suite.Suite
	balancer balancer
	replicas []*podgrace.Webhook
}

// shared is the pair of all tests.
var shared struct {
	sync.Once
	pair       *pair
	unmet, err error
}

func TestMain(m *testing.M) {
	code := m.Run()
	if err := stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the cluster:", err)
		code = 1
	}
	os.Exit(code)
}

func stop() error {
	if shared.pair == nil {
		return nil
	}
	for _, w := range shared.pair.replicas {
		if err := w.Stop(); err != nil {
			return err
		}
	}
	return shared.pair.Stop()
}

// newPair returns the pair with both replicas alive and the CA ready, and a guarded namespace in which both decide.
func newPair(t *testing.T) (p *pair, namespace string) {
	t.Helper()
	shared.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 40*time.Minute) // the first run on a machine builds Kubernetes
		defer cancel()
		if _, shared.unmet = cluster.Binaries(ctx, os.Stderr, cluster.Options{}.Programs()...); shared.unmet == nil {
			shared.pair, shared.err = install(ctx, t)
		}
	})
	clustertest.Require(t, shared.unmet)
	if shared.err != nil {
		t.Fatal(shared.err)
	}
	p = shared.pair
	p.fill(t)
	namespace = p.Namespace(t)
	policy := p.Policy(t, namespace, v1alpha1.PodPolicySpec{
		Removal:     &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalWarn, Protect: v1alpha1.ProtectAll},
		GracePeriod: &v1alpha1.GracePeriodSection{DefaultSeconds: new(graceSeconds)},
	})
	for _, w := range p.replicas {
		(&suite.Suite{Client: p.Client, Webhook: w}).WaitInForce(t, policy)
	}
	return p, namespace
}

func install(ctx context.Context, t *testing.T) (*pair, error) {
	c, err := cluster.Start(ctx, cluster.Options{Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	w, err := podgrace.Install(ctx, c, podgrace.Options{Args: flags, Log: os.Stderr})
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	kube, err := suite.NewClient(c.Config)
	if err != nil {
		return nil, errors.Join(err, w.Stop(), c.Stop())
	}
	p := &pair{Suite: &suite.Suite{Cluster: c, Webhook: w, Client: kube}, balancer: newBalancer(t), replicas: []*podgrace.Webhook{w}}
	p.balancer.to(t, w.URL)
	return p, p.callBalancer(ctx)
}

// callBalancer makes both configurations call the balancer instead of the first replica.
func (p *pair) callBalancer(ctx context.Context) error {
	m, v, err := p.configurations(ctx)
	if err != nil {
		return err
	}
	mFrom, vFrom := client.MergeFrom(m.DeepCopy()), client.MergeFrom(v.DeepCopy())
	for _, c := range clientConfigs(m, v) {
		at := strings.Replace(*c.URL, p.Webhook.URL, p.balancer.URL(), 1)
		c.URL = &at
	}
	return errors.Join(p.Client.Patch(ctx, m, mFrom), p.Client.Patch(ctx, v, vFrom))
}

func (p *pair) configurations(ctx context.Context) (*admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration, error) {
	var m admissionregistrationv1.MutatingWebhookConfiguration
	var v admissionregistrationv1.ValidatingWebhookConfiguration
	key := client.ObjectKey{Name: certs.ConfigurationName}
	return &m, &v, errors.Join(p.Client.Get(ctx, key, &m), p.Client.Get(ctx, key, &v))
}

// clientConfigs are those of all webhooks. Either configuration may be nil.
func clientConfigs(m *admissionregistrationv1.MutatingWebhookConfiguration, v *admissionregistrationv1.ValidatingWebhookConfiguration) (all []*admissionregistrationv1.WebhookClientConfig) {
	if m != nil {
		for i := range m.Webhooks {
			all = append(all, &m.Webhooks[i].ClientConfig)
		}
	}
	if v != nil {
		for i := range v.Webhooks {
			all = append(all, &v.Webhooks[i].ClientConfig)
		}
	}
	return all
}

// fill starts replicas until there are two, and waits until no replacement is under way.
func (p *pair) fill(t *testing.T) {
	t.Helper()
	p.now(t)
	for len(p.replicas) < 2 {
		w, err := podgrace.Start(t.Context(), p.Cluster, filepath.Join(p.Dir, "bin", "webhook"), podgrace.Options{Args: flags})
		if err != nil {
			t.Fatal(err)
		}
		p.replicas = append(p.replicas, w)
	}
	p.Webhook = p.replicas[0]
	p.balancer.to(t, p.replicas[0].URL, p.replicas[1].URL)
}

// killLeader ends the first replica without a word. The other has to find out.
func (p *pair) killLeader(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(p.replicas[0].PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = p.replicas[0].Stop() // it reports how the process ended
	p.replicas = p.replicas[1:]
	p.Webhook = p.replicas[0]
}

// secret is the CA's Secret.
func (p *pair) secret(ctx context.Context) (*corev1.Secret, error) {
	var s corev1.Secret
	err := p.Client.Get(ctx, client.ObjectKey{Namespace: "podgrace-system", Name: certs.SecretName}, &s)
	return &s, err
}

// phase returns when the replacement of the CA is in a phase, with the Secret.
func (p *pair) phase(t *testing.T, want certs.Phase) (s *corev1.Secret) {
	t.Helper()
	suite.Eventually(t, "phase "+string(want), func(ctx context.Context) (bool, error) {
		var err error
		s, err = p.secret(ctx)
		return err == nil && s.Annotations[certs.AnnotationPhase] == string(want), client.IgnoreNotFound(err)
	})
	return s
}

// now is the CA once no replacement is under way.
func (p *pair) now(t *testing.T) string {
	t.Helper()
	s := p.phase(t, certs.Ready)
	return p.ready(t, s.Annotations[certs.AnnotationHandled])
}

package certs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const namespace = "podgrace-system"

func mutating(webhooks ...admissionregistrationv1.MutatingWebhook) *admissionregistrationv1.MutatingWebhookConfiguration {
	return &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName}, Webhooks: webhooks}
}

func validating(webhooks ...admissionregistrationv1.ValidatingWebhook) *admissionregistrationv1.ValidatingWebhookConfiguration {
	return &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: ConfigurationName}, Webhooks: webhooks}
}

// secretOf is the Secret as cert-manager's authority makes it.
func secretOf(p Pair) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName},
		Data:       map[string][]byte{corev1.TLSCertKey: []byte(p.PEM), corev1.TLSPrivateKeyKey: []byte(p.Key), keyCA: []byte(p.PEM)},
	}
}

func newTestPair(t *testing.T, now time.Time) Pair {
	t.Helper()
	p, err := newPair(now, tested.CA)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// leader is a CABundle with a clock of the test's, and the reasons of its Events.
type leader struct {
	*CABundle
	kube    client.WithWatch
	clock   *testclock.FakePassiveClock
	reasons []string
}

func (l *leader) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	if len(fmt.Sprintf(note, args...)) > 1024 {
		panic("the API server refuses a note of more than 1024 bytes")
	}
	l.reasons = append(l.reasons, kind+" "+reason)
}

func newLeader(now time.Time, funcs interceptor.Funcs, objects ...client.Object) *leader {
	scheme := runtime.NewScheme()
	_ = clientgoscheme.AddToScheme(scheme)
	l := &leader{clock: testclock.NewFakePassiveClock(now)}
	l.kube = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithInterceptorFuncs(funcs).Build()
	l.CABundle = &CABundle{Client: l.kube, Namespace: namespace, Timing: tested, Clock: l.clock, Events: l}
	return l
}

// once is one reconcile.
func (l *leader) once(t *testing.T) time.Duration {
	t.Helper()
	result, err := l.Reconcile(t.Context(), reconcile.Request{})
	if err != nil {
		t.Fatal(err)
	}
	return result.RequeueAfter
}

// work reconciles until nothing changes, as the events of what it writes make it do, and says after what time it wants to be asked.
func (l *leader) work(t *testing.T) time.Duration {
	t.Helper()
	for range 20 {
		before := l.versions(t)
		after := l.once(t)
		if l.versions(t) == before {
			return after
		}
	}
	t.Fatal("it never rests")
	return 0
}

func (l *leader) versions(t *testing.T) (all [3]string) {
	t.Helper()
	for i, o := range []client.Object{&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: SecretName}}, mutating(), validating()} {
		if err := l.kube.Get(t.Context(), client.ObjectKeyFromObject(o), o); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		all[i] = o.GetResourceVersion()
	}
	return all
}

func (l *leader) state(t *testing.T) State {
	t.Helper()
	var s corev1.Secret
	if err := l.kube.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: SecretName}, &s); err != nil {
		t.Fatal(err)
	}
	state, err := readState(&s)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Annotations[AnnotationPhase]; got != "" && got != string(state.Phase()) {
		t.Errorf("the Secret says phase %s, it is in %s", got, state.Phase())
	}
	return state
}

// bundles are the CAs of every webhook.
func (l *leader) bundles(t *testing.T) (all [][]string) {
	t.Helper()
	found, err := readConfigurations(t.Context(), l.kube)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range found.clients() {
		all = append(all, ids(parseAuthorities(c.CABundle)))
	}
	return all
}

func (l *leader) want(t *testing.T, step string, phase Phase, cas ...string) {
	t.Helper()
	if got := l.state(t).Phase(); got != phase {
		t.Errorf("%s: phase %s, want %s", step, got, phase)
	}
	for i, have := range l.bundles(t) {
		if diff := cmp.Diff(cas, have); diff != "" {
			t.Errorf("%s: caBundle of webhook %d (-want +got):\n%s", step, i, diff)
		}
	}
}

// threeWebhooks are configurations with one and two webhooks, one of which has something else in its caBundle.
func threeWebhooks(url string) []client.Object {
	return []client.Object{
		mutating(admissionregistrationv1.MutatingWebhook{Name: "a.podgrace.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{URL: &url}}),
		validating(
			admissionregistrationv1.ValidatingWebhook{Name: "b.podgrace.dev"},
			admissionregistrationv1.ValidatingWebhook{Name: "c.podgrace.dev", ClientConfig: admissionregistrationv1.WebhookClientConfig{CABundle: []byte("garbage")}},
		),
	}
}

// Every webhook of both configurations gets the CA, and gets it back when somebody empties it; nothing else is touched.
func TestCABundleIsWrittenAndRepaired(t *testing.T) {
	one := newTestPair(t, epoch)
	l := newLeader(epoch.Add(day), interceptor.Funcs{}, append(threeWebhooks("https://localhost:1/x"), secretOf(one))...)
	if after := l.work(t); after != day {
		t.Errorf("it wants to be asked after %s", after)
	}
	l.want(t, "written", Settling, one.ID)
	m, v := mutating(), validating()
	if err := l.kube.Get(t.Context(), client.ObjectKeyFromObject(m), m); err != nil || *m.Webhooks[0].ClientConfig.URL != "https://localhost:1/x" {
		t.Errorf("got %+v, %v", m.Webhooks, err)
	}
	if err := l.kube.Get(t.Context(), client.ObjectKeyFromObject(v), v); err != nil || len(v.Webhooks) != 2 {
		t.Fatalf("got %+v, %v", v.Webhooks, err)
	}
	l.clock.SetTime(epoch.Add(2 * day))
	if after := l.work(t); after != 48*day-sooner/2 {
		t.Errorf("it wants to be asked after %s", after)
	}
	v.Webhooks[0].ClientConfig.CABundle = nil
	if err := l.kube.Update(t.Context(), v); err != nil {
		t.Fatal(err)
	}
	l.work(t)
	l.want(t, "repaired", Ready, one.ID)
}

// Who wrote the Secret is said by name: client-go's default is the name of the program.
func TestCABundleNamesItsFieldOwner(t *testing.T) {
	var owners []string
	l := newLeader(epoch, interceptor.Funcs{Update: func(ctx context.Context, kube client.WithWatch, o client.Object, options ...client.UpdateOption) error {
		owners = append(owners, (&client.UpdateOptions{}).ApplyOptions(options).FieldManager)
		return kube.Update(ctx, o, options...)
	}}, append(threeWebhooks(""), secretOf(newTestPair(t, epoch)))...)
	l.work(t)
	if len(owners) == 0 || slices.ContainsFunc(owners, func(o string) bool { return o != "podgrace-cabundle" }) {
		t.Errorf("the Secret was written by %q", owners)
	}
}

// Before the Secret exists, or before the configurations do, or while there is no CA in it, there is nothing to write and nothing to
// fail.
func TestCABundleWithoutSecretOrConfigurations(t *testing.T) {
	l := newLeader(epoch, interceptor.Funcs{}, mutating(admissionregistrationv1.MutatingWebhook{Name: "a.podgrace.dev"}))
	l.work(t)
	if got := l.bundles(t); len(got) != 1 || got[0] != nil {
		t.Errorf("got %v", got)
	}
	l = newLeader(epoch, interceptor.Funcs{}, secretOf(newTestPair(t, epoch)))
	l.work(t)
	l.want(t, "no configurations", Settling)
	l = newLeader(epoch, interceptor.Funcs{}, append(threeWebhooks(""), secretOf(Pair{}))...)
	l.work(t)
	if got := l.bundles(t); slices.ContainsFunc(got, func(b []string) bool { return b != nil }) {
		t.Errorf("got %v", got)
	}
}

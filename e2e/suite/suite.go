package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/webhook"
)

// A cluster that runs already, in which Podgrace is installed: the tests then start none. All controllers and the scheduler
// run there, and its own nodes should be cordoned.
const (
	// KubeconfigVariable is the path of its administrator's kubeconfig.
	KubeconfigVariable = "PODGRACE_E2E_KUBECONFIG"
	// AddressVariable is the IP address at which its API server reaches this machine, for the tests' own webhooks.
	AddressVariable = "PODGRACE_E2E_ADDRESS"
)

// Suite is a cluster with Podgrace in it.
type Suite struct {
	*cluster.Cluster
	// Webhook is the process that the suite started; nil in a cluster that runs already.
	Webhook *podgrace.Webhook
	// Client of the administrator; it keeps no warnings.
	Client client.Client

	door        *door // in a cluster that runs already
	controllers bool  // the cluster has a controller manager, without whose service account no pod can be created
}

// Main runs the tests of a package and ends the cluster that they may have started.
func Main(m *testing.M, shared *Shared) {
	code := m.Run()
	if err := shared.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop the cluster:", err)
		code = 1
	}
	os.Exit(code)
}

// Shared is the suite of a test binary, started by the first test that wants it.
type Shared struct {
	// Options of the cluster.
	Options cluster.Options
	// Flags of the webhook, where the suite starts it.
	Flags []string

	once       sync.Once
	suite      *Suite
	unmet, err error
}

// Get returns the suite. If this machine has no programs for it and can't build them, the test is skipped, or it fails if
// REQUIRE_ALL=1 is set. That the cluster or the webhook does not start is always a failure.
func (s *Shared) Get(t testing.TB) *Suite {
	t.Helper()
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
		defer cancel()
		kubeconfig, programs := os.Getenv(KubeconfigVariable), s.Options.Programs()
		if kubeconfig != "" {
			programs = []string{"kubectl"}
		}
		if _, s.unmet = cluster.Binaries(ctx, os.Stderr, programs...); s.unmet != nil {
			return
		}
		if kubeconfig != "" {
			s.suite, s.err = connect(ctx, kubeconfig)
		} else {
			s.suite, s.err = start(ctx, s.Options, s.Flags)
		}
	})
	clustertest.Require(t, s.unmet)
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.suite
}

// Stop ends the cluster, if a test started it.
func (s *Shared) Stop() error {
	if s.suite == nil {
		return nil
	}
	var err error
	if s.suite.Webhook != nil {
		err = s.suite.Webhook.Stop()
	}
	return errors.Join(err, s.suite.Stop())
}

// buildTimeout is for the first run on a machine, which builds Kubernetes.
const buildTimeout = 40 * time.Minute

func start(ctx context.Context, options cluster.Options, flags []string) (*Suite, error) {
	options.Log = os.Stderr
	c, err := cluster.Start(ctx, options)
	if err != nil {
		return nil, err
	}
	w, err := podgrace.Install(ctx, c, podgrace.Options{Log: os.Stderr, Args: flags})
	if err != nil {
		_ = c.Stop()
		return nil, err
	}
	kube, err := NewClient(c.Config)
	if err != nil {
		_ = w.Stop()
		_ = c.Stop()
		return nil, err
	}
	return &Suite{Cluster: c, Webhook: w, Client: kube, controllers: options.ControllerManager}, nil
}

// connect is start for a cluster that runs already.
func connect(ctx context.Context, kubeconfig string) (*Suite, error) {
	c, err := cluster.Connect(ctx, kubeconfig, cluster.Options{Log: os.Stderr})
	if err != nil {
		return nil, err
	}
	kube, err := NewClient(c.Config)
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	found, err := findDoor(ctx, kube, c.Config)
	if err != nil {
		return nil, errors.Join(err, c.Stop())
	}
	return &Suite{Cluster: c, Client: kube, door: found, controllers: true}, nil
}

// Address is where the API server reaches a server of the test's own.
func Address() string { return cmp.Or(os.Getenv(AddressVariable), "127.0.0.1") }

// NewClient returns a client that drops warnings.
func NewClient(config *rest.Config) (client.Client, error) {
	config = rest.CopyConfig(config)
	config.WarningHandler = rest.NoWarnings{}
	return client.New(config, client.Options{Scheme: webhook.NewScheme()})
}

// Warnings collects the warnings of one client.
type Warnings struct {
	mu   sync.Mutex
	list []string
}

// HandleWarningHeader is for rest.WarningHandler.
func (w *Warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, text)
}

// Take returns the warnings so far and forgets them.
func (w *Warnings) Take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	taken := w.list
	w.list = nil
	return taken
}

// Warned returns a client for a user, and the warnings that it gets. An empty name is the administrator.
func (s *Suite) Warned(t testing.TB, user string, groups ...string) (client.Client, *Warnings) {
	t.Helper()
	config := s.Config
	if user != "" {
		var err error
		if config, err = s.User(user, groups...); err != nil {
			t.Fatal(err)
		}
	}
	config = rest.CopyConfig(config)
	warnings := &Warnings{}
	config.WarningHandler = warnings
	kube, err := client.New(config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	return kube, warnings
}

// Namespace creates a namespace for one test and returns its name when pods can be created in it. If the cluster has a controller
// manager, that is when the service account is there.
func (s *Suite) Namespace(t testing.TB) string {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "e2e-", Labels: map[string]string{}}}
	s.Create(t, ns)
	if s.controllers {
		s.WaitServiceAccount(t, ns.Name)
	}
	return ns.Name
}

// WaitServiceAccount returns when pods can be created in the namespace: the controller manager makes its service account.
func (s *Suite) WaitServiceAccount(t testing.TB, namespace string) {
	t.Helper()
	Eventually(t, "the default service account of "+namespace, func(ctx context.Context) (bool, error) {
		err := s.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{})
		return err == nil, client.IgnoreNotFound(err)
	})
}

// Minor is the minor version of 1 of the API server.
func (s *Suite) Minor(t testing.TB) int {
	t.Helper()
	kube, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	is, err := kube.Discovery().ServerVersion()
	if err != nil {
		t.Fatal(err)
	}
	minor, err := strconv.Atoi(strings.TrimSuffix(is.Minor, "+"))
	if err != nil {
		t.Fatal(err)
	}
	return minor
}

// MergesMatchLabelKeys is the minor version since which the API server merges matchLabelKeys of a pod's spread constraints into their selectors; before, the scheduler
// alone heeds them (MatchLabelKeysInPodTopologySpreadSelectorMerge, pkg/features/kube_features.go, 1.36.3).
const MergesMatchLabelKeys = 34

// Since skips a test of what Kubernetes has since a minor version where the API server is older (cluster.VersionVariable).
func (s *Suite) Since(t testing.TB, minor int, what string) {
	t.Helper()
	if have := s.Minor(t); have < minor {
		t.Skipf("%s: since Kubernetes 1.%d, this is 1.%d", what, minor, have)
	}
}

// Create makes an object, and deletes it when the test ends.
func (s *Suite) Create(t testing.TB, o client.Object) {
	t.Helper()
	if err := s.Client.Create(t.Context(), o); err != nil {
		t.Fatalf("create %T: %v", o, err)
	}
	t.Cleanup(func() {
		_ = s.Client.Delete(context.Background(), o, client.GracePeriodSeconds(0))
	})
}

// Policy makes a policy for one namespace and returns when the webhook decides by it.
func (s *Suite) Policy(t testing.TB, namespace string, spec v1alpha1.PodPolicySpec) *v1alpha1.PodPolicy {
	t.Helper()
	p := PolicyFor(namespace, spec)
	s.Create(t, p)
	s.WaitInForce(t, p)
	return p
}

// PolicyFor is a policy for the namespace that is not created yet.
func PolicyFor(namespace string, spec v1alpha1.PodPolicySpec) *v1alpha1.PodPolicy {
	match := v1alpha1.PodMatch{}
	if spec.Match != nil {
		match = *spec.Match
	}
	match.NamespaceSelector = v1alpha1.SetAsLabelSelector(map[string]string{corev1.LabelMetadataName: namespace})
	spec.Match = &match
	return &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{GenerateName: namespace + "-"}, Spec: spec}
}

// WaitInForce returns when the webhook decides by this generation of the policy, and the API server asks it.
func (s *Suite) WaitInForce(t testing.TB, p *v1alpha1.PodPolicy) {
	t.Helper()
	want := fmt.Sprintf("podgrace_pod_policy_in_force_generation{policy=%q} %d", p.Name, p.Generation)
	Eventually(t, "PodPolicy "+p.Name+" in force", func(ctx context.Context) (bool, error) {
		text, err := s.Metrics(ctx)
		return slices.Contains(strings.Split(text, "\n"), want), err
	})
	Eventually(t, "the API server to ask the webhook for PodPolicy "+p.Name, func(ctx context.Context) (bool, error) {
		var now v1alpha1.PodPolicy
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(p), &now)
		c := meta.FindStatusCondition(now.Status.Conditions, v1alpha1.ConditionReady)
		return c != nil && c.ObservedGeneration == p.Generation && c.Reason != v1alpha1.ReasonGuardWaiting, err
	})
}

// patience is for chains of controllers' own periods, of some 20 s each, on a machine that does other things besides.
const patience = 3 * time.Minute

// Eventually polls until the condition holds. What it waits for is state that another process reaches on its own; it
// repeats no action whose failure would be a finding.
func Eventually(t testing.TB, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	EventuallyWithin(t, patience, what, condition)
}

// EventuallyWithin is Eventually for what is slow, such as a machine that is emulated.
func EventuallyWithin(t testing.TB, within time.Duration, what string, condition func(context.Context) (bool, error)) {
	t.Helper()
	var last error
	err := cluster.UntilWithin(t.Context(), within, what, func(ctx context.Context) (bool, error) {
		ok, err := condition(ctx)
		if ctx.Err() == nil { // else it is the end of the time that it tells
			last = err
		}
		return ok && err == nil, nil
	})
	if err != nil {
		t.Fatalf("%v (last: %v)", err, last)
	}
}

// Judged tries again what is refused because the node's state could not be read within the review's three seconds, as the refusal says: this machine may be busy, and the first reads
// after an API server has started take long.
func Judged(t testing.TB, try func() error) (err error) {
	t.Helper()
	Eventually(t, "the node's state to be read", func(context.Context) (bool, error) {
		err = try()
		return err == nil || !strings.Contains(err.Error(), "could not be read"), nil
	})
	return err
}

// Silence makes a node without a kubelet look as it will two minutes from now, as the node lifecycle controller sees it: without a heartbeat
// since, and Ready unknown. When the API server received its last write is forgotten with the managed fields.
func (s *Suite) Silence(t testing.TB, name string) *corev1.Node {
	t.Helper()
	return s.spoken(t, name, "silent", s.TrySilence)
}

// Revive is what the kubelet of a silent node writes when it is back.
func (s *Suite) Revive(t testing.TB, name string) *corev1.Node {
	t.Helper()
	return s.spoken(t, name, "heard of", s.TryRevive)
}

func (s *Suite) spoken(t testing.TB, name, what string, try func(context.Context, string) (*corev1.Node, error)) (node *corev1.Node) {
	t.Helper()
	Eventually(t, "node "+name+" "+what, func(ctx context.Context) (_ bool, err error) {
		node, err = try(ctx, name)
		return err == nil, err
	})
	return node
}

// TrySilence is Silence, once: a conflict with another writer is an error.
func (s *Suite) TrySilence(ctx context.Context, name string) (*corev1.Node, error) {
	long, forgotten := time.Now().Add(-2*time.Minute), []metav1.ManagedFieldsEntry{{}}
	node, err := s.speak(ctx, name, long, corev1.ConditionUnknown, func(lease *coordinationv1.Lease) { lease.ManagedFields = forgotten })
	if err != nil {
		return nil, err
	}
	// Those of an update of a subresource are ignored (k8s.io/apimachinery/pkg/util/managedfields/internal/fieldmanager.go Update, 0.36.3).
	node.ManagedFields = forgotten
	return node, s.Client.Update(ctx, node)
}

// TryRevive is Revive, once: a conflict with another writer is an error.
func (s *Suite) TryRevive(ctx context.Context, name string) (*corev1.Node, error) {
	return s.speak(ctx, name, time.Now(), corev1.ConditionTrue, func(*coordinationv1.Lease) {})
}

// speak writes a node's lease and heartbeat.
func (s *Suite) speak(ctx context.Context, name string, at time.Time, ready corev1.ConditionStatus, change func(*coordinationv1.Lease)) (*corev1.Node, error) {
	var lease coordinationv1.Lease
	if err := s.Client.Get(ctx, client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: name}, &lease); err != nil {
		return nil, err
	}
	lease.Spec.RenewTime = &metav1.MicroTime{Time: at}
	change(&lease)
	if err := s.Client.Update(ctx, &lease); err != nil {
		return nil, err
	}
	node := &corev1.Node{}
	if err := s.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
		return nil, err
	}
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == corev1.NodeReady {
			c.Status, c.LastHeartbeatTime = ready, metav1.Time{Time: at}
		}
	}
	return node, s.Client.Status().Update(ctx, node)
}

// Confirmation is what kubectl podgrace confirm writes of a pod whose node answers.
func Confirmation(pod *corev1.Pod) string { return guard.ConfirmPod(pod, guard.Node{}, time.Now()) }

// ConfirmOff confirms that a node is off, as kubectl podgrace confirm does.
func (s *Suite) ConfirmOff(t testing.TB, name string) *corev1.Node {
	t.Helper()
	node, lease := &corev1.Node{}, &coordinationv1.Lease{}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Get(t.Context(), client.ObjectKey{Namespace: corev1.NamespaceNodeLease, Name: name}, lease); client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	} else if err != nil {
		lease = nil
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, guard.AnnotationConfirmOff, guard.ConfirmOff(node, lease))
	if err := s.Client.Patch(t.Context(), node, client.RawPatch("application/merge-patch+json", patch)); err != nil {
		t.Fatal(err)
	}
	return node
}

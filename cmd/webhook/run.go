package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/internal/program/incluster"
	"github.com/podgrace/podgrace/internal/program/version"
	"github.com/podgrace/podgrace/policy/policyfile"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/controllers"
	"github.com/podgrace/podgrace/webhook/exceptions"
	"github.com/podgrace/podgrace/webhook/intake"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// askAPIServer asks the API server for what it calls the webhook about (webhook.Answered), and says so.
func askAPIServer(ctx context.Context, o *options, out io.Writer) error {
	config, err := incluster.Config(o.Kubeconfig, version.Of(version.Webhook))
	if err != nil {
		return err
	}
	if err := webhook.Answered(config)(ctx); err != nil {
		return err
	}
	fmt.Fprintln(out, "the API server has called the webhook, and a replica has answered")
	return nil
}

// lastLines is how long the end waits for the decisions that are not logged yet: nobody may be there who reads them.
const lastLines = 2 * time.Second

// run serves until the context ends.
func run(ctx context.Context, o *options, out io.Writer) error {
	log, program := o.Begin(version.Webhook, out)
	fromFiles, err := policyfile.Load(o.policies...) // first: what is wrong here needs no API server to be told
	if err != nil {
		return fmt.Errorf("read policies: %w", err)
	}
	config, err := incluster.Config(o.Kubeconfig, program)
	if err != nil {
		return err
	}
	if err := checkAPIServer(ctx, config, o.Namespace, log); err != nil {
		return err
	}
	source, err := certificates(config, o)
	if err != nil {
		return err
	}
	clients, err := clientCA(o)
	if err != nil {
		return err
	}
	end := newDrain()
	mgr, err := newManager(config, o, source, clients, end, log)
	if err != nil {
		return err
	}
	var decisions *webhook.Decisions
	if o.decisionLog {
		decisions = webhook.NewDecisions(log, o.allowedPercent, metrics.Registry)
		defer decisions.Flush(lastLines)
	}
	if err := setUp(ctx, mgr, o, fromFiles, source, clients, decisions, log); err != nil {
		return err
	}
	ctx, cancel := end.after(ctx, o.shutdownDelay)
	defer cancel()
	log.Info("serving", "address", reviewAddress(o), "policies", policySource(o), "excludedNamespaces", o.exempt.Excluded())
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("serve: %w", err)
	}
	return nil
}

func certificates(config *rest.Config, o *options) (certs.Source, error) {
	if o.certMode == certModeFiles {
		return certs.Files(o.certDir)
	}
	return certs.SelfManaged(config, o.Namespace, o.dnsNames, o.timing)
}

// clientCA is nil where nobody is asked for a certificate.
func clientCA(o *options) (*certs.Clients, error) {
	if o.clientCA == "" {
		return nil, nil
	}
	clients, err := certs.ClientCA(o.clientCA, o.clientNames)
	if err != nil {
		return nil, fmt.Errorf("--client-ca-file: %w", err)
	}
	return clients, nil
}

func newManager(config *rest.Config, o *options, source certs.Source, clients *certs.Clients, end *drain, log logr.Logger) (ctrl.Manager, error) {
	bounds, err := tlsBounds(o.tlsMin, o.tlsSuites)
	if err != nil {
		return nil, err
	}
	tlsConfig := &tls.Config{NextProtos: []string{"h2"}, GetCertificate: source.GetCertificate}
	bounds(tlsConfig)
	if clients != nil {
		clients.Configure(tlsConfig)
	}
	known := lookup.CacheOptions()
	known.DefaultWatchErrorHandler = lookup.NewWatchErrorHandler(metrics.Registry)
	mgr, err := ctrl.NewManager(config, o.Listen(ctrl.Options{
		Scheme:        webhook.NewScheme(),
		Logger:        log,
		Cache:         known,
		WebhookServer: newServer(reviewAddress(o), tlsConfig, end),
	}))
	if err != nil {
		return nil, setUpError(err)
	}
	return mgr, nil
}

// setUpError says what to do where Podgrace's own kinds are not there yet. The program ends, and is started again by its kubelet.
func setUpError(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("the CustomResourceDefinition podpolicies.podgrace.dev is not there (kubectl apply --server-side -k deploy/crds): %w", err)
	}
	return fmt.Errorf("set up: %w", err)
}

// reviewAddress is where API servers call.
func reviewAddress(o *options) string { return net.JoinHostPort(o.BindAddress, strconv.Itoa(o.port)) }

func policySource(o *options) string {
	if len(o.policies) > 0 {
		return "files"
	}
	return "cluster"
}

// setUp adds everything that runs to the manager.
func setUp(ctx context.Context, mgr ctrl.Manager, o *options, fromFiles []*v1alpha1.PodPolicy, source certs.Source, clients *certs.Clients, decisions *webhook.Decisions, log logr.Logger) error {
	store, synced, err := policies(ctx, mgr, o, fromFiles, log)
	if err != nil {
		return err
	}
	holds := &lookup.Holds{RequestTimeout: o.requestTimeout}
	nodes, nodesSynced, err := lookup.WatchNodes(ctx, mgr.GetCache(), holds)
	if err != nil {
		return err
	}
	facts := &lookup.Lookup{Informers: mgr.GetCache(), Live: mgr.GetAPIReader(), Reads: lookup.NewReads(mgr.GetAPIReader()), Nodes: nodes}
	if facts.Locks, err = lookup.FollowLocks(ctx, mgr.GetConfig(), cache.Options{HTTPClient: mgr.GetHTTPClient(), Scheme: mgr.GetScheme(), Mapper: mgr.GetRESTMapper()}); err != nil {
		return err
	}
	if facts.Locks != nil {
		if err := mgr.Add(facts.Locks); err != nil {
			return err
		}
	}
	exceptionsSynced, err := watchExceptions(ctx, mgr, o, facts, log)
	if err != nil {
		return err
	}
	followed := func() bool { return synced() && nodesSynced() && (exceptionsSynced == nil || exceptionsSynced()) }
	readiness := &lookup.Readiness{Cache: mgr.GetCache(), Followed: followed}
	engine := &webhook.Engine{
		Policies:  store,
		Lookup:    facts,
		Ready:     readiness.Ready,
		Exempt:    o.exempt,
		Holds:     holds,
		Decisions: decisions,
		Events:    webhook.NewEvents(mgr.GetEventRecorder("podgrace")),
		Metrics:   webhook.NewMetrics(metrics.Registry, store, webhook.Namespaces{Most: o.metricsNamespaces, Exist: func(name string) bool { return facts.NamespaceExists(ctx, name) }}),
	}
	if len(o.policies) == 0 {
		engine.LivePolicies = webhook.Read(mgr.GetAPIReader())
	}
	engine.Register(mgr.GetWebhookServer())
	version.NewMetric(metrics.Registry, version.Of(version.Webhook))
	intake.NewServingMetrics(metrics.Registry, readiness.Ready, source.GetCertificate)
	stdlog.SetFlags(0)
	stdlog.SetOutput(intake.NewHandshakeLog(metrics.Registry, log))

	server := mgr.GetWebhookServer().StartedChecker()
	var errs []error
	if clients != nil {
		server = clients.Check(reviewAddress(o))
		errs = append(errs, mgr.Add(clients))
	}
	errs = append(errs,
		mgr.Add(source),
		mgr.Add(readiness),
		mgr.AddReadyzCheck("informers", readiness.Check),
		mgr.AddReadyzCheck("server", onceCertified(source, server)),
	)
	live, ready := ofCertificate(o, source, time.Now)
	for name, check := range live {
		errs = append(errs, mgr.AddHealthzCheck(name, check))
	}
	for name, check := range ready {
		errs = append(errs, mgr.AddReadyzCheck(name, check))
	}
	leads := &leader{config: mgr.GetConfig(), options: o, log: log, clock: clock.RealClock{}, guard: controllers.NewGuardMetric(metrics.Registry), registered: controllers.NewRegisteredMetric(metrics.Registry), exceptions: exceptionsSynced != nil, nodes: mgr.GetCache()}
	if len(o.policies) > 0 {
		leads.fromFiles = store.Policies()
	}
	return errors.Join(append(errs, mgr.Add(leads))...)
}

// onceCertified is a check of the server that does not call it as long as there is no certificate: each look would be a handshake that
// fails.
func onceCertified(source certs.Source, server healthz.Checker) healthz.Checker {
	return func(r *http.Request) error {
		if _, err := source.GetCertificate(nil); err != nil {
			return fmt.Errorf("get the serving certificate: %w", err)
		}
		return server(r)
	}
}

// ofCertificate are the checks of the serving certificate: live fails where only a new start mends it.
func ofCertificate(o *options, source certs.Source, now func() time.Time) (live, ready map[string]healthz.Checker) {
	live = map[string]healthz.Checker{"ping": healthz.Ping}
	ready = map[string]healthz.Checker{"certificate": func(*http.Request) error { return certs.Check(source, now()) }}
	if o.certMode == certModeSelfManaged {
		live["clock"] = func(*http.Request) error { return certs.CheckClock(source, now()) }
		ready["clock"] = live["clock"]
	}
	return live, ready
}

// policies returns the store, and a function that reports whether it is complete.
func policies(ctx context.Context, mgr ctrl.Manager, o *options, fromFiles []*v1alpha1.PodPolicy, log logr.Logger) (*webhook.PolicyStore, func() bool, error) {
	store, err := webhook.NewPolicyStore(log, fromFiles...)
	if err != nil {
		return nil, nil, err
	}
	if len(o.policies) > 0 {
		return store, func() bool { return true }, nil
	}
	synced, err := store.Watch(ctx, mgr.GetCache())
	return store, synced, err
}

// watchExceptions has a lookup know those of the cluster, and returns a function that reports whether it does; nil: there are none. Policies from files have
// none either: who may write such a file may change the policy.
func watchExceptions(ctx context.Context, mgr ctrl.Manager, o *options, facts *lookup.Lookup, log logr.Logger) (func() bool, error) {
	if len(o.policies) > 0 {
		return nil, nil
	}
	known, err := exceptions.Known(mgr.GetRESTMapper())
	if err != nil {
		return nil, setUpError(err)
	}
	if !known {
		log.Info("CustomResourceDefinition policyexceptions.podgrace.dev is not installed: no exception is in force until it is and the webhook is restarted (kubectl apply --server-side -k deploy/crds)")
		return nil, nil
	}
	store := exceptions.NewStore(clock.RealClock{}, log)
	facts.Exceptions = store.InForce
	return store.Watch(ctx, mgr.GetCache())
}

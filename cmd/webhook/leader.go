package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/deploy"
	"github.com/podgrace/podgrace/internal/program/version"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/controllers"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// leader runs what one replica does for all: the policies' status, caBundle, the allowed actors, the compiled limits and the arming of what fails closed, and tells what the webhook configurations lack. A manager ends when it
// loses its lease, as it does when the API server is away for some seconds. Serving must not end with it, so that the
// leader's controllers have a manager of their own, which is started again.
type leader struct {
	config  *rest.Config
	options *options
	log     logr.Logger
	clock   clock.Clock
	// fromFiles are the policies from files; nil: those of the cluster are in force.
	fromFiles policy.Policies
	// exceptions are those of the cluster.
	exceptions bool
	// nodes reads the cluster's Nodes, which every replica has.
	nodes      client.Reader
	guard      *controllers.GuardMetric
	registered *controllers.RegisteredMetric
}

// retry is how long a lost lease is left to others.
var retry = wait.Backoff{Duration: time.Second, Factor: 2, Jitter: 0.2, Steps: 6, Cap: 30 * time.Second}

// NeedLeaderElection is false: every replica stands for election.
func (l *leader) NeedLeaderElection() bool { return false }

// Start runs until the context ends.
func (l *leader) Start(ctx context.Context) error {
	backoff := retry
	for ctx.Err() == nil {
		began := l.clock.Now()
		err := l.lead(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if l.clock.Since(began) > retry.Cap {
			backoff = retry // it had worked
		}
		l.log.Error(err, "leader's controllers ended; restarting them")
		select {
		case <-ctx.Done():
		case <-l.clock.After(backoff.Step()):
		}
	}
	return nil
}

func (l *leader) lead(ctx context.Context) error {
	mgr, err := l.newManager()
	if err != nil {
		return err
	}
	defer l.guard.Reset()
	defer l.registered.Reset()
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("lead: %w", err)
	}
	return nil
}

func (l *leader) newManager() (ctrl.Manager, error) {
	o := l.options
	cacheOptions := lookup.CacheOptions()
	cacheOptions.ByObject[&corev1.Secret{}] = cache.ByObject{ // the one that the webhook's role may watch
		Namespaces: map[string]cache.Config{o.Namespace: {}}, Field: fields.OneTermEqualSelector(metav1.ObjectNameField, certs.SecretName),
	}
	cacheOptions.ByObject[&rbacv1.Role{}] = controllers.InForceCache(o.Namespace)
	cacheOptions.ByObject[&rbacv1.RoleBinding{}] = controllers.InForceCache(o.Namespace)
	configurations := cache.ByObject{Field: fields.OneTermEqualSelector(metav1.ObjectNameField, certs.ConfigurationName)}
	cacheOptions.ByObject[&admissionregistrationv1.MutatingWebhookConfiguration{}] = configurations
	cacheOptions.ByObject[&admissionregistrationv1.ValidatingWebhookConfiguration{}] = configurations
	cacheOptions.ByObject[&admissionregistrationv1.ValidatingAdmissionPolicy{}] = controllers.LimitsCache()
	cacheOptions.ByObject[&admissionregistrationv1.ValidatingAdmissionPolicyBinding{}] = controllers.LimitsCache()
	mgr, err := ctrl.NewManager(l.config, o.Elect(version.Webhook, ctrl.Options{
		Scheme:     webhook.NewScheme(),
		Logger:     l.log,
		Cache:      cacheOptions,
		Metrics:    metricsserver.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)}, // the names come again
	}))
	if err != nil {
		return nil, fmt.Errorf("set up the leader: %w", err)
	}
	answered := webhook.Answered(l.config)
	arming := &controllers.Arming{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespaces: mgr.GetCache(), Namespace: o.Namespace, Exempt: o.exempt, Fixed: l.fromFiles,
		Answered: answered, Acts: controllers.ActsBy(mgr.GetClient(), o.Namespace), Clock: l.clock, Tell: l.guard.Set,
	}
	limits := &controllers.Limits{Client: mgr.GetClient(), Exempt: o.exempt, Off: !o.compileLimits, Fixed: l.fromFiles, Answered: answered, Clock: l.clock}
	var errs []error
	if l.exceptions {
		limits.Exceptions = mgr.GetCache()
		errs = append(errs, (&controllers.ExceptionStatus{Client: mgr.GetClient(), Exceptions: mgr.GetCache(), Clock: l.clock}).SetUp(mgr))
	}
	registered := &controllers.Registered{Client: mgr.GetClient(), Configuration: certs.ConfigurationName, Want: deploy.WebhookConfigurations, Exempt: o.exempt, Tell: l.registered.Set}
	errs = append(errs, arming.SetUp(mgr), limits.SetUp(mgr), registered.SetUp(mgr))
	if len(o.policies) == 0 {
		facts := &lookup.Lookup{Informers: mgr.GetCache()}
		errs = append(errs,
			(&controllers.PolicyStatus{Client: mgr.GetClient(), Lookup: facts, Live: mgr.GetAPIReader(), Nodes: l.nodes, Exempt: o.exempt, Guard: arming.For, Limits: limits.Condition}).SetUp(mgr),
			(&controllers.AllowedActors{Client: mgr.GetClient(), Configuration: certs.ConfigurationName}).SetUp(mgr))
	}
	if o.certMode == certModeSelfManaged {
		bundle := &certs.CABundle{
			Client: mgr.GetClient(), Namespace: o.Namespace, Timing: o.timing, Clock: l.clock, Events: mgr.GetEventRecorder("podgrace"),
		}
		errs = append(errs, bundle.SetUp(mgr))
	}
	return mgr, errors.Join(errs...)
}

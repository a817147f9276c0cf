package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/certs"
	"github.com/podgrace/podgrace/internal/program/incluster"
	"github.com/podgrace/podgrace/internal/program/replica"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// The ways to get a serving certificate.
const (
	certModeSelfManaged = "self-managed"
	certModeFiles       = "files"
)

type options struct {
	replica.Options
	policies    []string
	port        int
	certMode    string
	certDir     string
	clientCA    string
	clientNames []string
	tlsMin      string
	tlsSuites   []string
	timing      certs.Timing
	dnsNames    []string
	// excluded are patterns of namespaces; exempt are they, and those that always are.
	excluded []string
	exempt   policy.Exempt
	// compileLimits has the leader write limits into the API server.
	compileLimits bool
	// decisionLog has decisions logged, of those that allow so many of 100.
	decisionLog    bool
	allowedPercent int
	// metricsNamespaces is how many namespaces have series of their own.
	metricsNamespaces int
	// requestTimeout is the API servers'.
	requestTimeout time.Duration

	shutdownDelay time.Duration

	// ask has it serve nothing, and ask the API server whether it serves.
	ask bool
}

func defaultOptions() *options {
	return &options{Options: replica.DefaultOptions(), port: 9443, certMode: certModeSelfManaged, tlsMin: "VersionTLS12", timing: certs.DefaultTiming(), compileLimits: true, decisionLog: true, allowedPercent: 1, metricsNamespaces: 200, requestTimeout: lookup.DefaultRequestTimeout, shutdownDelay: 30 * time.Second}
}

// AddFlags declares the flags with the defaults that are set.
func (o *options) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.policies, "policy", o.policies, "file or folder with PodPolicies, instead of those of the cluster (may be repeated)")
	f.IntVar(&o.port, "port", o.port, "port for the API server's reviews (HTTPS)")
	f.StringVar(&o.certMode, "cert-mode", o.certMode, "serving certificate: self-managed (CA in a Secret, caBundle written by the leader) or files")
	f.StringVar(&o.certDir, "cert-dir", o.certDir, "folder with tls.crt and tls.key, for --cert-mode=files; read again when they change")
	f.StringVar(&o.clientCA, "client-ca-file", o.clientCA, "file with one or more CAs: who calls the port for reviews must show a certificate that one of them signed; read again when it changes; empty: nobody is asked for one")
	f.StringSliceVar(&o.clientNames, "client-allowed-names", o.clientNames, "common names or DNS names of which such a certificate must have one; default: any certificate of --client-ca-file")
	f.StringVar(&o.tlsMin, "tls-min-version", o.tlsMin, "least version of TLS of the port for reviews: VersionTLS12 or VersionTLS13")
	f.StringSliceVar(&o.tlsSuites, "tls-cipher-suites", o.tlsSuites, "cipher suites of TLS 1.2 of the port for reviews, by their IANA names; default: those that Go takes for safe. Those of TLS 1.3 are fixed")
	f.DurationVar(&o.timing.CA, "ca-duration", o.timing.CA, "life of a new self-managed CA, which is replaced at half of it")
	f.DurationVar(&o.timing.Leaf, "leaf-duration", o.timing.Leaf, "life of a self-managed serving certificate")
	f.DurationVar(&o.timing.Settle, "ca-settle", o.timing.Settle, "how long API servers get to see a new caBundle before a certificate needs it")
	for _, advanced := range []string{"ca-duration", "leaf-duration", "ca-settle"} {
		_ = f.MarkHidden(advanced) // fails for a flag that is not there
	}
	f.StringSliceVar(&o.excluded, "exclude-namespaces", o.excluded, policy.ExcludeUsage)
	f.StringSliceVar(&o.dnsNames, "dns-names", o.dnsNames, "names in the self-managed certificate; default: those of Service podgrace-webhook in the namespace")
	f.BoolVar(&o.compileLimits, "compile-limits", o.compileLimits, "have the API server judge limits by itself where it can, so that they hold while the webhook is away; false: delete what it has")
	f.DurationVar(&o.requestTimeout, "api-server-request-timeout", o.requestTimeout, "the API servers' --request-timeout: finalizers of a Node that are younger are not sure to hold it when it is deleted")
	f.DurationVar(&o.shutdownDelay, "shutdown-delay", o.shutdownDelay, "how long to go on serving after the signal to end, while nodes hear that this replica is gone and API servers are asked to close their connections")
	f.BoolVar(&o.decisionLog, "decision-log", o.decisionLog, "log each refusal and warning, as far as a rate limit by namespace, decision and reason lets it through, and some of what is allowed")
	f.IntVar(&o.allowedPercent, "decision-log-allowed-percent", o.allowedPercent, "of 100 decisions that allow, how many the decision log has")
	f.IntVar(&o.metricsNamespaces, "metrics-namespaces", o.metricsNamespaces, "how many namespaces have series of their own in podgrace_namespace_decisions_total; the others are counted together as _other")
	f.BoolVar(&o.ask, "ask", o.ask, "serve nothing: have the API server call the webhook, and end with 0 if a replica answers (helm test)")
	o.Options.AddFlags(f, replica.Usage{Namespace: "namespace that Podgrace runs in", LeaderElect: "elect one replica to write the policies' status and caBundle; false: this is the only replica"})
}

// Complete fills in what depends on the surroundings.
func (o *options) Complete() error {
	err := o.Options.Complete()
	if len(o.dnsNames) == 0 {
		service := "podgrace-webhook." + o.Namespace
		o.dnsNames = []string{service + ".svc", service, service + ".svc.cluster.local"}
	}
	var excluding error
	if o.exempt, excluding = policy.ExemptIn(o.Namespace).Excluding(o.excluded...); excluding != nil {
		err = errors.Join(fmt.Errorf("--exclude-namespaces: %w", excluding), err)
	}
	return err
}

// maxMetricsNamespaces bounds the memory: with a series each they take 9 MiB, and have a handful at most.
const maxMetricsNamespaces = 10000

// Validate says all that is wrong with the options.
func (o *options) Validate() error {
	errs := []error{o.Options.Validate(), incluster.ValidatePort("port", o.port, 1)}
	if o.shutdownDelay < 0 {
		errs = append(errs, fmt.Errorf("--shutdown-delay: %s is negative", o.shutdownDelay))
	}
	if len(o.clientNames) > 0 && o.clientCA == "" {
		errs = append(errs, errors.New("--client-allowed-names needs --client-ca-file"))
	}
	if slices.Contains(o.clientNames, "") {
		errs = append(errs, errors.New("--client-allowed-names: a name is empty"))
	}
	if o.requestTimeout <= 0 {
		errs = append(errs, fmt.Errorf("--api-server-request-timeout: %s is no time that a request can take", o.requestTimeout))
	}
	_, err := tlsBounds(o.tlsMin, o.tlsSuites)
	return errors.Join(append(errs, o.validateLog(), o.validateCertificate(), err)...)
}

// validateLog says all that is wrong with what is logged and counted.
func (o *options) validateLog() error {
	var errs []error
	if o.allowedPercent < 0 || o.allowedPercent > 100 {
		errs = append(errs, fmt.Errorf("--decision-log-allowed-percent: %d is not in 0..100", o.allowedPercent))
	}
	if o.metricsNamespaces < 0 || o.metricsNamespaces > maxMetricsNamespaces {
		errs = append(errs, fmt.Errorf("--metrics-namespaces: %d is not in 0..%d", o.metricsNamespaces, maxMetricsNamespaces))
	}
	return errors.Join(errs...)
}

// validateCertificate says all that is wrong with how the serving certificate is to be got.
func (o *options) validateCertificate() error {
	switch o.certMode {
	case certModeSelfManaged:
		err := o.timing.Validate()
		if o.certDir != "" {
			err = errors.Join(errors.New("--cert-dir is for --cert-mode=files"), err)
		}
		return err
	case certModeFiles:
		if o.certDir == "" {
			return errors.New("--cert-mode=files needs --cert-dir")
		}
		return nil
	}
	return fmt.Errorf("--cert-mode: %q is neither self-managed nor files", o.certMode)
}

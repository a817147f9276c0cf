package replica

import (
	"cmp"
	"errors"
	"io"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/podgrace/podgrace/internal/program/incluster"
	"github.com/podgrace/podgrace/internal/program/logging"
	"github.com/podgrace/podgrace/internal/program/memory"
	"github.com/podgrace/podgrace/internal/program/version"
)

// Options are what each of the programs is told.
type Options struct {
	// Kubeconfig is a file; empty: the pod's service account, or $KUBECONFIG.
	Kubeconfig string
	// BindAddress is an IP address.
	BindAddress string
	// HealthPort and MetricsPort are where it is looked at; 0: nowhere.
	HealthPort, MetricsPort int
	// Namespace that it runs in.
	Namespace string
	// LeaderElect: one of the replicas leads; false: there is no other.
	LeaderElect bool
	Log         logging.Options

	memoryLimit int64 // of the container, in bytes; 0: not known
}

// DefaultOptions are those of a pod.
func DefaultOptions() Options {
	return Options{BindAddress: "0.0.0.0", HealthPort: 8081, MetricsPort: 8080, LeaderElect: true, Log: logging.Default()}
}

// Usage is what a flag means to one of the programs.
type Usage struct{ Namespace, LeaderElect string }

// AddFlags declares the flags with the defaults that are set.
func (o *Options) AddFlags(f *pflag.FlagSet, usage Usage) {
	f.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file of the API server; empty: the pod's service account, or $KUBECONFIG")
	f.StringVar(&o.BindAddress, "bind-address", o.BindAddress, "IP address to listen on")
	f.IntVar(&o.HealthPort, "health-port", o.HealthPort, "port for /healthz and /readyz; 0: none")
	f.IntVar(&o.MetricsPort, "metrics-port", o.MetricsPort, "port for /metrics; 0: none")
	f.StringVar(&o.Namespace, "namespace", o.Namespace, usage.Namespace+"; default: $POD_NAMESPACE, else podgrace-system")
	f.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, usage.LeaderElect)
	o.Log.AddFlags(f)
}

// Complete fills in what depends on the surroundings.
func (o *Options) Complete() (err error) {
	o.Namespace = cmp.Or(o.Namespace, os.Getenv("POD_NAMESPACE"), "podgrace-system")
	o.memoryLimit, err = memory.Limit()
	return err
}

// Validate says all that is wrong with the options.
func (o *Options) Validate() error {
	return errors.Join(incluster.ValidateHost("bind-address", o.BindAddress), incluster.ValidatePort("health-port", o.HealthPort, 0), incluster.ValidatePort("metrics-port", o.MetricsPort, 0), o.Log.Validate())
}

// Begin is what a program (version.Webhook) does first: it has all libraries log as it does, says what it is, and keeps within its container's memory.
func (o *Options) Begin(program string, out io.Writer) (logr.Logger, version.Info) {
	log := o.Log.New(out)
	klog.SetLogger(log)
	ctrl.SetLogger(log) // without it controller-runtime keeps every request's logger for its first 30 s
	is := version.Of(program)
	log.Info("starting", is.Pairs()...)
	memory.Bound(o.memoryLimit)
	return log, is
}

// Listen has a manager serve health and metrics where the options say.
func (o *Options) Listen(with ctrl.Options) ctrl.Options {
	with.HealthProbeBindAddress = incluster.Address(o.BindAddress, o.HealthPort)
	with.Metrics = metricsserver.Options{BindAddress: incluster.Address(o.BindAddress, o.MetricsPort)}
	return with
}

// Elect has replicas elect a manager by a Lease of this name.
func (o *Options) Elect(lease string, with ctrl.Options) ctrl.Options {
	with.LeaderElection, with.LeaderElectionID, with.LeaderElectionNamespace, with.LeaderElectionReleaseOnCancel = o.LeaderElect, lease, o.Namespace, true
	return with
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"

	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/cmd/logging"
	"github.com/podgrace/podgrace/cmd/memory"
	"github.com/podgrace/podgrace/policy"
)

type options struct {
	kubeconfig  string
	bindAddress string
	healthPort  int
	metricsPort int
	namespace   string
	// excluded are patterns of namespaces; exempt are they, and those that always are.
	excluded    []string
	exempt      policy.Exempt
	nodeName    string
	leaderElect bool
	memoryLimit int64 // of the container, in bytes; 0: not known
	log         logging.Options
}

func defaultOptions() *options {
	return &options{bindAddress: "0.0.0.0", healthPort: 8081, metricsPort: 8080, leaderElect: true, log: logging.Default()}
}

// AddFlags declares the flags with the defaults that are set.
func (o *options) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "kubeconfig file of the API server; empty: the pod's service account, or $KUBECONFIG")
	f.StringVar(&o.bindAddress, "bind-address", o.bindAddress, "IP address to listen on")
	f.IntVar(&o.healthPort, "health-port", o.healthPort, "port for /healthz and /readyz; 0: none")
	f.IntVar(&o.metricsPort, "metrics-port", o.metricsPort, "port for /metrics; 0: none")
	f.StringVar(&o.namespace, "namespace", o.namespace, "namespace of its Leases and of the Secrets that FenceAgents name; default: $POD_NAMESPACE, else podgrace-system")
	f.StringSliceVar(&o.excluded, "exclude-namespaces", o.excluded, policy.ExcludeUsage)
	f.StringVar(&o.nodeName, "node-name", o.nodeName, "node that it runs on, which it never fences; default: $NODE_NAME, else none of the cluster")
	f.BoolVar(&o.leaderElect, "leader-elect", o.leaderElect, "elect one replica that decides; false: this is the only replica")
	o.log.AddFlags(f)
}

// Complete fills in what depends on the surroundings.
func (o *options) Complete() error {
	o.namespace = cmp.Or(o.namespace, os.Getenv("POD_NAMESPACE"), "podgrace-system")
	o.nodeName = cmp.Or(o.nodeName, os.Getenv("NODE_NAME"))
	var err error
	if o.exempt, err = policy.ExemptIn(o.namespace).Excluding(o.excluded...); err != nil {
		return fmt.Errorf("--exclude-namespaces: %w", err)
	}
	o.memoryLimit, err = memory.Limit()
	return err
}

// Validate says all that is wrong with the options.
func (o *options) Validate(args []string) error {
	var errs []error
	if len(args) > 0 {
		errs = append(errs, fmt.Errorf("unexpected argument %q", args[0]))
	}
	if net.ParseIP(o.bindAddress) == nil {
		errs = append(errs, fmt.Errorf("--bind-address: %q is no IP address", o.bindAddress))
	}
	for _, port := range []struct {
		name  string
		value int
	}{{"health-port", o.healthPort}, {"metrics-port", o.metricsPort}} {
		if port.value < 0 || port.value > 65535 {
			errs = append(errs, fmt.Errorf("--%s: %d is no port", port.name, port.value))
		}
	}
	return errors.Join(append(errs, o.log.Validate())...)
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// podsFromAPI is the value of --pods-from that means the API server.
const podsFromAPI = "api"

// options of the daemon and, where they make sense there, of plan.
type options struct {
	kubeconfig    string
	nodeName      string
	policies      []string
	cgroupRoot    string
	procRoot      string
	kubeletRoot   string
	imageRoot     string
	kubelet       string
	kubeletCA     string
	kubeletConfig string
	systemdBus    string
	checkpoint    string
	runtimeDir    string
	mode          string
	podsFrom      string
	dryRun        bool
	resync        time.Duration
	bindAddress   string
	metricsAddr   string
	healthPort    int
	metricsPort   int
	verbosity     int
}

func defaultOptions() *options {
	return &options{
		cgroupRoot: "/sys/fs/cgroup", procRoot: "/proc", kubeletRoot: "/var/lib/kubelet", imageRoot: "/var/lib/containerd",
		systemdBus: "/run/dbus/system_bus_socket", kubelet: "127.0.0.1:10250", runtimeDir: "/run/podgrace", podsFrom: podsFromAPI, resync: 30 * time.Second, bindAddress: "0.0.0.0", healthPort: 8081, metricsPort: 8080,
	}
}

// addShared declares what the daemon and plan both take.
func (o *options) addShared(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "kubeconfig file of the API server; empty: the pod's service account, or $KUBECONFIG")
	f.StringVar(&o.nodeName, "node-name", o.nodeName, "name of this node; default: $NODE_NAME, else the host's name")
	f.StringSliceVar(&o.policies, "policy", o.policies, "file or folder with NodePolicies, instead of those of the cluster (may be repeated)")
	f.StringVar(&o.cgroupRoot, "cgroup-root", o.cgroupRoot, "where the host's cgroups are mounted")
	f.StringVar(&o.procRoot, "proc-root", o.procRoot, "where the host's /proc is mounted")
	f.StringVar(&o.kubeletRoot, "kubelet-root", o.kubeletRoot, "the kubelet's folder: cpu_manager_state, and the file system nodefs")
	f.StringVar(&o.kubelet, "kubelet", o.kubelet, "address of this node's kubelet, which is asked for its configuration; empty: it is not asked")
	f.StringVar(&o.kubeletCA, "kubelet-ca", o.kubeletCA, "CA file of the kubelet's serving certificate; empty: it is not verified")
	f.StringVar(&o.kubeletConfig, "kubelet-config", o.kubeletConfig, "file with the kubelet's configuration, instead of asking it")
	f.StringVar(&o.mode, "mode", o.mode, "Observe, Tune or Repair, whatever the policy says; empty: as the policy says")
	f.StringVar(&o.podsFrom, "pods-from", o.podsFrom, "api, or a file with Pods as kubectl prints them; for plan also with workloads")
	f.IntVarP(&o.verbosity, "v", "v", o.verbosity, "verbosity of the log")
}

// addDaemon declares the rest.
func (o *options) addDaemon(f *pflag.FlagSet) {
	o.addShared(f)
	f.StringVar(&o.imageRoot, "image-root", o.imageRoot, "the container runtime's folder: the file system imagefs")
	f.StringVar(&o.systemdBus, "systemd-bus", o.systemdBus, "socket of the host's D-Bus, or of its systemd (/run/systemd/private), for nodes with the systemd driver")
	f.StringVar(&o.checkpoint, "checkpoint", o.checkpoint, "file to keep the last known state in, for a start without an API server; empty: none")
	f.StringVar(&o.runtimeDir, "runtime-dir", o.runtimeDir, "folder on a tmpfs for notes on what is to be undone, for the next start after a crash")
	f.BoolVar(&o.dryRun, "dry-run", o.dryRun, "say what would be written and whom it would evict, and do nothing")
	f.DurationVar(&o.resync, "resync", o.resync, "how often every cgroup is looked at; one whose plan changes is looked at at once")
	f.StringVar(&o.bindAddress, "bind-address", o.bindAddress, "IP address to listen on")
	f.StringVar(&o.metricsAddr, "metrics-bind-address", o.metricsAddr, "IP address to listen on for /metrics; empty: as --bind-address")
	f.IntVar(&o.healthPort, "health-port", o.healthPort, "port for /healthz and /readyz; 0: none")
	f.IntVar(&o.metricsPort, "metrics-port", o.metricsPort, "port for /metrics; 0: none")
}

// Complete fills in what depends on the surroundings.
func (o *options) Complete() error {
	if o.nodeName = cmp.Or(o.nodeName, os.Getenv("NODE_NAME")); o.nodeName != "" {
		return nil
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("--node-name is not set, and the host's name can't be read: %w", err)
	}
	o.nodeName = name
	return nil
}

// Validate says all that is wrong with the options.
func (o *options) Validate() error {
	var errs []error
	modes := []v1alpha1.NodeMode{"", v1alpha1.NodeModeObserve, v1alpha1.NodeModeTune, v1alpha1.NodeModeRepair}
	if !slices.Contains(modes, v1alpha1.NodeMode(o.mode)) {
		errs = append(errs, fmt.Errorf("--mode: %q is not Observe, Tune or Repair", o.mode))
	}
	if o.resync < time.Second {
		errs = append(errs, fmt.Errorf("--resync: %s is shorter than 1s", o.resync))
	}
	if net.ParseIP(o.bindAddress) == nil {
		errs = append(errs, fmt.Errorf("--bind-address: %q is not an IP address", o.bindAddress))
	}
	if o.metricsAddr != "" && net.ParseIP(o.metricsAddr) == nil {
		errs = append(errs, fmt.Errorf("--metrics-bind-address: %q is not an IP address", o.metricsAddr))
	}
	for _, p := range []struct {
		name string
		port int
	}{{"health-port", o.healthPort}, {"metrics-port", o.metricsPort}} {
		if p.port < 0 || p.port > 65535 {
			errs = append(errs, fmt.Errorf("--%s: %d is not in 0..65535", p.name, p.port))
		}
	}
	if o.podsFrom == "" {
		errs = append(errs, errors.New("--pods-from: it is neither api nor a file"))
	}
	return errors.Join(errs...)
}

// planOptions are those of plan alone.
type planOptions struct {
	node          string
	cgroupVersion int
	cgroupDriver  string
	output        string
}

func (o *planOptions) add(f *pflag.FlagSet) {
	f.StringVar(&o.node, "node", o.node, "file with the Node, as kubectl prints it, instead of asking the API server")
	f.IntVar(&o.cgroupVersion, "cgroup-version", o.cgroupVersion, "plan for cgroup version 1 or 2 and read nothing of this machine; 0: this machine's, and compare with it")
	f.StringVar(&o.cgroupDriver, "cgroup-driver", o.cgroupDriver, "cgroupfs or systemd; empty: as the kubelet's configuration says, or as the tree looks")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
}

// Validate says all that is wrong with the options.
func (o *planOptions) Validate() error {
	var errs []error
	if !slices.Contains([]int{0, 1, 2}, o.cgroupVersion) {
		errs = append(errs, fmt.Errorf("--cgroup-version: %d is neither 1 nor 2", o.cgroupVersion))
	}
	if !slices.Contains([]plan.Driver{"", plan.Cgroupfs, plan.Systemd}, plan.Driver(o.cgroupDriver)) {
		errs = append(errs, fmt.Errorf("--cgroup-driver: %q is neither cgroupfs nor systemd", o.cgroupDriver))
	}
	if o.output != "text" && o.output != "json" {
		errs = append(errs, fmt.Errorf("--output: %q is neither text nor json", o.output))
	}
	return errors.Join(errs...)
}

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/program/incluster"
	"github.com/podgrace/podgrace/internal/program/logging"
	"github.com/podgrace/podgrace/nodeenforcer"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

// podsFromAPI is the value of --pods-from that means the API server.
const podsFromAPI = "api"

// modeEnforce is the value of --mode that means the NodePolicy's.
const modeEnforce = "Enforce"

// options of the daemon and, where they make sense there, of plan.
type options struct {
	nodeenforcer.Options
	kubeconfig    string
	mode          string
	daemonSet     string
	policies      []string
	kubeletConfig string
	podsFrom      string
	log           logging.Options
}

func defaultOptions() *options {
	return &options{
		Options: nodeenforcer.Options{
			Machine:   state.Machine{CgroupRoot: "/sys/fs/cgroup", ProcRoot: "/proc", KubeletRoot: "/var/lib/kubelet"},
			ImageRoot: "/var/lib/containerd", SystemdBus: "/run/dbus/system_bus_socket", Kubelet: "127.0.0.1:10250", RuntimeDir: "/run/podgrace",
			Resync: 30 * time.Second, BindAddress: "0.0.0.0", HealthPort: 8081, MetricsPort: 8080,
		},
		mode: modeEnforce, podsFrom: podsFromAPI, log: logging.Default(),
	}
}

// addNode declares what all commands take.
func (o *options) addNode(f *pflag.FlagSet) {
	f.StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "kubeconfig file of the API server; empty: the pod's service account, or $KUBECONFIG")
	f.StringVar(&o.NodeName, "node-name", o.NodeName, "name of this node; default: $NODE_NAME, else the host's name")
	f.StringVar(&o.Machine.ProcRoot, "proc-root", o.Machine.ProcRoot, "where the host's /proc is mounted")
	o.log.AddFlags(f)
}

// addShared declares what the daemon and plan both take.
func (o *options) addShared(f *pflag.FlagSet) {
	o.addNode(f)
	f.StringSliceVar(&o.policies, "policy", o.policies, "file or folder with NodePolicies, instead of those of the cluster (may be repeated)")
	f.StringVar(&o.Machine.CgroupRoot, "cgroup-root", o.Machine.CgroupRoot, "where the host's cgroups are mounted")
	f.StringVar(&o.Machine.KubeletRoot, "kubelet-root", o.Machine.KubeletRoot, "the kubelet's folder: cpu_manager_state, memory_manager_state, and the file system nodefs")
	f.StringVar(&o.Kubelet, "kubelet", o.Kubelet, "address of this node's kubelet, to read its configuration and disk statistics from; empty: they are not read")
	f.StringVar(&o.KubeletCA, "kubelet-ca", o.KubeletCA, "CA file of the kubelet's serving certificate, which must name the node; empty: it is not verified")
	f.StringVar(&o.kubeletConfig, "kubelet-config", o.kubeletConfig, "file with the kubelet's configuration, instead of reading it from the kubelet")
	f.StringVar(&o.mode, "mode", o.mode, "Enforce: as the NodePolicy asks. Observe: read-only, whatever it asks; only the Node's conditions are written, which needs neither root nor privileges. Tune or Repair: that mode, whatever it asks")
	f.StringVar(&o.podsFrom, "pods-from", o.podsFrom, "api, or a file with Pods as kubectl prints them; for plan also with workloads")
}

// addDaemon declares the rest.
func (o *options) addDaemon(f *pflag.FlagSet) {
	o.addShared(f)
	f.StringVar(&o.ImageRoot, "image-root", o.ImageRoot, "the container runtime's folder: the file system imagefs")
	f.StringVar(&o.SystemdBus, "systemd-bus", o.SystemdBus, "socket of the host's D-Bus, or of its systemd (/run/systemd/private), for nodes with the systemd driver")
	f.StringVar(&o.Checkpoint, "checkpoint", o.Checkpoint, "file to keep the last known state in, for a start without an API server; empty: none")
	f.StringVar(&o.RuntimeDir, "runtime-dir", o.RuntimeDir, "folder on a tmpfs for the previous values of what is written, to restore them after a crash")
	f.BoolVar(&o.DryRun, "dry-run", o.DryRun, "log what would be written and which pods would be evicted, and do nothing; the Node's conditions are not written either")
	f.StringVar(&o.daemonSet, "daemonset", o.daemonSet, "NAMESPACE/NAME of the DaemonSet that this program belongs to: if it is deleted, the program removes its conditions and its taint from the Node when it ends; empty: they stay")
	f.DurationVar(&o.Resync, "resync", o.Resync, "how often all cgroups are reconciled; one whose plan changes is reconciled at once")
	f.StringVar(&o.BindAddress, "bind-address", o.BindAddress, "IP address to listen on")
	f.StringVar(&o.MetricsAddress, "metrics-bind-address", o.MetricsAddress, "IP address to listen on for /metrics; empty: as --bind-address")
	f.IntVar(&o.HealthPort, "health-port", o.HealthPort, "port for /healthz and /readyz; 0: none")
	f.IntVar(&o.MetricsPort, "metrics-port", o.MetricsPort, "port for /metrics; 0: none")
}

// Complete fills in what depends on the surroundings.
func (o *options) Complete() error {
	if o.mode != modeEnforce {
		o.Mode = v1alpha1.NodeMode(o.mode)
	}
	o.DaemonSet.Namespace, o.DaemonSet.Name, _ = strings.Cut(o.daemonSet, "/")
	if o.NodeName = cmp.Or(o.NodeName, os.Getenv("NODE_NAME")); o.NodeName != "" {
		return nil
	}
	name, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("--node-name is not set, and the host's name can't be read: %w", err)
	}
	o.NodeName = name
	return nil
}

// Validate returns all errors of the options.
func (o *options) Validate() error {
	var errs []error
	modes := []v1alpha1.NodeMode{"", v1alpha1.NodeModeObserve, v1alpha1.NodeModeTune, v1alpha1.NodeModeRepair}
	if !slices.Contains(modes, o.Mode) {
		errs = append(errs, fmt.Errorf("--mode: %q is not Enforce, Observe, Tune or Repair", o.mode))
	}
	if o.daemonSet != "" && (o.DaemonSet.Namespace == "" || o.DaemonSet.Name == "" || strings.Contains(o.DaemonSet.Name, "/")) {
		errs = append(errs, fmt.Errorf("invalid --daemonset %q: must be NAMESPACE/NAME", o.daemonSet))
	}
	if o.Resync < time.Second {
		errs = append(errs, fmt.Errorf("--resync: %s is shorter than 1s", o.Resync))
	}
	errs = append(errs, incluster.ValidateHost("bind-address", o.BindAddress), incluster.ValidatePort("health-port", o.HealthPort, 0), incluster.ValidatePort("metrics-port", o.MetricsPort, 0))
	if o.MetricsAddress != "" {
		errs = append(errs, incluster.ValidateHost("metrics-bind-address", o.MetricsAddress))
	}
	if o.podsFrom == "" {
		errs = append(errs, errors.New("--pods-from: it is neither api nor a file"))
	}
	return errors.Join(append(errs, o.log.Validate())...)
}

// planOptions are those of plan alone.
type planOptions struct {
	node          string
	cgroupVersion int
	cgroupDriver  string
	output        string
}

func (o *planOptions) add(f *pflag.FlagSet) {
	f.StringVar(&o.node, "node", o.node, "file with the Node, as kubectl prints it, instead of reading it from the API server")
	f.IntVar(&o.cgroupVersion, "cgroup-version", o.cgroupVersion, "plan for cgroup version 1 or 2 and read nothing of this machine; 0: this machine's, and compare with it")
	f.StringVar(&o.cgroupDriver, "cgroup-driver", o.cgroupDriver, "cgroupfs or systemd; empty: from the kubelet's configuration, else detected from the cgroups")
	f.StringVarP(&o.output, "output", "o", "text", "text or json")
}

// Validate returns all errors of the options.
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

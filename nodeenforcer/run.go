package nodeenforcer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/healthz"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/ledger"
	"github.com/podgrace/podgrace/nodeenforcer/evictor"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/repair"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/status"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// Options are the options of the node enforcer of one node.
type Options struct {
	NodeName string
	Machine  state.Machine
	// ImageRoot is the container runtime's folder.
	ImageRoot string
	// SystemdBus is the socket of the host's D-Bus, or of its systemd.
	SystemdBus string
	// RuntimeDir is a folder on a tmpfs, for the ledgers of what is to be restored.
	RuntimeDir string
	// Mode instead of the policy's; empty: the policy's. In Observe the enforcer is read-only: it takes no right on the node, evicts no pod, and writes only its
	// conditions of the Node.
	Mode   v1alpha1.NodeMode
	DryRun bool
	// DaemonSet that the enforcer belongs to: if it is deleted, the enforcer removes its taint and conditions when it ends. Zero: they stay.
	DaemonSet types.NamespacedName
	// Resync is how often all cgroups are reconciled.
	Resync time.Duration

	// Fixed is the state, if it is read from files; API and the fields after it are not used then.
	Fixed *state.State
	API   *rest.Config
	// Checkpoint is the file to keep the last known state in; empty: none.
	Checkpoint string
	// Policies from files, instead of those of the cluster; nil: the cluster's.
	Policies []*v1alpha1.NodePolicy
	// Kubelet is the address of this node's kubelet; empty: nothing is read from it. KubeletCA is the CA file of its certificate.
	Kubelet, KubeletCA string
	// KubeletConfig from a file; nil: it is read from the kubelet.
	KubeletConfig *kubeletconfigv1beta1.KubeletConfiguration

	// BindAddress and the ports are for the probes and the metrics; port 0: none. MetricsAddress, if set, is for the metrics.
	BindAddress, MetricsAddress string
	HealthPort, MetricsPort     int
	Registry                    *prometheus.Registry
	Log                         logr.Logger
}

// readOnly reports whether nothing is written on the node and of its pods, and only conditions of its Node.
func (o *Options) readOnly() bool { return o.Mode == v1alpha1.NodeModeObserve }

// writes reports whether cgroups are written and pods evicted, if policies ask for it.
func (o *Options) writes() bool { return !o.DryRun && !o.readOnly() }

// part runs until the context ends.
type part func(context.Context) error

// reporters are what the node enforcer tells the API server by. Without one they are empty.
type reporters struct {
	api    terminate.API
	keeper *status.NodeUpdater
	events *status.Events
	tells  []part
	leave  func(context.Context)
}

func (o Options) reporters(sole *repair.Lock) (reporters, error) {
	r := reporters{api: terminate.Offline{}}
	if o.API == nil || o.Fixed != nil {
		return r, nil
	}
	clients, err := state.NewClients(o.API)
	if err != nil {
		return r, err
	}
	r.api = terminate.NewClient(clients.Core, clock.RealClock{})
	node := &status.Writer{Nodes: clients, Name: o.NodeName, ConditionsOnly: o.readOnly(), Now: time.Now}
	if !o.DryRun {
		r.keeper = status.NewNodeUpdater(node, clock.RealClock{}, o.Log)
		r.leave = (&leaving{sets: clients, node: node, daemonSet: o.DaemonSet, log: o.Log}).leave
		r.tells = []part{r.keeper.Start}
	}
	if o.writes() {
		writer, err := status.NewEventWriter(clients.Events, clock.RealClock{}, o.Log)
		if err != nil {
			return r, err
		}
		r.events = status.NewEvents(writer)
		r.tells = []part{sole.Alone(r.keeper.Start), writer.Start}
	}
	return r, nil
}

// Run runs the node enforcer until the context ends.
func Run(ctx context.Context, o Options) error {
	source, kubelet, err := o.source()
	if err != nil {
		return err
	}
	// Plain files, with the systemd driver too: memory.high is lowered for seconds only, and through D-Bus systemd itself would have to
	// wait for the reclaim.
	cgroups, err := o.Machine.Cgroups(plan.Cgroupfs, "")
	if err != nil {
		return err
	}
	metrics := status.NewMetrics(o.Registry)
	sole := repair.NewLock(o.RuntimeDir, clock.RealClock{}, o.Log)
	r, err := o.reporters(sole)
	if err != nil {
		return err
	}
	api, keeper, events, tells, leave := r.api, r.keeper, r.events, r.tells, r.leave
	contained := &ledger.Ledger{File: filepath.Join(o.RuntimeDir, "contained.json"), Folder: filepath.Join(o.RuntimeDir, "contained")}
	terminator := terminate.New(terminate.Config{
		API: api, Cgroups: cgroups, Processes: terminate.Host{Proc: o.Machine.ProcRoot}, Ledger: contained,
		Recorder: status.NewRecorder(metrics, o.Log), Clock: clock.RealClock{}, Limits: terminate.DefaultLimits(),
	})
	pulses := status.NewPulses(clock.RealClock{})
	agent := &Agent{
		Rounding: pulses.Round.Begin,
		Source:   source, Machine: o.Machine, Mode: o.Mode, Resync: o.Resync, Bus: o.SystemdBus, DryRun: !o.writes(), UndoFile: filepath.Join(o.RuntimeDir, "written"),
		Contained: func(path string) bool {
			return slices.ContainsFunc(terminator.Victims(), func(s terminate.VictimStatus) bool { return s.Contained && s.Path == path })
		},
		Clock: clock.RealClock{}, Log: o.Log, Metrics: metrics, Events: events, Status: keeper,
	}
	sensor := &pressure.Sensor{
		CgroupRoot: o.Machine.CgroupRoot, ProcRoot: o.Machine.ProcRoot, Version: o.Machine.Version, KubeletRoot: o.Machine.KubeletRoot, ImageRoot: o.ImageRoot, Clock: clock.RealClock{},
	}
	relief := &evictor.Evictor{
		Stepping: pulses.Step.Begin,
		Source:   source, Paths: o.Machine.Paths, Cgroups: cgroups, Sensor: sensor, Kubelet: kubelet, Terminator: terminator, DryRun: !o.writes(), Untriggered: o.readOnly(), KeptFile: filepath.Join(o.RuntimeDir, "releasing.json"),
		Clock: clock.RealClock{}, Log: o.Log, Metrics: metrics, Events: events, Status: keeper,
	}
	ready := agent.Ready
	writers := []part{agent.Run, relief.Run, terminator.Run}
	if o.writes() {
		defer sole.Release()
		ready = func() error { return cmp.Or(sole.Ready(), agent.Ready()) }
		for i, run := range writers {
			writers[i] = sole.Alone(run)
		}
		writers = append(writers, sole.Start)
	}
	servers, err := o.serve(ready, pulses)
	if err != nil {
		return err
	}
	// What runs: the source of the state, the reconciliation of cgroups, the eviction loop, the termination of victims, reports, servers.
	parts := slices.Concat([]part{source.Start}, writers, tells, servers)
	group, running := errgroup.WithContext(ctx)
	for _, run := range parts {
		group.Go(func() error { return run(running) })
	}
	o.Log.Info("enforcing", "node", o.NodeName, "cgroupVersion", o.Machine.Version, "podsFrom", podsFrom(o.Fixed), "dryRun", o.DryRun, "readOnly", o.readOnly())
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return fmt.Errorf("enforce node %s: %w", o.NodeName, err)
	}
	if leave != nil && o.DaemonSet.Name != "" && (o.readOnly() || sole.Held()) {
		leave(ctx)
	}
	return nil
}

func podsFrom(fixed *state.State) string {
	if fixed != nil {
		return fixed.From
	}
	return "api"
}

// source returns the source of the node's state, and the kubelet's client if there is one.
func (o *Options) source() (state.Source, *state.Kubelet, error) {
	if o.Fixed != nil {
		return (*state.Fixed)(o.Fixed), nil, nil
	}
	options := state.ClusterOptions{NodeName: o.NodeName, Policies: o.Policies, Checkpoint: o.Checkpoint, Config: o.KubeletConfig, Clock: clock.RealClock{}, Log: o.Log}
	var kubelet *state.Kubelet
	if o.Kubelet != "" {
		var err error
		if kubelet, err = state.NewKubelet(o.Kubelet, o.NodeName, o.API, o.KubeletCA); err != nil {
			return nil, nil, err
		}
	}
	if o.KubeletConfig == nil {
		options.Kubelet = kubelet
	}
	source, err := state.NewCluster(o.API, options)
	return source, kubelet, err
}

// serve listens for the kubelet's probes and for Prometheus, and returns the servers that answer them.
func (o *Options) serve(ready func() error, pulses status.Pulses) (servers []part, err error) {
	if o.MetricsPort != 0 {
		mux := http.NewServeMux()
		mux.Handle("/metrics", promhttp.HandlerFor(o.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.HTTPErrorOnError}))
		server, err := listen("metrics", cmp.Or(o.MetricsAddress, o.BindAddress), o.MetricsPort, mux)
		if err != nil {
			return nil, err
		}
		servers = append(servers, server)
	}
	if o.HealthPort != 0 {
		mux := http.NewServeMux()
		mux.Handle("/healthz", http.StripPrefix("/healthz", &healthz.Handler{Checks: map[string]healthz.Checker{
			"loops": func(*http.Request) error { return pulses.Within(status.HungAfter) },
		}}))
		mux.Handle("/readyz", http.StripPrefix("/readyz", &healthz.Handler{Checks: map[string]healthz.Checker{
			"state": func(*http.Request) error { return ready() },
			"loops": func(*http.Request) error { return pulses.Within(status.SlowAfter) },
		}}))
		server, err := listen("health", o.BindAddress, o.HealthPort, mux)
		if err != nil {
			return nil, err
		}
		servers = append(servers, server)
	}
	return servers, nil
}

func listen(what, address string, port int, handler http.Handler) (part, error) {
	server := &http.Server{Addr: net.JoinHostPort(address, strconv.Itoa(port)), Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	listener, err := net.Listen("tcp", server.Addr)
	if err != nil {
		return nil, fmt.Errorf("serve %s: %w", what, err)
	}
	return func(ctx context.Context) error {
		stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // it ends, whoever was answered just then
		defer stop()
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve %s: %w", what, err)
		}
		return nil
	}, nil
}

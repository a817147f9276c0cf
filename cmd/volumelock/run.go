package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"

	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/podgrace/podgrace/cmd/memory"
	"github.com/podgrace/podgrace/cmd/version"
	"github.com/podgrace/podgrace/volumelock/controller"
)

// leaderName is the Lease by which replicas elect their leader.
const leaderName = "podgrace-volumelock"

// run works until the context ends. It ends as well when this replica loses the lead, so that it begins again.
func run(ctx context.Context, o *options, out io.Writer) error {
	log := o.log.New(out)
	klog.SetLogger(log)
	ctrl.SetLogger(log)
	program := version.Of(version.VolumeLock)
	log.Info("starting", program.Pairs()...)
	memory.Bound(o.memoryLimit)

	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.kubeconfig
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, nil).ClientConfig()
	if err != nil {
		return fmt.Errorf("configure the API server's client: %w", err)
	}
	config.UserAgent = program.UserAgent()
	config.QPS = -1 // the API server's priority and fairness limits us, not this process
	if tooOld, err := version.APIServerTooOld(ctx, config); tooOld != "" {
		return errors.New(tooOld)
	} else if err != nil {
		log.Error(err, "not known whether Podgrace works with this API server")
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        controller.NewScheme(),
		Logger:                        log,
		Cache:                         controller.CacheOptions(),
		HealthProbeBindAddress:        address(o.bindAddress, o.healthPort),
		Metrics:                       metricsserver.Options{BindAddress: address(o.bindAddress, o.metricsPort)},
		LeaderElection:                o.leaderElect,
		LeaderElectionID:              leaderName,
		LeaderElectionNamespace:       o.namespace,
		LeaderElectionReleaseOnCancel: true,
	})
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if err := setUp(ctx, mgr, o, program); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

func setUp(ctx context.Context, mgr ctrl.Manager, o *options, program version.Info) error {
	version.NewMetric(metrics.Registry, program)
	attacher := &controller.Attacher{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cache: mgr.GetCache(), Drivers: o.drivers,
		Recorder: mgr.GetEventRecorder("podgrace-volumelock"), Metrics: controller.NewMetrics(metrics.Registry), Clock: clock.RealClock{},
	}
	controller.NewCensusMetric(metrics.Registry, attacher.Census(mgr.Elected()))
	return errors.Join(
		attacher.SetUp(ctx, mgr),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("informers", controller.Synced(mgr.GetCache())),
	)
}

// address of a listener; "0" means none to controller-runtime.
func address(host string, port int) string {
	if port == 0 {
		return "0"
	}
	return net.JoinHostPort(host, strconv.Itoa(port))
}

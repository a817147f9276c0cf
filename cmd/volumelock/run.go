package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/podgrace/podgrace/cmd/incluster"
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

	config, err := incluster.Config(o.kubeconfig, program)
	if err != nil {
		return err
	}
	if tooOld, err := version.APIServerTooOld(ctx, config); tooOld != "" {
		return errors.New(tooOld)
	} else if err != nil {
		log.Error(err, "not known whether Podgrace works with this API server")
	}
	mgr, err := ctrl.NewManager(config, ctrl.Options{
		Scheme:                        controller.NewScheme(),
		Logger:                        log,
		Cache:                         controller.CacheOptions(),
		HealthProbeBindAddress:        incluster.Address(o.bindAddress, o.healthPort),
		Metrics:                       metricsserver.Options{BindAddress: incluster.Address(o.bindAddress, o.metricsPort)},
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

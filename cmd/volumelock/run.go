package main

import (
	"context"
	"io"

	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/podgrace/podgrace/internal/program/version"
	"github.com/podgrace/podgrace/volumelock/controller"
)

// run works until the context ends, or this replica loses the lead.
func run(ctx context.Context, o *options, out io.Writer) error {
	with := ctrl.Options{Scheme: controller.NewScheme(), Cache: controller.CacheOptions()}
	return o.Work(ctx, version.VolumeLock, out, with, func(ctx context.Context, mgr ctrl.Manager) error { return setUp(ctx, mgr, o) })
}

func setUp(ctx context.Context, mgr ctrl.Manager, o *options) error {
	attacher := &controller.Attacher{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Cache: mgr.GetCache(), Drivers: o.drivers,
		Recorder: mgr.GetEventRecorder("podgrace-volumelock"), Metrics: controller.NewMetrics(metrics.Registry), Clock: clock.RealClock{},
	}
	controller.NewCensusMetric(metrics.Registry, attacher.Census(mgr.Elected()))
	return attacher.SetUp(ctx, mgr)
}

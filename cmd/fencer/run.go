package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/podgrace/podgrace/cmd/incluster"
	"github.com/podgrace/podgrace/cmd/memory"
	"github.com/podgrace/podgrace/cmd/version"
	"github.com/podgrace/podgrace/fencing/controller"
)

// leaderName is the Lease by which replicas elect their leader.
const leaderName = "podgrace-fencer"

// run works until the context ends. It ends as well when this replica loses the lead, so that it begins again knowing nothing.
func run(ctx context.Context, o *options, out io.Writer) error {
	log := o.log.New(out)
	klog.SetLogger(log)
	ctrl.SetLogger(log)
	program := version.Of(version.Fencer)
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
		Scheme: controller.NewScheme(),
		Logger: log,
		Cache:  controller.CacheOptions(),
		// Secrets and pods are read live only: no informer has them.
		Client:                        client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.Pod{}}}},
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
	// Informers begin with the program, so that a new leader has synced ones.
	for _, kind := range controller.Watched() {
		if _, err := mgr.GetCache().GetInformer(ctx, kind); err != nil {
			return fmt.Errorf("watch %T: %w", kind, err)
		}
	}
	hostname, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("read the name of this host: %w", err)
	}
	book := &controller.AddressBook{Cache: mgr.GetCache(), Live: mgr.GetAPIReader(), Clock: clock.RealClock{}}
	fencer := &controller.Fencer{
		Client: mgr.GetClient(), Cache: mgr.GetCache(), Live: mgr.GetAPIReader(),
		Agents: controller.LiveAgents{Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Namespace: o.namespace}, Addresses: book,
		Recorder: mgr.GetEventRecorder("podgrace-fencer"), Metrics: controller.NewMetrics(metrics.Registry), Clock: clock.RealClock{},
		Namespace: o.namespace, Exempt: o.exempt, Node: o.nodeName, Identity: cmp.Or(os.Getenv("POD_NAME"), hostname),
	}
	return errors.Join(
		mgr.Add(fencer),
		mgr.Add(book),
		mgr.AddHealthzCheck("ping", healthz.Ping),
		mgr.AddReadyzCheck("informers", controller.Synced(mgr.GetCache())),
	)
}

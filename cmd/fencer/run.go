package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/podgrace/podgrace/fencing/controller"
	"github.com/podgrace/podgrace/internal/program/version"
)

// run works until the context ends, or this replica loses the lead.
func run(ctx context.Context, o *options, out io.Writer) error {
	with := ctrl.Options{
		Scheme: controller.NewScheme(),
		Cache:  controller.CacheOptions(),
		// Secrets and pods are read live only: no informer has them.
		Client: client.Options{Cache: &client.CacheOptions{DisableFor: []client.Object{&corev1.Secret{}, &corev1.Pod{}}}},
	}
	return o.Work(ctx, version.Fencer, out, with, func(ctx context.Context, mgr ctrl.Manager) error { return setUp(ctx, mgr, o) })
}

func setUp(ctx context.Context, mgr ctrl.Manager, o *options) error {
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
		Agents: controller.LiveAgents{Live: mgr.GetAPIReader(), Client: mgr.GetClient(), Namespace: o.secretsNamespace}, Addresses: book,
		Recorder: mgr.GetEventRecorder("podgrace-fencer"), Metrics: controller.NewMetrics(metrics.Registry), Clock: clock.RealClock{},
		Namespace: o.Namespace, Exempt: o.exempt, Node: o.nodeName, Identity: cmp.Or(os.Getenv("POD_NAME"), hostname),
	}
	return errors.Join(mgr.Add(fencer), mgr.Add(book))
}

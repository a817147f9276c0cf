package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/healthz"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/podgrace/podgrace/internal/program/incluster"
	"github.com/podgrace/podgrace/internal/program/version"
)

// Work has a manager do what setUp adds to it, until the context ends. It ends as well when this replica loses the lead, so that it begins again knowing nothing. Its Lease is called as
// the program (version.Fencer).
func (o *Options) Work(ctx context.Context, program string, out io.Writer, with ctrl.Options, setUp func(context.Context, ctrl.Manager) error) error {
	log, is := o.Begin(program, out)
	config, err := incluster.Config(o.Kubeconfig, is)
	if err != nil {
		return err
	}
	if tooOld, err := version.APIServerTooOld(ctx, config); tooOld != "" {
		return errors.New(tooOld)
	} else if err != nil {
		log.Error(err, "not known whether Podgrace works with this API server")
	}
	with.Logger = log
	mgr, err := ctrl.NewManager(config, o.Listen(o.Elect(program, with)))
	if err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	version.NewMetric(metrics.Registry, is)
	if err := errors.Join(setUp(ctx, mgr), mgr.AddHealthzCheck("ping", healthz.Ping), mgr.AddReadyzCheck("informers", synced(mgr.GetCache()))); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	if err := mgr.Start(ctx); err != nil {
		return fmt.Errorf("run: %w", err)
	}
	return nil
}

// synced reports whether all informers have synced.
func synced(informers cache.Cache) healthz.Checker {
	return func(req *http.Request) error {
		if !informers.WaitForCacheSync(req.Context()) {
			return errors.New("the informers have not synced")
		}
		return nil
	}
}

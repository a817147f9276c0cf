package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/internal/program/version"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/controllers"
)

// refuseOldAPIServer fails where the API server is older than Podgrace works with, but for where something of ours fails closed, or may: the removal guard, or limits that
// were installed so. Without a replica the API server would refuse what it has to ask about: removals; or every pod. They are armed by replicas that serve only. So a first installation
// ends here, and nothing is refused; an update to a Podgrace that has become too new stops here, beside the old replicas, which go on; and where neither is so, as
// after a control plane was set back, this one serves and says so.
func refuseOldAPIServer(tooOld string, failsClosed func() (bool, error), log logr.Logger) error {
	if tooOld == "" {
		return nil
	}
	is, err := failsClosed()
	if err == nil && !is {
		return errors.New(tooOld)
	}
	log.Error(err, "serving all the same, since without a replica the API server would refuse removals or pods: the guard or limits that fail closed are armed, or may be", "unsupported", tooOld)
	return nil
}

// checkAPIServer asks the API server of which version it is, and refuses it if that is too old. One that does not answer is left to what needs it.
func checkAPIServer(ctx context.Context, config *rest.Config, namespace string, log logr.Logger) error {
	tooOld, err := version.APIServerTooOld(ctx, config)
	if err != nil {
		log.Error(err, "not known whether Podgrace works with this API server")
	}
	return refuseOldAPIServer(tooOld, func() (bool, error) {
		kube, err := client.New(config, client.Options{Scheme: webhook.NewScheme()})
		if err != nil {
			return false, fmt.Errorf("ask what is armed: %w", err)
		}
		asked, err := controllers.ReadAsked(ctx, kube, namespace)
		if err != nil || asked.Closes() || !asked.Limits {
			return asked.Closes(), err
		}
		return controllers.LimitsFailClosed(ctx, kube)
	}, log)
}

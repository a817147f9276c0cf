package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/internal/program/version"
	"github.com/podgrace/podgrace/nodeenforcer"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

// uninstallOptions are those of uninstall.
type uninstallOptions struct {
	*options
	timeout time.Duration
}

// Validate returns all errors of the options.
func (o *uninstallOptions) Validate() error {
	var errs []error
	if o.DaemonSet.Name == "" {
		errs = append(errs, fmt.Errorf("invalid --daemonset %q: must be NAMESPACE/NAME", o.daemonSet))
	}
	if o.timeout <= 0 {
		errs = append(errs, fmt.Errorf("invalid --timeout %s: must be a positive duration", o.timeout))
	}
	return errors.Join(append(errs, o.log.Validate())...)
}

func newUninstall(log io.Writer) *cobra.Command {
	o := &uninstallOptions{options: defaultOptions(), timeout: time.Minute}
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Remove the node enforcers from a cluster, and what they wrote into its Nodes",
		Long: `uninstall deletes the DaemonSet of the node enforcers, waits until its pods have ended, and removes their taint and conditions from
the Nodes where they are left. It is for the time before the rights of the node enforcers are deleted, without which they can't do
that themselves, nor disarm the watchdog of a self-fence. The chart runs it before an uninstallation.`,
		Example: `  nodeenforcer uninstall --daemonset=podgrace-node/podgrace-nodeenforcer`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.Complete(), o.Validate()); err != nil {
				return usageError{err}
			}
			return o.failed(runUninstall(cmd.Context(), o, log))
		},
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().StringVar(&o.kubeconfig, "kubeconfig", o.kubeconfig, "kubeconfig file of the API server; empty: the pod's service account, or $KUBECONFIG")
	cmd.Flags().StringVar(&o.daemonSet, "daemonset", o.daemonSet, "NAMESPACE/NAME of the DaemonSet of the node enforcers")
	cmd.Flags().DurationVar(&o.timeout, "timeout", o.timeout, "how long to wait for the pods to end")
	o.log.AddFlags(cmd.Flags())
	return cmd
}

func runUninstall(ctx context.Context, o *uninstallOptions, out io.Writer) error {
	o.Log = o.log.New(out)
	klog.SetLogger(o.Log)
	o.Log.Info("starting", version.Of(version.NodeEnforcer).Pairs()...)
	config, err := clientConfig(o.options)
	if err != nil {
		return err
	}
	clients, err := state.NewClients(config)
	if err != nil {
		return err
	}
	return (&nodeenforcer.Uninstall{API: clients, DaemonSet: o.DaemonSet, Timeout: o.timeout, Clock: clock.RealClock{}, Log: o.Log}).Run(ctx)
}

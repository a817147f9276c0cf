package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/internal/program/version"
	"github.com/podgrace/podgrace/nodeenforcer/selffence"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

// selfFenceOptions are those of self-fence.
type selfFenceOptions struct {
	*options
	device   string
	sysRoot  string
	patience time.Duration
	timeout  time.Duration
}

func (o *selfFenceOptions) add(f *pflag.FlagSet) {
	o.addNode(f)
	f.StringVar(&o.device, "device", o.device, "the watchdog")
	f.DurationVar(&o.patience, "patience", o.patience, "how long the watchdog is fed after the node's Lease was renewed for the last time: an API server that is away for longer has the machine reset")
	f.DurationVar(&o.timeout, "timeout", o.timeout, "of the watchdog, in whole seconds: an enforcer that is away for longer has the machine reset")
	f.StringVar(&o.sysRoot, "sys-root", o.sysRoot, "where sysfs is mounted")
}

// Validate returns all errors of the options.
func (o *selfFenceOptions) Validate() error {
	var errs []error
	for _, d := range []struct {
		name            string
		is, least, most time.Duration
	}{{"patience", o.patience, selffence.MinPatience, selffence.MaxPatience}, {"timeout", o.timeout, selffence.MinTimeout, selffence.MaxTimeout}} {
		if d.is < d.least || d.is > d.most || d.is%time.Second != 0 {
			errs = append(errs, fmt.Errorf("--%s: %s is not from %s to %s in whole seconds", d.name, d.is, d.least, d.most))
		}
	}
	return errors.Join(append(errs, o.log.Validate())...)
}

func newSelfFence(log io.Writer) *cobra.Command {
	o := &selfFenceOptions{options: defaultOptions(), device: "/dev/watchdog", sysRoot: "/sys", patience: 2 * time.Minute, timeout: 30 * time.Second}
	cmd := &cobra.Command{
		Use:   "self-fence",
		Short: "Have the machine reset itself when it is cut off",
		Long: `self-fence feeds the machine's hardware watchdog while the node's Lease is known to be renewed, and says so in an annotation of the Node. A machine that is
cut off from the API server, or whose kubelet is dead, is reset after --patience and --timeout, and the fencer can release its pods without a BMC
(docs/fencing.md). An API server that is away for longer has every such machine reset: choose --patience by the longest outage that you mean to sit out.

It runs in a container of its own, which is privileged: nothing else of the node enforcer is.`,
		Example: `  # Where the API server is away for five minutes at most
  nodeenforcer self-fence --node-name worker-1 --patience 6m --timeout 30s`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.Complete(), o.Validate()); err != nil {
				return usageError{err}
			}
			return o.failed(runSelfFence(cmd.Context(), o, log))
		},
	}
	cmd.Flags().SortFlags = false
	o.add(cmd.Flags())
	return cmd
}

func runSelfFence(ctx context.Context, o *selfFenceOptions, out io.Writer) error {
	o.Log = o.log.New(out)
	klog.SetLogger(o.Log)
	o.Log.Info("starting", version.Of(version.NodeEnforcer).Pairs()...)
	boot, err := selffence.BootID(o.Machine.ProcRoot)
	if err != nil {
		return fmt.Errorf("read which boot this is: %w", err)
	}
	config, err := clientConfig(o.options)
	if err != nil {
		return err
	}
	feeder, err := newFeeder(o, boot, config)
	if err != nil {
		return err
	}
	return feeder.Run(ctx)
}

func newFeeder(o *selfFenceOptions, boot string, config *rest.Config) (*selffence.Feeder, error) {
	hangUp := closable(config)
	clients, err := state.NewClients(config)
	if err != nil {
		return nil, err
	}
	return &selffence.Feeder{
		Node: o.NodeName, BootID: boot, Patience: o.patience, Pausable: selffence.Pausable(o.Machine.ProcRoot), Leases: clients, Nodes: clients, HangUp: hangUp,
		Open:  func() (selffence.Watchdog, error) { return selffence.Open(o.device, o.sysRoot, o.timeout) },
		Clock: clock.RealClock{}, Now: selffence.Now, Log: o.Log,
	}, nil
}

// closable has the clients of a configuration make connections that can all be closed, as kubelets do (cmd/kubelet/app/server.go updateDialer, 1.36.3). http.Transport's CloseIdleConnections
// leaves a connection of HTTP/2 be over which something is still asked.
func closable(config *rest.Config) (closeAll func()) {
	dialer := connrotation.NewDialer((&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}).DialContext) // as client-go's own (transport/cache.go, 0.36.3)
	config.Dial = dialer.DialContext
	return dialer.CloseAll
}

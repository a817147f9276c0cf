package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/podgrace/podgrace/internal/program/version"
)

// newRoot returns the command: the daemon, plan, self-fence and uninstall.
func newRoot(out, log io.Writer) *cobra.Command {
	o := defaultOptions()
	root := &cobra.Command{
		Use:   "nodeenforcer",
		Short: "Enforce on a node what admission decided",
		Long: `nodeenforcer runs on every node, beside the kubelet. It plans the node's cgroups from its pods and its NodePolicy, compares
them with what the kernel has and, as the policy's mode allows, writes the difference. Where the policy has eviction thresholds it
evicts pods under pressure.

Without a NodePolicy it observes and writes nothing. Without an API server it enforces the last known state.`,
		Example: `  # What it would do on this node, without doing it
  nodeenforcer --node-name worker-1 --dry-run

  # The cgroups as they should be and as they are
  nodeenforcer plan --node-name worker-1`,
		Version:       version.Of(version.NodeEnforcer).String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.Complete(), o.Validate()); err != nil {
				return usageError{err}
			}
			return o.failed(run(cmd.Context(), o, log))
		},
	}
	root.SetOut(out)
	root.SetErr(log)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.Flags().SortFlags = false
	o.addDaemon(root.Flags())
	root.Flags().Bool("version", false, "print the version and end")
	root.SetVersionTemplate("{{.Version}}\n")
	root.AddCommand(newPlan(), newSelfFence(log), newUninstall(log))
	return root
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())}
	}
	return nil
}

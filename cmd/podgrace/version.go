package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/podgrace/podgrace/cmd/version"
)

// newVersion is for who types it as with kubectl; --version does the same. It asks no cluster: several versions may run there.
func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), version.Of(version.CommandLine))
			return nil
		},
	}
}

// Command podgrace is Podgrace for a person's shell; under the name kubectl-podgrace it is "kubectl podgrace".
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/program/version"
)

// Signals keep their meaning: Ctrl-C and SIGTERM end the program wherever it is. Nothing here needs an orderly end (files are
// replaced as a whole, what a cluster is asked for is one request), and a handler would only be heard between two reads: never
// where a terminal or a pipe is waited for.
func main() {
	os.Exit(command(context.Background(), terminal.NewTerminal(), os.Args))
}

// command returns the exit code: 0, 1 where the answer is no or it failed, 2 where the input is bad.
func command(ctx context.Context, t terminal.Terminal, args []string) int {
	root := newRoot(t, programName(args[0]))
	root.SetArgs(args[1:])
	if filepath.Base(args[0]) == kubectlCompletes {
		root.SetArgs(append([]string{"__complete"}, args[1:]...))
	}
	return terminal.Execute(ctx, t, root)
}

// kubectlCompletes is the program that kubectl runs to complete the plugin's arguments.
const kubectlCompletes = "kubectl_complete-podgrace"

// programName is what the person typed.
func programName(path string) string {
	switch filepath.Base(path) {
	case "kubectl-podgrace", kubectlCompletes:
		return "kubectl podgrace"
	}
	return "podgrace"
}

// newRoot returns the command with all that it can do.
func newRoot(t terminal.Terminal, name string) *cobra.Command {
	root := &cobra.Command{
		Use:   "podgrace",
		Short: "Decide how pods are ranked, spread and stopped, and see why",
		Args: func(root *cobra.Command, args []string) error {
			if len(args) > 0 {
				return terminal.UsageError{Err: fmt.Errorf("unknown command %q%s; see %s --help", args[0], meant(root, args[0]), name)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	terminal.Declare(root, t, name, version.Of(version.CommandLine))
	root.AddCommand(newReview(t, name), newTest(t, name), newDiff(t, name), newExplain(t, name), newCompile(t, name), newConfirm(t, name), newGrant(t, name), newStatus(t, name), newDoctor(t, name), newFence(t, name), newVolumeLock(t, name), newPreview(name), newVersion())
	return root
}

// meant are the commands that may have been meant.
func meant(root *cobra.Command, typed string) string {
	root.SuggestionsMinimumDistance = 2
	if names := root.SuggestionsFor(typed); len(names) > 0 {
		return fmt.Sprintf(" (%s?)", strings.Join(names, ", "))
	}
	return ""
}

// newVersion is for who types it as with kubectl; --version does the same. It asks no cluster: several versions may run there.
func newVersion() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return terminal.UsageError{Err: fmt.Errorf("unexpected argument %q; see %s --help", args[0], cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			fmt.Fprintln(cmd.OutOrStdout(), version.Of(version.CommandLine))
			return nil
		},
	}
}

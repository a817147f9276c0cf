// Command podgrace is Podgrace for a person's shell; under the name kubectl-podgrace it is "kubectl podgrace".
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podgrace/podgrace/cmd/version"
)

// Signals keep their meaning: Ctrl-C and SIGTERM end the program wherever it is. Nothing here needs an orderly end (files are
// replaced as a whole, what a cluster is asked for is one request), and a handler would only be heard between two reads: never
// where a terminal or a pipe is waited for.
func main() {
	os.Exit(command(context.Background(), newTerminal(), os.Args))
}

// errNo ends with exit code 1 and without a word: all was said.
var errNo = errors.New("no")

// errBadInput ends with exit code 2: what is wrong was said.
var errBadInput = errors.New("bad input")

// usageError is a command that can't be understood.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// command returns the exit code: 0, 1 where the answer is no or it failed, 2 where the input is bad.
func command(ctx context.Context, t terminal, args []string) int {
	name := programName(args[0])
	err := run(ctx, t, name, args)
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errNo):
		return 1
	case errors.Is(err, errBadInput):
		return 2
	case errors.As(err, &usage):
		for problem := range strings.SplitSeq(err.Error(), "\n") { // a line each, since they were joined
			fmt.Fprintf(t.Err, "%s: %s\n", name, problem)
		}
		return 2
	}
	fmt.Fprintf(t.Err, "%s: %v\n", name, err)
	return 1
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

func run(ctx context.Context, t terminal, name string, args []string) error {
	root := newRoot(t, name)
	root.SetArgs(args[1:])
	if filepath.Base(args[0]) == kubectlCompletes {
		root.SetArgs(append([]string{"__complete"}, args[1:]...))
	}
	return root.ExecuteContext(ctx)
}

// newRoot returns the command with all that it can do.
func newRoot(t terminal, name string) *cobra.Command {
	root := &cobra.Command{
		Use:           "podgrace",
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: name},
		Short:         "Decide how pods are ranked, spread and stopped, and see why",
		Version:       version.Of(version.CommandLine).String(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args: func(root *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("unknown command %q%s; see %s --help", args[0], meant(root, args[0]), name)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(t.In)
	root.SetOut(t.Out)
	root.SetErr(t.Err)
	if t.Style.Width > 0 {
		root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", t.Style.Width)))
	}
	root.Flags().Bool("version", false, "print the version and end")
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
	root.AddCommand(newReview(t, name), newTest(t, name), newDiff(t, name), newExplain(t, name), newCompile(t, name), newConfirm(t, name), newGrant(t, name), newStatus(t, name), newFence(t, name), newVersion())
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

// noArgs refuses what stands without a flag.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usageError{fmt.Errorf("%q stands alone: files go with -f; see %s --help", args[0], cmd.CommandPath())}
	}
	return nil
}

// complete offers the values of a flag to a shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

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

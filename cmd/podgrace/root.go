package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podgrace/podgrace/cmd/version"
)

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
	root.AddCommand(newReview(t, name), newTest(t, name), newDiff(t, name), newExplain(t, name), newCompile(t, name), newConfirm(t, name), newGrant(t, name), newVersion())
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

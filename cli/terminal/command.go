package terminal

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/rest"

	"github.com/podgrace/podgrace/internal/program/version"
)

// ExitCode ends with this code and without a word: all was said.
type ExitCode int

func (c ExitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

const (
	// ErrNo is an answer that is no.
	ErrNo ExitCode = 1
	// ErrBadInput is a bad input, of which was said what is wrong.
	ErrBadInput ExitCode = 2
)

// UsageError is a command that can't be understood, or whose input can't be read. It ends with exit code 2, and each line of it is said.
type UsageError struct{ Err error }

func (e UsageError) Error() string { return e.Err.Error() }

func (e UsageError) Unwrap() error { return e.Err }

// Execute runs a command that Declare has declared, and returns its exit code: 0, that of an ExitCode, 2 for a UsageError, 1 where it failed.
func Execute(ctx context.Context, t Terminal, root *cobra.Command) int {
	err := root.ExecuteContext(ctx)
	var code ExitCode
	var usage UsageError
	switch {
	case err == nil:
		return 0
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		for problem := range strings.SplitSeq(err.Error(), "\n") { // a line each, since they were joined
			fmt.Fprintf(t.Err, "%s: %s\n", root.DisplayName(), problem)
		}
		return int(ErrBadInput)
	}
	fmt.Fprintf(t.Err, "%s: %v\n", root.DisplayName(), err)
	return 1
}

// Declare makes a command the root of a program: name is what the person typed to start it.
func Declare(root *cobra.Command, t Terminal, name string, own version.Info) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: name}
	root.Version = own.String()
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetIn(t.In)
	root.SetOut(t.Out)
	root.SetErr(t.Err)
	if t.Style.Width > 0 {
		root.SetUsageTemplate(strings.ReplaceAll(root.UsageTemplate(), ".FlagUsages", fmt.Sprintf(".FlagUsagesWrapped %d", t.Style.Width)))
	}
	root.Flags().Bool("version", false, "print the version and end")
	root.SetVersionTemplate("{{.Version}}\n")
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return UsageError{fmt.Errorf("%w; see %s --help", err, cmd.CommandPath())}
	})
}

// NoArgs refuses what stands without a flag.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return UsageError{fmt.Errorf("%q stands alone: files go with -f; see %s --help", args[0], cmd.CommandPath())}
	}
	return nil
}

// CompleteFlag offers the values of a flag to a shell.
func CompleteFlag(cmd *cobra.Command, flag string, values ...string) {
	if err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err) // there is no such flag
	}
}

// NewConfigFlags are kubectl's flags that name a cluster, for clients that say which program they are.
func NewConfigFlags(program string) *genericclioptions.ConfigFlags {
	return genericclioptions.NewConfigFlags(true).WithWrapConfigFn(func(config *rest.Config) *rest.Config {
		config.UserAgent = version.Of(program).UserAgent()
		return config
	})
}

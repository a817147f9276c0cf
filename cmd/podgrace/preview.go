package main

import (
	"fmt"
	"os/exec"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/podgrace/podgrace/cli/launch"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/program/version"
)

const previewLong = `Preview where a pod would be scheduled, why not elsewhere, and whom it would cost,
by the code of Kubernetes' own scheduler and after the policies.

It is a program of its own, podgrace-preview, since the scheduler is nothing that
podgrace needs otherwise. It is looked for beside podgrace, then on the PATH, and has
the rest of this help: %[1]s preview --help

It is not there yet? "make build" in a clone of Podgrace makes both programs, in bin/,
and the image podgrace/preview has both.`

func newPreview(name string) *cobra.Command {
	return &cobra.Command{
		Use:                   "preview ...",
		DisableFlagsInUseLine: true,
		DisableFlagParsing:    true, // they are the program's, --help too
		Short:                 "Preview where a pod would be scheduled, why not elsewhere, and whom it would cost",
		Long:                  fmt.Sprintf(previewLong, name),
		ValidArgsFunction:     completePreview,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := launch.Find(version.Preview)
			switch {
			case err != nil && (slices.Contains(args, "--help") || slices.Contains(args, "-h")):
				return cmd.Help()
			case err != nil:
				return terminal.UsageError{Err: err}
			}
			return launch.Starter{Command: cmd.CommandPath(), Version: version.Of(version.CommandLine).Version}.Become(path, args...)
		},
	}
}

// completePreview asks the program what can be typed next.
func completePreview(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	path, err := launch.Find(version.Preview)
	if err != nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	out, err := exec.CommandContext(cmd.Context(), path, slices.Concat([]string{cobra.ShellCompRequestCmd}, args, []string{prefix})...).Output()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	last := len(lines) - 1
	directive, wrong := strconv.Atoi(strings.TrimPrefix(lines[last], ":"))
	if err != nil || wrong != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return lines[:last], cobra.ShellCompDirective(directive)
}

package main

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/cli/load"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/suite"
	"github.com/podgrace/podgrace/cli/terminal"
)

const testLong = `Test policies by suites: YAML files of kind PolicySuite beside the policies. Each
case says what somebody does to an object, and what must come of it: the decision,
reason, message, warnings, fields of the pod. It is judged as the cluster would.

PATH is a suite, or a folder in which all suites are found, suite.yaml by custom.
A suite takes the policies, manifests and state of its own folder, unless it
names others. Of several suites the table has a line each; what failed is told whole.

Exit codes: 0 all cases passed
            1 a case failed
            2 bad input, such as a suite with a typo or an object that is not there`

const testExample = `  # All suites of this repository
  %[1]s test .

  # Only what is about force deletes, with what happened
  %[1]s test examples/stateful --run 'force delete' -v

  # A new case without a then is printed with one to paste; with -v so is one that fails
  %[1]s test examples/stateful -v

  # For a CI system
  %[1]s test examples -o junit > report.xml`

type testOptions struct {
	run     string
	format  string
	verbose bool

	templates load.TemplateFlag

	only *regexp.Regexp
}

func newTest(t terminal.Terminal, name string) *cobra.Command {
	o := &testOptions{}
	cmd := &cobra.Command{
		Use:                   "test PATH...",
		DisableFlagsInUseLine: true,
		Short:                 "Test policies by suites of cases",
		Long:                  testLong,
		Example:               fmt.Sprintf(testExample, name),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				return terminal.UsageError{Err: errors.New("where are the suites? A file or folder, such as . for this one")}
			}
			if slices.Contains(paths, "") {
				return terminal.UsageError{Err: errors.New("a PATH is empty; is a variable not set?")}
			}
			if err := o.Complete(); err != nil {
				return terminal.UsageError{Err: err}
			}
			return runTest(cmd.Context(), t, o, paths)
		},
	}
	o.AddFlags(cmd.Flags())
	terminal.CompleteFlag(cmd, "output", suite.Formats()...)
	return cmd
}

// AddFlags declares the flags.
func (o *testOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.run, "run", "", "only cases whose SUITE/CASE matches this regular expression")
	f.StringVarP(&o.format, "output", "o", suite.Formats()[0], "one of "+strings.Join(suite.Formats(), ", "))
	o.templates.AddFlag(f)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "table: each case of several suites, what happened in it, and a then to paste for one that failed")
}

// Complete reads the flags and says what is wrong with them.
func (o *testOptions) Complete() (err error) {
	if !slices.Contains(suite.Formats(), o.format) {
		return fmt.Errorf("-o %s: it is one of %s", o.format, strings.Join(suite.Formats(), ", "))
	}
	if o.run == "" {
		return nil
	}
	if o.only, err = regexp.Compile(o.run); err != nil {
		return fmt.Errorf("--run: %w", err)
	}
	return nil
}

// newState knows what the flags say. What is wrong with them was said before.
func (o *testOptions) newState() *review.State {
	state := review.NewState()
	if err := o.templates.Set(state); err != nil {
		panic(err)
	}
	return state
}

func runTest(ctx context.Context, t terminal.Terminal, o *testOptions, paths []string) error {
	suites, wrong := suite.Load(paths...)
	if err := o.templates.Set(review.NewState()); err != nil {
		return err
	}
	runner := &suite.Runner{Only: o.only, User: userInfo, NewState: o.newState}
	total := runner.Selected(suites)
	if total == 0 && len(wrong) == 0 {
		return terminal.UsageError{Err: fmt.Errorf("no case matches --run %s", o.run)}
	}
	bar := terminal.NewProgress(t, "testing", total)
	runner.Progress = bar.Add
	report, err := runner.Run(ctx, suites)
	bar.Done()
	if err != nil {
		return err
	}
	report.AddErrors(wrong...)
	if err := suite.Write(t.Out, o.format, report, suite.Options{Style: t.Style, Verbose: o.verbose}); err != nil {
		return err
	}
	switch {
	case report.Summary.Errors > 0:
		return terminal.ErrBadInput
	case report.Summary.Failed > 0:
		return terminal.ErrNo
	}
	return nil
}

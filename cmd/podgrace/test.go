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

	"github.com/podgrace/podgrace/cmd/podgrace/cli"
	"github.com/podgrace/podgrace/cmd/podgrace/inputs"
	"github.com/podgrace/podgrace/review"
	"github.com/podgrace/podgrace/review/suite"
)

const testLong = `Test policies by suites: YAML files of kind PolicySuite beside the policies. Each
case says what somebody does to an object, and what must come of it: the decision,
reason, message, warnings, fields of the pod. It is judged as the cluster would.

PATH is a suite, or a folder in which all suites are found, suite.yaml by custom.
A suite takes the policies, manifests and state of its own folder, unless it
names others. Of several suites the table has a line each; what failed is told whole.

Exit codes: 0 all cases passed, or were updated
            1 a case failed
            2 bad input, such as a suite with a typo or an object that is not there`

const testExample = `  # All suites of this repository
  %[1]s test .

  # Only what is about force deletes, with what happened
  %[1]s test examples/stateful --run 'force delete' -v

  # Write what happens now into the cases that fail or expect nothing, then look at it with git diff
  %[1]s test examples/stateful --update

  # For a CI system
  %[1]s test examples -o junit > report.xml`

type testOptions struct {
	run     string
	format  string
	update  bool
	verbose bool

	templates inputs.TemplateFlag

	only *regexp.Regexp
}

func newTest(t cli.Terminal, name string) *cobra.Command {
	o := &testOptions{}
	cmd := &cobra.Command{
		Use:                   "test PATH...",
		DisableFlagsInUseLine: true,
		Short:                 "Test policies by suites of cases",
		Long:                  testLong,
		Example:               fmt.Sprintf(testExample, name),
		RunE: func(cmd *cobra.Command, paths []string) error {
			if len(paths) == 0 {
				return cli.UsageError{Err: errors.New("where are the suites? A file or folder, such as . for this one")}
			}
			if slices.Contains(paths, "") {
				return cli.UsageError{Err: errors.New("a PATH is empty; is a variable not set?")}
			}
			if err := o.Complete(); err != nil {
				return cli.UsageError{Err: err}
			}
			return runTest(cmd.Context(), t, o, paths)
		},
	}
	o.AddFlags(cmd.Flags())
	cli.CompleteFlag(cmd, "output", suite.Formats()...)
	return cmd
}

// AddFlags declares the flags.
func (o *testOptions) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&o.run, "run", "", "only cases whose SUITE/CASE matches this regular expression")
	f.StringVarP(&o.format, "output", "o", suite.Formats()[0], "one of "+strings.Join(suite.Formats(), ", "))
	f.BoolVar(&o.update, "update", false, "write what happens into the cases that fail or expect nothing")
	o.templates.AddFlag(f)
	f.BoolVarP(&o.verbose, "verbose", "v", false, "table: each case of several suites, and what happened in it")
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

func runTest(ctx context.Context, t cli.Terminal, o *testOptions, paths []string) error {
	suites, wrong := suite.Load(paths...)
	if err := o.templates.Set(review.NewState()); err != nil {
		return err
	}
	runner := &suite.Runner{Only: o.only, User: userInfo, Update: o.update, NewState: o.newState}
	total := runner.Selected(suites)
	if total == 0 && len(wrong) == 0 {
		return cli.UsageError{Err: fmt.Errorf("no case matches --run %s", o.run)}
	}
	bar := cli.NewProgress(t, "testing", total)
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
		return cli.ErrBadInput
	case report.Summary.Failed > 0:
		return cli.ErrNo
	}
	return nil
}

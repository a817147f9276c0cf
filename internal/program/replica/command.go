package replica

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/internal/program/logging"
	"github.com/podgrace/podgrace/internal/program/version"
)

// Flags are a program's options.
type Flags interface {
	// AddFlags declares the flags with the defaults that are set.
	AddFlags(*pflag.FlagSet)
	// Complete fills in what depends on the surroundings.
	Complete() error
	// Validate says all that is wrong with the options.
	Validate() error
}

// Command is how a program is called.
type Command struct {
	// Name of the command.
	Name string
	// Program is what it calls itself (version.Webhook).
	Program string
	// Does is what it does, for its help, after its name: "answers reviews."
	Does string
	// Flags are its own, and Log is of them.
	Flags Flags
	Log   *logging.Options
	// Run works until the context ends.
	Run func(ctx context.Context, log io.Writer) error
}

// Main is the main function of the program: it carries out the command line, until a signal says to end.
func (c Command) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := c.Execute(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Execute returns the exit code: 0, 1 where it failed, 2 where it was called wrongly.
func (c Command) Execute(ctx context.Context, args []string, out, log io.Writer) int {
	flags := pflag.NewFlagSet(c.Name, pflag.ContinueOnError)
	flags.SortFlags = false
	c.Flags.AddFlags(flags)
	tell := flags.Bool("version", false, "print the version and end")
	flags.Usage = func() {
		fmt.Fprintf(log, "%[1]s %[2]s\n\nUsage:\n  %[1]s [flags]\n\nFlags:\n%[3]s", c.Name, c.Does, flags.FlagUsages())
	}
	if err := flags.Parse(args); errors.Is(err, pflag.ErrHelp) {
		return 0
	} else if err != nil {
		fmt.Fprintf(log, "%s: %v\n", c.Name, err)
		return 2
	}
	if *tell {
		fmt.Fprintln(out, version.Of(c.Program))
		return 0
	}
	if err := c.complete(flags.Args()); err != nil {
		fmt.Fprintf(log, "%s: %v\n", c.Name, err)
		return 2
	}
	if err := c.Run(ctx, log); err != nil {
		c.Log.Failed(log, c.Name, err)
		return 1
	}
	return 0
}

// complete says all that is wrong with how it was called.
func (c Command) complete(args []string) error {
	var unexpected error
	if len(args) > 0 {
		unexpected = fmt.Errorf("unexpected argument %q", args[0])
	}
	return errors.Join(c.Flags.Complete(), unexpected, c.Flags.Validate())
}

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/podgrace/podgrace/cli/doctor"
	"github.com/podgrace/podgrace/cli/doctor/collect"
	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/cli/load"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/program/version"
)

const doctorLong = `Say what on a cluster would keep Podgrace from working, why, and what to do: before it
is installed, and after. It only reads: it sends nothing but GET. What you may not read
is told, and does not count as fine; deploy/doctor has the role that reads it all.

Exit codes: 0 nothing as severe as --fail-on says and nothing that could not be looked
at, 1 something is or the cluster can't be reached, 2 bad input`

// doctorOptions are the command's.
type doctorOptions struct {
	*load.Options

	failOn, output string
	kubelets       bool
}

func newDoctor(t terminal.Terminal, name string) *cobra.Command {
	o := &doctorOptions{Options: load.New(version.CommandLine), failOn: string(doctor.Error), output: "text"}
	o.ReadOnly = true
	cmd := &cobra.Command{
		Use:                   "doctor",
		DisableFlagsInUseLine: true,
		Short:                 "Say what on a cluster keeps Podgrace from working, and what to do",
		Long:                  doctorLong,
		Example: fmt.Sprintf(`  %[1]s doctor                       # the cluster of the current context
  %[1]s doctor --fail-on warning -o json
  %[1]s doctor --state dump.json     # what kubectl get -o json has written`, name),
		Args: terminal.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.validate(); err != nil {
				return terminal.UsageError{Err: err}
			}
			return o.run(cmd.Context(), t)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.failOn, "fail-on", o.failOn, "the least severity that ends with exit code 1: "+failOnValues())
	f.StringVarP(&o.output, "output", "o", o.output, "text or json")
	f.BoolVar(&o.kubelets, "kubelet-config", false, "also read the kubelets' configurations through the API server; takes the right to get nodes/proxy, by which one can run commands in every pod")
	f.StringArrayVar(&o.State, "state", nil, "look at the objects of this file or folder instead of at a cluster; may be repeated")
	o.AddReadingFlags(f)
	o.Kube.AddFlags(f)
	f.Lookup("namespace").Usage = "the namespace that Podgrace is, or is to be, installed in (default: where its webhook configurations say, else " + doctor.DefaultNamespace + ")"
	terminal.CompleteFlag(cmd, "fail-on", strings.Split(failOnValues(), ", ")...)
	terminal.CompleteFlag(cmd, "output", "text", "json")
	return cmd
}

// never is the value of --fail-on by which no finding is a failure.
const never = "never"

func failOnValues() string {
	values := make([]string, 0, len(doctor.Severities())+1)
	for _, s := range doctor.Severities() {
		values = append(values, string(s))
	}
	return strings.Join(append(values, never), ", ")
}

func (o *doctorOptions) validate() error {
	var errs []error
	if o.output != "text" && o.output != "json" {
		errs = append(errs, fmt.Errorf("--output %s: it is text or json", o.output))
	}
	if !strings.Contains(", "+failOnValues()+",", ", "+o.failOn+",") {
		errs = append(errs, fmt.Errorf("--fail-on %s: it is one of %s", o.failOn, failOnValues()))
	}
	if len(o.State) > 0 && o.kubelets {
		errs = append(errs, errors.New("--kubelet-config asks a cluster, and --state looks at none"))
	}
	if ns := *o.Kube.Namespace; ns != "" && len(validation.IsDNS1123Label(ns)) > 0 {
		errs = append(errs, fmt.Errorf("--namespace %q: no namespace can be called so", ns))
	}
	return errors.Join(append(errs, o.ValidatePaths())...)
}

func (o *doctorOptions) run(ctx context.Context, t terminal.Terminal) error {
	s, wrong, err := o.snapshot(ctx, t)
	if err != nil {
		return err
	}
	r := doctor.Examine(s)
	if err := printDoctor(t.Out, r, o.output, t.Style); err != nil {
		return err
	}
	for _, e := range wrong {
		fmt.Fprintln(t.Err, e)
	}
	switch {
	case len(wrong) > 0:
		return terminal.ErrBadInput
	case o.failOn != never && r.Fails(doctor.Severity(o.failOn)):
		return terminal.ErrNo
	}
	return nil
}

// snapshot reads the files, or the cluster.
func (o *doctorOptions) snapshot(ctx context.Context, t terminal.Terminal) (*doctor.Snapshot, []*manifest.Error, error) {
	options := collect.Options{Namespace: *o.Kube.Namespace, Kubelets: o.kubelets, CLI: version.Of(version.CommandLine).Version, Now: t.Now()}
	if len(o.State) > 0 {
		reader := &input.Reader{Stdin: t.In, Exclude: o.Exclude, Render: o.Render}
		s, wrong := collect.FromFiles(reader, options, o.State...)
		return s, wrong, nil
	}
	config, err := o.Kube.ToRESTConfig()
	if err != nil {
		return nil, nil, terminal.UsageError{Err: fmt.Errorf("read the kubeconfig: %w", err)}
	}
	config.QPS, config.Burst = 50, 300 // as kubectl's
	s, err := collect.FromCluster(ctx, config, options)
	return s, nil, err
}

func printDoctor(out io.Writer, r *doctor.Report, format string, style console.Style) error {
	if format == "json" {
		return console.EncodeJSON(out, r)
	}
	_, err := io.WriteString(out, r.Text(style))
	return err
}

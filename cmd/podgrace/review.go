package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/cli/load"
	"github.com/podgrace/podgrace/cli/report"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/program/version"
)

const reviewLong = `Review manifests as the cluster's API server and Podgrace's webhooks would: what
changes, what is warned about, what is refused, and by which policy.

-f takes files, folders and - for stdin: manifests as kubectl, Helm and kustomize
write them, lists, and AdmissionReviews as the API server sends them. A workload
is judged by the pod that its controller would create, a custom one by the template
that --template names (an Argo Rollout's and a Knative Service's are known). What of
a folder is no manifest, or is named by --exclude or a .podgraceignore, is left out,
and counted; charts and kustomizations in it are named, or rendered by --render.

Without -f, where a cluster is named by --kubeconfig, --context or --server, it is
what is in the cluster that is reviewed: its workloads, and pods that none of them
makes, as they would be created today; with --operation its pods, and for delete
its Nodes. -n takes those of one namespace. Nothing but GET is sent to a cluster.

What a decision depends on (Namespaces, PriorityClasses, Services, Nodes ...) is
found among the manifests and in --state, or, where a cluster is named, in that
cluster. What is found nowhere is
unknown where it could make a difference: it is said with what to give, --fail-on
unknown fails on it, and a removal that needs it is refused. That there are no
Services is said by an empty list: {apiVersion: v1, kind: ServiceList, items: []}.

PodPolicies among the manifests count beside those of --policy. Of a cluster its
own are taken where no other is given. Without any, the report says so. NodePolicies
and the kinds of fencing are checked, and judge no manifest.

With --preview Kubernetes' own scheduler is asked about each pod beside the nodes and
pods of the state or the cluster: one that no node takes, or only where others go, is
a finding as a warning is (--fail-on warn). A workload's is one more pod than those
that run. It is a program of its own: podgrace preview --help.

Exit codes: 0 nothing found
            1 findings, as --fail-on says
            2 bad input; what could be read was reviewed all the same. Nothing is
              where a --policy can't be read or has no PodPolicy; stdin without a
              document is an error, since the command before it may have failed`

const reviewExample = `  # What do the policies of this folder do to its manifests?
  %[1]s review -f examples/production-web

  # The same, where manifests, policies and what is known of the cluster are apart
  %[1]s review -f examples/stateful/workloads.yaml --policy examples/stateful --state examples/stateful

  # All of a repository but what its tests need
  %[1]s review -f . --exclude tests/ --exclude '*-values.yaml'

  # A Helm chart, for a comment on the pull request
  helm template podgrace deploy/chart/podgrace --set images.registry=registry.example.com/ | %[1]s review -f - --policy examples/stateful -o markdown

  # For a person, and for code scanning
  %[1]s review -f examples/production-web -o text -o sarif=podgrace.sarif

  # Does each pod fit on the nodes of the cluster, before it is merged?
  %[1]s review -f examples/production-web/workloads.yaml --preview --fail-on warn --context production

  # Whose force delete would be refused in this cluster if this policy were applied? Nobody is refused yet
  %[1]s review --context production --policy examples/stateful --operation delete --grace-period 0

  # Would this user's force delete be refused, with what the cluster knows?
  %[1]s review -f examples/stateful --operation delete --grace-period 0 --as jane --context production`

type reviewOptions struct {
	inputs *load.Options
	ask    askOptions
	out    outputs
	failOn []string
	// details and all of text.
	details, all bool
	// preview: say of each pod whether it would be pending.
	preview bool
	reading []string // of a previewer
}

func newReview(t terminal.Terminal, name string) *cobra.Command {
	o := &reviewOptions{inputs: load.New(version.CommandLine), out: newOutputs()}
	o.inputs.ReadOnly, o.inputs.MayDump = true, true
	cmd := &cobra.Command{
		Use:                   "review [-f PATH...] [--policy PATH...] [--state PATH...]",
		DisableFlagsInUseLine: true,
		Short:                 "Review manifests: what the policies change, warn about and refuse",
		Long:                  reviewLong,
		Example:               fmt.Sprintf(reviewExample, name),
		Args:                  terminal.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.Complete(cmd.Flags()), o.Validate()); err != nil {
				return terminal.UsageError{Err: err}
			}
			return runReview(cmd.Context(), t, o)
		},
	}
	o.AddFlags(cmd.Flags())
	terminal.CompleteFlag(cmd, "output", formats()...)
	terminal.CompleteFlag(cmd, "fail-on", failOnReview...)
	terminal.CompleteFlag(cmd, "operation", "create", "delete", "evict")
	return cmd
}

// AddFlags declares the flags.
func (o *reviewOptions) AddFlags(f *pflag.FlagSet) {
	o.inputs.AddFlags(f)
	o.ask.AddFlags(f)
	f.VarP(&o.out, "output", "o", "one of "+strings.Join(formats(), ", ")+"; with =FILE into a file; may be repeated")
	f.StringSliceVar(&o.failOn, "fail-on", []string{failOnDeny}, "exit with 1 on: deny, warn (warnings too, and pods that would be pending), unknown (too, where not all that matters is known), never; warn,unknown is both")
	f.BoolVar(&o.preview, "preview", false, "also say which pods would be pending, one more of each beside those that run: by podgrace-preview, which has Kubernetes' scheduler (see podgrace preview)")
	f.BoolVarP(&o.details, "details", "v", false, "text: each result by itself, with a diff of its pod and the reason of each change")
	f.BoolVar(&o.all, "all", false, "text, table: also what the policies leave as it is, and all that would be left out")
}

// Complete reads what the flags name.
func (o *reviewOptions) Complete(f *pflag.FlagSet) error {
	o.reading = o.inputs.Again(f)
	return errors.Join(o.inputs.Complete(f), o.ask.Complete(f))
}

// Validate says what is wrong with the options.
func (o *reviewOptions) Validate() error {
	return errors.Join(validateFailOn(o.failOn), o.out.Validate(), o.inputs.Validate(), o.validatePreview())
}

func (o *reviewOptions) validatePreview() error {
	once := o.inputs.ReadOnce()
	switch {
	case !o.preview:
		return nil
	case o.ask.asked.Operation != review.OperationCreate:
		return errors.New("--preview goes with --operation create")
	case len(o.inputs.Paths) == 0:
		return errors.New("--preview goes with -f: what is in the cluster was scheduled already")
	case len(once) > 0:
		return fmt.Errorf("--preview reads policies and state once more, and %s can be read only once: put it into a file", strings.Join(once, ", "))
	}
	return nil
}

func runReview(ctx context.Context, t terminal.Terminal, o *reviewOptions) error {
	previewer, err := o.previewer(t)
	if err != nil {
		return err
	}
	loaded, err := o.inputs.Load(ctx, t)
	if err != nil {
		return err
	}
	if len(o.inputs.Paths) == 0 {
		loaded.Documents = concerned(loaded.Documents, o.ask.asked.Operation)
	}
	unknown, err := loaded.Engine.State.UnknownFields(ctx, loaded.Documents)
	if err != nil {
		return err
	}
	loaded.Errors = append(loaded.Errors, unknown...)
	loaded.Engine.Lean = !o.out.needPods()
	bar := terminal.NewProgress(t, "reviewing", len(loaded.Documents))
	results, other, wrong, err := loaded.Engine.All(ctx, loaded.Documents, o.ask.question(), bar.Add)
	bar.Done()
	if err != nil {
		return err
	}
	wrong = append(loaded.Errors, wrong...)
	wrong = append(wrong, o.inputs.Unrendered(loaded, results)...)
	wrong, aside := review.SetAside(wrong)
	loaded.LeftOut = append(loaded.LeftOut, aside...)
	noNodes, notPreviewed := previewer.previewResults(ctx, loaded, results, wrong, aloneIn(o.inputs)) // if that fails the review is told all the same
	r := review.NewReport(loaded.Files, other, results, manifest.Locate(wrong))
	r.Summary.NoPolicies, r.Summary.NoNodes, r.LeftOut = loaded.NoPolicies, noNodes, loaded.LeftOut
	r.Summary.Cluster = len(o.inputs.Paths) == 0
	r.Summary.NotKnown = loaded.Engine.State.Count(loaded.Documents)
	if !loaded.OfCluster {
		r.Remarks = loaded.Engine.Remarks(results)
	}
	r.Remarks = append(r.Remarks, loaded.Engine.RemarkDeadlines(results)...)
	r.Remarks = append(r.Remarks, loaded.Engine.RemarkUngated(results)...)
	r.Remarks = append(r.Remarks, loaded.Engine.RemarkGrants(loaded.Documents)...)
	r.Remarks = append(r.Remarks, loaded.Engine.RemarkBorrowed(loaded.Documents)...)
	r.Repeated = review.RepeatedIn(results, loaded.Documents)
	options := report.Options{
		Style: t.Style, Details: o.details, All: o.all, Dir: workingDirectory(), Version: version.Of(version.CommandLine).Version, Made: t.Now(),
	}
	if err := o.out.write(t.Out, r, options); err != nil {
		return err
	}
	if !o.out.has(report.FormatJSON) { // after the findings
		for _, remark := range report.Remarks(r) {
			fmt.Fprintln(t.Err, remark)
		}
	}
	if !o.out.has(report.FormatText, report.FormatMarkdown, report.FormatHTML, report.FormatJSON) { // the others have no place for it
		load.TellLeftOut(t, r.LeftOut)
	}
	return cmp.Or(notPreviewed, o.verdict(r))
}

// previewer is nil where nobody asks for one.
func (o *reviewOptions) previewer(t terminal.Terminal) (*previewer, error) {
	if !o.preview {
		return nil, nil
	}
	return newPreviewer(t, o.reading)
}

// verdict is the exit code: what was found is in the report.
func (o *reviewOptions) verdict(r *review.Report) error {
	switch {
	case r.Summary.Errors > 0:
		return terminal.ErrBadInput
	case found(&r.Summary, o.failOn):
		return terminal.ErrNo
	}
	return nil
}

// formats are the values of -o.
func formats() []string {
	var names []string
	for _, f := range report.Formats() {
		names = append(names, string(f))
	}
	return names
}

// workingDirectory is empty where it can't be told: paths then stay as they were given.
func workingDirectory() string {
	dir, _ := os.Getwd()
	return dir
}

// What --fail-on can be.
const (
	failOnDeny    = "deny"
	failOnWarn    = "warn"
	failOnUnknown = "unknown"
	failOnNever   = "never"
)

var failOnReview = []string{failOnDeny, failOnWarn, failOnUnknown, failOnNever}

// validateFailOn takes several at once, but for never, which is none of them.
func validateFailOn(values []string) error {
	for _, v := range values {
		if !slices.Contains(failOnReview, v) {
			return fmt.Errorf("--fail-on %s: it is %s or %s", v, strings.Join(failOnReview[:len(failOnReview)-1], ", "), failOnNever)
		}
	}
	switch {
	case len(values) == 0:
		return fmt.Errorf("--fail-on is empty: %s is for nothing", failOnNever)
	case len(values) > 1 && slices.Contains(values, failOnNever):
		return fmt.Errorf("--fail-on %s stands alone", failOnNever)
	}
	return nil
}

// found reports whether there is what --fail-on names. What is refused always counts beside it.
func found(s *review.Summary, failOn []string) bool {
	if slices.Contains(failOn, failOnNever) {
		return false
	}
	return s.Denied > 0 || slices.Contains(failOn, failOnWarn) && s.Warned > 0 || slices.Contains(failOn, failOnUnknown) && (s.Unknown > 0 || s.NoNodes || len(s.NotKnown) > 0)
}

// outputs are the values of -o, FORMAT or FORMAT=FILE: one review is printed in several formats, since a CI system wants one and its reader
// another. It is a flag's value (pflag.Value).
type outputs struct {
	list []output
	// given: the list is no longer the default.
	given bool
}

// output is one of them; an empty file is stdout.
type output struct {
	format report.Format
	file   string
}

func newOutputs() outputs { return outputs{list: []output{{format: report.FormatText}}} }

// Set is pflag.Value's.
func (o *outputs) Set(text string) error {
	format, file, toFile := strings.Cut(text, "=")
	var out output
	if err := out.format.Set(format); err != nil {
		return err
	}
	if toFile && file == "" {
		return fmt.Errorf("%s= has an empty path; is a variable not set?", format)
	}
	if out.file = file; file == "-" {
		out.file = ""
	}
	if !o.given {
		o.list, o.given = nil, true
	}
	o.list = append(o.list, out)
	return nil
}

// String is pflag.Value's.
func (o *outputs) String() string {
	var all []string
	for _, out := range o.list {
		text := string(out.format)
		if out.file != "" {
			text += "=" + out.file
		}
		all = append(all, text)
	}
	return strings.Join(all, ",")
}

// Type is pflag.Value's.
func (o *outputs) Type() string { return "format[=file]" }

// Validate says what is wrong with them together.
func (o *outputs) Validate() error {
	var files []string
	for _, out := range o.list {
		if slices.Contains(files, out.file) {
			if out.file == "" {
				return errors.New("two formats would be printed on stdout: write all but one into files, as in -o text -o sarif=FILE")
			}
			return fmt.Errorf("two formats would be written into %s", out.file)
		}
		files = append(files, out.file)
	}
	return nil
}

// has reports whether one of the formats is among them.
func (o *outputs) has(formats ...report.Format) bool {
	return slices.ContainsFunc(o.list, func(out output) bool { return slices.Contains(formats, out.format) })
}

// needPods reports whether a format shows the pods, which a review of many otherwise leaves out.
func (o *outputs) needPods() bool {
	return o.has(report.FormatText, report.FormatMarkdown, report.FormatHTML)
}

// write prints the report in each of the formats. A file is no terminal.
func (o *outputs) write(stdout io.Writer, r *review.Report, options report.Options) error {
	var errs []error
	for _, out := range o.list {
		if out.file == "" {
			errs = append(errs, report.Write(stdout, out.format, r, options))
			continue
		}
		plain := options
		plain.Style = console.Style{}
		errs = append(errs, writeFile(out, r, plain))
	}
	return errors.Join(errs...)
}

// writeFile puts a report into a file, in place of what was in it.
func writeFile(out output, r *review.Report, options report.Options) error {
	file, err := os.Create(out.file)
	if err != nil {
		return fmt.Errorf("write the report as %s: %w", out.format, err)
	}
	if err := errors.Join(report.Write(file, out.format, r, options), file.Close()); err != nil {
		return fmt.Errorf("write %s: %w", out.file, err)
	}
	return nil
}

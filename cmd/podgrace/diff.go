package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/diff"
	"github.com/podgrace/podgrace/cli/load"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/program/version"
	"github.com/podgrace/podgrace/policy"
)

const diffLong = `Show what a change of policies would do to manifests, or to a cluster's workloads
and pods: what is refused or admitted, which fields of created pods differ, which
warnings come and go, and whether force deletes, and evictions with a grace
period of 0, are still let through.

--from and --to are files and folders with PodPolicies, NodePolicies, and
PolicyExceptions with their grants; "none" stands for no policies. --from may be a branch, tag or commit
of the repository at hand, for what --to was there; git::REPOSITORY//PATH@REF is a
path of any commit on this machine.
Where a cluster is named by --kubeconfig, --context or --server, its own
policies are taken without --from, and without -f its own workloads and pods (-n:
those of one namespace). Nothing but GET is sent to it.

A policy reaches new pods only. Pods that run already are therefore judged for
their removal; and which of them would be created otherwise today is said beside
the changes, whatever --from says, and does not count for the exit code.

If --to has NodePolicies and a cluster is named, the kubelets of the nodes that get
an eviction threshold are asked whether they meet it now (get nodes/proxy). Of the
NodePolicies those that --to lacks stay. --to may have NodePolicies alone: then
PodPolicies are not compared.

PodPolicies among the manifests of -f and --state are passed over.

Exit codes: 0 nothing changes, as --fail-on says
            1 something changes
            2 bad input; what could be read was compared all the same. Nothing is
              where --from or --to can't be read or has no policy`

const diffExample = `  # What does this branch do to the manifests?
  %[1]s diff --from main --to examples/stateful -f examples/stateful

  # Would it refuse anything in production, or forbid a removal?
  %[1]s diff --to examples/stateful --context production --fail-on deny

  # A cluster's dump, before its first policy
  kubectl get deploy,rs,sts,ds,jobs,cronjobs,pods,nodes,ns,pc,svc -A -o json > dump.json
  %[1]s diff --from none --to examples/stateful -f dump.json`

type diffOptions struct {
	inputs   *load.Options
	from, to []string
	user     string
	groups   []string
	format   string
	failOn   string
	all      bool
}

// failOnChange is --fail-on of any change, as diff(1) has it.
const failOnChange = "change"

func newDiff(t terminal.Terminal, name string) *cobra.Command {
	o := &diffOptions{inputs: load.New(version.CommandLine)}
	o.inputs.ReadOnly = true
	cmd := &cobra.Command{
		Use:                   "diff --from PATH... --to PATH... -f PATH... [--state PATH...]",
		DisableFlagsInUseLine: true,
		Short:                 "Show what a change of policies would do",
		Long:                  diffLong,
		Example:               fmt.Sprintf(diffExample, name),
		Args:                  terminal.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(o.inputs.Complete(cmd.Flags()), o.Validate()); err != nil {
				return terminal.UsageError{Err: err}
			}
			return runDiff(cmd.Context(), t, o)
		},
	}
	o.AddFlags(cmd.Flags())
	terminal.CompleteFlag(cmd, "output", diff.Formats()...)
	terminal.CompleteFlag(cmd, "fail-on", failOnChange, failOnDeny, failOnNever)
	return cmd
}

// AddFlags declares the flags.
func (o *diffOptions) AddFlags(f *pflag.FlagSet) {
	f.StringArrayVar(&o.from, "from", nil, "file or folder with the policies before, or none, or a branch, tag or commit of this repository, for --to as it was there; may be repeated (default: the cluster's)")
	f.StringArrayVar(&o.to, "to", nil, "file or folder with the policies after, or none; may be repeated")
	f.StringArrayVarP(&o.inputs.Paths, "filename", "f", nil, "file, folder or - (stdin) with manifests, or a cluster's dump; may be repeated (default: the cluster's workloads and pods)")
	o.inputs.AddReadingFlags(f)
	f.StringArrayVar(&o.inputs.State, "state", nil, "file or folder with more objects of the cluster; may be repeated")
	o.inputs.Templates.AddFlag(f)
	o.inputs.Kube.AddFlags(f)
	f.StringVar(&o.user, "as", "", "user who is supposed to create, delete and evict")
	f.StringArrayVar(&o.groups, "as-group", nil, "group of that user; may be repeated")
	f.StringVarP(&o.format, "output", "o", "text", "one of "+strings.Join(diff.Formats(), ", "))
	f.StringVar(&o.failOn, "fail-on", failOnChange, "exit with 1 on: change, deny (what is newly refused or forbidden), never")
	f.BoolVar(&o.all, "all", false, "text: all there is, even if it does not fit a screen")
}

// Validate says what is wrong with the options.
func (o *diffOptions) Validate() error {
	switch {
	case len(o.to) == 0:
		return errors.New(`which policies come? --to FILE, --to FOLDER, or --to none`)
	case len(o.from) == 0 && !o.inputs.Live:
		return errors.New(`which policies are there now? --from FILE, --from FOLDER, or --from none`)
	case len(o.inputs.Paths) == 0 && !o.inputs.Live:
		return errors.New("what is to be compared? -f FILE, -f FOLDER or -f - for stdin, or a cluster by --kubeconfig or --context")
	case len(o.groups) > 0 && o.user == "":
		return errors.New("--as-group goes with --as")
	case !slices.Contains(diff.Formats(), o.format):
		return fmt.Errorf("-o %s: it is one of %s", o.format, strings.Join(diff.Formats(), ", "))
	case !slices.Contains([]string{failOnChange, failOnDeny, failOnNever}, o.failOn):
		return fmt.Errorf("--fail-on %s: it is change, deny or never", o.failOn)
	}
	for flag, paths := range map[string][]string{"--from": o.from, "--to": o.to} {
		if len(paths) > 1 && slices.Contains(paths, load.NoPolicies) {
			return fmt.Errorf("%s none stands alone; a file of that name is ./none", flag)
		}
	}
	return errors.Join(load.NoEmptyPath("--from", o.from), load.NoEmptyPath("--to", o.to), o.inputs.ValidatePaths())
}

func runDiff(ctx context.Context, t terminal.Terminal, o *diffOptions) error {
	r := &diffReader{diffOptions: o, Terminal: t, policyFiles: map[string]*load.PolicyFiles{}}
	if err := r.read(ctx); err != nil {
		return err
	}
	from, err := r.engine("--from", r.before)
	if err != nil {
		return err
	}
	to, err := r.engine("--to", r.after)
	if err != nil {
		return err
	}
	bar := terminal.NewProgress(t, "comparing", len(r.documents))
	c := diff.Comparison{From: from, To: to, User: userInfo(o.user, o.groups), Progress: bar.Add}
	d, err := c.Of(ctx, r.documents)
	bar.Done()
	if err != nil {
		return fmt.Errorf("compare: %w", err)
	}
	d.Summary.Files = r.files
	d.Summary.NoPolicies = len(r.before) == 0 && len(r.after) == 0
	if err := r.addThresholds(ctx, d); err != nil {
		return err
	}
	d.AddErrors(r.errors...)
	wrong, left := review.SetAside(d.Errors)
	d.Errors, d.Summary.Errors = wrong, len(wrong)
	load.TellLeftOut(t, left)
	if err := diff.Write(t.Out, o.format, d, diff.Options{Style: t.Style, All: o.all}); err != nil {
		return err
	}
	return o.verdict(&d.Summary)
}

// verdict is the exit code: what was found is printed.
func (o *diffOptions) verdict(s *diff.Summary) error {
	switch {
	case s.Errors > 0:
		return terminal.ErrBadInput
	case o.failOn == failOnChange && s.Affected+s.Evicting > 0, o.failOn == failOnDeny && s.Denying > 0:
		return terminal.ErrNo
	}
	return nil
}

// diffReader reads what is to be compared.
type diffReader struct {
	*diffOptions
	terminal.Terminal
	state         *review.State
	exempt        policy.Exempt
	before, after []*v1alpha1.PodPolicy
	documents     []*manifest.Document
	files         int
	errors        []*manifest.Error
	// nodesAlone: --to has no PodPolicy, and those of --from are on both sides.
	nodesAlone bool
	// policyFiles by the flag that names them.
	policyFiles map[string]*load.PolicyFiles
}

func (r *diffReader) read(ctx context.Context) error {
	var wrongFrom, wrongTo error
	r.before, wrongFrom = r.policies("--from", load.AtRef(r.from, r.to))
	r.after, wrongTo = r.policies("--to", r.to)
	if err := errors.Join(wrongFrom, wrongTo); err != nil {
		return err
	}
	manifests, further := r.inputs.Read(r.Terminal)
	r.documents, r.files = manifests.Documents, manifests.Files
	r.errors = append(append(r.errors, manifests.Errors...), further.Errors...)
	load.TellLeftOut(r.Terminal, slices.Concat(manifests.LeftOut, further.LeftOut))
	r.state = review.NewState()
	if r.inputs.Live {
		if err := r.cluster(ctx); err != nil {
			return err
		}
	}
	if r.nodesAlone = r.onlyNodes(); r.nodesAlone {
		fmt.Fprintln(r.Err, "--to has NodePolicies alone: PodPolicies are not compared")
		r.after = r.before
	}
	if err := r.inputs.Templates.Set(r.state); err != nil {
		return err
	}
	exempt, err := r.inputs.Exempt(ctx, r.Terminal)
	if err != nil {
		return err
	}
	r.exempt = exempt
	r.state.Listed(manifests.Listed)
	r.add(review.AddAll(further.Documents, r.inputs.Namespace, r.state.Add))
	r.add(review.AddAll(manifests.Documents, r.inputs.Namespace, r.state.AddManifest))
	if err := r.inputs.Templates.Check(r.state, r.documents); err != nil {
		return err
	}
	r.documents = r.state.Expand(r.documents)
	return nil
}

// policies of a flag. What is wrong within a file is among the errors.
func (r *diffReader) policies(flag string, paths []string) ([]*v1alpha1.PodPolicy, error) {
	if slices.Equal(paths, []string{load.NoPolicies}) {
		return nil, nil
	}
	files, err := load.ReadPolicyFiles(flag, paths, r.In)
	if err != nil {
		return nil, err
	}
	r.policyFiles[flag] = files
	load := files.Require
	if len(files.NodePolicies()) > 0 {
		load = files.Load
	}
	policies, wrong, err := load()
	r.add(wrong)
	return policies, err
}

// onlyNodes reports whether the files of --to have NodePolicies and no PodPolicy. PodPolicies are not compared then: to leave one out is no wish to delete it.
func (r *diffReader) onlyNodes() bool {
	files := r.policyFiles["--to"]
	return files != nil && len(r.after) == 0 && len(files.NodePolicies()) > 0
}

// add adds errors, each once: --from and --to may share a file.
func (r *diffReader) add(wrong []*manifest.Error) {
	for _, e := range wrong {
		if !slices.ContainsFunc(r.errors, func(known *manifest.Error) bool { return *known == *e }) {
			r.errors = append(r.errors, e)
		}
	}
}

// cluster reads the state, and what no flag names.
func (r *diffReader) cluster(ctx context.Context) error {
	reader, err := r.inputs.Client()
	if err != nil {
		return err
	}
	if len(r.from) == 0 {
		if r.before, err = review.PoliciesOf(ctx, reader); err != nil {
			return fmt.Errorf("no --from was given, and the cluster's policies can't be read: %w", err)
		}
	}
	if r.state, err = review.FromCluster(ctx, reader); err != nil {
		fmt.Fprintf(r.Err, "not all of the cluster can be read; what is missing counts as unknown:\n%v\n", err)
	}
	if len(r.inputs.Paths) == 0 {
		documents, wrong, err := r.inputs.Dump(ctx, reader)
		if err != nil {
			return err
		}
		r.documents, r.errors = append(r.documents, documents...), append(r.errors, wrong...)
	}
	return nil
}

func (r *diffReader) engine(flag string, policies []*v1alpha1.PodPolicy) (*review.Engine, error) {
	e, err := review.NewEngine(r.state, policies...)
	if err != nil {
		return nil, terminal.UsageError{Err: err}
	}
	load.TellUnread(r.Terminal, e.Unread)
	if err := e.SetExempt(r.exempt); err != nil {
		return nil, fmt.Errorf("leave out excluded namespaces: %w", err)
	}
	if r.inputs.Namespace != "" {
		e.Namespace = r.inputs.Namespace
	}
	if r.nodesAlone {
		flag = "--from" // the same policies, and exceptions from them
	}
	if files := r.policyFiles[flag]; files != nil && len(policies) > 0 {
		exceptions, wrong := files.Exceptions()
		e.Exceptions = exceptions
		r.add(wrong)
	}
	return e, nil
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cmd/podgrace/cli"
	"github.com/podgrace/podgrace/cmd/version"
	"github.com/podgrace/podgrace/console"
	"github.com/podgrace/podgrace/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
	"github.com/podgrace/podgrace/review"
	"github.com/podgrace/podgrace/review/input"
	"github.com/podgrace/podgrace/webhook"
)

// inputOptions are where manifests, policies and state come from.
type inputOptions struct {
	kube                                 *genericclioptions.ConfigFlags
	paths, policies, statePaths, exclude []string
	render                               []string

	// templates are where custom workloads have the template of their pods.
	templates templateFlag

	namespace string
	// live: a cluster was named.
	live bool
}

func newInputOptions() inputOptions {
	kube := cli.NewConfigFlags(version.CommandLine)
	kube.Impersonate, kube.ImpersonateGroup, kube.ImpersonateUID, kube.ImpersonateUserExtra = nil, nil, nil, nil // --as is who is judged, and not who reads
	return inputOptions{kube: kube}
}

// AddFlags declares the flags.
func (o *inputOptions) AddFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.paths, "filename", "f", nil, "file, folder or - (stdin) with manifests; may be repeated")
	o.addReading(f)
	o.addState(f)
}

// addReading declares how -f and --state are read.
func (o *inputOptions) addReading(f *pflag.FlagSet) {
	f.StringArrayVar(&o.exclude, "exclude", nil, "files and folders of -f and --state to leave out, by a pattern as in .gitignore, such as testdata/ or '*-values.yaml'; may be repeated ("+input.IgnoreFile+" in a folder has such patterns, too)")
	f.StringSliceVar(&o.render, "render", nil, "render folders with a Chart.yaml by the helm on the PATH, and those with a kustomization.yaml as kubectl does: helm, kustomize or helm,kustomize (default: name the ones that are left out)")
}

// addState declares the flags of policies and state.
func (o *inputOptions) addState(f *pflag.FlagSet) {
	f.StringArrayVar(&o.policies, "policy", nil, "file or folder with PodPolicies, also of a commit: git::REPOSITORY//PATH@REF; may be repeated")
	f.StringArrayVar(&o.statePaths, "state", nil, "file or folder with more objects of the cluster; may be repeated")
	o.templates.AddFlag(f)
	o.kube.AddFlags(f)
}

// naming are the flags by which a cluster is named. A kubeconfig that is merely there names none: what a review says in CI must not
// depend on it.
var naming = []string{"kubeconfig", "context", "cluster", "server", "user"}

// Complete reads what the flags name.
func (o *inputOptions) Complete(f *pflag.FlagSet) (err error) {
	o.live = slices.ContainsFunc(naming, f.Changed)
	o.namespace = *o.kube.Namespace
	if o.live {
		if o.namespace, _, err = o.kube.ToRawKubeConfigLoader().Namespace(); err != nil {
			return fmt.Errorf("read the kubeconfig: %w", err)
		}
	}
	return nil
}

// Validate says what is wrong with the options.
func (o *inputOptions) Validate() error {
	if len(o.paths) == 0 {
		return errors.New("what is to be reviewed? -f FILE, -f FOLDER or -f - for stdin")
	}
	return o.validatePaths()
}

// validatePaths refuses empty paths: a variable that is not set must not be taken for nothing to read.
func (o *inputOptions) validatePaths() error {
	return errors.Join(noEmptyPath("-f", o.paths), noEmptyPath("--policy", o.policies), noEmptyPath("--state", o.statePaths), o.validateReading())
}

func (o *inputOptions) validateReading() error {
	if err := input.ValidatePatterns(o.exclude...); err != nil {
		return fmt.Errorf("--exclude: %w", err)
	}
	for _, by := range o.render {
		if by != input.RenderHelm && by != input.RenderKustomize {
			return fmt.Errorf("--render %s: it is %s or %s", by, input.RenderHelm, input.RenderKustomize)
		}
	}
	if _, err := exec.LookPath("helm"); err != nil && slices.Contains(o.render, input.RenderHelm) {
		return fmt.Errorf("--render %s: %w", input.RenderHelm, err)
	}
	return nil
}

func noEmptyPath(flag string, paths []string) error {
	if slices.Contains(paths, "") {
		return fmt.Errorf("%s has an empty path; is a variable not set?", flag)
	}
	return nil
}

// loaded is what was read.
type loaded struct {
	engine    *review.Engine
	documents []*manifest.Document
	files     int
	leftOut   []input.LeftOut
	errors    []*manifest.Error
	// noPolicies: not one PodPolicy is known.
	noPolicies bool
	// ofCluster: the policies are the cluster's, which remarks on them itself.
	ofCluster bool
}

// load reads all there is. What is wrong with a document or a policy is in the errors; the rest is used.
func (o *inputOptions) load(ctx context.Context, t cli.Terminal) (*loaded, error) {
	policies, wrong, err := requirePolicies("--policy", o.policies)
	if err != nil {
		return nil, err
	}
	manifests, further := o.read(t)
	l := &loaded{documents: manifests.Documents, files: manifests.Files, leftOut: append(manifests.LeftOut, further.LeftOut...), errors: append(manifests.Errors, further.Errors...)}
	policies, among := review.AddPolicies(policies, slices.Concat(manifests.Documents, further.Documents))
	wrong = append(wrong, among...)
	l.errors = append(l.errors, wrong...)
	if o.live && len(policies) == 0 && len(wrong) == 0 {
		if policies, err = o.clusterPolicies(ctx); err != nil {
			return nil, err
		}
		l.ofCluster = true
	}
	state, err := o.state(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := o.templates.set(state); err != nil {
		return nil, err
	}
	state.Listed(manifests.Listed)
	l.noPolicies = len(policies) == 0
	for _, d := range slices.Concat(further.Documents, manifests.Documents) {
		if err := state.Add(d, o.namespace); err != nil {
			l.errors = append(l.errors, d.Wrong(err))
		}
	}
	if l.engine, err = review.NewEngine(state, policies...); err != nil {
		return nil, cli.UsageError{Err: err}
	}
	if o.namespace != "" {
		l.engine.Namespace = o.namespace
	}
	exceptions, unread := loadExceptions("--policy", o.policies)
	l.engine.Exceptions, l.errors = exceptions, append(l.errors, unread...)
	l.engine.NodePolicies = loadNodePolicies("--policy", o.policies)
	return l, nil
}

// loadExceptions reads the exceptions that are beside the policies of a flag, which were read before: what can't be read at all was said of them.
func loadExceptions(flag string, paths []string) ([]*v1alpha1.PolicyException, []*manifest.Error) {
	known, err := gitFiles(flag, paths)
	if err != nil {
		return nil, nil
	}
	exceptions, err := policyfile.LoadExceptions(known, paths...)
	return exceptions, slices.DeleteFunc(manifest.Errors(err), func(e *manifest.Error) bool { return e.Line == 0 })
}

// loadNodePolicies reads the NodePolicies beside the policies of a flag. What can't be read of them was said of the files.
func loadNodePolicies(flag string, paths []string) []*v1alpha1.NodePolicy {
	known, err := gitFiles(flag, paths)
	if err != nil {
		return nil
	}
	policies, _ := policyfile.LoadNodePolicies(known, paths...)
	return policies
}

// requirePolicies reads the policies of a flag. The error is that of a path that can't be read or has none: what is judged without
// them would mislead. What is wrong within a file is among the others.
func requirePolicies(flag string, paths []string) ([]*v1alpha1.PodPolicy, []*manifest.Error, error) {
	known, err := gitFiles(flag, paths)
	if err != nil {
		return nil, nil, cli.UsageError{Err: err}
	}
	policies, err := policyfile.RequireWith(known, paths...)
	wrong := manifest.Errors(err)
	return policies, wrong, wrongPath(flag, err)
}

// wrongPath is what is wrong with the paths of a flag as a whole, if anything is.
func wrongPath(flag string, err error) error {
	var errs []error
	for _, e := range manifest.Errors(err) {
		switch {
		case e.Whole && e.File == "-":
			errs = append(errs, fmt.Errorf("%s -: policies are read from files and folders, not from stdin", flag))
		case e.Whole:
			errs = append(errs, fmt.Errorf("%s %s: %s", flag, e.File, e.Message))
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return cli.UsageError{Err: errors.Join(errs...)}
}

// read returns the documents of -f and of --state. That there are none is an error where it may be that a command before this
// one in a pipe has failed, and where nothing at all would be judged.
func (o *inputOptions) read(t cli.Terminal) (manifests, further review.Inputs) {
	reader := &input.Reader{Stdin: t.In, Exclude: o.exclude, Render: o.render, Namespace: o.namespace}
	manifests, further = readEach(reader, o.paths), readEach(reader, o.statePaths)
	if len(manifests.Documents) == 0 && len(manifests.Errors) == 0 && len(o.paths) > 0 && reader.Lists == 0 {
		for _, path := range o.paths {
			manifests.Errors = append(manifests.Errors, &manifest.Error{File: path, Message: strings.Join(append([]string{"there is no document in it"}, input.LeftOutInWords(manifests.LeftOut)...), "; ")})
		}
	}
	manifests.Listed = reader.Listed
	return manifests, further
}

func readEach(reader *input.Reader, paths []string) review.Inputs {
	var all review.Inputs
	known := map[string]bool{} // files of the paths before: who names one twice, or with its folder, means it once
	for _, path := range paths {
		lists := reader.Lists
		in := review.Read(reader, path)
		there := len(in.Documents) > 0
		in.Documents = slices.DeleteFunc(in.Documents, func(d *manifest.Document) bool { return known[absolute(d.File)] })
		for _, d := range in.Documents {
			known[absolute(d.File)] = true
		}
		if path == "-" && !there && len(in.Errors) == 0 && reader.Lists == lists {
			in.Errors = append(in.Errors, &manifest.Error{File: path, Message: "there is no document in it; has the command before it failed?"})
		}
		all.Files += in.Files
		all.Documents, all.LeftOut, all.Errors = append(all.Documents, in.Documents...), append(all.LeftOut, in.LeftOut...), append(all.Errors, in.Errors...)
	}
	return all
}

// absolute is a path by which a file is known, however it was named.
func absolute(file string) string {
	if path, err := filepath.Abs(file); err == nil && file != "-" {
		return path
	}
	return file
}

// tellLeftOut says what was found in folders and was not read.
func tellLeftOut(t cli.Terminal, left []input.LeftOut) {
	for _, sentence := range input.LeftOutInWords(left) {
		fmt.Fprintln(t.Err, console.Visible("left out: "+sentence))
	}
}

// state is that of the cluster that was named, or what every cluster has.
func (o *inputOptions) state(ctx context.Context, t cli.Terminal) (*review.State, error) {
	if !o.live {
		return review.NewState(), nil
	}
	reader, err := o.reader()
	if err != nil {
		return nil, err
	}
	state, err := review.FromCluster(ctx, reader)
	if err != nil {
		fmt.Fprintf(t.Err, "not all of the cluster can be read; what is missing counts as unknown:\n%v\n", err)
	}
	return state, nil
}

// clusterPolicies hold where no others are given.
func (o *inputOptions) clusterPolicies(ctx context.Context) ([]*v1alpha1.PodPolicy, error) {
	reader, err := o.reader()
	if err != nil {
		return nil, err
	}
	policies, err := review.PoliciesOf(ctx, reader)
	if err != nil {
		return nil, fmt.Errorf("no --policy was given, and the cluster's can't be read: %w", err)
	}
	return policies, nil
}

func (o *inputOptions) reader() (client.Client, error) {
	config, err := o.kube.ToRESTConfig()
	if err != nil {
		return nil, cli.UsageError{Err: fmt.Errorf("read the kubeconfig: %w", err)}
	}
	config.QPS, config.Burst = 50, 300 // as kubectl's
	reader, err := client.New(config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return reader, nil
}

// templateFlag says of custom workloads where the template of their pods is.
type templateFlag []string

// AddFlag declares the flag.
func (t *templateFlag) AddFlag(f *pflag.FlagSet) {
	f.StringArrayVar((*[]string)(t), "template", nil,
		"pod template of a custom workload, as KIND.GROUP=spec.template; may be repeated")
}

// parts of one value.
func (t templateFlag) parts(text string) (kind schema.GroupKind, path string) {
	name, path, _ := strings.Cut(text, "=")
	return schema.ParseGroupKind(name), path
}

// kinds are those of the custom workloads.
func (t templateFlag) kinds() []schema.GroupKind {
	var kinds []schema.GroupKind
	for _, text := range t {
		kind, _ := t.parts(text)
		kinds = append(kinds, kind)
	}
	return kinds
}

// set tells a state.
func (t templateFlag) set(s *review.State) error {
	for _, text := range t {
		kind, path := t.parts(text)
		if err := s.SetTemplate(kind, path); err != nil {
			return cli.UsageError{Err: fmt.Errorf("--template %s: %w", text, err)}
		}
	}
	return nil
}

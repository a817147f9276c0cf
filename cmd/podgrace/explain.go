package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/cli/load"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/internal/program/version"
	"github.com/podgrace/podgrace/policy/policyfile"
)

const explainLong = `Explain one pod: where its priority, its constraints and its grace period come from,
how long a stop really takes (preStop hooks, probes and floors included), its QoS
class, its cgroup values, its place in the eviction order, whether a force delete
would be let through for you now, and where it would be scheduled, or why it is
pending: by podgrace-preview, if it is there (podgrace preview --help), which reads
all nodes and pods of the cluster.

POD is a pod of the cluster. With -f it is one of the manifests: a pod, or the pod
that a workload's controller would create (Deployment/web, deployment.apps/web as
kubectl get -o name prints it, or web alone if only one has that name; db-2 is that
pod of StatefulSet db). The explanation of a manifest is about the pod as it would
be stored.

Exit codes: 0 explained
            1 it can't be read
            2 bad input`

const explainExample = `  # Why is this pod as it is, and what would a stop take?
  %[1]s explain -n shop db-0

  # What would a pod of this Deployment get?
  %[1]s explain Deployment/frontend -f examples/production-web`

type explainOptions struct {
	inputs       *load.Options
	nodePolicies []string
	format       string
	user         string
	groups       []string
	// preview: say where the pod would be scheduled.
	preview bool

	name    string
	reading []string // of a previewer
}

func newExplain(t terminal.Terminal, name string) *cobra.Command {
	o := &explainOptions{inputs: load.New(version.CommandLine)}
	cmd := &cobra.Command{
		Use:                   "explain POD [-n NAMESPACE] [-f PATH... --policy PATH...]",
		DisableFlagsInUseLine: true,
		Short:                 "Explain a pod: why it is ranked, spread and stopped as it is",
		Long:                  explainLong,
		Example:               fmt.Sprintf(explainExample, name),
		ValidArgsFunction:     o.completeArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.Complete(cmd.Flags(), args), o.Validate()); err != nil {
				return terminal.UsageError{Err: err}
			}
			return runExplain(cmd.Context(), t, o)
		},
	}
	o.AddFlags(cmd.Flags())
	terminal.CompleteFlag(cmd, "output", "text", "json")
	return cmd
}

// AddFlags declares the flags.
func (o *explainOptions) AddFlags(f *pflag.FlagSet) {
	o.inputs.AddFlags(f)
	f.StringArrayVar(&o.nodePolicies, "node-policy", nil, "file or folder with NodePolicies; may be repeated (default: the cluster's)")
	f.StringVarP(&o.format, "output", "o", "text", "text or json")
	f.BoolVar(&o.preview, "preview", true, "say where the pod would be scheduled, by podgrace-preview, which reads the whole cluster; --preview=false does without")
	f.StringVar(&o.user, "as", "", "user for whom removals are judged (default: you)")
	f.StringArrayVar(&o.groups, "as-group", nil, "group of that user; may be repeated")
}

// Complete reads the argument and what the flags name.
func (o *explainOptions) Complete(f *pflag.FlagSet, args []string) error {
	o.name, o.reading = strings.Join(args, "/"), o.inputs.Again(f)
	if len(o.inputs.Paths) == 0 && len(args) > 0 {
		kind, name, err := parseObject(args)
		if err != nil {
			return err
		}
		if kind != "pod" {
			return fmt.Errorf("%q is no pod", o.name)
		}
		o.name = name
	}
	if err := o.inputs.Complete(f); err != nil {
		return err
	}
	if len(o.inputs.Paths) > 0 {
		return nil
	}
	namespace, _, err := o.inputs.Kube.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	o.inputs.Namespace = namespace
	return nil
}

// Validate says what is wrong with the options.
func (o *explainOptions) Validate() error {
	switch {
	case !slices.Contains([]string{"text", "json"}, o.format):
		return fmt.Errorf("-o %s: it is text or json", o.format)
	case len(o.groups) > 0 && o.user == "":
		return errors.New("--as-group goes with --as")
	case len(o.inputs.Paths) == 0 && o.name == "":
		return errors.New("which pod? explain POD, or with -f one of the manifests")
	}
	return errors.Join(load.NoEmptyPath("--node-policy", o.nodePolicies), o.inputs.ValidatePaths())
}

func runExplain(ctx context.Context, t terminal.Terminal, o *explainOptions) error {
	var in *explain.Input
	var err error
	if len(o.inputs.Paths) == 0 {
		if in, err = o.livePod(ctx, t); err == nil {
			o.previewPod(ctx, t, in)
		}
	} else {
		in, err = o.manifest(ctx, t)
	}
	if err != nil {
		return err
	}
	e := explain.Explain(*in)
	if o.format == "json" {
		err = explain.JSON(t.Out, e)
	} else {
		err = explain.Text(t.Out, e, t.Style)
	}
	if err != nil {
		return fmt.Errorf("print the explanation: %w", err)
	}
	return nil
}

// manifest is the one of the input that is asked for.
func (o *explainOptions) manifest(ctx context.Context, t terminal.Terminal) (*explain.Input, error) {
	l, err := o.inputs.Load(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := l.Wrong(t); err != nil {
		return nil, err
	}
	q := review.Question{}
	if o.user != "" {
		q.User = userInfo(o.user, o.groups)
	}
	meant := slices.DeleteFunc(slices.Clone(l.Documents), func(d *manifest.Document) bool { return !o.means(d) })
	if len(meant) == 0 {
		if meant, err = o.podsOfSets(l.Documents); len(meant) == 0 && err != nil {
			return nil, terminal.UsageError{Err: err}
		}
	}
	var found []*manifest.Document
	var of *explain.Input
	for _, d := range meant {
		in, err := l.Engine.Situation(ctx, d, q)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", d.File, d.Line, err)
		}
		if in != nil {
			found, of = append(found, d), in
		}
	}
	if len(found) != 1 {
		return nil, terminal.UsageError{Err: o.choose(found, l.Documents)}
	}
	o.previewDocument(ctx, t, l, found[0], of)
	return of, o.nodePolicy(of)
}

// means reports whether a document is the one that is asked for: NAME, KIND/NAME, or anything where nothing is named.
func (o *explainOptions) means(d *manifest.Document) bool {
	if !o.inNamespace(d) {
		return false
	}
	kind, name, qualified := strings.Cut(o.name, "/")
	if !qualified {
		kind, name = "", o.name
	}
	return (kind == "" || kindIs(kind, schema.FromAPIVersionAndKind(d.APIVersion, d.Kind))) && (name == "" || name == called(d))
}

// inNamespace reports whether a document may be in the namespace that is asked for.
func (o *explainOptions) inNamespace(d *manifest.Document) bool {
	return o.inputs.Namespace == "" || d.Namespace == "" || d.Namespace == o.inputs.Namespace
}

// shortKinds are the short names of kinds that make pods: kubectl's, Argo's and Knative's.
var shortKinds = map[string]schema.GroupKind{
	"po": {Kind: "Pod"}, "rc": {Kind: "ReplicationController"}, "cj": {Group: "batch", Kind: "CronJob"},
	"deploy": {Group: "apps", Kind: "Deployment"}, "sts": {Group: "apps", Kind: "StatefulSet"}, "ds": {Group: "apps", Kind: "DaemonSet"}, "rs": {Group: "apps", Kind: "ReplicaSet"},
	"ro": {Group: "argoproj.io", Kind: "Rollout"}, "ksvc": {Group: "serving.knative.dev", Kind: "Service"}, "kservice": {Group: "serving.knative.dev", Kind: "Service"},
}

// kindIs takes a kind as kubectl does: in any case, in the plural, by its short name; and with its group, or version and group, as kubectl get -o name
// prints it.
func kindIs(typed string, of schema.GroupVersionKind) bool {
	typed, group, _ := strings.Cut(strings.ToLower(typed), ".")
	plural, singular := meta.UnsafeGuessKindToResource(of)
	if group != "" && group != of.Group && group != strings.TrimSuffix(of.Version+"."+of.Group, ".") {
		return false
	}
	return typed == singular.Resource || typed == plural.Resource || shortKinds[typed] == of.GroupKind()
}

// called is the name of a document's object, as a review prints it.
func called(d *manifest.Document) string {
	return manifest.Resource{Name: d.Name, GenerateName: d.GenerateName}.Called()
}

// podKind is the kind of pods.
var podKind = corev1.SchemeGroupVersion.WithKind("Pod")

func (o *explainOptions) choose(found, all []*manifest.Document) error {
	switch {
	case len(found) == 0 && o.name == "":
		return errors.New("no pod, and nothing that makes pods, is among the manifests")
	case len(found) == 0:
		hint := ""
		if d := o.madeAtRandom(all); d != nil {
			hint = fmt.Sprintf("; names of pods are made up in the cluster, and %s/%s is explained by its own", d.Kind, d.Name)
		}
		return fmt.Errorf("no pod, and nothing that makes pods, of the name %q is among the manifests%s", o.name, hint)
	}
	var names []string
	for _, d := range found[:min(len(found), 10)] {
		place := ""
		if d.Line > 0 {
			place = fmt.Sprintf(":%d", d.Line)
		}
		names = append(names, fmt.Sprintf("%s/%s (%s%s)", d.Kind, called(d), d.File, place))
	}
	if more := len(found) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("which one? There are %s", strings.Join(names, ", "))
}

// nodePolicy takes the one of the files, which stands for the pod's node, whatever that is.
func (o *explainOptions) nodePolicy(in *explain.Input) error {
	policies, err := policyfile.RequireNodePolicies(o.nodePolicies...)
	if wrong := load.WrongPath("--node-policy", err); wrong != nil {
		return wrong
	}
	if err != nil {
		return terminal.UsageError{Err: err}
	}
	if len(policies) > 0 {
		in.NodePolicy, in.NodePolicyName = heaviest(in.Node, policies)
	}
	return nil
}

// me is the user who asks, where the API server says who that is.
func me(info *authenticationv1.UserInfo, name string, groups []string) authenticationv1.UserInfo {
	if name != "" {
		return userInfo(name, groups)
	}
	if info == nil {
		return authenticationv1.UserInfo{}
	}
	return *info
}

// previewPod asks where a pod of the cluster would be scheduled.
func (o *explainOptions) previewPod(ctx context.Context, t terminal.Terminal, in *explain.Input) {
	reading := slices.DeleteFunc(slices.Clone(o.reading), func(flag string) bool { return strings.HasPrefix(flag, "--state=") }) // the cluster is the state
	o.asked(t, reading, in, func(p *previewer) (*scheduling.Preview, error) { return p.pod(ctx, in.Pod.Namespace, in.Pod.Name) })
}

// previewDocument asks it of a manifest, where nodes are known.
func (o *explainOptions) previewDocument(ctx context.Context, t terminal.Terminal, l *load.Loaded, meant *manifest.Document, in *explain.Input) {
	if len(review.Objects[*corev1.Node](l.Engine.State)) == 0 {
		return
	}
	o.asked(t, o.reading, in, func(p *previewer) (*scheduling.Preview, error) {
		if once := o.inputs.ReadOnce(); len(once) > 0 {
			return nil, fmt.Errorf("%s can be read only once", strings.Join(once, ", "))
		}
		is := func(kind, name, file string, line int) bool {
			return kind == meant.Kind && name == meant.Name && file == meant.File && line == meant.Line
		}
		documents := slices.DeleteFunc(slices.Clone(l.Documents), review.IsRecorded)
		for i, d := range documents {
			if is(d.Kind, d.Name, d.File, d.Line) {
				documents[i] = meant // which may be one of a set's pods
			}
		}
		previews, err := p.documents(ctx, documents, l.Listed, aloneIn(o.inputs))
		if err != nil {
			return nil, err
		}
		for i := range previews {
			if v := &previews[i]; is(v.Resource.Kind, v.Resource.Name, v.Source.File, v.Source.Line) {
				return v, nil
			}
		}
		return nil, fmt.Errorf("its preview is missing")
	})
}

// asked puts an answer into the input, or why there is none: nothing else of an explanation depends on it. That the program is missing is no news about a pod that has its node.
func (o *explainOptions) asked(t terminal.Terminal, reading []string, in *explain.Input, ask func(*previewer) (*scheduling.Preview, error)) {
	if !o.preview || graceperiod.Finished(in.Pod) {
		return
	}
	p, err := newPreviewer(t, reading)
	if err != nil && in.Pod.Spec.NodeName != "" {
		return
	}
	if err == nil {
		in.Preview, err = ask(p)
	}
	if err != nil {
		in.NotPreviewed = err.Error()
	}
}

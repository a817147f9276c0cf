package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/rest"

	"github.com/podgrace/podgrace/cli/load"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/program/version"
	"github.com/podgrace/podgrace/preview"
	"github.com/podgrace/podgrace/preview/scheduler"
)

const long = `Preview where a pod would be scheduled: on which nodes it fits, which plugin
of the scheduler refuses the others, how topology spread constraints count, how
nodes are scored, and which pods would have to go where none has room.

The pods are those of the manifests (-f), or that their controllers would create;
or POD, one of the cluster, as if it were scheduled now. The policies come first.
The cluster is that of the kubeconfig, which is only read (GET), or with --state
that of files: what is not in them is not there.

The scheduler is Kubernetes' own, 1.36.3, with its default profile or those of
--scheduler-config. All nodes are judged, and nothing is left to chance.

Exit codes: 0 each pod fits
            1 it can't be told: the cluster can't be read
            2 bad input, or another scheduler decides
            3 a pod fits only where others go (preemption)
            4 a pod fits nowhere, is refused by the policies or the API server, or
              with --replicas one of its pods stays pending`

const example = `  # Why is this pod pending?
  %[1]s -n shop db-0

  # Where would the pods of this Deployment go, on nodes and pods from files?
  %[1]s -f deployment.yaml --policy policies/ --state cluster.yaml

  # Does an update of it come to its end?
  %[1]s -f deployment.yaml --state cluster.yaml --replicas 6`

type options struct {
	inputs *load.Options
	format string
	pod    string
	// replicas that are placed one after the other; 0: none.
	replicas int
	// version of the cluster; empty: as it tells.
	version string
	// config is the file of the scheduler's configuration; empty: the default one.
	config string
	// timing: say how long each part took.
	timing bool
}

func newCommand(t terminal.Terminal, name string) *cobra.Command {
	o := &options{inputs: load.New(version.Preview)}
	o.inputs.ReadOnly, o.inputs.MayLackPolicies, o.inputs.Further = true, true, preview.Kinds()
	cmd := &cobra.Command{
		Use:                   "podgrace-preview [POD] [-f PATH...] [--policy PATH...] [--state PATH...]",
		DisableFlagsInUseLine: true,
		Short:                 "Preview where a pod would be scheduled, why not elsewhere, and whom it would cost",
		Long:                  long,
		Example:               fmt.Sprintf(example, name),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.Complete(cmd.Flags(), args), o.Validate()); err != nil {
				return terminal.UsageError{Err: err}
			}
			return o.run(cmd.Context(), t)
		},
	}
	o.AddFlags(cmd.Flags())
	terminal.CompleteFlag(cmd, "output", formats...)
	return cmd
}

// AddFlags declares the flags.
func (o *options) AddFlags(f *pflag.FlagSet) {
	o.inputs.AddFlags(f)
	f.StringVarP(&o.format, "output", "o", "text", "text, json, or html: one page to pass on")
	f.StringVar(&o.version, "kubernetes-version", "", "version of the cluster, as 1.34, by whose feature gates is judged (default: that of the cluster that is read, else the scheduler's own)")
	f.StringVar(&o.config, "scheduler-config", "", "file with the KubeSchedulerConfiguration of the cluster's scheduler (its --config): profiles, plugins and their weights, default spread constraints (default: the scheduler's own default)")
	f.IntVar(&o.replicas, "replicas", 0, fmt.Sprintf("place so many pods one after the other, and those of a next revision of a Deployment; and show which pods go if there are more; at most %d", maxReplicas))
	f.BoolVar(&o.timing, timingFlag, false, "say on stderr how long each part took")
	_ = f.MarkHidden(timingFlag) // fails only for a flag that is not there
}

// timingFlag is for make bench-preview, and no promise to anybody.
const timingFlag = "timing"

// timed says on stderr how long a part has taken, if that is asked for, and when the next one begins.
func (o *options) timed(t terminal.Terminal, part string, since time.Time) time.Time {
	now := time.Now()
	if o.timing {
		fmt.Fprintf(t.Err, "%s: %d ms\n", part, now.Sub(since).Milliseconds())
	}
	return now
}

// formats of -o.
var formats = []string{"text", "json", "html"}

// maxReplicas are as many as anybody waits for.
const maxReplicas = 1000

// Complete reads the argument and what the flags name. Where no state is given the cluster of the kubeconfig is meant.
func (o *options) Complete(f *pflag.FlagSet, args []string) error {
	o.pod = strings.Join(args, "/")
	if kind, name, ok := strings.Cut(o.pod, "/"); ok && slices.Contains([]string{"pod", "pods", "po"}, strings.ToLower(kind)) {
		o.pod = name
	}
	if err := o.inputs.Complete(f); err != nil || o.inputs.Live || len(o.inputs.State) > 0 {
		return err
	}
	loader := o.inputs.Kube.ToRawKubeConfigLoader()
	if raw, err := loader.RawConfig(); err == nil && len(raw.Clusters) == 0 {
		if _, err := rest.InClusterConfig(); err != nil {
			return errors.New("which nodes? --state FILE, or the cluster of a kubeconfig, of which there is none")
		}
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	o.inputs.Live, o.inputs.Namespace = true, namespace
	return nil
}

// Validate says what is wrong with the options.
func (o *options) Validate() error {
	var errs []error
	if !slices.Contains(formats, o.format) {
		errs = append(errs, fmt.Errorf("-o %s: it is text, json or html", o.format))
	}
	if o.replicas < 0 || o.replicas > maxReplicas {
		errs = append(errs, fmt.Errorf("--replicas %d: it is 0 to %d", o.replicas, maxReplicas))
	}
	switch {
	case o.pod != "" && len(o.inputs.Paths) > 0:
		errs = append(errs, errors.New("either POD, of the cluster or the state, or the manifests of -f"))
	case o.pod == "" && len(o.inputs.Paths) == 0:
		errs = append(errs, errors.New("which pod? -f FILE, or POD"))
	case o.pod != "":
		if wrong := content.IsPathSegmentName(o.pod); len(wrong) > 0 {
			says := fmt.Sprintf("%q is no pod's name: it %s", o.pod, strings.Join(wrong, ", "))
			if strings.Contains(o.pod, "/") {
				says += "; a workload's pods are previewed from its manifest: kubectl get KIND/NAME -o yaml, and -f"
			}
			errs = append(errs, errors.New(says))
		}
	}
	return errors.Join(append(errs, o.inputs.ValidatePaths())...)
}

func (o *options) run(ctx context.Context, t terminal.Terminal) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	release, err := o.release()
	if err != nil {
		return err
	}
	if err := release.Emulate(); err != nil {
		return err
	}
	config, err := o.schedulerConfig(ctx)
	if err != nil {
		return err
	}
	began := time.Now()
	l, err := o.inputs.Load(ctx, t)
	if err != nil {
		return err
	}
	o.timed(t, "read", began)
	load.TellLeftOut(t, l.LeftOut)
	if err := l.Wrong(t); err != nil {
		return err
	}
	if o.inputs.Live && len(o.inputs.State) == 0 && !l.Engine.State.IsComplete(&corev1.Pod{}) {
		return errors.New("the pods of all namespaces can't be listed: without them each node seems to be empty. Ask somebody who may list them, or give a state that has them (--state)")
	}
	if len(review.Objects[*corev1.Node](l.Engine.State)) == 0 {
		return terminal.UsageError{Err: errors.New("not one node is known: give them with --state, or name a cluster whose nodes you may list")}
	}
	documents := l.Documents
	if o.pod != "" {
		if documents, err = o.known(l.Engine.State); err != nil {
			return err
		}
	}
	previews, err := o.ask(ctx, t, l.Engine, config, documents)
	if err != nil {
		return err
	}
	report := scheduling.NewReport(scheduler.Version, release.Remark(), previews)
	report.Config = o.config
	if err := o.print(t, report); err != nil {
		return err
	}
	if code := report.ExitCode(); code != scheduling.ExitFits {
		return terminal.ExitCode(code)
	}
	return nil
}

func (o *options) print(t terminal.Terminal, report *scheduling.Report) error {
	switch o.format {
	case "json":
		return scheduling.JSON(t.Out, report)
	case "html":
		return scheduling.HTML(t.Out, report, scheduling.Made{Time: t.Now(), Version: version.Of(version.Preview).Version})
	}
	return scheduling.Text(t.Out, report, t.Style)
}

// release is that of the cluster: as is said, or as it says itself.
func (o *options) release() (scheduler.Release, error) {
	text := o.version
	if text == "" && o.inputs.Live {
		discovery, err := o.inputs.Kube.ToDiscoveryClient()
		if err != nil {
			return scheduler.Release{}, fmt.Errorf("reach the cluster: %w", err)
		}
		info, err := discovery.ServerVersion()
		if err != nil {
			return scheduler.Release{}, fmt.Errorf("read the version of the cluster: %w", err)
		}
		text = info.GitVersion
	}
	if text == "" {
		return scheduler.Current, nil
	}
	release, err := scheduler.ReleaseOf(text)
	if err != nil {
		return scheduler.Release{}, terminal.UsageError{Err: err}
	}
	return release, nil
}

// schedulerConfig reads the scheduler's configuration, by the feature gates that are in force; nil: none is named.
func (o *options) schedulerConfig(ctx context.Context) (*scheduler.Config, error) {
	if o.config == "" {
		return nil, nil
	}
	text, err := os.ReadFile(o.config)
	if err != nil {
		return nil, terminal.UsageError{Err: fmt.Errorf("read --scheduler-config: %w", err)}
	}
	config, err := scheduler.ReadConfig(ctx, text)
	if err != nil {
		return nil, terminal.UsageError{Err: fmt.Errorf("invalid --scheduler-config %s: %w", o.config, err)}
	}
	return config, nil
}

// known is the pod that was named.
func (o *options) known(s *review.State) ([]*manifest.Document, error) {
	namespace := cmp.Or(o.inputs.Namespace, corev1.NamespaceDefault)
	var elsewhere []string
	for _, p := range review.Objects[*corev1.Pod](s) {
		switch {
		case p.Name != o.pod:
		case p.Namespace == namespace:
			d, err := preview.Document(p)
			return []*manifest.Document{d}, err
		default:
			elsewhere = append(elsewhere, p.Namespace)
		}
	}
	says := fmt.Sprintf("there is no pod %s in namespace %s", console.Visible(o.pod), console.Visible(namespace))
	if len(elsewhere) > 0 {
		slices.Sort(elsewhere)
		says += "; there is one in " + console.Some(elsewhere, maxElsewhere, ", ")
	}
	return nil, terminal.UsageError{Err: errors.New(says)}
}

// maxElsewhere are how many other namespaces are named.
const maxElsewhere = 3

func (o *options) ask(ctx context.Context, t terminal.Terminal, engine *review.Engine, config *scheduler.Config, documents []*manifest.Document) ([]scheduling.Preview, error) {
	began := time.Now()
	p, err := preview.New(ctx, engine, config)
	if err != nil {
		return nil, err
	}
	began = o.timed(t, "cache", began)
	var all []scheduling.Preview
	bad := false
	for _, d := range documents {
		v, wrong := p.Of(ctx, d)
		if v != nil && o.replicas > 0 {
			if err := p.Rollout(ctx, v, o.replicas); err != nil {
				return nil, err
			}
		}
		switch {
		case wrong != nil:
			if wrong.File == "" { // a pod that was named
				wrong.File = o.pod
			}
			fmt.Fprintf(t.Err, "podgrace: %v\n", wrong)
			bad = true
		case v != nil:
			all = append(all, v.Preview)
		}
	}
	o.timed(t, "pass", began)
	switch {
	case bad:
		return nil, terminal.ErrBadInput
	case len(all) == 0:
		return nil, terminal.UsageError{Err: errors.New("nothing of what was given is a pod, or makes one")}
	}
	return all, nil
}

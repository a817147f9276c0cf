package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/review"
	"github.com/podgrace/podgrace/review/input"
	"github.com/podgrace/podgrace/webhook"
)

// inputOptions are where manifests, policies and state come from.
type inputOptions struct {
	kube                        *genericclioptions.ConfigFlags
	paths, policies, statePaths []string

	namespace string
	// live: a cluster was named.
	live bool
}

func newInputOptions() inputOptions {
	kube := genericclioptions.NewConfigFlags(true)
	kube.Impersonate, kube.ImpersonateGroup, kube.ImpersonateUID = nil, nil, nil // --as is who is judged, and not who reads
	return inputOptions{kube: kube}
}

// AddFlags declares the flags.
func (o *inputOptions) AddFlags(f *pflag.FlagSet) {
	f.StringArrayVarP(&o.paths, "filename", "f", nil, "file, folder or - (stdin) with manifests; may be repeated")
	o.addState(f)
}

// addState declares the flags of policies and state.
func (o *inputOptions) addState(f *pflag.FlagSet) {
	f.StringArrayVar(&o.policies, "policy", nil, "file or folder with PodPolicies; may be repeated")
	f.StringArrayVar(&o.statePaths, "state", nil, "file or folder with more objects of the cluster; may be repeated")
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
	return nil
}

// loaded is what was read.
type loaded struct {
	engine    *review.Engine
	documents []*input.Document
	files     int
	errors    []*input.Error
}

// load reads all there is. What is wrong with a document or a policy is in the errors; the rest is used.
func (o *inputOptions) load(ctx context.Context, t terminal) (*loaded, error) {
	reader := &input.Reader{Stdin: t.In}
	manifests := review.Read(reader, o.paths...)
	further := review.Read(reader, o.statePaths...)
	l := &loaded{documents: manifests.Documents, files: manifests.Files, errors: append(manifests.Errors, further.Errors...)}
	policies, wrong := review.LoadPolicies(o.policies, slices.Concat(manifests.Documents, further.Documents))
	l.errors = append(l.errors, wrong...)
	state, err := o.state(ctx, t, &policies)
	if err != nil {
		return nil, err
	}
	for _, d := range slices.Concat(further.Documents, manifests.Documents) {
		if err := state.Add(d, o.namespace); err != nil {
			l.errors = append(l.errors, &input.Error{File: d.File, Line: d.Line, Message: err.Error()})
		}
	}
	if l.engine, err = review.NewEngine(state, policies...); err != nil {
		return nil, usageError{err}
	}
	if o.namespace != "" {
		l.engine.Namespace = o.namespace
	}
	return l, nil
}

// state is that of the cluster that was named, or what every cluster has. Without policies of their own they are the cluster's.
func (o *inputOptions) state(ctx context.Context, t terminal, policies *[]*v1alpha1.PodPolicy) (*review.State, error) {
	if !o.live {
		return review.NewState(), nil
	}
	reader, err := o.reader()
	if err != nil {
		return nil, err
	}
	if len(*policies) == 0 {
		if *policies, err = review.PoliciesOf(ctx, reader); err != nil {
			return nil, fmt.Errorf("no --policy was given, and the cluster's can't be read: %w", err)
		}
	}
	state, err := review.FromCluster(ctx, reader)
	if err != nil {
		fmt.Fprintf(t.Err, "not all of the cluster can be read; what is missing counts as unknown:\n%v\n", err)
	}
	return state, nil
}

func (o *inputOptions) reader() (client.Reader, error) {
	config, err := o.kube.ToRESTConfig()
	if err != nil {
		return nil, usageError{fmt.Errorf("read the kubeconfig: %w", err)}
	}
	config.QPS, config.Burst = 50, 300 // as kubectl's
	reader, err := client.New(config, client.Options{Scheme: webhook.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("reach the cluster: %w", err)
	}
	return reader, nil
}

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime/debug"

	"k8s.io/klog/v2"
	logf "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/program/memory"
	"github.com/podgrace/podgrace/internal/program/version"
	"github.com/podgrace/podgrace/nodeenforcer"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

// gcPercent is Go's GOGC where that is not set. The enforcer is on every node, and little of what it holds ever changes: a quarter of
// the default saves 9 MiB at 500 pods, for 0.1% of a core more.
const gcPercent = 25

// run runs the node enforcer until the context ends.
func run(ctx context.Context, o *options, out io.Writer) (err error) {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	limit, err := memory.Limit()
	if err != nil {
		return err
	}
	memory.Bound(limit)
	o.Log = o.log.New(out)
	klog.SetLogger(o.Log)
	logf.SetLogger(o.Log) // of the health checks
	program := version.Of(version.NodeEnforcer)
	o.Log.Info("starting", program.Pairs()...)
	if o.Machine, err = state.DetectMachine(o.Machine.CgroupRoot, o.Machine.ProcRoot, o.Machine.KubeletRoot); err != nil {
		return err
	}
	o.Registry = newRegistry()
	version.NewMetric(o.Registry, program)
	if err := o.load(ctx); err != nil {
		return err
	}
	return nodeenforcer.Run(ctx, o.Options)
}

// load reads the files that the options name, and the configuration of the API server's client.
func (o *options) load(ctx context.Context) (err error) {
	if o.podsFrom != podsFromAPI {
		known, err := stateOnce(ctx, o, &planOptions{})
		o.Fixed = &known
		return err
	}
	policies, err := readNodePolicies(o.policies...)
	if err != nil {
		return fmt.Errorf("read policies: %w", err)
	}
	if len(o.policies) > 0 {
		o.Policies = append([]*v1alpha1.NodePolicy{}, policies...) // a file without policies is not the cluster's
	}
	if o.API, err = clientConfig(o); err != nil {
		return err
	}
	o.KubeletConfig, err = readKubeletConfig(o.kubeletConfig)
	return err
}

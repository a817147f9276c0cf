package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
)

// realNode is the node that has a kubelet and a node enforcer, where this machine can be one.
const realNode = "node-3"

// enforced is that node; nil where this machine can't be one.
type enforced struct {
	node     *cluster.Node
	enforcer *podgrace.Replica
	program  string
	// config has the enforcer's rights.
	config string
	dir    string
}

// startNode starts a kubelet on this host with a node enforcer beside it.
func startNode(ctx context.Context, c *cluster.Cluster, labels map[string]string) (_ *enforced, err error) {
	e := &enforced{dir: c.Dir}
	if err := podgrace.AllowEnforcer(ctx, c); err != nil {
		return nil, err
	}
	if e.program, err = podgrace.BuildEnforcer(ctx, filepath.Join(c.Dir, "bin")); err != nil {
		return nil, err
	}
	if e.config, err = podgrace.EnforcerKubeconfig(c); err != nil {
		return nil, err
	}
	if e.node, err = c.StartKubelet(ctx, cluster.KubeletOptions{Name: realNode, Labels: labels}); err != nil {
		return nil, err
	}
	if e.enforcer, err = podgrace.StartEnforcer(c, e.program, realNode, append(e.kubelet(), "--resync=1s")...); err != nil {
		return nil, errors.Join(err, e.stop())
	}
	return e, nil
}

func (e *enforced) kubelet() []string {
	return []string{"--kubelet", fmt.Sprintf("%s:%d", e.node.Address, e.node.Port)}
}

// stop ends both; the enforcer first, which speaks with the kubelet.
func (e *enforced) stop() error {
	if e == nil {
		return nil
	}
	var errs []error
	if e.enforcer != nil {
		errs = append(errs, e.enforcer.Stop())
	}
	return errors.Join(append(errs, e.node.Stop())...)
}

// show prints what the kernel of the real node has for the pods, where that is not what the kubelet made: once the enforcer has written it.
func (e *enforced) show(ctx context.Context, pods []corev1.Pod) error {
	if err := e.enforcer.WaitReady(ctx); err != nil {
		return err
	}
	none := filepath.Join(e.dir, "no-nodepolicy.yaml")
	if err := os.WriteFile(none, []byte("# no NodePolicy: the kubelet's own values\n"), 0o600); err != nil {
		return err
	}
	var mine []string
	for i := range pods {
		if pods[i].Spec.NodeName == realNode {
			mine = append(mine, pods[i].Namespace+"/"+pods[i].Name)
		}
	}
	var kernel, kubelets values
	var policy string
	err := wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		now, err := e.plan(ctx)
		if err != nil {
			return false, err
		}
		before, err := e.plan(ctx, "--policy="+none)
		if err != nil {
			return false, err
		}
		var settled bool
		kernel, settled = valuesOf(now)
		kubelets, _ = planned(before)
		policy = fmt.Sprintf("NodePolicy %s, mode %s", now.Policy, now.Mode)
		return settled && hasAll(kernel, mine), nil
	})
	if err != nil {
		return fmt.Errorf("wait for the node enforcer: %w", err)
	}
	fmt.Printf("on %s, this machine, where a kubelet and a node enforcer run (%s):\n", realNode, policy)
	table := tabwriter.NewWriter(os.Stdout, 2, 0, 2, ' ', 0)
	fmt.Fprintln(table, "  POD\tFILE\tKUBELET'S\tIN THE KERNEL")
	for _, key := range slices.SortedFunc(maps.Keys(kernel), func(a, b fileOf) int { return strings.Compare(a.pod+a.file, b.pod+b.file) }) {
		if slices.Contains(mine, key.pod) && kubelets[key] != kernel[key] {
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", key.pod, key.file, orDash(kubelets[key]), kernel[key])
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	fmt.Println()
	return nil
}

// fileOf is a file of a pod's cgroup, or the oom_score_adj of its processes.
type fileOf struct{ pod, file string }

type values map[fileOf]string

// valuesOf are what the kernel has, and whether that is as planned.
func valuesOf(p nodeplan.NodePlan) (values, bool) {
	all, settled := planned(p)
	for _, c := range p.Cgroups {
		for file, have := range c.Drift {
			if c.Pod != "" && c.Container == "" {
				all[fileOf{c.Pod, file}] = have
				settled = false
			}
		}
	}
	for _, process := range p.Processes {
		if process.Drift != "" && process.OOMScoreAdj >= 0 { // below 0 this machine may not go
			all[fileOf{process.Pod, "oom_score_adj"}] = process.Drift
			settled = false
		}
	}
	return all, settled
}

// planned are what a plan says, and whether all of it is there.
func planned(p nodeplan.NodePlan) (values, bool) {
	all, there := values{}, true
	for _, c := range p.Cgroups {
		if c.Pod == "" || c.Container != "" {
			continue
		}
		there = there && !c.Missing
		for file, value := range c.Files {
			all[fileOf{c.Pod, file}] = value
		}
	}
	for _, process := range p.Processes {
		all[fileOf{process.Pod, "oom_score_adj"}] = fmt.Sprint(process.OOMScoreAdj)
	}
	return all, there
}

// hasAll reports whether each pod has running processes.
func hasAll(v values, pods []string) bool {
	return !slices.ContainsFunc(pods, func(pod string) bool { return v[fileOf{pod, "oom_score_adj"}] == "" })
}

// plan is what `nodeenforcer plan` says of the real node.
func (e *enforced) plan(ctx context.Context, args ...string) (p nodeplan.NodePlan, err error) {
	var problems strings.Builder
	cmd := exec.CommandContext(ctx, e.program, append(append([]string{"plan", "-o", "json", "--kubeconfig", e.config, "--node-name", realNode}, e.kubelet()...), args...)...)
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		return p, fmt.Errorf("nodeenforcer plan: %w: %s", err, &problems)
	}
	return p, json.Unmarshal(out, &p)
}

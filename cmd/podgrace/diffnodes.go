package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	statsv1alpha1 "k8s.io/kubelet/pkg/apis/stats/v1alpha1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/diff"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// addThresholds adds to a diff on how many nodes new eviction thresholds are met. If that can't be read, the reason is printed and the rest of the diff holds.
func (r *diffReader) addThresholds(ctx context.Context, d *diff.Diff) error {
	all, err := r.thresholds(ctx)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		fmt.Fprintf(r.Err, "not known on which nodes new eviction thresholds are met: %v\n", err)
	}
	d.AddThresholds(all)
	return nil
}

// thresholds asks the kubelets of the nodes that get eviction thresholds by the change whether they meet them now. It asks none if the policies that come have no NodePolicy.
func (r *diffReader) thresholds(ctx context.Context) ([]diff.Threshold, error) {
	after := r.nodePoliciesOf("--to")
	if !r.inputs.Live || len(after) == 0 {
		return nil, nil
	}
	reader, err := r.inputs.Client()
	if err != nil {
		return nil, err
	}
	before := r.nodePoliciesOf("--from")
	if len(r.from) == 0 {
		if before, err = nodePoliciesOf(ctx, reader); err != nil {
			return nil, fmt.Errorf("no --from was given, and the cluster's NodePolicies can't be read: %w", err)
		}
	}
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("read the nodes that the NodePolicies are for: %w", err)
	}
	kube, err := r.inputs.Clientset()
	if err != nil {
		return nil, err
	}
	return newlyMet(nodes.Items, before, replaced(before, after), func(n *corev1.Node) (map[v1alpha1.EvictionSignal]enforcement.Left, error) {
		var told statsv1alpha1.Summary
		if err := get(ctx, kube, &told, "/api/v1/nodes", n.Name, "proxy/stats/summary"); err != nil {
			return nil, err
		}
		return enforcement.LeftOf(&told, n.Status.Capacity), nil
	})
}

// replaced are the policies after others were applied: one of the same name is replaced, and the rest stays.
func replaced(before, applied []*v1alpha1.NodePolicy) []*v1alpha1.NodePolicy {
	stay := slices.DeleteFunc(slices.Clone(before), func(p *v1alpha1.NodePolicy) bool {
		return slices.ContainsFunc(applied, func(a *v1alpha1.NodePolicy) bool { return a.Name == p.Name })
	})
	return append(stay, applied...)
}

// askedAtOnce is how many kubelets are asked at the same time.
const askedAtOnce = 16

// newlyMet returns the thresholds that are new to nodes, by NodePolicy, with the nodes that meet them. left asks a node's kubelet.
func newlyMet(nodes []corev1.Node, before, after []*v1alpha1.NodePolicy, left func(*corev1.Node) (map[v1alpha1.EvictionSignal]enforcement.Left, error)) ([]diff.Threshold, error) {
	was, _ := enforcement.Compile(before) // one whose selector does not compile selects nothing
	comes, err := enforcement.Compile(after)
	if err != nil {
		return nil, err
	}
	type asked struct {
		node       *corev1.Node
		policy     string
		thresholds []enforcement.Threshold
		left       map[v1alpha1.EvictionSignal]enforcement.Left
		err        error
	}
	var all []*asked
	for i := range nodes {
		p := comes.For(nodes[i].Labels)
		if t := enforcement.NewThresholds(was.For(nodes[i].Labels), p); len(t) > 0 {
			all = append(all, &asked{node: &nodes[i], policy: p.Name, thresholds: t})
		}
	}
	var wait sync.WaitGroup
	free := make(chan struct{}, askedAtOnce)
	for _, a := range all {
		free <- struct{}{}
		wait.Go(func() {
			a.left, a.err = left(a.node)
			<-free
		})
	}
	wait.Wait()

	var found []diff.Threshold
	for _, a := range all {
		for _, t := range a.thresholds {
			i := slices.IndexFunc(found, func(f diff.Threshold) bool { return f.NodePolicy == a.policy && f.Threshold == t.String() })
			if i < 0 {
				i = len(found)
				found = append(found, diff.Threshold{NodePolicy: a.policy, Threshold: t.String()})
			}
			found[i].Of++
			switch met, known := t.Met(a.left); {
			case !known:
				found[i].Unknown++
				if found[i].Why == "" && a.err != nil {
					found[i].Why = a.err.Error()
				}
			case met:
				found[i].Nodes = append(found[i].Nodes, a.node.Name)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b diff.Threshold) int {
		return strings.Compare(a.NodePolicy+" "+a.Threshold, b.NodePolicy+" "+b.Threshold)
	})
	return found, nil
}

// nodePoliciesOf are those of a flag's files.
func (r *diffReader) nodePoliciesOf(flag string) []*v1alpha1.NodePolicy {
	if files := r.policyFiles[flag]; files != nil {
		return files.NodePolicies()
	}
	return nil
}

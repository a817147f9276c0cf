package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/repair"
)

// planTurns is how often each size is measured.
const planTurns = 10

// sizes are pods a node.
var sizes = []int{110, 250, 500}

// planned is what one size took, in milliseconds.
type planned struct {
	pods, groups, files        int
	build, same, repair        []float64
	spoilt, writes, writesIdle int
}

// largeNode is a large machine with cgroup v1, as this one.
func largeNode() plan.Node {
	return plan.Node{
		Name: steadyNode, Version: cgroupfile.V1, Driver: plan.Cgroupfs, PageSize: 4096, PIDs: 4194304, KubeletVersion: "v1.36.3", Kubelet: kubeletConfig(),
		Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("64"), corev1.ResourceMemory: resource.MustParse("256Gi"), corev1.ResourcePods: resource.MustParse("500")},
	}
}

func repairPolicy() *v1alpha1.NodePolicySpec {
	return &v1alpha1.NodePolicySpec{Mode: v1alpha1.NodeModeRepair}
}

// benchPlan measures each size and returns the report.
func benchPlan(ctx context.Context, _ options, progress io.Writer) (string, error) {
	var all []planned
	for _, n := range sizes {
		p, err := measurePlan(ctx, n)
		if err != nil {
			return "", fmt.Errorf("this run is void: %d pods: %w", n, err)
		}
		fmt.Fprintf(progress, "plan of %d pods: done\n", n)
		all = append(all, p)
	}
	return planReport(all), nil
}

func measurePlan(ctx context.Context, pods int) (p planned, err error) {
	node, policy, list := largeNode(), repairPolicy(), podsOf(steadyNode, pods)
	tree := plan.Build(node, policy, list)
	t, err := newHostTree(ctx, tree)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, t.remove()) }()
	round := func() (repair.Round, error) {
		return t.enforcer().Round(ctx, node, policy, v1alpha1.NodeModeRepair, list, true)
	}
	if _, err := round(); err != nil { // as planned from now on
		return p, err
	}
	p = planned{pods: pods, groups: len(tree.Groups)}
	for _, g := range tree.Groups {
		p.files += len(g.Files)
	}
	for range planTurns {
		began := time.Now()
		plan.Build(node, policy, list)
		p.build = append(p.build, milliseconds(time.Since(began)))
		same, err := round()
		if err != nil {
			return p, err
		}
		if p.spoilt, err = t.spoil(ctx, tree); err != nil {
			return p, err
		}
		repair, err := round()
		if err != nil {
			return p, err
		}
		if len(repair.Written) != p.spoilt {
			return p, fmt.Errorf("%d files and processes were changed, and %d repaired", p.spoilt, len(repair.Written))
		}
		p.same, p.repair = append(p.same, milliseconds(same.Took)), append(p.repair, milliseconds(repair.Took))
		p.writesIdle, p.writes = p.writesIdle+len(same.Written), len(repair.Written)
	}
	return p, nil
}

// planReport is the table of all sizes.
func planReport(all []planned) string {
	var text strings.Builder
	fmt.Fprintf(&text, "\nPlan, diff and apply, in process, on this machine's cgroup v1: milliseconds, median (min..max) of %d turns.\n", planTurns)
	fmt.Fprint(&text, "A round without drift is Build, reading every planned file and process, and Diff; in one that repairs all, everything differed.\n\n")
	table := tabwriter.NewWriter(&text, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "pods\tcgroups\tplanned files\tBuild\tround without drift\twrites\tround that repairs all\twrites\tapply alone\t")
	for _, p := range all {
		build, same, repair := spreadOf(p.build), spreadOf(p.same), spreadOf(p.repair)
		fmt.Fprintf(table, "%d\t%d\t%d\t%s\t%s\t%d\t%s\t%d\t%.1f\t\n", p.pods, p.groups, p.files, build, same, p.writesIdle, repair, p.writes, repair.median-same.median)
	}
	_ = table.Flush() // into memory
	return text.String()
}

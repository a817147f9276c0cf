package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cmd/podgrace/cli"
	"github.com/podgrace/podgrace/cmd/version"
	"github.com/podgrace/podgrace/console"
	"github.com/podgrace/podgrace/fencing"
)

const statusLong = `Show which nodes are silent, which protected pods wait for them, what is being done
and why not more: what the fencer has written into the conditions of nodes and pods,
and into Fences. It changes nothing.

Exit codes: 0 no node is partitioned, 1 some are or it could not be read, 2 bad input`

func newStatus(t cli.Terminal, name string) *cobra.Command {
	flags := cli.NewConfigFlags(version.CommandLine)
	cmd := &cobra.Command{
		Use:                   "status",
		DisableFlagsInUseLine: true,
		Short:                 "Show silent nodes, what waits for them, and what is being done",
		Long:                  statusLong,
		Example:               "  " + name + " status",
		Args:                  cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := flags.ToRESTConfig()
			if err != nil {
				return cli.UsageError{Err: fmt.Errorf("read the kubeconfig: %w", err)}
			}
			kube, err := client.New(config, client.Options{Scheme: fencingScheme()})
			if err != nil {
				return fmt.Errorf("configure the client: %w", err)
			}
			return runStatus(cmd.Context(), t, kube, time.Now())
		},
	}
	flags.AddFlags(cmd.Flags())
	return cmd
}

// partitioned is a node that the fencer says something of.
type partitioned struct {
	node      string
	condition corev1.NodeCondition
	fence     *v1alpha1.Fence // nil: none
	pods      []string        // protected ones that wait, NAMESPACE/NAME
}

func runStatus(ctx context.Context, t cli.Terminal, kube client.Client, now time.Time) error {
	all, err := readStatus(ctx, kube)
	if err != nil {
		return err
	}
	fmt.Fprint(t.Out, statusPage(all, t.Style, now))
	if slices.ContainsFunc(all, func(p partitioned) bool { return p.condition.Status != corev1.ConditionFalse }) {
		return cli.ErrNo
	}
	return nil
}

func readStatus(ctx context.Context, kube client.Client) ([]partitioned, error) {
	var nodes corev1.NodeList
	var fences v1alpha1.FenceList
	if err := kube.List(ctx, &nodes); err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	if err := kube.List(ctx, &fences); err != nil {
		return nil, fmt.Errorf("list Fences (is the fencer installed? docs/fencing.md): %w", err)
	}
	var all []partitioned
	for i := range nodes.Items {
		n := &nodes.Items[i]
		one := partitioned{node: n.Name}
		of := func(f v1alpha1.Fence) bool { return f.Spec.Node.UID == n.UID && f.Status.Phase != v1alpha1.FenceOver }
		if j := slices.IndexFunc(fences.Items, of); j >= 0 {
			one.fence = &fences.Items[j]
		}
		if j := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == fencing.ConditionPartitioned }); j >= 0 {
			one.condition = n.Status.Conditions[j]
		}
		if one.fence == nil && (one.condition.Type == "" || one.condition.Status == corev1.ConditionFalse) {
			continue
		}
		var err error
		if one.pods, err = waiting(ctx, kube, n.Name); err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b partitioned) int {
		return cmp.Or(a.condition.LastTransitionTime.Compare(b.condition.LastTransitionTime.Time), strings.Compare(a.node, b.node))
	})
	return all, nil
}

// waiting are the protected pods of a node that wait for it.
func waiting(ctx context.Context, kube client.Client, node string) ([]string, error) {
	var pods corev1.PodList
	if err := kube.List(ctx, &pods, client.MatchingFields{"spec.nodeName": node}); err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", node, err)
	}
	var names []string
	for i := range pods.Items {
		p := &pods.Items[i]
		if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == fencing.ConditionPartitioned && c.Status != corev1.ConditionFalse
		}) {
			names = append(names, p.Namespace+"/"+p.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// statusPage shows each node with what waits for it, the one that has been silent for longest first.
func statusPage(all []partitioned, style console.Style, now time.Time) string {
	p := console.New(style, 11)
	if len(all) == 0 {
		p.Row("", "No node is partitioned, and none is being fenced.")
	}
	for i, one := range all {
		if i > 0 {
			p.Gap()
		}
		head := one.node
		if c := one.condition; c.Type != "" {
			head += fmt.Sprintf(", %s for %s", c.Reason, duration.HumanDuration(now.Sub(c.LastTransitionTime.Time)))
		}
		p.Marked(console.Yellow, "Node", head)
		if one.condition.Message != "" {
			p.Row("", one.condition.Message)
		}
		waits := "no protected pod"
		if len(one.pods) > 0 {
			waits = fmt.Sprintf("%s: %s", console.Plural(len(one.pods), "protected pod", "protected pods"), console.Some(one.pods, 5, ", "))
		}
		p.Row("Waiting", waits)
		if f := one.fence; f != nil {
			text := f.Name + ", not looked at yet"
			if f.Status.Phase != "" {
				text = fmt.Sprintf("%s, %s: %s", f.Name, f.Status.Phase, f.Status.Message)
			}
			p.Row("Fence", text)
		}
	}
	return p.String()
}

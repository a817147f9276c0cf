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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/program/version"
)

const statusLong = `Show which nodes are silent, which protected pods wait for them, what is being done
and why not more: what the fencer has written into the conditions of nodes and pods,
and into Fences. A node that is not ready though no fencer has said anything of it is
shown as well. It changes nothing.

Exit codes: 0 no node is partitioned, 1 some are or it could not be read, 2 bad input`

func newStatus(t terminal.Terminal, name string) *cobra.Command {
	flags := terminal.NewConfigFlags(version.CommandLine)
	cmd := &cobra.Command{
		Use:                   "status",
		DisableFlagsInUseLine: true,
		Short:                 "Show silent nodes, what waits for them, and what is being done",
		Long:                  statusLong,
		Example:               "  " + name + " status",
		Args:                  terminal.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			config, err := flags.ToRESTConfig()
			if err != nil {
				return terminal.UsageError{Err: fmt.Errorf("read the kubeconfig: %w", err)}
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
	// unread: its pods may not be listed, as with no more than the ClusterRole podgrace-fence.
	unread bool
	// unsaid is since when its kubelet reports nothing, and no fencer has said a word of it; zero: that is not so.
	unsaid time.Time
}

// since is when it was silent first, as far as that is said.
func (p *partitioned) since() time.Time {
	if !p.unsaid.IsZero() {
		return p.unsaid
	}
	return p.condition.LastTransitionTime.Time
}

func runStatus(ctx context.Context, t terminal.Terminal, kube client.Client, now time.Time) error {
	all, err := readStatus(ctx, kube)
	if err != nil {
		return err
	}
	fmt.Fprint(t.Out, statusPage(all, t.Style, now))
	if slices.ContainsFunc(all, func(p partitioned) bool { return p.unsaid.IsZero() && p.condition.Status != corev1.ConditionFalse }) {
		return terminal.ErrNo
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
			if one.unsaid = unknownSince(n); !one.unsaid.IsZero() {
				all = append(all, one)
			}
			continue
		}
		var err error
		one.pods, err = waiting(ctx, kube, n.Name)
		if one.unread = apierrors.IsForbidden(err); err != nil && !one.unread {
			return nil, err
		}
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b partitioned) int {
		return cmp.Or(a.since().Compare(b.since()), strings.Compare(a.node, b.node))
	})
	return all, nil
}

// unknownSince is since when the API server has the node's readiness as unknown, which is how a kubelet that reports nothing looks; zero: it has not.
func unknownSince(n *corev1.Node) (since time.Time) {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady && c.Status == corev1.ConditionUnknown {
			since = c.LastTransitionTime.Time
		}
	}
	return since
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
		if !one.unsaid.IsZero() {
			p.Marked(console.Yellow, "Node", one.node+", not ready for "+duration.HumanDuration(now.Sub(one.unsaid)))
			p.Row("", "No fencer has said anything of it: it has not been silent for as long as its FencePolicy's silentFor, or no fencer runs (docs/fencing.md). If its machine is known to be off: kubectl podgrace confirm node/"+one.node)
			continue
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
		if one.unread {
			waits = "unknown: you may not list pods"
		} else if len(one.pods) > 0 {
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

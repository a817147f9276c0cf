package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/fencing"
	"github.com/podgrace/podgrace/internal/console"
)

const fenceLong = `Ask the fencer to have a node powered off and to release its pods, as if it had
been silent for long enough: by the agents of the node's FencePolicy, within its
budget, and on evidence. Nothing is released before the power was read to be off.

It shows the node, the policy and the agents that would be used, and what the fencer
would say of it now: whether it is refused, or waits for a budget. Then it asks, and
makes one Fence; kubectl podgrace status shows how far that is. To ask takes the verb
fence on nodes of group podgrace.dev (ClusterRole podgrace-fence).

A machine that is known to be off needs no agent: kubectl podgrace confirm node/NODE.

Exit codes: 0 asked for, or with --dry-run: it could be
            1 not asked for: declined, refused, not permitted, failed
            2 bad input`

const fenceExample = `  # See what would be done, and be asked
  %[1]s fence worker-3

  # Only look
  %[1]s fence worker-3 --dry-run`

type fenceOptions struct {
	agreeOptions
	node string
}

func newFence(t terminal.Terminal, name string) *cobra.Command {
	o := &fenceOptions{agreeOptions: newAgreeOptions(t)}
	cmd := &cobra.Command{
		Use:                   "fence NODE",
		DisableFlagsInUseLine: true,
		Short:                 "Ask for a node to be powered off, and its pods to be released on evidence",
		Long:                  fenceLong,
		Example:               fmt.Sprintf(fenceExample, name),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.parse(args), o.Complete(), o.Validate("fence")); err != nil {
				return terminal.UsageError{Err: err}
			}
			return runFence(cmd.Context(), t, o, name)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

func (o *fenceOptions) parse(args []string) error {
	if len(args) != 1 {
		return errors.New("which node? One at a time: fence NODE")
	}
	kind, name, err := parseObject([]string{"node/" + strings.TrimPrefix(strings.TrimPrefix(args[0], "node/"), "nodes/")})
	if err == nil && kind == "node" {
		o.node = name
	}
	return err
}

// fencingScheme has the kinds that the commands about fencing read and write.
func fencingScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme, authenticationv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			panic(err) // two kinds of one name: a mistake in the program
		}
	}
	return scheme
}

// fenceFacts are what is known before a fence is asked for.
type fenceFacts struct {
	facts    fencing.Facts
	policies fencing.Policies
	node     *fencing.Node
	user     string
	// ready is what the fencer says of each policy, by its name. It alone reads the storage and counts silences.
	ready map[string]string
}

func runFence(ctx context.Context, t terminal.Terminal, o *fenceOptions, name string) error {
	kube, err := client.New(o.config, client.Options{Scheme: fencingScheme()})
	if err != nil {
		return fmt.Errorf("configure the client: %w", err)
	}
	f, err := readFenceFacts(ctx, kube, o.node)
	if err != nil {
		return err
	}
	fence := f.fence()
	text, possible := fencePage(f, t.Style)
	fmt.Fprint(t.Out, text)
	if !possible {
		return terminal.ErrNo
	}
	if o.dryRun {
		if err := kube.Create(ctx, fence, client.DryRunAll); err != nil {
			return fenceError(o.node, err)
		}
		fmt.Fprintf(t.Out, "Nothing was written. It would make Fence %s, in the name of %s.\n", fence.Name, f.user)
		return nil
	}
	if !o.yes {
		fmt.Fprintf(t.Err, "Type the node's name to have it powered off: ")
		answer, err := bufio.NewReader(t.In).ReadString('\n')
		if err != nil || strings.TrimSpace(answer) != o.node {
			fmt.Fprintln(t.Err, "Not asked for.")
			return terminal.ErrNo
		}
	}
	if err := kube.Create(ctx, fence); err != nil {
		return fenceError(o.node, err)
	}
	fmt.Fprintf(t.Out, "Fence %s was made. How far it is:\n\n  %s status\n", fence.Name, name)
	return nil
}

func fenceError(node string, err error) error {
	if apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("there is a Fence for this silence of node %s already: see kubectl get fences -o wide", node)
	}
	return fmt.Errorf("ask for a fence of node %s: %w", node, err)
}

// readFenceFacts reads what is shown. Without the kinds of fencing there is no fencer.
func readFenceFacts(ctx context.Context, kube client.Client, name string) (f fenceFacts, err error) {
	var node corev1.Node
	if err := kube.Get(ctx, types.NamespacedName{Name: name}, &node); err != nil {
		return f, fmt.Errorf("read node %s: %w", name, err)
	}
	lease := &coordinationv1.Lease{}
	if err := kube.Get(ctx, types.NamespacedName{Namespace: corev1.NamespaceNodeLease, Name: name}, lease); err != nil {
		lease = nil // its last renewal is part of the Fence's name only
	}
	nodes, err := allNodes(ctx, kube)
	if err != nil {
		return f, err
	}
	var policies v1alpha1.FencePolicyList
	var agents v1alpha1.FenceAgentList
	var fences v1alpha1.FenceList
	var receipts v1alpha1.FenceReceiptList
	for _, list := range []client.ObjectList{&policies, &agents, &fences, &receipts} {
		if err := kube.List(ctx, list); err != nil {
			return f, fmt.Errorf("list what the fencer works by (is it installed? docs/fencing.md): %w", err)
		}
	}
	review := &authenticationv1.SelfSubjectReview{}
	if err := kube.Create(ctx, review); err != nil {
		return f, fmt.Errorf("ask the API server who you are: %w", err)
	}
	nodes = slices.DeleteFunc(nodes, func(n fencing.Node) bool { return n.Name == name })
	f.facts = fencing.Facts{
		Known: fencing.Known{Nodes: true, Fences: true, Receipts: true, Agents: true}, Nodes: append(nodes, fencing.NodeOf(&node, lease)), Agents: agents.Items, Fences: fences.Items, Receipts: receipts.Items,
		Storms: fencing.CoolingDown(policies.Items),
	}
	f.ready = make(map[string]string, len(policies.Items))
	for i := range policies.Items {
		f.ready[policies.Items[i].Name] = readyOf(&policies.Items[i])
	}
	f.node, f.policies, f.user = &f.facts.Nodes[len(nodes)], fencing.CompilePolicies(policies.Items), review.Status.UserInfo.Username
	return f, nil
}

// readyOf is what the fencer says of a policy.
func readyOf(p *v1alpha1.FencePolicy) string {
	c := meta.FindStatusCondition(p.Status.Conditions, fencing.ConditionReady)
	switch {
	case c == nil || c.ObservedGeneration != p.Generation:
		return "of which no fencer has said anything yet: is one running? Nobody else carries a fence out (docs/fencing.md)"
	case c.Status == metav1.ConditionTrue:
		return "Ready: " + c.Message
	}
	return "not Ready: " + c.Message
}

// nodesAPage is how many Nodes are read at once.
const nodesAPage = 500

// allNodes are what budgets and doubts go by.
func allNodes(ctx context.Context, kube client.Client) ([]fencing.Node, error) {
	var all []fencing.Node
	for token := ""; ; {
		var page corev1.NodeList
		if err := kube.List(ctx, &page, client.Limit(nodesAPage), client.Continue(token)); err != nil {
			return nil, fmt.Errorf("list nodes: %w", err)
		}
		for i := range page.Items {
			all = append(all, fencing.NodeOf(&page.Items[i], nil))
		}
		if token = page.Continue; token == "" {
			return all, nil
		}
	}
}

// fencePage shows what would be done, and reports whether the fencer could do it.
func fencePage(f fenceFacts, style console.Style) (text string, possible bool) {
	p := console.New(style, 11)
	ready := "not Ready"
	if f.node.Ready {
		ready = "Ready: its pods run, and end with its power, without a grace period"
	}
	p.Row("Node", fmt.Sprintf("%s, boot %s, %s", f.node.Name, f.node.BootID, ready))
	p.Row("Machine", fmt.Sprintf("systemUUID %s, providerID %s", quoted(f.node.SystemUUID), quoted(f.node.ProviderID)))
	own, _ := f.policies.Of(f.node)
	if own == nil {
		p.Marked(console.Red, "REFUSED", f.verdict().Message)
		return p.String(), false
	}
	p.Row("Policy", own.Name+", "+f.ready[own.Name])
	v := f.verdict()
	var agents []string
	for _, a := range own.Spec.Agents {
		if of := func(t v1alpha1.FenceTargetAgent) bool { return t.Name == a.Name }; v.Target == nil || slices.ContainsFunc(v.Target.Agents, of) {
			agents = append(agents, fmt.Sprintf("%s, %d attempts of %s", a.Name, a.Attempts, a.Timeout.Duration))
		}
	}
	p.Row("Agents", append(agents, "")[:max(len(agents), 1)]...)
	switch {
	case !v.Passes():
		p.Marked(console.Red, "REFUSED", v.Message)
		return p.String(), false
	case v.Do == fencing.DoWait:
		p.Marked(console.Yellow, "WAITS", v.Message)
	}
	first := "its power is ordered off and read back twice; then"
	if !powersOff(own.Spec.Agents, f.facts.Agents) {
		first = "no agent of its policy powers it off: only once there is evidence"
	}
	p.Row("Then", first+" there is a receipt, and by that its pods are released ("+string(own.Spec.Release)+"). Nothing is powered on again.")
	if fencing.TakesStorage(v.Target) {
		p.Row("", "An agent of the type NetworkFence takes its storage away, if it is not heard of and the fencer knows its addresses: by that only pods are released that are protected for their volumes alone.")
	}
	return p.String(), true
}

// powersOff reports whether one of a policy's agents has machines powered off: others wait for a person or a watchdog, or take storage away.
func powersOff(of []v1alpha1.FencePolicyAgent, agents []v1alpha1.FenceAgent) bool {
	return slices.ContainsFunc(agents, func(a v1alpha1.FenceAgent) bool {
		return !slices.Contains([]v1alpha1.FenceAgentType{v1alpha1.AgentManual, v1alpha1.AgentWatchdog, v1alpha1.AgentNetworkFence}, a.Spec.Type) &&
			slices.ContainsFunc(of, func(o v1alpha1.FencePolicyAgent) bool { return o.Name == a.Name })
	})
}

// fence is what is asked for.
func (f *fenceFacts) fence() *v1alpha1.Fence {
	return &v1alpha1.Fence{
		ObjectMeta: metav1.ObjectMeta{Name: fencing.FenceName(f.node)},
		Spec:       v1alpha1.FenceSpec{Node: f.node.Boot(), Reason: v1alpha1.FenceRequested, RequestedBy: f.user},
	}
}

// verdict is what the fencer would say of it.
func (f *fenceFacts) verdict() fencing.Verdict {
	return fencing.Foresee(f.fence(), f.policies, f.facts)
}

func quoted(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

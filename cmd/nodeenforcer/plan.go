package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/nodeplan"
	"github.com/podgrace/podgrace/internal/program/incluster"
	"github.com/podgrace/podgrace/internal/program/version"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/repair"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/policy/enforcement"
)

func newPlan() *cobra.Command {
	o, p := defaultOptions(), &planOptions{}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Print the cgroups as they should be, and where they are not",
		Long: `plan prints the tree of cgroups that pods, node and NodePolicy ask for: QoS class, what was promised, the limit, what is used,
and every file that holds something else than it should. It writes nothing.

With --pods-from and --node it needs no API server, and with --cgroup-version no node either. Of a workload in such a file it plans
one pod, as its controller would create it, under the workload's name.`,
		Example: `  # On the node itself, compared with its cgroups
  nodeenforcer plan --node-name worker-1

  # In the node enforcer's own pod there, which knows its node's name
  kubectl exec -n podgrace-node POD -- /usr/local/bin/nodeenforcer plan --cgroup-root=/host/cgroup

  # What a node would get, on any machine
  nodeenforcer plan --pods-from pods.yaml --node node.yaml --cgroup-version 2 --cgroup-driver systemd -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			// The host's name is not the node's where another machine's plan is printed.
			named := o.NodeName != "" || os.Getenv("NODE_NAME") != ""
			if err := errors.Join(o.Complete(), o.Validate(), p.Validate()); err != nil {
				return usageError{err}
			}
			if !named && o.podsFrom != podsFromAPI {
				o.NodeName = ""
			}
			if p.cgroupVersion != 0 && !cmd.Flags().Changed("kubelet-root") { // this machine's kubelet is not the other's
				o.Machine.KubeletRoot = ""
			}
			return printPlan(cmd.Context(), o, p, cmd.OutOrStdout())
		},
	}
	cmd.Flags().SortFlags = false
	o.addShared(cmd.Flags())
	p.add(cmd.Flags())
	return cmd
}

func printPlan(ctx context.Context, o *options, p *planOptions, out io.Writer) error {
	known, err := stateOnce(ctx, o, p)
	if err != nil {
		return err
	}
	in, err := compare(ctx, o, p, known)
	if in.Tree == nil {
		return err
	}
	write := nodeplan.Text
	if p.output == "json" {
		write = nodeplan.JSON
	}
	return errors.Join(write(out, in), err) // also where not every cgroup could be read
}

// stateOnce reads what is known of the node: from files, and what they do not say from the API server.
func stateOnce(ctx context.Context, o *options, p *planOptions) (state.State, error) {
	var s state.State
	policies, err := readNodePolicies(o.policies...)
	if err != nil {
		return s, fmt.Errorf("read policies: %w", err)
	}
	if s.Config, err = readKubeletConfig(o.kubeletConfig); err != nil {
		return s, err
	}
	if p.node != "" {
		if s.Node, err = state.ReadNode(p.node); err != nil {
			return s, err
		}
		o.NodeName = s.Node.Name
	}
	if o.podsFrom != podsFromAPI {
		var others int
		if s.Pods, others, err = state.ReadPods(o.podsFrom, o.NodeName); err != nil {
			return s, err
		}
		if s.From = o.podsFrom; others > 0 {
			s.From += fmt.Sprintf(" (objects that make no pods: %d)", others)
		}
		if s.Node == nil {
			if s.Node, err = state.LocalNode(o.NodeName, o.Machine.ProcRoot); err != nil {
				return s, err
			}
		}
	} else if policies, err = askCluster(ctx, o, &s, policies); err != nil {
		return s, err
	}
	s.Policy, err = enforcement.PolicyFor(s.Node, policies)
	return s, err
}

// askCluster reads what is missing from the API server, and the kubelet's configuration from the kubelet.
func askCluster(ctx context.Context, o *options, s *state.State, policies []*v1alpha1.NodePolicy) ([]*v1alpha1.NodePolicy, error) {
	config, err := clientConfig(o)
	if err != nil {
		return nil, err
	}
	clients, err := state.NewClients(config)
	if err != nil {
		return nil, err
	}
	if s.Node == nil {
		if s.Node, err = clients.Get(ctx, o.NodeName); err != nil {
			return nil, fmt.Errorf("read node %s (is it this machine's? see --node-name): %w", o.NodeName, err)
		}
	}
	pods, err := clients.PodsOf(ctx, o.NodeName)
	if err != nil {
		return nil, fmt.Errorf("list the pods of node %s: %w", o.NodeName, err)
	}
	for i := range pods.Items {
		s.Pods = append(s.Pods, &pods.Items[i])
	}
	s.From = "the API server"
	if len(o.policies) == 0 {
		list, err := clients.NodePolicies(ctx)
		if err != nil {
			return nil, fmt.Errorf("list NodePolicies (kubectl apply -f deploy/crds installs the kind): %w", err)
		}
		for i := range list.Items {
			policies = append(policies, &list.Items[i])
		}
	}
	if s.Config == nil && o.Kubelet != "" {
		kubelet, err := state.NewKubelet(o.Kubelet, o.NodeName, config, o.KubeletCA)
		if err != nil {
			return nil, err
		}
		if s.Config, err = kubelet.Config(ctx); err != nil {
			return nil, fmt.Errorf("%w (--kubelet= plans by the kubelet's defaults, --kubelet-config by a file)", err)
		}
	}
	return policies, nil
}

func clientConfig(o *options) (*rest.Config, error) {
	return incluster.Config(o.kubeconfig, version.Of(version.NodeEnforcer)) // of which an eviction must not wait behind an Event
}

// readKubeletConfig reads a KubeletConfiguration; without a name there is none.
func readKubeletConfig(name string) (*kubeletconfigv1beta1.KubeletConfiguration, error) {
	if name == "" {
		return nil, nil
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read the kubelet's configuration: %w", err)
	}
	var config kubeletconfigv1beta1.KubeletConfiguration
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return nil, fmt.Errorf("read the kubelet's configuration from %s: %w", name, err)
	}
	if config.Kind != "" && config.Kind != "KubeletConfiguration" {
		return nil, fmt.Errorf("read the kubelet's configuration from %s: it is a %s", name, config.Kind)
	}
	if d := plan.Driver(config.CgroupDriver); d != "" && d != plan.Cgroupfs && d != plan.Systemd {
		return nil, fmt.Errorf("read the kubelet's configuration from %s: cgroupDriver %q is neither cgroupfs nor systemd", name, d)
	}
	return &config, nil
}

// compare plans and, unless the plan is of another machine, reads what is there.
func compare(ctx context.Context, o *options, p *planOptions, s state.State) (nodeplan.Input, error) {
	machine := state.Machine{Version: cgroupfile.Version(p.cgroupVersion), KubeletRoot: o.Machine.KubeletRoot}
	if p.cgroupVersion == 0 {
		var err error
		if machine, err = state.DetectMachine(o.Machine.CgroupRoot, o.Machine.ProcRoot, o.Machine.KubeletRoot); err != nil {
			return nodeplan.Input{}, fmt.Errorf("%w (--cgroup-version plans for another machine)", err)
		}
	}
	machine.Driver = plan.Driver(p.cgroupDriver)
	node := machine.Node(s)
	in := nodeplan.Input{Node: node.Name, Mode: s.Mode(o.Mode), Version: node.Version, Driver: node.Driver, Pods: s.Pods, From: s.From}
	var spec *v1alpha1.NodePolicySpec
	if s.Policy != nil {
		spec, in.Policy = &s.Policy.Spec, s.Policy.Name
	}
	if p.cgroupVersion != 0 {
		in.Tree = plan.Build(node, spec, s.Pods)
		in.Mode = in.Tree.Permit(node, in.Mode)
		return in, nil
	}
	tree, err := machine.Cgroups(node.Driver, o.SystemdBus)
	if err != nil {
		return in, err
	}
	enforcer := &repair.Enforcer{Cgroups: tree, ProcRoot: o.Machine.ProcRoot, DryRun: true, Clock: clock.RealClock{}, Rivals: drift.NewRivals(drift.RivalLimit, drift.RivalWindow)}
	round, err := enforcer.Round(ctx, node, spec, in.Mode, s.Pods, true)
	in.Mode = round.Mode
	in.Tree, in.Have, in.Drift, in.ProcessDrift, in.Missing = round.Tree, round.Have, round.Diff.Drift, round.Processes.Drift, round.Diff.Missing
	in.Counted = map[string]cgroup.Statistics{}
	for _, g := range in.Tree.Groups {
		counted, statErr := tree.Stat(g.Path)
		switch {
		case statErr == nil:
			in.Counted[g.Path] = counted
		case !errors.Is(statErr, cgroup.ErrGone): // which the round says
			err = errors.Join(err, statErr)
		}
	}
	return in, err
}

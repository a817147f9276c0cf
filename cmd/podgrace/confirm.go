package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/program/version"
)

const confirmLong = `Say knowingly what Podgrace refuses to assume: that a pod may run twice, or that
a node is off.

It shows what is known, what may happen and whether you may confirm. Then it
asks, and sets one annotation. It deletes nothing: it prints the command to type
next.

A pod: a force delete of it then goes through, whoever sends it, for 55 minutes,
and if its node was silent no longer than until that is heard of. It is for this
pod only, not for one of the same name that comes after it. To confirm it takes
the verb force-delete on pods of group podgrace.dev.

A node: its pods and volumes may then be moved. It is refused while the node is
ready or was heard of while its Lease lasts (40s, by default), and void as soon as it is heard of again.

Exit codes: 0 confirmed, or not needed, or with --dry-run: it could be
            1 not confirmed: declined, refused, not permitted, failed
            2 bad input`

const confirmExample = `  # See what may happen to a pod, and be asked
  %[1]s confirm -n shop db-0

  # A node that has no power
  %[1]s confirm node/worker-3

  # Only look
  %[1]s confirm -n shop db-0 --dry-run`

type confirmOptions struct {
	agreeOptions

	name    string // of the program
	kind    string // "pod" or "node"
	object  string
	carried string // flags that hold for the next command too
}

func newConfirm(t terminal.Terminal, name string) *cobra.Command {
	o := &confirmOptions{agreeOptions: newAgreeOptions(t), name: name}
	cmd := &cobra.Command{
		Use:                   "confirm [-n NAMESPACE] (POD | node/NODE)",
		DisableFlagsInUseLine: true,
		Short:                 "Confirm that a pod may run twice, or that a node is off",
		Long:                  confirmLong,
		Example:               fmt.Sprintf(confirmExample, name),
		ValidArgsFunction:     o.completeArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.Complete(cmd.Flags(), args), o.Validate("confirm")); err != nil {
				return terminal.UsageError{Err: err}
			}
			return runConfirm(cmd.Context(), t, o)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

// Complete reads the arguments and the kubeconfig.
func (o *confirmOptions) Complete(f *pflag.FlagSet, args []string) (err error) {
	if o.kind, o.object, err = parseObject(args); err != nil {
		return err
	}
	o.carried = carriedFlags(f)
	return o.agreeOptions.Complete()
}

// parseObject reads POD, pod/POD, node/NODE, or a kind and a name.
func parseObject(args []string) (kind, name string, err error) {
	given := strings.Join(args, "/")
	kind, name, found := strings.Cut(given, "/")
	if !found {
		kind, name = "pod", given
	}
	switch strings.ToLower(kind) {
	case "pod", "pods", "po":
		kind = "pod"
	case "node", "nodes", "no":
		kind = "node"
	default:
		if len(args) > 1 {
			return "", "", errors.New("one pod or node at a time")
		}
		return "", "", fmt.Errorf("%q is neither a pod nor a node: POD, pod/POD or node/NODE", given)
	}
	if name == "" {
		return "", "", errors.New("which pod or node? POD, pod/POD or node/NODE")
	}
	if wrong := content.IsPathSegmentName(name); len(wrong) > 0 {
		return "", "", fmt.Errorf("%q is no name: it %s", name, strings.Join(wrong, ", "))
	}
	return kind, name, nil
}

// carried are the flags by which kubectl finds the same cluster as the same user. A token or password is not repeated.
var carried = []string{"kubeconfig", "context", "cluster", "user", "server", "certificate-authority", "tls-server-name", "insecure-skip-tls-verify", "as", "as-uid"}

func carriedFlags(f *pflag.FlagSet) string {
	var text strings.Builder
	for _, name := range carried {
		if flag := f.Lookup(name); flag != nil && flag.Changed {
			fmt.Fprintf(&text, " --%s=%s", name, quote(flag.Value.String()))
		}
	}
	for _, name := range []string{"as-group", "as-user-extra"} {
		values, _ := f.GetStringArray(name)
		for _, v := range values {
			fmt.Fprintf(&text, " --%s=%s", name, quote(v))
		}
	}
	return text.String()
}

// quote protects a word from the shell.
func quote(word string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,"
	if word != "" && strings.Trim(word, plain) == "" {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// runConfirm asks and writes.
func runConfirm(ctx context.Context, t terminal.Terminal, o *confirmOptions) error {
	client, err := o.confirmClient()
	if err != nil {
		return err
	}
	s := &confirm.Session{
		Reader: client, Writer: client, In: t.In, Out: t.Out, Err: t.Err, Yes: o.yes, DryRun: o.dryRun, Style: t.Style,
		Commands: confirm.Commands{Self: o.name, Flags: o.carried},
	}
	var confirmed bool
	if o.kind == "node" {
		confirmed, err = s.Node(ctx, o.object)
	} else {
		confirmed, err = s.Pod(ctx, o.namespace, o.object)
	}
	if err == nil && !confirmed {
		return terminal.ErrNo
	}
	return err
}

// completeArgs offers pods and nodes to a shell.
func (o *confirmOptions) completeArgs(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const none = cobra.ShellCompDirectiveNoFileComp
	if len(args) > 0 {
		return nil, none
	}
	namespace, _, err := o.kube.ToRawKubeConfigLoader().Namespace()
	if err != nil {
		return nil, none
	}
	config, err := o.kube.ToRESTConfig()
	if err != nil {
		return nil, none
	}
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, none
	}
	names, _ := (&confirm.Client{Kube: kube}).Complete(cmd.Context(), namespace, prefix)
	return names, none
}

// agreeOptions are those of commands that show what is known, ask a person, and write one thing into the cluster.
type agreeOptions struct {
	kube        *genericclioptions.ConfigFlags
	yes, dryRun bool

	namespace  string
	config     *rest.Config
	canBeAsked bool
}

func newAgreeOptions(t terminal.Terminal) agreeOptions {
	return agreeOptions{kube: terminal.NewConfigFlags(version.CommandLine), canBeAsked: t.Asks}
}

// AddFlags declares the flags.
func (o *agreeOptions) AddFlags(f *pflag.FlagSet) {
	f.BoolVarP(&o.yes, "yes", "y", false, "do not ask; needed where stdin is no terminal")
	f.BoolVar(&o.dryRun, "dry-run", false, "show, and change nothing")
	o.kube.AddFlags(f)
}

// Complete reads the kubeconfig.
func (o *agreeOptions) Complete() (err error) {
	if o.namespace, _, err = o.kube.ToRawKubeConfigLoader().Namespace(); err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	if o.config, err = o.kube.ToRESTConfig(); err != nil {
		return fmt.Errorf("read the kubeconfig: %w", err)
	}
	o.config.QPS, o.config.Burst = 50, 300 // as kubectl's
	o.config.WarningHandler = rest.NewWarningWriter(os.Stderr, rest.WarningWriterOptions{Deduplicate: true})
	return nil
}

// confirmClient reads what a person confirms, and writes it.
func (o *agreeOptions) confirmClient() (*confirm.Client, error) {
	kube, err := kubernetes.NewForConfig(o.config)
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	others, err := dynamic.NewForConfig(o.config)
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	return &confirm.Client{Kube: kube, Dynamic: others, Clock: clock.RealClock{}}, nil
}

// Validate says what is wrong with the options of a command that does something, such as confirm.
func (o *agreeOptions) Validate(does string) error {
	if !o.canBeAsked && !o.yes && !o.dryRun {
		return errors.New("stdin is no terminal, so that nobody can be asked: add --yes to " + does + " without a question, or --dry-run to look")
	}
	return nil
}

const grantLong = `Grant an exception that the owner of a namespace has asked for: a PolicyException
lifts limits of one PodPolicy, for pods of its namespace, until its end.

It shows who answers for it and why, what the policy says, for which pods it is
lifted and until when, and whether you may grant. Then it asks, and writes the
grant, which is of the spec that was shown: an edit voids it.

To grant it takes the verb except on that PodPolicy (podpolicies.podgrace.dev), in
the whole cluster, and patch on policyexceptions.podgrace.dev/status in the
namespace. To take a grant back, delete the exception.

Exit codes: 0 granted, or was already, or with --dry-run: it could be
            1 not granted: declined, refused, not permitted, failed
            2 bad input`

const grantExample = `  # Which exceptions wait for a grant?
  kubectl get policyexceptions.podgrace.dev -A

  # See what one lifts, and be asked
  %[1]s grant -n shop batch

  # Only look
  %[1]s grant -n shop batch --dry-run`

type grantOptions struct {
	agreeOptions

	exception string
}

func newGrant(t terminal.Terminal, name string) *cobra.Command {
	o := &grantOptions{agreeOptions: newAgreeOptions(t)}
	cmd := &cobra.Command{
		Use:                   "grant [-n NAMESPACE] EXCEPTION",
		DisableFlagsInUseLine: true,
		Short:                 "Grant an exception from limits of a policy",
		Long:                  grantLong,
		Example:               fmt.Sprintf(grantExample, name),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.Complete(args), o.Validate("grant")); err != nil {
				return terminal.UsageError{Err: err}
			}
			return runGrant(cmd.Context(), t, o)
		},
	}
	o.AddFlags(cmd.Flags())
	return cmd
}

// Complete reads the argument and the kubeconfig.
func (o *grantOptions) Complete(args []string) (err error) {
	if o.exception, err = parseException(args); err != nil {
		return err
	}
	return o.agreeOptions.Complete()
}

// parseException reads EXCEPTION or policyexception/EXCEPTION.
func parseException(args []string) (string, error) {
	given := strings.Join(args, "/")
	kind, name, found := strings.Cut(given, "/")
	if !found {
		kind, name = "policyexception", given
	}
	switch strings.ToLower(kind) {
	case "policyexception", "policyexceptions", "pex", "policyexception.podgrace.dev", "policyexceptions.podgrace.dev":
	default:
		return "", fmt.Errorf("%q is no exception: EXCEPTION or policyexception/EXCEPTION, one at a time", given)
	}
	if name == "" {
		return "", errors.New("which exception? EXCEPTION, as kubectl get policyexceptions.podgrace.dev names it")
	}
	if wrong := content.IsPathSegmentName(name); len(wrong) > 0 {
		return "", fmt.Errorf("%q is no name: it %s", name, strings.Join(wrong, ", "))
	}
	return name, nil
}

// runGrant asks and writes.
func runGrant(ctx context.Context, t terminal.Terminal, o *grantOptions) error {
	reader, err := o.confirmClient()
	if err != nil {
		return err
	}
	s := &confirm.Session{In: t.In, Out: t.Out, Err: t.Err, Yes: o.yes, DryRun: o.dryRun, Style: t.Style}
	granted, err := s.Grant(ctx, &confirm.ExceptionClient{Client: reader}, o.namespace, o.exception)
	if err == nil && !granted {
		return terminal.ErrNo
	}
	return err
}

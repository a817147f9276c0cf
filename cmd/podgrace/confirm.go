package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/client-go/kubernetes"

	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/cli/terminal"
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

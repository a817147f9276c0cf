package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/validate/content"

	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/cli/terminal"
)

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

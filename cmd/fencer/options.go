package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/internal/program/replica"
	"github.com/podgrace/podgrace/policy"
)

type options struct {
	replica.Options
	// excluded are patterns of namespaces; exempt are they, and those that always are.
	excluded []string
	exempt   policy.Exempt
	nodeName string
	// secretsNamespace is that of the Secrets which FenceAgents name.
	secretsNamespace string
}

func defaultOptions() *options {
	return &options{Options: replica.DefaultOptions(), secretsNamespace: "podgrace-fencing"}
}

// AddFlags declares the flags with the defaults that are set.
func (o *options) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.excluded, "exclude-namespaces", o.excluded, policy.ExcludeUsage)
	f.StringVar(&o.nodeName, "node-name", o.nodeName, "node that it runs on, which it never fences; default: $NODE_NAME, else none of the cluster")
	f.StringVar(&o.secretsNamespace, "secrets-namespace", o.secretsNamespace, "namespace of the Secrets that FenceAgents name; the fencer may read all Secrets in it, so it must not be --namespace")
	o.Options.AddFlags(f, replica.Usage{
		Namespace:   "namespace of its Leases",
		LeaderElect: "elect one replica that decides; false: this is the only replica",
	})
}

// Complete fills in what depends on the surroundings.
func (o *options) Complete() error {
	o.nodeName = cmp.Or(o.nodeName, os.Getenv("NODE_NAME"))
	err := o.Options.Complete()
	var excluding error
	if o.exempt, excluding = policy.ExemptIn(o.Namespace).Excluding(o.excluded...); excluding != nil {
		err = errors.Join(fmt.Errorf("--exclude-namespaces: %w", excluding), err)
	}
	return err
}

// Validate returns an error for each invalid option.
func (o *options) Validate() error {
	var own error
	if o.secretsNamespace == o.Namespace { // the webhook's CA is in it
		own = fmt.Errorf("invalid --secrets-namespace %q: must not be the namespace that the fencer runs in", o.secretsNamespace)
	}
	return errors.Join(own, o.Options.Validate())
}

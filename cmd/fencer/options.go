package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/cmd/replica"
	"github.com/podgrace/podgrace/policy"
)

type options struct {
	replica.Options
	// excluded are patterns of namespaces; exempt are they, and those that always are.
	excluded []string
	exempt   policy.Exempt
	nodeName string
}

func defaultOptions() *options { return &options{Options: replica.DefaultOptions()} }

// AddFlags declares the flags with the defaults that are set.
func (o *options) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.excluded, "exclude-namespaces", o.excluded, policy.ExcludeUsage)
	f.StringVar(&o.nodeName, "node-name", o.nodeName, "node that it runs on, which it never fences; default: $NODE_NAME, else none of the cluster")
	o.Options.AddFlags(f, replica.Usage{
		Namespace:   "namespace of its Leases and of the Secrets that FenceAgents name",
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

package main

import (
	"github.com/spf13/pflag"

	"github.com/podgrace/podgrace/internal/program/replica"
)

type options struct {
	replica.Options
	drivers []string
}

func defaultOptions() *options { return &options{Options: replica.DefaultOptions()} }

// AddFlags declares the flags with the defaults that are set.
func (o *options) AddFlags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.drivers, "drivers", o.drivers, "CSI drivers whose volumes are gated, such as nfs.csi.k8s.io; none: it waits")
	o.Options.AddFlags(f, replica.Usage{Namespace: "namespace of its Lease", LeaderElect: "elect one replica that works; false: each does, which does no harm"})
}

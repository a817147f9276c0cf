package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/pflag"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/program/version"
)

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

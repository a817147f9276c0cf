package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/adoption"
	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/cli/doctor"
	"github.com/podgrace/podgrace/cli/locks"
	"github.com/podgrace/podgrace/cli/terminal"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/program/version"
)

const volumeLockLong = `Bring CSI drivers that attach nothing under the volume lock, by which one node at a
time mounts a ReadWriteOnce volume, and take them out of it; see who holds what, and
confirm that a node is rid of a volume (docs/volume-lock.md).`

// newVolumeLock has the commands about VolumeLocks.
func newVolumeLock(t terminal.Terminal, name string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "volumelock",
		Short: "See who holds a volume, and which drivers the volume lock gates",
		Long:  volumeLockLong,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return terminal.UsageError{Err: fmt.Errorf("unknown command %q; see %s --help", args[0], cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newLockList(t, name), newLockConfirm(t, name), newAdopt(t, name), newLeave(t, name))
	return cmd
}

const adoptLong = `Have the volume lock gate a CSI driver that has attachRequired: false. That field can't
be changed: the CSIDriver is deleted and made anew, else as it was. What pods have
mounted already gets VolumeLocks first.

It shows the volumes in use and what is done in which order, and refuses where two
nodes have one volume, where a node is silent, and where somebody would put the old
CSIDriver back: a chart, an operator, a GitOps tool. Then it asks. A copy is kept in the
ConfigMap podgrace-volumelock-csidrivers until all is done: a command that was
interrupted goes on when it is given again. Kubelets need no restart.

It takes the ClusterRole podgrace-adopt-driver, and in Podgrace's namespace the Role of
that name.

Exit codes: 0 adopted, or was already, or with --dry-run: it could be
            1 not adopted: declined, refused, not permitted, failed
            2 bad input`

const adoptExample = `  # Only look
  %[1]s volumelock adopt nfs.csi.k8s.io --dry-run

  # The chart's values were changed before
  %[1]s volumelock adopt nfs.csi.k8s.io --despite=managed`

const leaveLong = `Take a CSI driver out of the volume lock: its CSIDriver is made anew with
attachRequired: false. From then on nothing keeps two nodes from mounting one of its
volumes. What is mounted stays so.

It refuses while pods wait for a volume that another node holds, since they would mount
it at once. VolumeLocks whose VolumeAttachments are still there stay: give the command
again when their pods have ended, and let the volume lock run until then.

Exit codes: 0 gated no more, or with --dry-run: it could be
            1 declined, refused, not permitted, failed
            2 bad input`

// driverOptions are those of the commands about one driver.
type driverOptions struct {
	agreeOptions

	driver  string
	settle  time.Duration
	despite []string
	codes   []adoption.Code
}

func newAdopt(t terminal.Terminal, name string) *cobra.Command {
	o := &driverOptions{agreeOptions: newAgreeOptions(t)}
	cmd := o.command(t, "adopt", (*locks.Adopter).Adopt)
	cmd.Short, cmd.Long, cmd.Example = "Have the volume lock gate a CSI driver that attaches nothing", adoptLong, fmt.Sprintf(adoptExample, name)
	cmd.Flags().DurationVar(&o.settle, "settle", time.Minute, "how long kubelets get to see the CSIDriver that was made anew, before anything is attached")
	return cmd
}

func newLeave(t terminal.Terminal, name string) *cobra.Command {
	o := &driverOptions{agreeOptions: newAgreeOptions(t)}
	cmd := o.command(t, "leave", (*locks.Adopter).Leave)
	cmd.Short, cmd.Long, cmd.Example = "Take a CSI driver out of the volume lock", leaveLong, fmt.Sprintf("  %s volumelock leave nfs.csi.k8s.io --dry-run", name)
	return cmd
}

func (o *driverOptions) command(t terminal.Terminal, does string, run func(*locks.Adopter, context.Context, string) (bool, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:                   does + " DRIVER",
		DisableFlagsInUseLine: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.parse(args), o.Complete(), o.Validate(does)); err != nil {
				return terminal.UsageError{Err: err}
			}
			a, err := o.adopter(t)
			if err != nil {
				return err
			}
			done, err := run(a, cmd.Context(), o.driver)
			if err == nil && !done {
				return terminal.ErrNo
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringSliceVar(&o.despite, "despite", nil, "go on in spite of what it refuses for: "+adoption.Names()+"; may be repeated")
	o.AddFlags(f)
	f.Lookup("namespace").Usage = "the namespace that Podgrace is installed in (default " + doctor.DefaultNamespace + ")"
	return cmd
}

func (o *driverOptions) parse(args []string) (err error) {
	if len(args) != 1 {
		return errors.New("which driver? One at a time, as kubectl get csidrivers names it")
	}
	o.driver = strings.TrimPrefix(args[0], "csidriver/")
	if wrong := validation.IsDNS1123Subdomain(o.driver); len(wrong) > 0 {
		return fmt.Errorf("%q is no driver: %s", o.driver, strings.Join(wrong, ", "))
	}
	if o.settle < 0 {
		return fmt.Errorf("--settle %s: it is no time to wait", o.settle)
	}
	o.codes, err = locks.Codes(o.despite)
	return err
}

func (o *driverOptions) adopter(t terminal.Terminal) (*locks.Adopter, error) {
	kube, err := o.locksClient()
	if err != nil {
		return nil, err
	}
	return &locks.Adopter{
		Client: kube, Clock: clock.RealClock{}, Settle: o.settle, Despite: o.codes,
		Session: &confirm.Session{In: t.In, Out: t.Out, Err: t.Err, Yes: o.yes, DryRun: o.dryRun, Style: t.Style},
	}, nil
}

// locksClient is for the namespace that the flag names, and not for that of the kubeconfig, which is a person's workloads'.
func (o *agreeOptions) locksClient() (*locks.Client, error) {
	kube, err := client.New(o.config, client.Options{Scheme: locks.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("configure the client: %w", err)
	}
	namespace := *o.kube.Namespace
	if namespace == "" {
		namespace = doctor.DefaultNamespace
	}
	return &locks.Client{Kube: kube, Namespace: namespace}, nil
}

const lockConfirmLong = `Confirm that the node which holds a volume does not use it and can't: the volume lock
then gives it to the next one. Name the VolumeLock or its PersistentVolume.

It shows who holds it, what its release waits for and whether you may confirm. Then it
asks, and sets one annotation, which is of this very release. It is refused before the
VolumeAttachment is deleted, and beside pods of that node which use the volume.

With --node it confirms all volumes that a Node holds which is gone (deleted, or made anew
by the same name) or silent, in one question; it is refused while that Node is ready.
Name its UID, as the list does. Those that can't be confirmed yet are left.

A node that is there, and off, is confirmed as a whole: kubectl podgrace confirm node/NODE.
Of one that is gone no receipt counts but that its instance is terminated.

To confirm it takes the verb force-delete on volumelocks.podgrace.dev.

Exit codes: 0 confirmed, or was already, or with --dry-run: it could be
            1 not confirmed, or not all: declined, refused, not permitted, failed
            2 bad input`

const lockConfirmExample = `  # Which volumes are not released, and why?
  %[1]s volumelock list

  # By the PersistentVolume; only look
  %[1]s volumelock confirm db --dry-run

  # The machine of a Node that was deleted is off
  %[1]s volumelock confirm --node=1b4e28ba-2fa1-11d2-883f-0016d3cca427`

// lockConfirmOptions are those of "volumelock confirm".
type lockConfirmOptions struct {
	agreeOptions

	lock, node string
}

func newLockConfirm(t terminal.Terminal, name string) *cobra.Command {
	o := &lockConfirmOptions{agreeOptions: newAgreeOptions(t)}
	cmd := &cobra.Command{
		Use:                   "confirm (LOCK | --node=UID)",
		DisableFlagsInUseLine: true,
		Short:                 "Confirm that a node is rid of a volume, or of all that it holds",
		Long:                  lockConfirmLong,
		Example:               fmt.Sprintf(lockConfirmExample, name),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := errors.Join(o.parse(args), o.Complete(), o.Validate("confirm")); err != nil {
				return terminal.UsageError{Err: err}
			}
			reader, err := o.confirmClient()
			if err != nil {
				return err
			}
			s := &confirm.Session{In: t.In, Out: t.Out, Err: t.Err, Yes: o.yes, DryRun: o.dryRun, Style: t.Style}
			kube := &confirm.LockClient{Client: reader}
			var confirmed bool
			if o.node != "" {
				confirmed, err = s.Holder(cmd.Context(), kube, types.UID(o.node))
			} else {
				confirmed, err = s.Lock(cmd.Context(), kube, o.lock)
			}
			if err == nil && !confirmed {
				return terminal.ErrNo
			}
			return err
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.node, "node", "", "the UID of a Node that is gone: confirm all volumes that it holds")
	o.AddFlags(f)
	return cmd
}

func (o *lockConfirmOptions) parse(args []string) error {
	switch {
	case o.node != "" && len(args) > 0:
		return errors.New("a volume, or --node for all of a Node: one of the two")
	case o.node != "":
		return nil
	case len(args) != 1:
		return errors.New("which volume? One at a time: a VolumeLock or its PersistentVolume, as kubectl podgrace volumelock list names them; or --node for all that a Node holds which is gone")
	}
	o.lock = strings.TrimPrefix(args[0], "volumelock/")
	if wrong := validation.IsDNS1123Subdomain(o.lock); len(wrong) > 0 {
		return fmt.Errorf("%q is no VolumeLock: %s", o.lock, strings.Join(wrong, ", "))
	}
	return nil
}

const lockListLong = `Show which node holds which volume, why one is not released, and which nodes wait for
it: all of them, or those of the VolumeLocks, PersistentVolumes or nodes that are named.
Drivers whose adoption was interrupted are named first. It changes nothing.

Exit codes: 0 shown, 1 it could not be read, or nobody holds what was named, 2 bad input`

func newLockList(t terminal.Terminal, name string) *cobra.Command {
	o := &agreeOptions{kube: terminal.NewConfigFlags(version.CommandLine)}
	output := "text"
	cmd := &cobra.Command{
		Use:                   "list [NAME...]",
		Aliases:               []string{"get"},
		DisableFlagsInUseLine: true,
		Short:                 "Show who holds which volume, and why it is not released",
		Long:                  lockListLong,
		Example:               fmt.Sprintf("  %[1]s volumelock list\n  %[1]s volumelock list worker-3 -o json", name),
		RunE: func(cmd *cobra.Command, args []string) error {
			if output != "text" && output != "json" {
				return terminal.UsageError{Err: fmt.Errorf("--output %s: it is text or json", output)}
			}
			if err := o.Complete(); err != nil {
				return terminal.UsageError{Err: err}
			}
			kube, err := o.locksClient()
			if err != nil {
				return err
			}
			list, err := kube.Held(cmd.Context(), args...)
			if err != nil {
				return err
			}
			if output == "json" {
				return console.EncodeJSON(t.Out, list)
			}
			fmt.Fprint(t.Out, list.Text(t.Style, t.Now()))
			return nil
		},
	}
	f := cmd.Flags()
	f.StringVarP(&output, "output", "o", output, "text or json")
	o.kube.AddFlags(f)
	terminal.CompleteFlag(cmd, "output", "text", "json")
	return cmd
}

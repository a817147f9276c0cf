package locks

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/volumelock/adoption"
)

// Leave says whether the driver is gated no more.
func (a *Adopter) Leave(ctx context.Context, driver string) (bool, error) {
	f, err := a.Facts(ctx, driver)
	if err != nil {
		return false, err
	}
	s, l := a.Session, adoption.Leave(f, a.Despite...)
	fmt.Fprint(s.Out, l.Text(s.Style))
	if l.Refused() {
		return false, nil
	}
	if l.New == nil && len(l.Locks) == 0 {
		fmt.Fprintln(s.Out, "Nothing is to be done.")
		return true, a.forget(ctx, driver)
	}
	if err := a.show(l.New); err != nil {
		return false, err
	}
	if s.DryRun {
		return a.tried(a.withdraw(ctx, client.NewDryRunClient(a.Kube), l))
	}
	if agreed, err := s.Agreed(ctx, "the driver's name to take it out of the volume lock", driver); !agreed || err != nil {
		return false, err
	}
	if err := a.withdraw(ctx, client.WithFieldOwner(a.Kube, fieldManager), l); err != nil {
		return false, err
	}
	if l.New != nil {
		if err := a.create(ctx, l.New); err != nil {
			return false, err
		}
	}
	for i := range l.Locks {
		lock := &l.Locks[i]
		if err := a.Kube.Delete(ctx, lock, client.Preconditions{UID: &lock.UID}); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("CSIDriver %s gates nothing any more, but VolumeLock %s is still there: give the command again: %w", driver, lock.Name, err)
		}
	}
	fmt.Fprintf(s.Out, "Driver %s is not gated any more.\n", driver)
	return true, a.forget(ctx, driver)
}

// withdraw does what comes before the CSIDriver is made anew.
func (a *Adopter) withdraw(ctx context.Context, kube client.Client, l *adoption.Leaving) error {
	if l.Old == nil {
		return nil
	}
	if err := keep(ctx, kube, a.Namespace, l.New); err != nil {
		return err
	}
	return remove(ctx, kube, l.Old)
}

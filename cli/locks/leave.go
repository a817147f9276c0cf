package locks

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/cli/adoption"
)

// Leave reports whether the driver is gated no more.
func (a *Adopter) Leave(ctx context.Context, driver string) (bool, error) {
	l, err := a.leaving(ctx, driver)
	if err != nil {
		return false, err
	}
	s := a.Session
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
		kube := client.NewDryRunClient(a.Kube)
		if err = a.copied(ctx, kube, l); err == nil && l.Old != nil {
			err = remove(ctx, kube, l.Old)
		}
		return a.tried(err)
	}
	// The copy is made before the last look, so that nothing is between that and the deletion: who begins to wait for a volume meanwhile would mount it at once.
	kube := client.WithFieldOwner(a.Kube, fieldManager)
	mine := ""
	l, yes, err := agreed(ctx, s, "the driver's name to take it out of the volume lock", driver, l, func(shown *adoption.Leaving) (*adoption.Leaving, error) {
		before, err := a.copyOf(ctx, driver)
		if err != nil {
			return nil, err
		}
		if err := a.copied(ctx, kube, shown); err != nil {
			return nil, err
		}
		if before == mine { // there was none, or this command's
			if mine, err = a.copyOf(ctx, driver); err != nil {
				return nil, err
			}
		}
		return a.leaving(ctx, driver)
	})
	if !yes || err != nil {
		return false, errors.Join(err, a.forgetMine(ctx, l, mine))
	}
	return a.leave(ctx, kube, l)
}

// leave carries out what a person has agreed to.
func (a *Adopter) leave(ctx context.Context, kube client.Client, l *adoption.Leaving) (bool, error) {
	if l.Old != nil {
		if err := remove(ctx, kube, l.Old); err != nil {
			return false, err
		}
	}
	if l.New != nil {
		if err := a.create(ctx, l.New); err != nil {
			return false, err
		}
	}
	for i := range l.Locks {
		lock := &l.Locks[i]
		if err := a.Kube.Delete(ctx, lock, client.Preconditions{UID: &lock.UID}); client.IgnoreNotFound(err) != nil {
			return false, fmt.Errorf("CSIDriver %s gates nothing any more, but VolumeLock %s is still there: give the command again: %w", l.Driver, lock.Name, err)
		}
	}
	fmt.Fprintf(a.Session.Out, "Driver %s is not gated any more.\n", l.Driver)
	return true, a.forget(ctx, l.Driver)
}

// forgetMine deletes the copy that this command has made and does not need, as long as it is the one, and its CSIDriver is there: another's command, which goes on, needs its own.
func (a *Adopter) forgetMine(ctx context.Context, l *adoption.Leaving, mine string) error {
	if mine == "" || l.Old == nil {
		return nil
	}
	if d, err := a.driver(ctx, l.Driver); err != nil || d == nil || d.UID != l.Old.UID {
		return err
	}
	m, err := a.copies(ctx)
	if err != nil || m.Data[l.Driver] != mine {
		return err
	}
	without := m.DeepCopy()
	delete(without.Data, l.Driver)
	if err := a.Kube.Patch(ctx, without, client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{})); err != nil && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) { // a copy too many does no harm
		return fmt.Errorf("nothing was changed, and the copy of the CSIDriver in ConfigMap %s/%s is not needed: %w", a.Namespace, copiesName, err)
	}
	return nil
}

func (a *Adopter) leaving(ctx context.Context, driver string) (*adoption.Leaving, error) {
	f, err := a.HolderFacts(ctx, driver)
	if err != nil {
		return nil, err
	}
	return adoption.Leave(f, a.Despite...), nil
}

// copied keeps a copy of the CSIDriver that is to be made, before the one of its name is deleted.
func (a *Adopter) copied(ctx context.Context, kube client.Client, l *adoption.Leaving) error {
	if l.Old == nil {
		return nil
	}
	return keep(ctx, kube, a.Namespace, l.New, a.Clock.Now())
}

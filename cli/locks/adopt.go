package locks

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/adoption"
	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/volumelock"
)

// Adopter carries out what was planned, after a person has agreed.
type Adopter struct {
	*Client
	// Session asks the person.
	Session *confirm.Session
	Clock   clock.Clock
	// Settle is how long kubelets get to see the CSIDriver that was recreated.
	Settle time.Duration
	// Despite are the obstacles that are no reason.
	Despite []adoption.Code
}

const (
	// lookAgain is how long is waited for what passes by itself.
	lookAgain = time.Second
	// patience is how long it is tried to make the CSIDriver again, and waited for pods that are on the way: a kubelet reports what it is to mount within 10 s.
	patience = time.Minute
)

// plan is that of an adoption, or of the way back.
type plan[P any] interface {
	Text(style console.Style) string
	Refused() bool
	// Beyond says what it does that the one that was shown does not; empty: nothing.
	Beyond(shown P) string
}

// agreed asks, and looks again after the answer, which may have taken an hour. What is more than was shown is shown, and asked for, too; where nobody is asked it ends there. False: nobody agreed, or
// something stands against it now.
func agreed[P plan[P]](ctx context.Context, s *confirm.Session, what, driver string, shown P, look func(shown P) (P, error)) (P, bool, error) {
	for {
		if yes, err := s.Agreed(ctx, what, driver); !yes || err != nil {
			return shown, false, err
		}
		now, err := look(shown)
		if err != nil {
			return shown, false, err
		}
		more := now.Beyond(shown)
		if more == "" {
			return now, true, nil
		}
		fmt.Fprintf(s.Out, "\nMeanwhile it is not what was shown: %s.\n\n%s", more, now.Text(s.Style))
		switch {
		case now.Refused():
			return now, false, nil
		case s.Yes:
			return now, false, fmt.Errorf("driver %s is not as it was shown, %s: nothing was done, look and give the command again", driver, more)
		}
		shown = now
	}
}

// Adopt reports whether the driver is adopted.
func (a *Adopter) Adopt(ctx context.Context, driver string) (bool, error) {
	p, err := a.plan(ctx, driver)
	if err != nil {
		return false, err
	}
	s := a.Session
	fmt.Fprint(s.Out, p.Text(s.Style))
	switch {
	case p.Refused():
		return false, nil
	case p.Stage == adoption.Adopted:
		return true, a.forget(ctx, driver)
	}
	if err := a.show(p.New); err != nil {
		return false, err
	}
	if s.DryRun {
		kube := client.NewDryRunClient(a.Kube)
		if err = a.begin(ctx, kube, p); err == nil {
			err = a.turn(ctx, kube, p)
		}
		return a.tried(err)
	}
	p, yes, err := agreed(ctx, s, "the driver's name to have it adopted", driver, p, func(*adoption.Plan) (*adoption.Plan, error) { return a.plan(ctx, driver) })
	switch {
	case !yes || err != nil:
		return false, err
	case p.Stage == adoption.Adopted: // by another one
		return true, a.forget(ctx, driver)
	}
	return a.adopt(ctx, p)
}

// adopt carries out what a person has agreed to.
func (a *Adopter) adopt(ctx context.Context, p *adoption.Plan) (bool, error) {
	kube := client.WithFieldOwner(a.Kube, fieldManager)
	if err := a.begin(ctx, kube, p); err != nil {
		return false, err
	}
	if goesOn, err := a.look(ctx, kube, p); !goesOn || err != nil {
		return false, err
	}
	if err := a.turn(ctx, kube, p); err != nil {
		return false, err
	}
	if p.New != nil {
		if err := a.create(ctx, p.New); err != nil {
			return false, err
		}
		if err := a.markNew(ctx, kube, p.Driver); err != nil {
			return false, err
		}
	}
	return a.settle(ctx, p.Driver)
}

func (a *Adopter) plan(ctx context.Context, driver string) (*adoption.Plan, error) {
	f, err := a.Facts(ctx, driver)
	if err != nil {
		return nil, err
	}
	return adoption.PlanFor(f, a.Despite...), nil
}

// show prints the CSIDriver that is to be made, so that whoever has the text can make it.
func (a *Adopter) show(d *storagev1.CSIDriver) error {
	if d == nil {
		return nil
	}
	text, err := yaml.Marshal(d)
	if err != nil {
		return fmt.Errorf("encode CSIDriver %s: %w", d.Name, err)
	}
	fmt.Fprintf(a.Session.Out, "\nThe CSIDriver that is made:\n\n")
	_, err = console.TextWriter(a.Session.Out).Write(text)
	fmt.Fprintln(a.Session.Out)
	return err
}

func (a *Adopter) tried(err error) (bool, error) {
	if err != nil {
		return false, fmt.Errorf("dry run: %w", err)
	}
	fmt.Fprintln(a.Session.Out, "Dry run: nothing was changed.")
	return true, nil
}

// begin does what comes before the CSIDriver is changed.
func (a *Adopter) begin(ctx context.Context, kube client.Client, p *adoption.Plan) error {
	if p.Old != nil {
		if err := keep(ctx, kube, a.Namespace, p.New, a.Clock.Now()); err != nil {
			return err
		}
	}
	if err := a.take(ctx, kube, p); err != nil {
		return fmt.Errorf("CSIDriver %s was not changed: %w", p.Driver, err)
	}
	return nil
}

// looks is how often it is looked again before the CSIDriver is deleted, since pods come all the time.
const looks = 3

// look looks for the last time before the CSIDriver is changed, since to make many VolumeLocks takes a while: what pods use that came meanwhile gets one, too. False: something stands against it.
func (a *Adopter) look(ctx context.Context, kube client.Client, shown *adoption.Plan) (bool, error) {
	for range looks {
		p, err := a.plan(ctx, shown.Driver)
		switch {
		case err != nil:
			return false, fmt.Errorf("CSIDriver %s was not changed: %w", shown.Driver, err)
		case p.Refused():
			fmt.Fprint(a.Session.Out, p.Text(a.Session.Style))
			fmt.Fprintf(a.Session.Out, "CSIDriver %s was not changed; the VolumeLocks that were made stay, for when the command is given again.\n", p.Driver)
			return false, nil
		case len(p.Locks) == 0:
			return true, nil
		}
		if err := a.take(ctx, kube, p); err != nil {
			return false, fmt.Errorf("CSIDriver %s was not changed: %w", p.Driver, err)
		}
	}
	return true, nil // what comes later is found once kubelets have seen the CSIDriver
}

// turn deletes the CSIDriver that is to be recreated, or marks the one that stays, as they were shown.
func (a *Adopter) turn(ctx context.Context, kube client.Client, p *adoption.Plan) error {
	switch {
	case p.Old != nil:
		return remove(ctx, kube, p.Old)
	case p.Stage == adoption.Attaches:
		return mark(ctx, kube, p.Object, volumelock.AdoptingMark(p.Object.UID))
	}
	return nil
}

// markNew marks the CSIDriver that was recreated, by its UID, which it has only now. A command that ends before that finds one that attaches and is to be adopted.
func (a *Adopter) markNew(ctx context.Context, kube client.Client, driver string) error {
	d, err := a.driver(ctx, driver)
	if err == nil && d == nil {
		err = fmt.Errorf("CSIDriver %s was made, and somebody has deleted it", driver)
	}
	if err == nil {
		err = mark(ctx, kube, d, volumelock.AdoptingMark(d.UID))
	}
	if err != nil {
		return fmt.Errorf("%w: nothing of it is attached until this command is given again", err)
	}
	return nil
}

// take makes VolumeLocks, in the place of those whose nodes are confirmed to be rid of the volume.
func (a *Adopter) take(ctx context.Context, kube client.Client, p *adoption.Plan) error {
	for i := range p.Replaced {
		l := &p.Replaced[i]
		if err := kube.Delete(ctx, l, client.Preconditions{UID: &l.UID, ResourceVersion: &l.ResourceVersion}); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete the VolumeLock of volume %s, which node %s is confirmed to be rid of: %w", l.Spec.PersistentVolume, l.Spec.Node.Name, err)
		}
	}
	for i := range p.Locks {
		l := p.Locks[i].DeepCopy()
		replaces := slices.ContainsFunc(p.Replaced, func(r v1alpha1.VolumeLock) bool { return r.Name == l.Name })
		switch err := kube.Create(ctx, l); {
		case apierrors.IsAlreadyExists(err) && replaces && a.Session.DryRun: // what was to be deleted is there
		case apierrors.IsAlreadyExists(err):
			return fmt.Errorf("VolumeLock %s of volume %s was made meanwhile: look again", l.Name, l.Spec.PersistentVolume)
		case err != nil:
			return fmt.Errorf("make the VolumeLock of volume %s for node %s: %w", l.Spec.PersistentVolume, l.Spec.Node.Name, err)
		}
	}
	return nil
}

// create makes the CSIDriver again. It is tried for a while: until then no volume of the driver is mounted.
func (a *Adopter) create(ctx context.Context, d *storagev1.CSIDriver) error {
	began := a.Clock.Now()
	for {
		err := a.createOnce(ctx, d)
		if err == nil || a.Clock.Since(began) > patience || errors.Is(err, errPutBack) {
			return err
		}
		if wait := a.wait(ctx, lookAgain); wait != nil {
			return errors.Join(err, wait)
		}
	}
}

var errPutBack = errors.New("somebody put it back as it was")

func (a *Adopter) createOnce(ctx context.Context, d *storagev1.CSIDriver) error {
	err := a.Kube.Create(ctx, d.DeepCopy(), client.FieldOwner(fieldManager))
	if err == nil {
		return nil
	}
	if apierrors.IsAlreadyExists(err) {
		switch now, read := a.driver(ctx, d.Name); {
		case read != nil:
			err = read
		case now != nil && now.DeletionTimestamp == nil && now.Annotations[v1alpha1.AnnotationGated] == "" && attaches(now) == attaches(d) && (!attaches(d) || equality.Semantic.DeepEqual(now.Spec, d.Spec)):
			return nil // an answer that was lost
		case now != nil && now.DeletionTimestamp == nil:
			return fmt.Errorf("CSIDriver %s: %w, with attachRequired: %t: look who does (its managedFields tell), and set attachRequired there", d.Name, errPutBack, attaches(now))
		}
	}
	return fmt.Errorf("make CSIDriver %s anew: NOTHING OF IT IS MOUNTED UNTIL IT IS THERE. Give the same command again, or make it as it is shown above, or kept in ConfigMap %s/%s: %w", d.Name, a.Namespace, copiesName, err)
}

// attaches says what a CSIDriver without the field means, too.
func attaches(d *storagev1.CSIDriver) bool {
	return d.Spec.AttachRequired == nil || *d.Spec.AttachRequired
}

// settle looks again once kubelets have seen the CSIDriver, and adopts what pods use that came in between.
func (a *Adopter) settle(ctx context.Context, driver string) (bool, error) {
	out := a.Session.Out
	fmt.Fprintf(out, "CSIDriver %s is there with attachRequired: true. Waiting for %s, until kubelets have seen it.\n", driver, a.Settle)
	if err := a.wait(ctx, a.Settle); err != nil {
		return false, err
	}
	for began := a.Clock.Now(); ; {
		f, err := a.Facts(ctx, driver)
		if err != nil {
			return false, err
		}
		p := adoption.PlanFor(f, a.Despite...)
		switch {
		case p.Stage == adoption.Adopted: // by another one
			return true, a.forget(ctx, driver)
		case p.Stage != adoption.Adopting:
			return false, fmt.Errorf("CSIDriver %s was changed meanwhile, and is not what was made: give the command again", driver)
		case p.Refused():
			fmt.Fprint(out, p.Text(a.Session.Style))
			fmt.Fprintf(out, "Nothing of driver %s is attached until it is adopted as a whole: do what is said above, and give the command again.\n", driver)
			return false, nil
		case len(p.Undecided) > 0 && a.Clock.Since(began) < patience:
			if err := a.wait(ctx, lookAgain); err != nil {
				return false, err
			}
		case len(p.Locks) > 0:
			if err := a.take(ctx, client.WithFieldOwner(a.Kube, fieldManager), p); err != nil {
				return false, err
			}
			fmt.Fprintf(out, "Adopted %s of pods that came meanwhile.\n", console.Plural(len(p.Locks), "volume", "volumes"))
		default:
			if err := mark(ctx, client.WithFieldOwner(a.Kube, fieldManager), f.Object, volumelock.AdoptedMark(f.Object.UID)); err != nil {
				return false, err
			}
			fmt.Fprintf(out, "Driver %s is adopted: new mounts of its volumes wait for the volume lock.\n", driver)
			return true, a.forget(ctx, driver)
		}
	}
}

func (a *Adopter) wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-a.Clock.After(d):
		return nil
	}
}

// Codes reads obstacles that are no reason.
func Codes(given []string) (codes []adoption.Code, err error) {
	for _, g := range given {
		if !slices.Contains(adoption.Waivable(), adoption.Code(g)) {
			return nil, fmt.Errorf("--despite %s: it is one of %s", g, adoption.Names())
		}
		codes = append(codes, adoption.Code(g))
	}
	return codes, nil
}

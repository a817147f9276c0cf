package adoption

import (
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
)

// Beyond says in a line what the plan does that the one that was shown does not, or what stands against it that did not; empty: nothing, so that who has agreed to that one has to this.
func (p *Plan) Beyond(shown *Plan) string {
	if p.Stage == Adopted { // by another one: nothing is done
		return ""
	}
	if p.Stage != shown.Stage {
		return "it has come another way: " + stages[p.Stage]
	}
	return beyond(
		another(p.Object, shown.Object, p.New, shown.New),
		volumesOf(more(p.Locks, shown.Locks, sameHolder), "is to be adopted", "are to be adopted"),
		volumesOf(more(p.Replaced, shown.Replaced, sameVersion), "is taken from who had it", "are taken from who had them"),
		against(p.Obstacles, shown.Obstacles),
	)
}

// Beyond says in a line what the plan does that the one that was shown does not; empty: nothing.
func (l *Leaving) Beyond(shown *Leaving) string {
	return beyond(
		another(l.Old, shown.Old, l.New, shown.New),
		volumesOf(more(l.Locks, shown.Locks, sameLock), "loses its VolumeLock", "lose their VolumeLocks"),
		against(l.Obstacles, shown.Obstacles),
	)
}

func beyond(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), "; ")
}

// another says that the CSIDriver, or what is to become of it, is not what was shown.
func another(now, shown, wants, wanted *storagev1.CSIDriver) string {
	same := now == nil && shown == nil || now != nil && shown != nil && now.UID == shown.UID && now.ResourceVersion == shown.ResourceVersion
	if same && equality.Semantic.DeepEqual(wants, wanted) {
		return ""
	}
	return "somebody changed the CSIDriver, or made it anew"
}

// more are those that were not shown.
func more[T any](now, shown []T, same func(a, b *T) bool) (all []T) {
	for i := range now {
		if !slices.ContainsFunc(shown, func(t T) bool { return same(&now[i], &t) }) {
			all = append(all, now[i])
		}
	}
	return all
}

func sameHolder(a, b *v1alpha1.VolumeLock) bool { return a.Name == b.Name && a.Spec == b.Spec }

func sameLock(a, b *v1alpha1.VolumeLock) bool { return a.Name == b.Name && a.UID == b.UID }

func sameVersion(a, b *v1alpha1.VolumeLock) bool {
	return sameLock(a, b) && a.ResourceVersion == b.ResourceVersion
}

func volumesOf(locks []v1alpha1.VolumeLock, is, are string) string {
	if len(locks) == 0 {
		return ""
	}
	var all []string
	for i := range locks {
		all = append(all, locks[i].Spec.PersistentVolume)
	}
	return fmt.Sprintf("%s %s", console.Plural(len(all), "volume "+is, "volumes "+are), "("+console.Some(all, 3, ", ")+")")
}

func against(now, shown []Obstacle) string {
	var all []string
	for _, o := range more(now, shown, func(a, b *Obstacle) bool { return a.Code == b.Code && a.What == b.What }) {
		all = append(all, o.What)
	}
	return strings.Join(all, "; ")
}

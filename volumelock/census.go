package volumelock

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/policy"
)

// Standing is how it stands with a VolumeLock.
type Standing string

// How it stands with a VolumeLock.
const (
	// StandingHeld is one whose VolumeAttachment is not known to be deleted.
	StandingHeld Standing = "Held"
	// StandingReleasing is one whose VolumeAttachment is deleted: it waits for a word that its node is rid of the volume.
	StandingReleasing Standing = "Releasing"
	// StandingNodeGone is one whose Node is no more, or another of its name: no kubelet gives its word for it.
	StandingNodeGone Standing = "NodeGone"
)

// Standings are all of them.
func Standings() []Standing { return []Standing{StandingHeld, StandingReleasing, StandingNodeGone} }

// StandingOf says how it stands with a VolumeLock. Node is that of its name; nil: there is none.
func StandingOf(l *v1alpha1.VolumeLock, node *corev1.Node) Standing {
	switch {
	case !holds(l, node):
		return StandingNodeGone
	case l.Status.Release != nil:
		return StandingReleasing
	}
	return StandingHeld
}

// Census is how many volumes are held, and waited for.
type Census struct {
	Locks map[Standing]int
	// ByDriver is how many VolumeLocks each of the gated drivers has, also where that is none.
	ByDriver map[string]int
	// OldestRelease is since when the longest release goes on; zero: none does.
	OldestRelease time.Time
	// Waiting are VolumeAttachments of gated drivers that are not attached, and OldestWaiting is when the first of them was made; zero: there is none.
	Waiting       int
	OldestWaiting time.Time
}

// Count makes the census of the locks and VolumeAttachments of gated drivers; those of others don't count.
func Count(drivers []string, locks []v1alpha1.VolumeLock, attachments []storagev1.VolumeAttachment, nodes []corev1.Node) Census {
	byName := make(map[string]*corev1.Node, len(nodes))
	for i := range nodes {
		byName[nodes[i].Name] = &nodes[i]
	}
	c := Census{Locks: map[Standing]int{}, ByDriver: map[string]int{}}
	for _, d := range drivers {
		c.ByDriver[d] = 0
	}
	for i := range locks {
		l := &locks[i]
		if !slices.Contains(drivers, l.Spec.Driver) {
			continue
		}
		c.Locks[StandingOf(l, byName[l.Spec.Node.Name])]++
		c.ByDriver[l.Spec.Driver]++
		if r := l.Status.Release; r != nil {
			c.OldestRelease = earlier(c.OldestRelease, r.Since.Time)
		}
	}
	for i := range attachments {
		a := &attachments[i]
		if a.Status.Attached || a.DeletionTimestamp != nil || !slices.Contains(drivers, a.Spec.Attacher) {
			continue
		}
		c.Waiting++
		c.OldestWaiting = earlier(c.OldestWaiting, a.CreationTimestamp.Time)
	}
	return c
}

// earlier of two times, of which the first may be none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// AlarmReasons are the reasons of all decisions that alarm.
func AlarmReasons() []policy.Reason {
	return []policy.Reason{second, retaken, rival, forged, conflicting, regated, otherNode, noNode}
}

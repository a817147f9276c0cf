package evictor

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/graceperiod"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

const (
	// diskPause is pause for disks: an answer of the kubelet is some megabytes on a large node, and hardly changes.
	diskPause = 2 * time.Second
	// diskStatsAge is how old what the kubelet says of a volume can be: twice volumeStatsAggPeriod, and something for the measuring.
	diskStatsAge = 130 * time.Second
	// releaseTime is how long after a pod is over what it had can be there yet: the kubelet removes the files of its volumes before it
	// has the pod deleted, dead containers once a minute (ContainerGCPeriod, pkg/kubelet/kubelet.go, 1.36.3), and containerd frees
	// their layers at its own next collection.
	releaseTime = 2 * time.Minute
)

// disk says whether a signal is about a file system, whose use by pods only the kubelet knows.
func disk(signal v1alpha1.EvictionSignal) bool {
	switch signal {
	case v1alpha1.SignalNodeFsAvailable, v1alpha1.SignalNodeFsInodesFree, v1alpha1.SignalImageFsAvailable, v1alpha1.SignalImageFsInodesFree:
		return true
	}
	return false
}

// outdated says whether to wait until the kubelet has measured again: it takes more than one who goes, or all together are not
// enough, and somebody was measured before the threshold was met. Who fills the disk is perhaps small in that measurement, and
// others would go for him. A volume that can't be measured does not hold everything up.
func outdated(met shortage, choice eviction.Choice, candidates []eviction.Candidate, now time.Time) bool {
	one := choice.Short <= 0 && len(choice.Victims) == 1
	if !met.disk || len(choice.Victims) == 0 || one || met.For > diskStatsAge {
		return false
	}
	since := now.Add(-met.For)
	return slices.ContainsFunc(candidates, func(c eviction.Candidate) bool { return c.MeasuredAt.Before(since) })
}

// releasing are pods that were evicted for a disk and are over, while what they had there may not be.
type releasing map[types.UID]*released

type released struct {
	pod *corev1.Pod
	// dying: its end had begun when it was last on its way.
	dying bool
	// until is zero while the pod runs.
	until time.Time
}

// flights are those who are over, as evictions that are on their way: what they free is known when it is free. There is nobody left
// to be hastened.
func (r releasing) flights() (flying []eviction.Flight) {
	for _, of := range r {
		if !of.until.IsZero() {
			flying = append(flying, eviction.Flight{Candidate: eviction.Candidate{Pod: of.pod}, Kind: eviction.Hard})
		}
	}
	return flying
}

// follow begins the time of those who are over: the API server does not have the pod any more, or says that it has finished, or, before
// it has heard of that, its processes have ended.
func (r releasing) follow(present map[types.UID]*corev1.Pod, standing map[types.UID]terminate.Standing, now time.Time) {
	for uid, of := range r {
		s, stands := standing[uid]
		of.dying = of.dying || s.Dying
		p := present[uid]
		if over := p == nil || graceperiod.Finished(p) || of.dying && !stands; over && of.until.IsZero() {
			of.until = now.Add(releaseTime)
		}
	}
}

// has says whether a pod is over.
func (r releasing) has(uid types.UID) bool { return r[uid] != nil && !r[uid].until.IsZero() }

// forget drops those whose time is over.
func (r releasing) forget(now time.Time) {
	maps.DeleteFunc(r, func(_ types.UID, of *released) bool { return !of.until.IsZero() && !now.Before(of.until) })
}

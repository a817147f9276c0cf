package evictor

import (
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// episode is what the last evictions for a signal brought. It exists for a while after them, so that the next victims are those whose end brings the threshold nearer.
type episode struct {
	// last is when a pod was last evicted, and available what was left before the first of them.
	last      time.Time
	available int64
	// used is what each pod used then, and frees what the victims did.
	used, frees map[types.UID]int64
	// judged: it is known what these evictions brought. missing is what still had to be freed then.
	judged  bool
	missing int64
	// wait is how long no pod is evicted after evictions in vain, and until when. It doubles.
	wait  time.Duration
	until time.Time
	// quiet is since when the threshold is not met; zero: it is.
	quiet time.Time
}

const (
	// eaten is for how long after an eviction the growth of others counts as what used up the space that it freed.
	eaten = time.Minute
	// vainWait is the first wait after an eviction in vain: as long as between two passes of the kubelet (monitoringInterval, pkg/kubelet/kubelet.go, 1.36.3).
	vainWait = 10 * time.Second
	// grewShare: a pod is among those that use up what others free if it grew by at least a quarter of what the pod did that grew most.
	grewShare = 4
	// leastGrowth: pods that grow by less than a twentieth of the threshold are not why it is met.
	leastGrowth = 20
)

// course is what is done about a threshold that is met.
type course int

const (
	asRanked course = iota // the next pods in the order of eviction are evicted
	growers                // the pods that grew are, whatever their priority: they use up what others free
	onlyOne                // one pod is: the last ones brought nothing
	noPod                  // no pod is
)

// course decides, from what the last evictions brought. It returns the growers with that course. flying: some of these evictions are still ending; longest bounds a wait.
func (ep *episode) course(now time.Time, met shortage, free []eviction.Candidate, flying bool, longest time.Duration) (course, []eviction.Candidate) {
	if ep == nil {
		return asRanked, nil
	}
	if ep.used == nil { // an earlier process knew
		ep.used, ep.missing = usedBy(met.Signal, free), met.Amount
	}
	freed, recent := ep.freed(), now.Sub(ep.last) < eatenIn(met)
	grew, by := ep.grew(met.Signal, free)
	if recent && freed > 0 && grew >= freed || ep.wait > 0 && grew >= max(met.Amount-ep.missing, met.Threshold/leastGrowth, 1) {
		if len(by) > 0 {
			return growers, by
		}
		return asRanked, nil // those that grew have requested it
	}
	if flying {
		// If what is left falls, and the pods don't grow by that, more evictions would not help before these are over.
		if fell := ep.available - met.Available; ep.wait > 0 || recent && !ep.judged && fell > 2*grew {
			return noPod, nil
		}
		return asRanked, nil
	}
	if !ep.judged {
		ep.judge(now, met.Need, freed, longest)
	}
	return ep.waits(now), nil
}

// eatenIn is for how long the growth of others counts as what used up the space that an eviction freed.
func eatenIn(met shortage) time.Duration {
	if met.disk {
		return releaseTime + diskStatsAge
	}
	return eaten
}

// judge has evictions in vain be followed by a wait.
func (ep *episode) judge(now time.Time, need eviction.Need, freed int64, longest time.Duration) {
	ep.judged, ep.missing = true, need.Amount
	if gained := need.Available - ep.available; freed > 0 && gained < freed/2 {
		ep.wait = min(max(2*ep.wait, vainWait), max(longest, vainWait))
		ep.until = now.Add(ep.wait)
	}
}

// freed is what the victims free.
func (ep *episode) freed() (sum int64) {
	for _, n := range ep.frees {
		sum += n
	}
	return sum
}

// waits is the course by the wait after evictions in vain.
func (ep *episode) waits(now time.Time) course {
	switch {
	case ep.wait == 0:
		return asRanked
	case now.Before(ep.until):
		return noPod
	}
	return onlyOne
}

// leaveOut forgets victims that freed nothing because they were not evicted: the API server refused or did not answer, the eviction was withdrawn, or they do not end.
func (ep *episode) leaveOut(standing map[types.UID]terminate.VictimStatus, flying []eviction.Flight, free []eviction.Candidate) {
	if ep == nil {
		return
	}
	maps.DeleteFunc(ep.frees, func(uid types.UID, _ int64) bool { return standing[uid].Refused })
	for _, f := range flying {
		if f.Overdue {
			delete(ep.frees, f.Pod.UID)
		}
	}
	for _, c := range free {
		if c.Pod.DeletionTimestamp == nil {
			delete(ep.frees, c.Pod.UID)
		}
	}
}

// grew is by how much the pods grew since the last evictions, and which of them did most of that and use more than they requested.
func (ep *episode) grew(signal v1alpha1.EvictionSignal, free []eviction.Candidate) (sum int64, by []eviction.Candidate) {
	growth := map[types.UID]int64{}
	most := int64(0)
	for _, r := range eviction.Rank(signal, free) {
		if !r.Known {
			continue
		}
		d := r.Used - ep.used[r.Pod.UID]
		sum += d // of those that shrink as well: usage varies
		if d <= 0 {
			continue
		}
		if r.Exceeds || signal == v1alpha1.SignalPIDAvailable {
			growth[r.Pod.UID], most = d, max(most, d)
		}
	}
	by = slices.DeleteFunc(slices.Clone(free), func(c eviction.Candidate) bool {
		return growth[c.Pod.UID] == 0 || growth[c.Pod.UID] < most/grewShare
	})
	return sum, by
}

// evicted is the episode once more pods are evicted. Those that are evicted while others are still ending are of the same one. all are the node's pods with their usage.
func (ep *episode) evicted(now time.Time, need eviction.Need, victims []eviction.Ranked, all []eviction.Candidate, flying bool) *episode {
	next := &episode{available: need.Available, frees: map[types.UID]int64{}}
	switch {
	case ep != nil && flying && !ep.judged:
		*next = *ep
	default:
		next.used = usedBy(need.Signal, all)
		if ep != nil {
			next.wait, next.until = ep.wait, ep.until
		}
	}
	next.last, next.quiet = now, time.Time{}
	for _, v := range victims {
		next.frees[v.Pod.UID] = v.Used
	}
	return next
}

// peek is what the pods used when a threshold was found to be met.
type peek struct {
	at   time.Time
	used map[types.UID]int64
}

const (
	// peekPause is how long the pods' growth is measured before the first of them is evicted, if that is not the largest.
	peekPause = 100 * time.Millisecond
	// horizon is about how long a pod takes to end in a hard eviction, with the kubelet's floor of two seconds.
	horizon = 2 * time.Second
)

// peek looks for a pod that grows so fast that what the first victims free is used up when they have ended. If the victims are not the largest of the pods that exceed their requests, it has the
// evictor look once more after peekPause, and returns those that grow in their place. It does so once for a shortage.
func (e *Evictor) peek(met shortage, choice eviction.Choice, free []eviction.Candidate, flying []eviction.Flight) eviction.Choice {
	now, seen := e.Clock.Now(), e.peeks[met.Signal]
	if met.Kind != eviction.Hard {
		return choice
	}
	delete(e.peeks, met.Signal)
	if len(choice.Victims) == 0 || ending(flying) {
		return choice
	}
	frees, largest := int64(0), int64(0)
	for _, v := range choice.Victims {
		frees += v.Used
	}
	for _, r := range eviction.Rank(met.Signal, free) {
		if r.Exceeds || met.Signal == v1alpha1.SignalPIDAvailable {
			largest = max(largest, r.Used)
		}
	}
	switch {
	case largest <= frees:
		return choice
	case seen == nil:
		e.peeks[met.Signal] = &peek{at: now, used: usedBy(met.Signal, free)}
		choice.Victims = nil
		return choice
	}
	grew, by := (&episode{used: seen.used}).grew(met.Signal, free)
	if passed := now.Sub(seen.at); passed > 0 && len(by) > 0 && int64(float64(grew)*horizon.Seconds()/passed.Seconds()) >= frees {
		return insteadOf(choice, met.Need, by, flying)
	}
	return choice
}

// usedBy is what each pod uses.
func usedBy(signal v1alpha1.EvictionSignal, all []eviction.Candidate) map[types.UID]int64 {
	used := map[types.UID]int64{}
	for _, c := range all {
		used[c.Pod.UID] = max(c.Usage[eviction.UsageSignal(signal)], 0)
	}
	return used
}

// forgetEpisodes drops those whose threshold is not met for as long as its condition lasts, and for as long as growth counts.
func (e *Evictor) forgetEpisodes(met map[v1alpha1.EvictionSignal]bool) {
	now := e.Clock.Now()
	for signal, ep := range e.episodes {
		switch {
		case met[signal]:
			ep.quiet = time.Time{}
		case ep.quiet.IsZero():
			ep.quiet = now
		case now.Sub(ep.quiet) >= max(eaten, e.thresholds.Transition):
			delete(e.episodes, signal)
		case now.Sub(ep.quiet) >= eaten:
			ep.judged = true // they were enough
		}
	}
}

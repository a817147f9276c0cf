package evictor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/decisionlog"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// pause is the shortest time between two readings of all pods' usage, for one signal. The node's memory is measured more often, but victims
// take longer than that to end.
const pause = 250 * time.Millisecond

// due reports whether to read the pods' usage again, and remembers when that was.
func (e *Evictor) due(met shortage) bool {
	now, least := e.Clock.Now(), pause
	switch {
	case met.disk:
		least = diskPause
	case met.Kind == eviction.Hard && e.peeks[met.Signal] != nil:
		least = peekPause
	case e.fruitless[met.subject()]:
		least = idle
	}
	if last, ok := e.looked[met.subject()]; ok && now.Sub(last).Abs() < least {
		return false
	}
	e.looked[met.subject()] = now
	return true
}

// shortage is a threshold that is met and to be acted upon.
type shortage struct {
	pressure.Met
	// disk: the signal is about a file system.
	disk bool
}

func (s shortage) subject() subject { return subject{s.Signal, s.Kind} }

// act relieves the thresholds that are due. For a disk the kubelet is asked first, aside: it may be slow for the very reason for which memory has
// to be watched. What it answers counts in the step after that, and no later.
func (e *Evictor) act(ctx context.Context, state state.State, mets []pressure.Met) {
	var disks []shortage
	asks := false
	for _, met := range mets {
		short := shortage{met, disk(met.Signal)}
		due := met.Fresh && e.due(short)
		switch {
		case short.disk:
			disks, asks = append(disks, short), asks || due
		case due:
			e.relieve(state, short, e.groupUsage(met.Signal), nil)
		}
	}
	if asks {
		e.disks.Begin(func() diskAnswer { return e.askDisks(ctx) })
	}
	answer, ok := e.disks.Take()
	if !ok {
		return
	}
	unknown := e.heard(answer)
	for _, short := range disks {
		e.relieve(state, short, answer.usage(short.Signal), unknown(short.Signal))
	}
}

// relieve evicts as many pods as it takes to free what the threshold needs. unknown is why no pod's usage is known.
func (e *Evictor) relieve(state state.State, met shortage, usageOf usage, unknown error) {
	var candidates []eviction.Candidate
	err := unknown
	if err == nil {
		candidates, err = e.candidates(state, met, usageOf)
	}
	if err != nil {
		e.Log.Error(err, "failed to read the usage of some pods", "signal", met.Signal)
	}
	free, flying := e.partition(met, candidates)
	choice := e.choose(state, met, free, flying, err != nil)
	victims := slices.Concat(choice.Hasten, choice.Victims)
	if len(choice.Victims) > 0 && met.Signal != v1alpha1.SignalMemoryStall && !e.onlyWould(state) {
		of := e.resource(met.Signal)
		e.episodes[of] = e.episodes[of].evicted(e.Clock.Now(), met.Need, choice.Victims, candidates, ending(flying))
	}
	for _, v := range victims {
		e.end(state, met, v, leftFor(met.Need, len(victims)))
	}
	if len(victims) > 0 && choice.Short > 0 {
		e.Log.Info("evicting all eligible pods does not reclaim enough", "signal", met.Signal, "short", choice.Short)
	}
	found := len(victims) > 0 && !e.onlyWould(state) || len(flying) > 0 || e.peeks[met.Signal] != nil
	e.fruitless[met.subject()] = !found
}

// onlyWould reports whether evictions are only reported.
func (e *Evictor) onlyWould(state state.State) bool { return e.DryRun || e.observes(state) }

// ending reports whether evictions that were asked for are still under way.
func ending(flying []eviction.Flight) bool {
	return slices.ContainsFunc(flying, func(f eviction.Flight) bool { return !f.Leaving && !f.Overdue })
}

// choose returns which pods to evict now. It notes why no pod is evicted.
func (e *Evictor) choose(state state.State, met shortage, free []eviction.Candidate, flying []eviction.Flight, partly bool) eviction.Choice {
	choice := e.hold(met, eviction.Choose(met.Need, free, flying), free, flying, partly)
	ep := e.episodes[e.resource(met.Signal)]
	if ep == nil && !met.disk && met.Signal != v1alpha1.SignalMemoryStall {
		choice = e.peek(met, choice, free, flying)
	}
	if len(choice.Victims) == 0 || e.onlyWould(state) {
		return choice
	}
	ep.leaveOut(e.standing(), flying, free)
	switch course, by := ep.course(e.Clock.Now(), met, free, ending(flying), e.thresholds.Transition); course {
	case growers:
		choice = insteadOf(choice, met.Need, by, flying)
	case onlyOne:
		choice.Victims = choice.Victims[:1]
		e.held[met.subject()] = holdVain
	case noPod:
		choice.Victims = nil
		if !ending(flying) {
			e.held[met.subject()] = holdVain
		}
	case asRanked:
	}
	return e.limited(met, choice)
}

// insteadOf is a choice of the pods that grow, the first of them if all are not enough.
func insteadOf(choice eviction.Choice, need eviction.Need, by []eviction.Candidate, flying []eviction.Flight) eviction.Choice {
	of := eviction.Choose(need, by, flying)
	if len(of.Victims) == 0 {
		of.Victims = eviction.Rank(need.Signal, by)[:1]
	}
	of.Hasten = choice.Hasten
	return of
}

// hold takes victims back whose eviction would not help, or not yet. It notes the reason.
// partly: the usage of some pods could not be read.
func (e *Evictor) hold(met shortage, choice eviction.Choice, free []eviction.Candidate, flying []eviction.Flight, partly bool) eviction.Choice {
	delete(e.held, met.subject())
	known := !partly && len(free) > 0 && !ending(flying)
	switch {
	case outdated(met, choice, free, e.Clock.Now()):
		e.Log.V(1).Info("waiting for fresh disk statistics from the kubelet", "signal", met.Signal, "short", choice.Short)
		choice.Victims = nil
	case met.Unproved && (known || !partly && !met.disk && len(flying) > 0) && choice.Reclaiming+held(met.Signal, free) < met.Threshold-met.Available:
		e.held[met.subject()], choice.Victims, choice.Hasten = holdUnusable, nil, nil
	case len(choice.Victims) == 0 && choice.Short > 0 && known && len(choice.Hasten) == 0:
		e.held[met.subject()] = holdVain
	}
	return choice
}

// held is what all pods that can be evicted hold together.
func held(signal v1alpha1.EvictionSignal, free []eviction.Candidate) (sum int64) {
	for _, r := range eviction.Rank(signal, free) {
		sum += r.Used
	}
	return sum
}

// limited leaves of a choice as many pods as may be evicted this minute. One that the API server refused was not evicted.
func (e *Evictor) limited(met shortage, choice eviction.Choice) eviction.Choice {
	now, standing := e.Clock.Now(), e.standing()
	maps.DeleteFunc(e.evictions, func(uid types.UID, at time.Time) bool {
		return now.Sub(at).Abs() >= time.Minute || standing[uid].Refused
	})
	if most := max(e.thresholds.PerMinute-len(e.evictions), 0); len(choice.Victims) > most {
		choice.Victims = choice.Victims[:most]
		e.held[met.subject()] = holdRate
	}
	return choice
}

// partition separates the candidates that may be chosen from those whose eviction is in flight.
func (e *Evictor) partition(met shortage, candidates []eviction.Candidate) (free []eviction.Candidate, flying []eviction.Flight) {
	standing := e.standing()
	for _, c := range candidates {
		s, ok := standing[c.Pod.UID]
		switch {
		case met.disk && e.releasing.has(c.Pod.UID): // below
		case (!ok || s.Refused) && met.Signal != v1alpha1.SignalMemoryStall && e.leaving(c.Pod, met.Kind):
			flying = append(flying, eviction.Flight{Candidate: c, Leaving: true})
		case !ok:
			free = append(free, c)
		case s.Refused && s.Kind >= met.Kind: // as this eviction would be, for now
			if s.RefusedFor == 0 && s.Kind == met.Kind {
				free = append(free, c)
			}
		default:
			if met.disk { // it fills the disk until it ends, and its statistics are stale
				c.Usage = nil
			}
			flying = append(flying, eviction.Flight{Candidate: c, Kind: s.Kind, Overdue: e.overdue(s, c.Pod, met.disk)})
		}
	}
	if met.disk {
		flying = append(flying, e.releasing.flights(e.Clock.Now())...)
	}
	return free, flying
}

// spared reports whether a pod is neither evicted nor about to free anything. A critical pod that somebody has deleted frees what it used like any other; of a static pod only
// the mirror was deleted, and the kubelet makes another one (pkg/kubelet/kubelet.go tryReconcileMirrorPods, 1.36.3).
func (e *Evictor) spared(pod *corev1.Pod, met shortage) bool {
	if eviction.Exempt(pod) == "" {
		return false
	}
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror || graceperiod.Finished(pod) || met.Signal == v1alpha1.SignalMemoryStall || !e.leaving(pod, met.Kind)
}

// leaving reports whether somebody else has deleted a pod, or an enforcer before this one, and it ends no later than it would by an eviction of that kind. One that takes
// longer is a candidate like any other, and one that should have ended as well. Deletions set deletionTimestamp to the end of the grace period
// (apimachinery pkg/apis/meta/v1 ObjectMeta); a clock that is wrong makes it a candidate.
func (e *Evictor) leaving(pod *corev1.Pod, kind eviction.Kind) bool {
	if pod.DeletionTimestamp == nil {
		return false
	}
	// The kubelet gives a container at least that long between its stop signal and SIGKILL.
	ends := pod.DeletionTimestamp.Add(time.Duration(graceperiod.ContainerFloor) * time.Second)
	left := ends.Sub(e.Clock.Now()) + terminate.DefaultLimits().Margin
	return left > 0 && left <= terminate.Longest(pod, eviction.Grace(pod, kind, e.policy))
}

// overdue reports whether an eviction is not waited for any longer: it is forbidden, or the pod should have ended and its containers are not being
// stopped. One that the API server took late is waited for from the deletion on: now is the pod as it is known.
func (e *Evictor) overdue(s terminate.VictimStatus, now *corev1.Pod, disk bool) bool {
	return s.Refused || e.asked[s.Pod.UID].overdue(e.Clock.Now(), disk, s.Dying) && !s.Stopping && !e.leaving(now, s.Kind)
}

// end asks for the termination of one pod. left is how much memory its hooks may be measured by (terminate.Request).
func (e *Evictor) end(state state.State, met shortage, v eviction.Ranked, left int64) {
	grace := eviction.Grace(v.Pod, met.Kind, e.policy)
	reason := eviction.Reason(eviction.Cause{Need: met.Need, Node: state.Node.Name, GraceSeconds: grace}, v)
	if e.onlyWould(state) {
		if !e.would[v.Pod.UID] {
			e.would[v.Pod.UID] = true
			e.tell("would evict", state, met, v, reason, grace)
			e.Events.WouldEvict(v.Pod, reason)
			e.Metrics.WouldEvict(met.Signal)
		}
		return
	}
	request := terminate.Request{
		Pod: v.Pod, Path: e.Paths(state)[v.Pod.UID], Kind: met.Kind, GraceSeconds: grace, Message: reason, Left: left, Stale: !state.Live,
		Contain: met.Signal == v1alpha1.SignalMemoryAvailable || met.Signal == v1alpha1.SignalMemoryStall,
	}
	before := e.standing()[v.Pod.UID]
	if err := e.Terminator.Ask(request); err != nil {
		e.Log.Error(err, "failed to evict pod", "pod", v.Pod.Namespace+"/"+v.Pod.Name)
		return
	}
	if met.Kind == eviction.Hard {
		e.stall.watch = pressure.Busy()
	}
	now := e.Clock.Now()
	e.asked[v.Pod.UID] = deadline{now, now.Add(terminate.Longest(v.Pod, grace))}
	if met.disk {
		e.releasing[v.Pod.UID] = &released{pod: v.Pod}
	}
	if before.Refused && before.Kind == met.Kind { // told when it was tried first
		return
	}
	e.evictions[v.Pod.UID] = now
	e.tell("evicting", state, met, v, reason, grace)
	e.Events.Evicting(v.Pod, reason)
}

// tell logs that a pod is evicted, or would be.
func (e *Evictor) tell(event string, state state.State, met shortage, v eviction.Ranked, why string, grace int64) {
	decisionlog.Log(e.Log, decisionlog.Entry{
		Event: event, Component: decisionlog.NodeEnforcer, Decision: decisionlog.Evict, Reason: string(met.Signal), Message: why, Policy: state.PolicyName(),
		Namespace: v.Pod.Namespace, Name: v.Pod.Name, Node: state.Node.Name, DryRun: e.onlyWould(state),
	}, "kind", met.Kind.Label(), "graceSeconds", grace)
}

// usage reads how much a pod uses, and when that was measured; not ok if it is unknown.
type usage func(p *corev1.Pod, path string) (used int64, at time.Time, ok bool, err error)

// candidates are the node's pods with their current usage.
func (e *Evictor) candidates(state state.State, met shortage, usageOf usage) ([]eviction.Candidate, error) {
	var errs []error
	var candidates []eviction.Candidate
	paths := e.Paths(state)
	for _, p := range state.Pods {
		path, ok := paths[p.UID]
		if !ok || e.spared(p, met) {
			continue
		}
		used, at, ok, err := usageOf(p, path)
		if errors.Is(err, cgroup.ErrGone) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err))
		}
		c := eviction.Candidate{Pod: p, MeasuredAt: at, Usage: map[v1alpha1.EvictionSignal]int64{}}
		if met.Signal == v1alpha1.SignalMemoryStall {
			c.Waited = e.stall.waited[p.UID]
		}
		if ok {
			c.Usage[eviction.UsageSignal(met.Signal)] = used
		}
		candidates = append(candidates, c)
	}
	return candidates, errors.Join(errs...)
}

// groupUsage is a pod's usage of memory, in bytes, or of processes, from its cgroup.
func (e *Evictor) groupUsage(signal v1alpha1.EvictionSignal) usage {
	return func(_ *corev1.Pod, path string) (used int64, at time.Time, ok bool, err error) {
		if signal == v1alpha1.SignalPIDAvailable {
			used, err = cgroup.ReadPIDs(e.Cgroups, path)
			return used, e.Clock.Now(), err == nil, err
		}
		m, err := cgroup.ReadMemory(e.Cgroups, path)
		return m.WorkingSet(), e.Clock.Now(), err == nil, err
	}
}

// leftFor is each victim's share of the memory that the node has left, in bytes, by which the slack for its hooks is measured; less than 0:
// unknown, as with stall.
func leftFor(need eviction.Need, victims int) int64 {
	if need.Signal != v1alpha1.SignalMemoryAvailable {
		return -1
	}
	return max(need.Available, 0) / int64(max(victims, 1))
}

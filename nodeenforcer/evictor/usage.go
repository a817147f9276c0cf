package evictor

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

// usage is what a pod uses, and when that was measured; known is false where nobody knows.
type usage func(p *corev1.Pod, path string) (used int64, at time.Time, known bool, err error)

// candidates are the node's pods with what they use right now.
func (e *Evictor) candidates(ctx context.Context, state state.State, met shortage) ([]eviction.Candidate, error) {
	usageOf := e.groupUsage(met.Signal)
	if met.disk {
		var err error
		if usageOf, err = e.diskUsage(ctx, met.Signal); err != nil {
			return nil, err
		}
	}
	var errs []error
	var candidates []eviction.Candidate
	paths := e.Paths()
	for _, p := range state.Pods {
		path, planned := paths[p.UID]
		if !planned || eviction.Exempt(p) != "" {
			continue
		}
		used, at, known, err := usageOf(p, path)
		if errors.Is(err, cgroup.ErrGone) {
			continue
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err))
		}
		c := eviction.Candidate{Pod: p, MeasuredAt: at, Usage: map[v1alpha1.EvictionSignal]int64{}}
		if known {
			c.Usage[measured(met.Signal)] = used
		}
		candidates = append(candidates, c)
	}
	return candidates, errors.Join(errs...)
}

// groupUsage reads from its cgroup what a pod uses: bytes of memory, or processes.
func (e *Evictor) groupUsage(signal v1alpha1.EvictionSignal) usage {
	return func(_ *corev1.Pod, path string) (used int64, at time.Time, known bool, err error) {
		if signal == v1alpha1.SignalPIDAvailable {
			used, err = cgroup.ReadPIDs(e.Cgroups, path)
			return used, e.Clock.Now(), err == nil, err
		}
		m, err := cgroup.ReadMemory(e.Cgroups, path)
		return m.WorkingSet(), e.Clock.Now(), err == nil, err
	}
}

// measured is the signal that a candidate's usage is kept under: stall has memory's.
func measured(signal v1alpha1.EvictionSignal) v1alpha1.EvictionSignal {
	if signal == v1alpha1.SignalMemoryStall {
		return v1alpha1.SignalMemoryAvailable
	}
	return signal
}

// leftFor is how much of the node's memory, in bytes, the hooks of each of so many victims may be measured by; less than 0: it is not
// known, as with stall.
func leftFor(met pressure.Met, victims int) int64 {
	if met.Signal != v1alpha1.SignalMemoryAvailable {
		return -1
	}
	return max(met.Available, 0) / int64(max(victims, 1))
}

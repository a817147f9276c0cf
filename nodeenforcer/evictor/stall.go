package evictor

import (
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/state"
)

// stallPause is the time between two steps while a stall is being watched: a file of /proc is read in each.
const stallPause = 50 * time.Millisecond

// Cgroups are the node's cgroups, to read.
type Cgroups interface {
	cgroup.Reader
	Children(path string) ([]string, error)
}

// stall is a stall on memory that is being watched.
type stall struct {
	watch pressure.StallWatch
	// pods as they were when the watch began, by UID, and how long each has waited for the node's memory in the last watch that found a stall.
	pods   map[types.UID]pressure.PodStall
	waited map[types.UID]time.Duration
}

// stalls reports whether processes wait for memory longer than the policy allows, and pods of the node are among them; nil: it is not known.
func (e *Evictor) stalls(state state.State) (*bool, error) {
	want := e.thresholds.Stall
	if want == nil || !e.trigger.Armed() {
		return nil, nil
	}
	fired := e.trigger.Take()
	total, err := e.Sensor.Stalled(want.Kind)
	if err != nil {
		return nil, err
	}
	var step pressure.StallStep
	e.stall.watch, step = e.stall.watch.Step(e.Clock.Now(), *want, total, fired, e.stopping(state))
	if !step.Begins {
		return new(false), nil
	}
	before := e.stall.pods
	if e.stall.pods, err = e.podStalls(state); err != nil || step.Waited == 0 {
		return new(false), err
	}
	free, err := e.Sensor.MemoryFree()
	if err != nil {
		return nil, err
	}
	e.stall.waited = map[types.UID]time.Duration{}
	for uid, now := range e.stall.pods {
		if then, ok := before[uid]; ok {
			e.stall.waited[uid] = now.Since(then, free)
		}
	}
	return new(pressure.OfPods(step.Waited, maps.Values(e.stall.waited))), nil
}

// stopping reports whether a victim of a hard eviction is being stopped, and still waited for.
func (e *Evictor) stopping(state state.State) bool {
	for _, s := range e.Terminator.Victims() {
		now := &corev1.Pod{} // the API server has it no more
		if at := slices.IndexFunc(state.Pods, func(p *corev1.Pod) bool { return p.UID == s.Pod.UID }); at >= 0 {
			now = state.Pods[at]
		}
		if s.Kind == eviction.Hard && !e.overdue(s, now, false) {
			return true
		}
	}
	return false
}

// podStalls reads what the pods have waited for memory, by UID. A pod that can't be read is not among them, and not evicted for a stall; the
// error is of a node where no pod can be read, as cgroup v1.
func (e *Evictor) podStalls(state state.State) (map[types.UID]pressure.PodStall, error) {
	pods, above := map[types.UID]pressure.PodStall{}, map[string]int64{}
	var errs []error
	paths := e.Paths(state)
	for _, p := range state.Pods {
		at, ok := paths[p.UID]
		if !ok || eviction.Exempt(p) != "" {
			continue
		}
		read, err := e.podStall(at, above)
		switch {
		case err == nil:
			pods[p.UID] = read
		case !errors.Is(err, cgroup.ErrGone):
			errs = append(errs, fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err))
		}
	}
	if len(pods) > 0 {
		return pods, nil
	}
	return pods, errors.Join(errs...)
}

// podStall reads one pod. above remembers the cgroups above, for the next one.
func (e *Evictor) podStall(at string, above map[string]int64) (pod pressure.PodStall, err error) {
	// Without what is below: the containers' limits are theirs.
	if pod.Pod, err = e.groupStall(at, "memory.events.local"); err != nil {
		return pod, err
	}
	children, err := e.Cgroups.Children(at)
	if err != nil {
		return pod, err
	}
	pod.Containers = map[string]pressure.GroupStall{}
	for _, child := range children {
		// With what a container made below its own.
		c, err := e.groupStall(at+"/"+child, "memory.events")
		switch {
		case err == nil:
			pod.Containers[child] = c
		case !errors.Is(err, cgroup.ErrGone):
			return pod, err
		}
	}
	for parent := path.Dir(at); parent != "/"; parent = path.Dir(parent) {
		limited, known := above[parent]
		if !known {
			files, err := e.Cgroups.Read(parent, "memory.events.local")
			if err != nil {
				return pod, err
			}
			limited = limits(files["memory.events.local"])
			above[parent] = limited
		}
		pod.Above += limited
	}
	return pod, nil
}

func (e *Evictor) groupStall(at, events string) (pressure.GroupStall, error) {
	p, err := cgroup.ReadPressure(e.Cgroups, at, "memory")
	if err != nil {
		return pressure.GroupStall{}, err
	}
	files, err := e.Cgroups.Read(at, events)
	return pressure.GroupStall{Waited: p.Some.Total, Limited: limits(files[events])}, err
}

// limits is how often a cgroup was at memory.high or memory.max, of its memory.events (Documentation/admin-guide/cgroup-v2.rst); 0 where the
// kernel does not count it.
func limits(events string) (n int64) {
	for line := range strings.Lines(events) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if count, err := strconv.ParseInt(value, 10, 64); err == nil && (name == "high" || name == "max") {
			n += count
		}
	}
	return n
}

package evictor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/pressure"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// releasing are pods that were evicted for a disk, until the space that they used there is free and their termination is over.
type releasing map[types.UID]*released

type released struct {
	pod *corev1.Pod
	// dying: its termination had begun when its eviction was last in flight.
	dying bool
	// until is zero while the pod runs. After it the pod frees nothing more, even if its object is still there.
	until time.Time
}

// flights are the pods that have ended, as evictions in flight: they still free space, and how much is not known before it is free. They
// are hard ones, since there is no pod left to be hastened.
func (r releasing) flights(now time.Time) (flying []eviction.Flight) {
	for _, of := range r {
		if now.Before(of.until) {
			flying = append(flying, eviction.Flight{Candidate: eviction.Candidate{Pod: of.pod}, Kind: eviction.Hard})
		}
	}
	return flying
}

// follow starts the release time of pods that have ended: the pod's object is gone, or says that all containers have ended, or their processes
// have ended and the API server does not know yet. The sandbox may last longer, and the object too, if the network plugin or the API server is slow. live:
// the pods that are present are those of the API server now. A container that was restarted ends the release time.
func (r releasing) follow(present map[types.UID]*corev1.Pod, live bool, standing map[types.UID]terminate.VictimStatus, now time.Time) {
	for uid, of := range r {
		s, ok := standing[uid]
		of.dying = of.dying || s.Dying
		p := present[uid]
		switch over := s.Ended || live && p == nil || p != nil && ended(p) || of.dying && !ok; {
		case over && of.until.IsZero():
			of.until = now.Add(releaseTime)
		case !over && ok:
			of.until = time.Time{}
		}
	}
}

// ended reports whether a pod's status says that none of its containers runs, nor will again.
func ended(p *corev1.Pod) bool {
	if graceperiod.Finished(p) {
		return true
	}
	runs := func(s corev1.ContainerStatus) bool { return s.State.Terminated == nil }
	return p.DeletionTimestamp != nil && len(p.Status.ContainerStatuses) > 0 && !slices.ContainsFunc(p.Status.ContainerStatuses, runs) &&
		!slices.ContainsFunc(p.Status.InitContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil }) &&
		!slices.ContainsFunc(p.Status.EphemeralContainerStatuses, func(s corev1.ContainerStatus) bool { return s.State.Running != nil })
}

// has reports whether a pod has ended. Its release time runs, or is over.
func (r releasing) has(uid types.UID) bool { return r[uid] != nil && !r[uid].until.IsZero() }

// forget drops the pods whose release time has passed and whose termination is over.
func (r releasing) forget(standing map[types.UID]terminate.VictimStatus, now time.Time) {
	maps.DeleteFunc(r, func(uid types.UID, of *released) bool {
		_, stands := standing[uid]
		return !stands && !of.until.IsZero() && !now.Before(of.until)
	})
}

// releasingVersion is of the format in which they are kept.
const releasingVersion = 1

// keptReleasing is how they are kept for the next process: an enforcer that is replaced while a disk's space is being freed would evict others for it.
type keptReleasing struct {
	Version int            `json:"version"`
	Pods    []keptReleased `json:"pods"`
	// Proofs are of thresholds that were once not met: without them a restart would put those on trial that are met just then.
	Proofs []pressure.Proof `json:"proofs,omitempty"`
	// Evictions are those of the last minute, and Waits those after evictions in vain.
	Evictions map[types.UID]time.Time `json:"evictions,omitempty"`
	Waits     []keptWait              `json:"waits,omitempty"`
}

type keptWait struct {
	Signal v1alpha1.EvictionSignal `json:"signal"`
	Wait   time.Duration           `json:"wait"`
	Until  time.Time               `json:"until"`
}

type keptReleased struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Dying     bool      `json:"dying,omitempty"`
	Until     time.Time `json:"until,omitzero"`
}

// toKeep is what the next process has to know.
func (e *Evictor) toKeep() keptReleasing {
	out := keptReleasing{Version: releasingVersion, Proofs: e.state.Proofs(), Evictions: e.evictions}
	for _, signal := range slices.Sorted(maps.Keys(e.episodes)) {
		if ep := e.episodes[signal]; ep.wait > 0 {
			out.Waits = append(out.Waits, keptWait{signal, ep.wait, ep.until})
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(e.releasing)) {
		of := e.releasing[uid]
		out.Pods = append(out.Pods, keptReleased{Namespace: of.pod.Namespace, Name: of.pod.Name, UID: uid, Dying: of.dying, Until: of.until})
	}
	return out
}

// readKept reads what an earlier process kept. No time is longer than one that begins now, whatever became of the clock.
func readKept(file string, now time.Time) (r releasing, kept keptReleasing, err error) {
	r = releasing{}
	if file == "" {
		return r, kept, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, kept, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err == nil && kept.Version != releasingVersion {
		err = fmt.Errorf("%s is of version %d, this program reads %d", file, kept.Version, releasingVersion)
	}
	if err != nil {
		return r, keptReleasing{}, fmt.Errorf("read what was evicted before: %w", err)
	}
	for _, k := range kept.Pods {
		if !k.Until.IsZero() && k.Until.After(now.Add(releaseTime)) {
			k.Until = now.Add(releaseTime)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name, UID: k.UID}}
		r[k.UID] = &released{pod: pod, dying: k.Dying, until: k.Until}
	}
	maps.DeleteFunc(kept.Evictions, func(_ types.UID, at time.Time) bool { return now.Sub(at).Abs() >= time.Minute })
	for i := range kept.Waits {
		w := &kept.Waits[i]
		w.Wait = min(max(w.Wait, 0), pressure.DefaultTransitionPeriod)
		if last := now.Add(w.Wait); w.Until.After(last) {
			w.Until = last
		}
	}
	return r, kept, nil
}

// keep writes them for the next process where they have changed.
func (e *Evictor) keep() {
	text, err := json.Marshal(e.toKeep())
	if e.KeptFile == "" || e.DryRun || err == nil && string(text) == e.kept {
		return
	}
	if err == nil {
		err = os.MkdirAll(filepath.Dir(e.KeptFile), 0o700)
	}
	if err == nil {
		err = os.WriteFile(e.KeptFile+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(e.KeptFile+".new", e.KeptFile)
	}
	if text := string(text); err == nil {
		e.kept = text
	} else if e.kept != "" || e.unkept != err.Error() {
		e.kept, e.unkept = "", err.Error()
		e.Log.Error(err, "failed to note what was evicted, a restart may evict more")
	}
}

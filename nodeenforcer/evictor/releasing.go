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

	"github.com/podgrace/podgrace/graceperiod"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
	"github.com/podgrace/podgrace/nodeenforcer/terminate"
)

// releasing are pods that were evicted for a disk, until the space that they used there is free.
type releasing map[types.UID]*released

type released struct {
	pod *corev1.Pod
	// dying: its termination had begun when its eviction was last in flight.
	dying bool
	// until is zero while the pod runs.
	until time.Time
}

// flights are the pods that have ended, as evictions in flight: they still free space, and how much is not known before it is free. They
// are hard ones, since there is no pod left to be hastened.
func (r releasing) flights() (flying []eviction.Flight) {
	for _, of := range r {
		if !of.until.IsZero() {
			flying = append(flying, eviction.Flight{Candidate: eviction.Candidate{Pod: of.pod}, Kind: eviction.Hard})
		}
	}
	return flying
}

// follow starts the release time of pods that have ended: the pod's object is gone or says that it has finished, or its processes have
// ended and the API server does not know yet.
func (r releasing) follow(present map[types.UID]*corev1.Pod, standing map[types.UID]terminate.VictimStatus, now time.Time) {
	for uid, of := range r {
		s, ok := standing[uid]
		of.dying = of.dying || s.Dying
		p := present[uid]
		if over := p == nil || graceperiod.Finished(p) || of.dying && !ok; over && of.until.IsZero() {
			of.until = now.Add(releaseTime)
		}
	}
}

// has says whether a pod has ended and its release time runs.
func (r releasing) has(uid types.UID) bool { return r[uid] != nil && !r[uid].until.IsZero() }

// forget drops the pods whose release time has passed.
func (r releasing) forget(now time.Time) {
	maps.DeleteFunc(r, func(_ types.UID, of *released) bool { return !of.until.IsZero() && !now.Before(of.until) })
}

// releasingVersion is of the format in which they are kept.
const releasingVersion = 1

// keptReleasing is how they are kept for the next process: an enforcer that is replaced while a disk's space is being freed would evict others for it.
type keptReleasing struct {
	Version int            `json:"version"`
	Pods    []keptReleased `json:"pods"`
}

type keptReleased struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	UID       types.UID `json:"uid"`
	Dying     bool      `json:"dying,omitempty"`
	Until     time.Time `json:"until,omitzero"`
}

func (r releasing) kept() keptReleasing {
	out := keptReleasing{Version: releasingVersion}
	for _, uid := range slices.Sorted(maps.Keys(r)) {
		of := r[uid]
		out.Pods = append(out.Pods, keptReleased{Namespace: of.pod.Namespace, Name: of.pod.Name, UID: uid, Dying: of.dying, Until: of.until})
	}
	return out
}

// readReleasing reads what an earlier process kept. No release time is longer than one that begins now, whatever became of the clock.
func readReleasing(file string, now time.Time) (releasing, error) {
	r := releasing{}
	if file == "" {
		return r, nil
	}
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil
	}
	var kept keptReleasing
	if err == nil {
		err = json.Unmarshal(text, &kept)
	}
	if err == nil && kept.Version != releasingVersion {
		err = fmt.Errorf("%s is of version %d, this program reads %d", file, kept.Version, releasingVersion)
	}
	if err != nil {
		return r, fmt.Errorf("read which pods were evicted for a disk: %w", err)
	}
	for _, k := range kept.Pods {
		if !k.Until.IsZero() && k.Until.After(now.Add(releaseTime)) {
			k.Until = now.Add(releaseTime)
		}
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: k.Namespace, Name: k.Name, UID: k.UID}}
		r[k.UID] = &released{pod: pod, dying: k.Dying, until: k.Until}
	}
	return r, nil
}

// keep writes them for the next process where they have changed.
func (e *Evictor) keep() {
	text, err := json.Marshal(e.releasing.kept())
	if e.ReleasingFile == "" || e.DryRun || err == nil && string(text) == e.kept {
		return
	}
	e.kept = string(text)
	if err == nil {
		err = os.MkdirAll(filepath.Dir(e.ReleasingFile), 0o700)
	}
	if err == nil {
		err = os.WriteFile(e.ReleasingFile+".new", text, 0o600)
	}
	if err == nil {
		err = os.Rename(e.ReleasingFile+".new", e.ReleasingFile)
	}
	if err != nil {
		e.Log.Error(err, "failed to note which pods were evicted for a disk, a restart may evict another")
	}
}

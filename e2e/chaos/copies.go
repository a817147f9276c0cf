package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// podCopy is one pod's containers on one machine.
type podCopy struct {
	uid       types.UID
	namespace string
	name      string
	node      string
	// only one of the name may run: it is a StatefulSet's.
	only bool
}

func (c podCopy) key() string { return c.namespace + "/" + c.name }

// copies knows which containers run on which machines, whatever the API server has been told: the machines tell it. Two of a pod that is to run only once are what must never be.
type copies struct {
	mu        sync.Mutex
	running   map[types.UID]podCopy
	confirmed map[types.UID]bool // somebody said that they may run twice
	started   int
	twice     int // that somebody had confirmed
	violated  func(what string)
}

// newCopies has a function called for each violation. It may not ask the copies.
func newCopies(violated func(string)) *copies {
	return &copies{running: map[types.UID]podCopy{}, confirmed: map[types.UID]bool{}, violated: violated}
}

// start is told by a machine before a pod's containers start.
func (w *copies) start(c podCopy) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.running[c.uid] = c
	if w.started++; !c.only {
		return
	}
	for _, other := range w.sorted() {
		if !other.only || other.key() != c.key() || other.uid == c.uid {
			continue
		}
		if w.confirmed[other.uid] {
			w.twice++
			continue
		}
		w.violated(fmt.Sprintf("two copies of %s run: %s on %s, and now %s on %s", c.key(), other.uid, other.node, c.uid, c.node))
	}
}

// end is told by a machine once a pod's containers have ended.
func (w *copies) end(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.running, uid)
}

// confirm is told when a person has confirmed that a pod may run twice, before the confirmation is written.
func (w *copies) confirm(uid types.UID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.confirmed[uid] = true
}

// runs reports whether a pod's containers run, and nobody confirmed that they may run twice.
func (w *copies) runs(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, is := w.running[uid]
	return is && !w.confirmed[uid]
}

// isConfirmed reports whether somebody confirmed that a pod may run twice.
func (w *copies) isConfirmed(uid types.UID) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.confirmed[uid]
}

// in are those that run in a namespace, by name; of none: in all.
func (w *copies) in(namespace string) []podCopy {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(w.sorted(), func(c podCopy) bool { return namespace != "" && c.namespace != namespace })
}

// protected are those that run, may run only once, and were not confirmed, by name.
func (w *copies) protected() []podCopy {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(w.sorted(), func(c podCopy) bool { return !c.only || w.confirmed[c.uid] })
}

func (w *copies) sorted() []podCopy {
	return slices.SortedFunc(maps.Values(w.running), func(a, b podCopy) int {
		return cmp.Or(strings.Compare(a.key(), b.key()), strings.Compare(string(a.uid), string(b.uid)))
	})
}

// counts are how many were started, and how many of them beside another one of which somebody had confirmed that it may run twice.
func (w *copies) counts() (started, twice int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.started, w.twice
}

// sample is what a process had when nothing went on.
type sample struct {
	at         time.Duration // since the run began
	resident   float64       // bytes
	goroutines float64
	files      float64
	panics     float64 // that were recovered, since the process began
	leads      bool
}

// alike are those in which the process led, or did not, as in the last one: who leads runs controllers, and has more than twice the goroutines for them.
func alike(samples []sample) []sample {
	leads := samples[len(samples)-1].leads
	return slices.DeleteFunc(slices.Clone(samples), func(s sample) bool { return s.leads != leads })
}

// leastSamples are needed to tell growth from what a process takes when it starts.
const leastSamples = 6

// Slack is how much more of each is nothing, however little there was.
const (
	residentSlack   = 24 << 20 // bytes: what Go's collector leaves by chance
	goroutinesSlack = 40       // connections that are under way, and their watches
	filesSlack      = 15
)

// grows says what of a process grows: over all of its samples, but for goroutines, which are looked at in those alike. Of the last third even the least is above all that the first third had, by a quarter and
// the slack. What is taken once, such as caches that fill, is within the first third of a run that is long enough.
func grows(samples []sample) (what []string) {
	for _, of := range []struct {
		name    string
		samples []sample
		value   func(sample) float64
		slack   float64
	}{
		{"resident memory", samples, func(s sample) float64 { return s.resident }, residentSlack},
		{"goroutines", alike(samples), func(s sample) float64 { return s.goroutines }, goroutinesSlack},
		{"open files", samples, func(s sample) float64 { return s.files }, filesSlack},
	} {
		if len(of.samples) < leastSamples {
			continue
		}
		third := len(of.samples) / 3
		first, last := 0.0, 0.0
		for _, s := range of.samples[:third] {
			first = max(first, of.value(s))
		}
		for i, s := range of.samples[len(of.samples)-third:] {
			if v := of.value(s); i == 0 || v < last {
				last = v
			}
		}
		if last > first*1.25+of.slack {
			what = append(what, fmt.Sprintf("%s from at most %.0f to at least %.0f", of.name, first, last))
		}
	}
	return what
}

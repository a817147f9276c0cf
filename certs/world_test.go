package certs

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a cluster in which only certificates matter: the Secret and caBundle, and who has seen what of them.
type world struct {
	now      time.Time
	made     int
	secret   *State
	caBundle []Authority
	bundles  []published
	replicas [2]replica
	// crashed says that the leader ended between the Secret and caBundle.
	crashed bool
	log     []string
}

// published is a caBundle since a moment. An API server may lag behind by less than Settle.
type published struct {
	since time.Time
	cas   []Authority
}

// replica serves a leaf; partitioned, it hears nothing from the API server.
type replica struct {
	ca          string
	until       time.Time
	renew       time.Time
	partitioned bool
	// hasty says that it signed by a CA which the API servers may not have, because its last leaf had ended: refused anyway.
	hasty bool
}

func newWorld() *world {
	w := &world{now: epoch}
	first := w.newCA()
	w.secret = &State{Current: first, Settled: first.ID}
	w.publish([]Authority{first.Authority})
	w.now = w.now.Add(2 * tested.Settle)
	w.serve()
	return w
}

func (w *world) newCA() Pair {
	w.made++
	return pair(fmt.Sprint("ca-", w.made), w.now)
}

func (w *world) publish(cas []Authority) {
	if slices.Equal(ids(cas), ids(w.caBundle)) {
		return
	}
	w.caBundle = cas
	w.bundles = append(w.bundles, published{w.now, cas})
}

// lead is one reconcile of the leader, which may end after it has written the Secret. It says how long it would wait.
func (w *world) lead(crash bool) time.Duration {
	s := *w.secret
	o := Observed{Now: w.now, Carried: slices.Equal(ids(w.caBundle), ids(s.Trusted())), Present: w.caBundle}
	d := Decide(s, o, tested)
	if d.Step != Wait {
		var next Pair
		if d.Step == Begin {
			next = w.newCA()
		}
		s = s.After(d.Step, o, next)
		w.secret = &s
		w.log = append(w.log, fmt.Sprintf("%s: %s (%s)", w.now.Sub(epoch), d.Step, d.Why))
		if crash {
			return 0
		}
	}
	w.publish(s.Trusted())
	return d.After
}

// settle lets the leader work until it waits for time to pass, as events make it do.
func (w *world) settle() time.Duration {
	for range 20 {
		before, carried := *w.secret, len(w.bundles)
		after := w.lead(false)
		if w.secret.Phase() == before.Phase() && w.secret.Since.Equal(before.Since) && len(w.bundles) == carried {
			return after
		}
	}
	panic("the leader never rests")
}

// serve lets the replicas sign, as a change of the Secret and the end of a leaf make them do.
func (w *world) serve() {
	for i := range w.replicas {
		r := &w.replicas[i]
		if r.partitioned || r.ca == w.secret.Current.ID && w.now.Before(r.renew) || !w.secret.MaySign(r.ca, r.until, w.now) {
			continue
		}
		r.hasty = w.secret.Settled != w.secret.Current.ID && (!w.now.Before(r.until) || r.hasty)
		r.ca, r.until, r.renew = w.secret.Current.ID, w.now.Add(tested.Leaf), w.now.Add(tested.Leaf*2/3)
	}
}

// lose is the deletion of the Secret, and that a replica makes another.
func (w *world) lose() {
	fresh := w.newCA()
	w.secret = &State{Current: fresh}
}

// check fails where an API server, however late within Settle, would refuse a leaf that a replica serves and that has not
// ended. One that has ended is refused whatever caBundle is.
func (w *world) check(t *rapid.T) {
	for i, r := range w.replicas {
		if !w.now.Before(r.until) || r.hasty {
			continue
		}
		for j, b := range w.bundles {
			if j+1 < len(w.bundles) && !w.bundles[j+1].since.Add(tested.Settle).After(w.now) {
				continue // every API server has seen the one after
			}
			if !slices.Contains(ids(b.cas), r.ca) {
				t.Fatalf("%s: replica %d serves a leaf of %s until %s, and an API server may have %v of %s\n%q", w.now.Sub(epoch), i, r.ca, r.until.Sub(epoch), ids(b.cas), b.since.Sub(epoch), w.log)
			}
		}
	}
}

// Whatever happens, but for what empties caBundle itself: no leaf is served that an API server refuses. Leaders end at any
// point, requests come at any time, the Secret is deleted, replicas lose the API server for as long as they like.
func TestNoLeafIsRefused(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		requests := 0
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			switch rapid.SampledFrom([]string{"lead", "lead", "lead", "crash", "time", "time", "time", "request", "lose", "partition", "heal"}).Draw(t, "what") {
			case "lead":
				w.settle()
			case "crash":
				w.lead(true)
			case "time": // replicas act all the time, the leader may be away
				leader := rapid.Bool().Draw(t, "leader")
				longest := rapid.SampledFrom([]time.Duration{tested.Settle, tested.Leaf, 20 * day}).Draw(t, "longest")
				for left := time.Duration(rapid.Int64Range(1, int64(longest)).Draw(t, "time")); left > 0; left -= day / 4 {
					w.now = w.now.Add(min(left, day/4))
					if leader {
						w.settle()
					}
					w.serve()
					w.check(t)
				}
			case "request":
				requests++
				w.secret.Request = fmt.Sprint("request ", requests)
			case "lose":
				if len(w.secret.Trusted()) > maxKept { // lost again and again before anybody could settle: not promised
					continue
				}
				w.lose()
				w.settle()
			case "partition":
				w.replicas[rapid.IntRange(0, 1).Draw(t, "replica")].partitioned = true
			case "heal":
				w.replicas[rapid.IntRange(0, 1).Draw(t, "replica")].partitioned = false
			}
			w.serve()
			w.check(t)
		}
	})
}

// Once things are left alone: every request is done, one CA is trusted and signs, and no further one is made until half of its
// life, from whatever state, a Secret that people wrote garbage into included.
func TestReplacementEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld()
		drawn := func(name string) Pair { w.now = w.now.Add(time.Hour); return w.newCA() }
		s := &State{Current: drawn("current"), Request: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "request"), Handled: rapid.SampledFrom([]string{"", "a"}).Draw(t, "handled")}
		if rapid.Bool().Draw(t, "settled") {
			s.Settled = s.Current.ID
		}
		if rapid.Bool().Draw(t, "next") {
			next := drawn("next")
			s.Next = &next
		} else {
			s.NextBroken = rapid.Bool().Draw(t, "broken")
		}
		for range rapid.IntRange(0, 5).Draw(t, "previous") {
			s.Previous = append(s.Previous, drawn("previous").Authority)
		}
		if rapid.Bool().Draw(t, "since") {
			s.Since = w.now.Add(time.Duration(rapid.Int64Range(-int64(30*day), int64(30*day)).Draw(t, "at")))
		}
		w.secret = s
		w.caBundle = rapid.SampledFrom([][]Authority{nil, w.caBundle, s.Trusted()}).Draw(t, "caBundle")
		for range 100 {
			after := w.settle()
			if w.secret.Phase() == Ready {
				break
			}
			w.now = w.now.Add(after)
		}
		if got := *w.secret; got.Phase() != Ready || got.Request != "" && got.Handled != got.Request || len(w.caBundle) != 1 || w.caBundle[0].ID != got.Current.ID {
			t.Fatalf("it ended in %s with request %q, handled %q, caBundle %v\n%q", got.Phase(), got.Request, got.Handled, ids(w.caBundle), w.log)
		}
	})
}

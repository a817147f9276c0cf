package eviction

import (
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// Need is what a threshold that is met asks for. All amounts are in the signal's unit, and 0 for stall, which has none.
type Need struct {
	Signal v1alpha1.EvictionSignal
	Kind   Kind
	// Available at the last sample, and the Threshold below which it is too little.
	Available, Threshold int64
	// Amount to be freed, minimum reclaim included.
	Amount int64
}

// Flight is an eviction in flight.
type Flight struct {
	// Candidate, with what it uses now.
	Candidate
	Kind Kind
	// Overdue: its deadline has passed and the pod is still there. Choose does not wait for it any longer.
	Overdue bool
	// Leaving: the pod was deleted by somebody else. What it frees counts, and nothing waits for it: of pods that come and go there is always one.
	Leaving bool
}

// Choice is which pods are to be evicted now.
type Choice struct {
	// Victims in the order of eviction.
	Victims []Ranked
	// Hasten are pods whose soft eviction is to become a hard one.
	Hasten []Ranked
	// Reclaiming is what the evictions in flight will free, if they count.
	Reclaiming int64
	// Short is what is still missing once all of these pods are gone.
	Short int64
}

// Choose returns the victims whose eviction frees the amount that is needed: at least one, or none if the evictions in flight free
// enough.
//
// It adds victims in the order of the ranking until their sum is enough. Then it goes back from the last to the first and removes each
// victim without whom the sum is still enough. So every victim is needed, and the removals never add a pod. If all candidates together
// are not enough, it returns only the first one that frees a twentieth of what is missing, and waits until that pod is gone: the cause may
// be something else than a pod. A pod whose usage is unknown is chosen only if no other pod frees anything, and then alone. Stall has no amount: one pod
// is chosen, of those that take part in the stall, and none while an eviction is in flight.
//
// A hard threshold does not wait for soft evictions: they are hastened before other pods are chosen. An overdue eviction does not
// count, so that a pod which does not stop can't hold up the eviction of others (k8s#124081).
func Choose(need Need, candidates []Candidate, inFlight []Flight) Choice {
	c := chooser{need: need, left: need.Amount}
	flying := map[types.UID]bool{}
	var hasten []Candidate
	for _, f := range inFlight {
		flying[f.Pod.UID] = true
		switch {
		case f.Leaving:
			c.count(f.Candidate)
		case need.Kind == Hard && f.Kind == Soft:
			hasten = append(hasten, f.Candidate)
		case !f.Overdue:
			c.waitFor(f.Candidate)
		}
	}
	var others []Candidate
	for _, o := range candidates {
		if !flying[o.Pod.UID] {
			others = append(others, o)
		}
	}
	soft, rest := Rank(need.Signal, hasten), Rank(need.Signal, others)
	if c.stalls() {
		soft, rest = takingPart(soft, rest)
	}
	c.hasten(soft)
	c.take(rest)
	c.out.Short = max(c.left, 0)
	if c.stalls() {
		c.out.Short = 0
	}
	return c.out
}

// chooser is a choice in the making.
type chooser struct {
	need    Need
	left    int64 // still to be freed
	waiting bool  // an eviction in flight counts
	unknown bool  // what it will free is not known
	out     Choice
}

func (c *chooser) stalls() bool { return c.need.Signal == v1alpha1.SignalMemoryStall }

// enough reports whether no further victim is needed.
func (c *chooser) enough() bool {
	if c.stalls() {
		return c.waiting || len(c.out.Victims) > 0
	}
	return c.unknown || c.left <= 0
}

// waitFor counts an eviction in flight.
func (c *chooser) waitFor(f Candidate) {
	c.waiting = true
	if !c.count(f) {
		c.unknown = true
	}
}

// count takes off what a pod that leaves frees, if that is known.
func (c *chooser) count(f Candidate) (known bool) {
	used, ok := f.usage(c.need.Signal)
	if ok {
		c.left -= used
		c.out.Reclaiming += used
	}
	return ok
}

// hasten turns soft evictions in flight into hard ones, as many as are needed.
func (c *chooser) hasten(soft []Ranked) {
	for _, r := range soft {
		if c.enough() {
			return
		}
		c.out.Hasten = append(c.out.Hasten, r)
		c.waitFor(r.Candidate)
	}
}

func (c *chooser) take(ranked []Ranked) {
	if c.enough() || len(ranked) == 0 {
		return
	}
	if c.stalls() {
		c.out.Victims = ranked[:1]
		return
	}
	end, sum := 0, int64(0)
	for end < len(ranked) && sum < c.left {
		sum += ranked[end].Used // 0 where it is not known
		end++
	}
	switch {
	case sum >= c.left:
		c.out.Victims = spare(ranked[:end], sum-c.left)
	case !c.waiting:
		c.out.Victims = one(ranked, c.left)
	}
	for _, v := range c.out.Victims {
		c.left -= v.Used
	}
}

// stallShare: a pod takes part in a stall if it waited for at least a quarter of what the pod did that waited longest. Less than that is what
// everybody waits who runs beside a stall, and the end of such a pod ends none.
const stallShare = 4

// takingPart leaves of both those that take part in a stall.
func takingPart(a, b []Ranked) (partA, partB []Ranked) {
	longest := time.Duration(0)
	for _, r := range slices.Concat(a, b) {
		longest = max(longest, r.Waited)
	}
	idle := func(r Ranked) bool { return r.Waited == 0 || r.Waited < longest/stallShare }
	return slices.DeleteFunc(a, idle), slices.DeleteFunc(b, idle)
}

// spare removes, from the last to the first, the victims without whom the sum is still enough. excess is how much more than needed they
// free together.
func spare(ranked []Ranked, excess int64) []Ranked {
	stays := make([]bool, len(ranked))
	for i := len(ranked) - 1; i >= 0; i-- {
		if used := ranked[i].Used; used <= excess {
			excess -= used
			stays[i] = true
		}
	}
	var out []Ranked
	for i, r := range ranked {
		if !stays[i] {
			out = append(out, r)
		}
	}
	return out
}

// leastShare: where all pods together are not enough, one that frees less than a twentieth of what is missing is not evicted. It would lose
// its work, and the threshold would stay met.
const leastShare = 20

// one is the first pod that frees its share of what is missing; else, if no pod is known to free anything, the first whose usage is unknown.
// Pods of unknown usage rank last.
func one(ranked []Ranked, missing int64) []Ranked {
	frees := false
	for i, r := range ranked {
		frees = frees || r.Used > 0
		if r.Used > 0 && r.Used >= missing/leastShare || !r.Known && !frees {
			return ranked[i : i+1]
		}
	}
	return nil
}

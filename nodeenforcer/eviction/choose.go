package eviction

import (
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

// Flight is an eviction that is on its way.
type Flight struct {
	// Candidate, with what it uses now.
	Candidate
	Kind Kind
	// Overdue: its deadline is past and it is still there. It is waited for no longer.
	Overdue bool
}

// Choice is who has to go now.
type Choice struct {
	// Victims in the order of eviction.
	Victims []Ranked
	// Hasten are pods whose soft eviction is to become a hard one.
	Hasten []Ranked
	// Reclaiming is what those on their way will free, as far as they count.
	Reclaiming int64
	// Short is what is still missing when all of them are gone.
	Short int64
}

// Choose takes as many victims as free what is needed, at least one, unless those that are on their way free enough.
//
// It goes down the ranking until the sum is enough, then spares again, from the end, whom it can without: each victim is
// needed, and nobody goes who would have stayed. Where all candidates together are not enough it takes the first that frees
// anything and waits until that is gone, because the cause is perhaps not a pod. One whose usage is not known is taken only if
// no other frees anything, alone. For stall, which has no amount, it takes one, and none while one is on its way.
//
// A hard threshold does not wait for soft evictions: those are hastened before others are taken. An overdue eviction counts for
// nothing, so that no pod that does not stop keeps the others (k8s#124081).
func Choose(need Need, candidates []Candidate, inFlight []Flight) Choice {
	c := chooser{need: need, left: need.Amount}
	flying := map[types.UID]bool{}
	var hasten []Candidate
	for _, f := range inFlight {
		flying[f.Pod.UID] = true
		switch {
		case need.Kind == Hard && f.Kind == Soft:
			hasten = append(hasten, f.Candidate)
		case !f.Overdue:
			c.waitFor(f.Candidate)
		}
	}
	c.hasten(Rank(need.Signal, hasten))
	var others []Candidate
	for _, o := range candidates {
		if !flying[o.Pod.UID] {
			others = append(others, o)
		}
	}
	c.take(Rank(need.Signal, others))
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
	waiting bool  // somebody counts who is on the way
	unknown bool  // nobody knows what one of them will free
	out     Choice
}

func (c *chooser) stalls() bool { return c.need.Signal == v1alpha1.SignalMemoryStall }

// enough says that nobody else has to go now.
func (c *chooser) enough() bool {
	if c.stalls() {
		return c.waiting || len(c.out.Victims) > 0
	}
	return c.unknown || c.left <= 0
}

// waitFor counts one that is on its way.
func (c *chooser) waitFor(f Candidate) {
	c.waiting = true
	used, ok := f.usage(c.need.Signal)
	if !ok {
		c.unknown = true
		return
	}
	c.left -= used
	c.out.Reclaiming += used
}

// hasten takes soft evictions that are on their way.
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
		c.out.Victims = one(ranked)
	}
	for _, v := range c.out.Victims {
		c.left -= v.Used
	}
}

// spare leaves out those without whom it is enough, the last first. excess is what is freed too much.
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

// one is the first that frees anything, else the first of whom nobody knows.
func one(ranked []Ranked) []Ranked {
	for i := range ranked {
		if ranked[i].Used > 0 || !ranked[i].Known {
			return ranked[i : i+1]
		}
	}
	return nil
}

package fencing

import (
	"slices"
	"time"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

const (
	// keptFor is how long a Fence that is over, and a receipt that lets nothing go any more, are kept for people to read. By the time of day: where that is wrong, what goes early was of no
	// use but to readers.
	keptFor = 7 * 24 * time.Hour
	// retiredAtOnce bounds what one round deletes of each.
	retiredAtOnce = 10
)

// Retire returns the Fences and receipts that can be deleted, the oldest first: all of them are read in each round. Kept are Fences for a silence that goes on, which would be fenced anew;
// receipts of a boot that a Node still has, and of single pods; and those that are void, with what voids them: they keep an agent that said what was not so from being used again.
func Retire(facts Facts) (fences []*v1alpha1.Fence, receipts []*v1alpha1.FenceReceipt) {
	if !facts.Known.all() {
		return nil, nil
	}
	old := func(created time.Time) bool { return facts.Now.Wall.Sub(created) > keptFor }
	needed := map[string]bool{}
	for i := range facts.Fences {
		f := &facts.Fences[i]
		if f.Status.Phase != v1alpha1.FenceOver {
			needed[f.Status.Receipt] = true
			continue
		}
		ended := f.CreationTimestamp.Time
		for _, t := range f.Status.Times {
			if t.Time.After(ended) {
				ended = t.Time.Time
			}
		}
		if n := facts.node(f.Spec.Node.Name); old(ended) && (n == nil || FenceName(n) != f.Name) {
			fences = append(fences, f)
		}
	}
	for _, r := range Standing(facts.Receipts) {
		if r.Spec.Node != nil && !needed[r.Name] && old(r.CreationTimestamp.Time) && facts.bootSeen(r.Spec.Node.BootID) == nil {
			receipts = append(receipts, r)
		}
	}
	slices.SortStableFunc(fences, func(a, b *v1alpha1.Fence) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	slices.SortStableFunc(receipts, func(a, b *v1alpha1.FenceReceipt) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return fences[:min(len(fences), retiredAtOnce)], receipts[:min(len(receipts), retiredAtOnce)]
}

package review

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/podgrace/podgrace/internal/manifest"
)

// chunk is how many documents a worker takes at once.
const chunk = 64

// Each does something about each of so many, on all processors, until the context ends. progress is told how many were done, as do says, from
// several goroutines; it may be nil.
func Each(ctx context.Context, n int, progress func(done int), do func(i int) (done bool)) error {
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for begin := 0; begin < n; begin += chunk {
		workers.Go(func() error {
			done := 0
			for i := begin; i < min(begin+chunk, n); i++ {
				if err := ctx.Err(); err != nil {
					return err
				}
				if do(i) {
					done++
				}
			}
			if progress != nil && done > 0 {
				progress(done)
			}
			return nil
		})
	}
	return workers.Wait()
}

// All judges documents on all processors. The results are in the documents' order; other counts those that are no business of
// Podgrace's, as far as that is known (State.Count counts the others). progress is as with Each.
func (e *Engine) All(ctx context.Context, documents []*manifest.Document, q Question, progress func(done int)) (results []Result, other int, errs []*manifest.Error, err error) {
	found, wrong := make([]*Result, len(documents)), make([]*manifest.Error, len(documents))
	err = Each(ctx, len(documents), progress, func(i int) bool {
		found[i], wrong[i] = e.Review(ctx, documents[i], q)
		return true
	})
	if err != nil {
		return nil, 0, nil, err
	}
	for i := range documents {
		switch {
		case wrong[i] != nil:
			errs = append(errs, wrong[i])
		case found[i] != nil:
			results = append(results, *found[i])
		case e.State.NotKnown(documents[i]) == "":
			other++
		}
	}
	return results, other, errs, nil
}

// Repeated is an object that is in the input at several places, each of which was judged: a cluster would have only one of them.
type Repeated struct {
	Resource manifest.Resource `json:"resource"`
	Sources  []manifest.Source `json:"sources"`
}

// RepeatedIn finds them among the results, in their order. Recorded requests are about one object as often as it was asked about.
func RepeatedIn(results []Result, documents []*manifest.Document) []Repeated {
	recorded := map[manifest.Source]bool{}
	for _, d := range documents {
		if IsRecorded(d) {
			recorded[manifest.Source{File: d.File, Line: d.Line}] = true
		}
	}
	places := map[manifest.Resource][]manifest.Source{}
	var order []manifest.Resource
	for i := range results {
		r := &results[i]
		if r.Resource.Name == "" || recorded[r.Source] {
			continue
		}
		if places[r.Resource] == nil {
			order = append(order, r.Resource)
		}
		places[r.Resource] = append(places[r.Resource], r.Source)
	}
	var repeated []Repeated
	for _, resource := range order {
		if len(places[resource]) > 1 {
			repeated = append(repeated, Repeated{resource, places[resource]})
		}
	}
	return repeated
}

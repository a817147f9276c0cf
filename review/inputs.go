package review

import (
	"context"
	"runtime"

	"golang.org/x/sync/errgroup"

	"github.com/podgrace/podgrace/manifest"
	"github.com/podgrace/podgrace/review/input"
)

// Inputs are documents that were read, in their order, and what could not be.
type Inputs struct {
	Files     int
	Documents []*manifest.Document
	LeftOut   []input.LeftOut
	Errors    []*manifest.Error
	// Listed are the kinds of which there was a typed list.
	Listed []manifest.Listed
}

// Read reads all documents of the paths.
func Read(r *input.Reader, paths ...string) Inputs {
	var in Inputs
	before, left := r.Files, len(r.LeftOut)
	for d, err := range r.Read(paths...) {
		if err != nil {
			in.Errors = append(in.Errors, err)
		} else {
			in.Documents = append(in.Documents, d)
		}
	}
	in.Files, in.LeftOut = r.Files-before, r.LeftOut[left:]
	in.Listed = r.Listed
	return in
}

// chunk is how many documents a worker takes at once.
const chunk = 64

// All judges documents on all processors. The results are in the documents' order; other counts those that are no business of
// Podgrace's, as far as that is known (State.Count counts the others). progress is told how many were done, from several goroutines; it may be nil.
func (e *Engine) All(ctx context.Context, documents []*manifest.Document, q Question, progress func(done int)) (results []Result, other int, errs []*manifest.Error, err error) {
	found, wrong := make([]*Result, len(documents)), make([]*manifest.Error, len(documents))
	var workers errgroup.Group
	workers.SetLimit(runtime.GOMAXPROCS(0))
	for begin := 0; begin < len(documents); begin += chunk {
		workers.Go(func() error {
			end := min(begin+chunk, len(documents))
			for i := begin; i < end; i++ {
				if err := ctx.Err(); err != nil {
					return err
				}
				found[i], wrong[i] = e.Review(ctx, documents[i], q)
			}
			if progress != nil {
				progress(end - begin)
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
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

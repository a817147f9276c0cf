package main

import (
	"context"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/cli/load"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/cli/scheduling"
	"github.com/podgrace/podgrace/internal/manifest"
)

// place is by what a result and its preview find each other.
type place struct {
	manifest.Resource
	manifest.Source
}

// previewResults tells results where their pods would be scheduled. It does not ask about what policies refuse, nor about recorded requests, which were decided long
// ago; nil asks about nothing. noNodes: it asks about nothing, since there is no Node.
func (p *previewer) previewResults(ctx context.Context, l *load.Loaded, results []review.Result, errs []*manifest.Error, alone bool) (noNodes bool, err error) {
	if p == nil {
		return false, nil
	}
	passed := slices.DeleteFunc(sound(l.Documents, errs), review.IsRecorded)
	sources := map[manifest.Source]bool{}
	for _, d := range passed {
		sources[sourceOf(d)] = true
	}
	asked, refused := map[place][]*review.Result{}, map[place]bool{}
	for i := range results {
		r := &results[i]
		switch {
		case !sources[r.Source]:
		case r.Decision == review.Denied:
			refused[place{manifest.Resource{APIVersion: r.Resource.APIVersion, Kind: r.Resource.Kind, Name: r.Resource.Name}, r.Source}] = true
		default:
			at := place{r.Resource, r.Source}
			at.GenerateName = "" // the preview of another version may leave it out
			asked[at] = append(asked[at], r)
		}
	}
	if len(asked) == 0 {
		return false, nil
	}
	if len(review.Objects[*corev1.Node](l.Engine.State)) == 0 {
		return true, nil
	}
	passed = slices.DeleteFunc(passed, func(d *manifest.Document) bool {
		return d.Template > 0 || refused[place{manifest.Resource{APIVersion: d.APIVersion, Kind: d.Kind, Name: d.Name}, sourceOf(d)}]
	})
	previews, err := p.documents(ctx, passed, l.Listed, alone)
	if err != nil {
		return false, err
	}
	for i := range previews {
		v := &previews[i]
		at := place{manifest.Resource{APIVersion: v.Resource.APIVersion, Kind: v.Resource.Kind, Namespace: v.Resource.Namespace, Name: v.Resource.Name, Template: v.Resource.Template}, v.Source}
		for _, r := range asked[at] {
			tell(r, v)
		}
		delete(asked, at)
	}
	for _, missing := range asked {
		for _, r := range missing {
			r.Unknown = append(r.Unknown, review.PhraseScheduled+"its preview is missing")
		}
	}
	return false, nil
}

// tell a result what its preview says.
func tell(r *review.Result, v *scheduling.Preview) {
	switch v.Outcome {
	case scheduling.Preempts, scheduling.Nowhere:
		reason, message := v.Pending()
		r.Pending = &review.Pending{Reason: reason, Message: message}
	case scheduling.Refused: // by validation that a review does not have
		r.Decision, r.Reason, r.Message = review.Denied, string(metav1.StatusReasonInvalid), v.Why
	case scheduling.Fits, scheduling.Gated:
	default:
		r.Unknown = append(r.Unknown, review.PhraseScheduled+v.Why)
	}
}

func sourceOf(d *manifest.Document) manifest.Source {
	return manifest.Source{File: d.File, Line: d.Line}
}

// sound are the documents in which nothing is wrong: where anything is, podgrace-preview answers nothing. An error may be at a field's line, which is one of its
// document's.
func sound(documents []*manifest.Document, errs []*manifest.Error) []*manifest.Document {
	var left []*manifest.Document
	for i, d := range documents {
		end := math.MaxInt
		if i+1 < len(documents) && documents[i+1].File == d.File && documents[i+1].Line > d.Line {
			end = documents[i+1].Line
		}
		if !slices.ContainsFunc(errs, func(e *manifest.Error) bool { return e.File == d.File && e.Line >= d.Line && e.Line < end }) {
			left = append(left, d)
		}
	}
	return left
}

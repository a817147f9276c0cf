package diff

import (
	"context"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/review"
	"github.com/podgrace/podgrace/internal/manifest"
)

// Comparison is of two sets of policies over one state.
type Comparison struct {
	// From and To judge by the old and by the new policies. They have the same State and Namespace.
	From, To *review.Engine
	// User who is supposed to create, delete and evict. The zero value is nobody in particular.
	User authenticationv1.UserInfo
	// Progress is told how many documents were done, from several goroutines; nil: nobody looks.
	Progress func(done int)
}

// Of judges the documents and compares. What is wrong with a document is in the errors of the Diff, and the others are compared.
func (c *Comparison) Of(ctx context.Context, documents []*manifest.Document) (*Diff, error) {
	items := classify(documents, c.To.Namespace)
	from, to := guarding(c.From), guarding(c.To)
	j := &judge{Comparison: c, items: items, guarded: len(from)+len(to) > 0, removals: !equality.Semantic.DeepEqual(from, to)}
	if err := j.all(ctx, func(i *item) error { return j.decide(ctx, i) }); err != nil {
		return nil, err
	}
	if err := j.all(ctx, func(i *item) error { return j.running(ctx, i) }); err != nil {
		return nil, err
	}
	return j.diff(), nil
}

// judge asks the engines.
type judge struct {
	*Comparison
	items *items
	// guarded: there are sections on removal. removals: they differ. A removal is judged by these sections and by the pod, so that where both
	// are the same nothing need be asked.
	guarded, removals bool
}

// all runs over the items on all processors.
func (j *judge) all(ctx context.Context, do func(*item) error) error {
	return review.Each(ctx, len(j.items.list), j.Progress, func(k int) bool {
		i := j.items.list[k]
		before := i.done
		if err := do(i); err != nil {
			i.wrong, i.done = i.document.Wrong(err), true
		}
		return i.done && !before
	})
}

// decide judges everything but pods that run. For those it keeps what their owner's pods would get.
func (j *judge) decide(ctx context.Context, i *item) error {
	if i.runs {
		return nil
	}
	i.done = true
	if review.IsRecorded(i.document) {
		_, err := j.creation(ctx, i)
		return err
	}
	switch i.document.Kind {
	case "Node", "VolumeAttachment":
		if i.judged = true; !j.removals {
			return nil
		}
		i.resource = manifest.Resource{APIVersion: i.document.APIVersion, Kind: i.document.Kind, Name: i.document.Name}
		return j.remove(ctx, i, pair{i.document, i.document}, &deletion)
	}
	created, err := j.creation(ctx, i)
	if err != nil || created == nil || !j.guarded || len(i.changes) == 0 && !j.removals {
		return err
	}
	return j.remove(ctx, i, *created, &forceDelete, &eviction)
}

// pair is a document for each engine.
type pair struct{ from, to *manifest.Document }

// creation asks for the creation under both. It returns the pods as they would run; nil where there are none.
func (j *judge) creation(ctx context.Context, i *item) (*pair, error) {
	from, to, err := j.both(ctx, pair{i.document, i.document}, review.Question{User: j.User})
	if err != nil || to == nil {
		return nil, j.ownTemplate(ctx, i, err)
	}
	i.resource = to.Resource
	i.judge(from, to)
	i.changes = creationChanges(from, to)
	if review.IsRecorded(i.document) {
		i.request, i.user = strings.TrimSpace(to.Operation+" "+to.Subresource), to.User
	}
	if i.owns {
		i.decided = outcomeOf(to)
	}
	if from.Decision == review.Denied || to.Decision == review.Denied || from.After == nil || to.After == nil {
		return nil, nil
	}
	return &pair{runningPod(i.document, from.After), runningPod(i.document, to.After)}, nil
}

// ownTemplate decides for a ReplicaSet or Job that is made by another workload, which is what is judged, where pods of it run: their
// template is this one, even of an older revision.
func (j *judge) ownTemplate(ctx context.Context, i *item, err error) error {
	if err != nil || !i.owns {
		return err
	}
	alone, err := withoutOwner(i.document)
	if err != nil {
		return err
	}
	r, wrong := j.To.Review(ctx, alone, review.Question{User: j.User})
	if wrong != nil {
		return wrong
	}
	if r != nil {
		i.decided = outcomeOf(r)
	}
	return nil
}

// running judges a pod that runs.
func (j *judge) running(ctx context.Context, i *item) error {
	if !i.runs {
		return nil
	}
	i.done, i.judged = true, true
	i.resource = manifest.Resource{APIVersion: "v1", Kind: "Pod", Namespace: i.namespace, Name: i.document.Name}
	if j.removals {
		if err := j.remove(ctx, i, pair{i.document, i.document}, &forceDelete, &eviction); err != nil {
			return err
		}
	}
	if i.finished {
		return nil
	}
	return j.today(ctx, i)
}

// remove asks for removals under both.
func (j *judge) remove(ctx context.Context, i *item, pods pair, questions ...*removal) error {
	for _, ask := range questions {
		q := ask.question
		q.User = j.User
		from, to, err := j.both(ctx, pods, q)
		if err != nil || to == nil {
			return err
		}
		i.judge(from, to)
		if c := ask.change(from, to); c != nil {
			i.changes = append(i.changes, *c)
		}
	}
	return nil
}

// both answers; nil where the document is none of the engines' business.
func (j *judge) both(ctx context.Context, d pair, q review.Question) (from, to *review.Result, err error) {
	from, wrong := j.From.Review(ctx, d.from, q)
	if wrong == nil {
		to, wrong = j.To.Review(ctx, d.to, q)
	}
	if wrong != nil {
		return nil, nil, wrong
	}
	if from == nil || to == nil {
		return nil, nil, nil
	}
	return from, to, nil
}

// The removals that are asked for.
var (
	forceDelete = removal{
		question: review.Question{Operation: review.OperationDelete, GracePeriodSeconds: new(int64(0))},
		kinds:    map[Verdict]Kind{Denied: ForceDeleteForbidden, WithAWord: ForceDeleteWarned, Allowed: ForceDeleteAllowed},
	}
	eviction = removal{
		question: review.Question{Operation: review.OperationEvict, GracePeriodSeconds: new(int64(0))},
		kinds:    map[Verdict]Kind{Denied: EvictionForbidden, Raised: EvictionRaised, WithAWord: EvictionWarned, Allowed: EvictionAllowed},
	}
	deletion = removal{
		question: review.Question{Operation: review.OperationDelete},
		kinds:    map[Verdict]Kind{Denied: DeleteForbidden, WithAWord: DeleteWarned, Allowed: DeleteAllowed},
	}
)

// guards is what of a policy a removal depends on.
type guards struct {
	Name       string
	Namespaces *v1alpha1.LabelSelector
	Removal    *v1alpha1.RemovalSection
}

// guarding are the sections on removal.
func guarding(e *review.Engine) []guards {
	var all []guards
	for _, p := range e.Policies.Policies() {
		if p.Spec.Removal == nil {
			continue
		}
		g := guards{Name: p.Name, Removal: p.Spec.Removal}
		if p.Spec.Match != nil {
			g.Namespaces = p.Spec.Match.NamespaceSelector
		}
		all = append(all, g)
	}
	return all
}

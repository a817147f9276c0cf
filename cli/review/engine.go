package review

import (
	"cmp"
	"context"
	"fmt"
	"runtime"

	"golang.org/x/sync/errgroup"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// What is asked of a manifest.
const (
	OperationCreate = "CREATE"
	OperationDelete = "DELETE"
	// OperationEvict is the creation of an Eviction of the pod.
	OperationEvict = "EVICT"
)

// OwnNamespace is where Podgrace runs, as far as nobody says anything else.
const OwnNamespace = "podgrace-system"

// Question is what is asked of a manifest: what becomes of it when somebody does something to it. An AdmissionReview asks
// its own.
type Question struct {
	// Operation is one of the Operation constants; empty: OperationCreate.
	Operation string
	// GracePeriodSeconds of the DeleteOptions of a delete or an eviction; nil: none, which leaves the pod its own. 0 is what
	// kubectl delete --force sends.
	GracePeriodSeconds *int64
	// User who asks. The zero value is nobody in particular: a pod of a workload is then created by its controller.
	User authenticationv1.UserInfo
}

// Engine judges documents. It may be used by several goroutines at once.
type Engine struct {
	// Policies in force.
	Policies *webhook.PolicyStore
	// State of the cluster.
	State *State
	// Namespace of objects that name none; empty: default.
	Namespace string
	// Exempt are the namespaces that no policy is for; SetExempt sets it, and what follows from it.
	Exempt policy.Exempt
	// Exceptions that are beside the policies; one of the state that has the name of one of these does not count.
	Exceptions []*v1alpha1.PolicyException
	// NodePolicies that are beside the policies: what they let policies' node sections have is a remark.
	NodePolicies []*v1alpha1.NodePolicy
	// Lean leaves Before and After out of results: for many of them, where nobody looks at the pods.
	Lean bool
	// Authorizer answers what depends on a user's rights; nil: they are unknown.
	Authorizer apiserver.Authorizer
	// Clock tells how long a node has been silent. nil: the real one.
	Clock clock.PassiveClock
	// Unread is what can't be read of the policies, which are in force without it as in a cluster. nil: all of them is in force.
	Unread error

	policies []*v1alpha1.PodPolicy
	rules    rules
}

// rules are what the API server itself does: which requests it asks us about, and which it judges.
type rules struct {
	webhooks *apiserver.Webhooks
	policies *apiserver.Policies
}

// NewEngine returns an engine with these policies. Those of files were checked where they were loaded; of those of a cluster a part may not be read, as where this
// program is older.
func NewEngine(state *State, policies ...*v1alpha1.PodPolicy) (*Engine, error) {
	store, unread, err := webhook.NewStoredPolicies(policies...)
	if err != nil {
		return nil, err
	}
	e := &Engine{Policies: store, Unread: unread, State: state, Namespace: corev1.NamespaceDefault, policies: policies}
	return e, e.SetExempt(policy.ExemptIn(OwnNamespace))
}

// SetExempt has the engine leave these namespaces alone, as a cluster does where they are excluded.
func (e *Engine) SetExempt(exempt policy.Exempt) (err error) {
	var own rules
	inForce := e.Policies.Policies()
	if own.webhooks, err = apiserver.NewWebhooks(inForce, exempt); err != nil {
		return err
	}
	if own.policies, err = apiserver.NewPolicies(inForce, exempt); err != nil {
		return err
	}
	e.Exempt, e.rules = exempt, own
	return nil
}

// Review judges one document. The result is nil for an object that is no pod and makes none, and on which the question is
// none of Podgrace's. The error is about the document.
func (e *Engine) Review(ctx context.Context, d *manifest.Document, q Question) (*Result, *manifest.Error) {
	r := &Result{Source: manifest.Source{File: d.File, Line: d.Line}, Operation: cmp.Or(q.Operation, OperationCreate), User: q.User.Username, Decision: Allowed}
	r.Resource = manifest.Resource{APIVersion: d.APIVersion, Kind: d.Kind, Namespace: d.Namespace, Name: d.Name, GenerateName: d.GenerateName}
	s := &step{Engine: e, view: &view{State: e.State}, question: q, result: r, template: d.Template}
	judged, err := s.judge(ctx, d)
	switch {
	case err != nil:
		return nil, d.Wrong(err)
	case !judged:
		return nil, nil
	}
	return s.done(), nil
}

// judge judges a document; false: it is none of Podgrace's.
func (s *step) judge(ctx context.Context, d *manifest.Document) (bool, error) {
	if d.Kind == "PriorityClass" {
		if o, err := s.State.manifest(d); err != nil {
			return false, err
		} else if c, ok := o.(*schedulingv1.PriorityClass); ok {
			return s.class(c), nil
		}
	}
	req, err := s.ask(ctx, d)
	if req == nil || err != nil {
		return false, err
	}
	return true, s.admit(ctx, req)
}

// ask makes of a document the request that the API server would get: of its object, and what of it the question is about. nil: it is none of
// Podgrace's.
func (s *step) ask(ctx context.Context, d *manifest.Document) (*admission.Request, error) {
	if IsRecorded(d) {
		return s.recorded(d)
	}
	o, err := s.State.manifest(d)
	if o == nil || err != nil {
		return nil, err
	}
	if r := s.result.Operation; r != OperationCreate && r != OperationDelete && r != OperationEvict {
		return nil, fmt.Errorf("operation %q: it is CREATE, DELETE or EVICT", r)
	}
	subject, err := s.subject(ctx, o)
	if subject == nil || err != nil {
		return nil, err
	}
	return s.request(ctx, subject)
}

// step is the judgement of one request.
type step struct {
	*Engine
	view     *view
	question Question
	// creator of a workload's pod, where nobody in particular asks.
	creator authenticationv1.UserInfo
	// template is which of the pod templates of a custom workload.
	template int
	// made is the request for a workload, before that for its pod; nil: nobody refuses it.
	made *admission.Request
	// invalid is what the API server's own validation says of a workload; empty: nothing.
	invalid field.ErrorList
	// later: the pod is created at another time than now, or is there already.
	later bool
	// spread are the constraints that a policy gives.
	spread []corev1.TopologySpreadConstraint
	result *Result
	// pod is result.After, with its matchLabelKeys merged; nil: there is none.
	pod *corev1.Pod
}

// handlers are the webhook's own, over this step's view of the state.
func (s *step) handlers() *webhook.Engine {
	return &webhook.Engine{
		Policies: s.Policies, Lookup: &lookup.Lookup{Informers: s.view, Live: s.view, Nodes: s.State.known(), Partial: s.State.partial(), Exceptions: s.inForce},
		Ready: func() bool { return true }, Exempt: s.Exempt, Clock: s.Clock, Offline: true, Later: s.later,
	}
}

// done completes the result.
func (s *step) done() *Result {
	r := s.result
	s.short()
	r.Unknown = s.unknown()
	for i, what := range r.Unknown {
		if manifest.HasVariable(what) {
			r.Unknown[i] += " " + manifest.VariableHint
		}
	}
	if r.Warnings == nil {
		r.Warnings = []string{}
	}
	if r.Patch == nil {
		r.Patch = []Operation{}
	}
	if r.Policies == nil {
		r.Policies = []string{}
	}
	if s.Lean {
		r.Before, r.After = nil, nil
	}
	return r
}

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

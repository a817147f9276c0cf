package review

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/manifest"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/review/apiserver"
	"github.com/podgrace/podgrace/webhook"
)

// What is asked of a manifest.
const (
	OperationCreate = "CREATE"
	OperationDelete = "DELETE"
	// OperationEvict is the creation of an Eviction of the pod.
	OperationEvict = "EVICT"
)

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
	// OwnNamespace is the one that Podgrace runs in, whose pods are left alone.
	OwnNamespace string
	// Exceptions that are beside the policies; one of the state that has the name of one of these does not count.
	Exceptions []*v1alpha1.PolicyException
	// Lean leaves Before and After out of results: for many of them, where nobody looks at the pods.
	Lean bool
	// Authorizer answers what depends on a user's rights; nil: they are unknown.
	Authorizer apiserver.Authorizer
	// Clock tells how long a node has been silent. nil: the real one.
	Clock clock.PassiveClock

	policies []*v1alpha1.PodPolicy
	rules    rules
}

// rules are what the API server itself does: which requests it asks us about, and which it judges.
type rules struct {
	webhooks *apiserver.Webhooks
	policies *apiserver.Policies
}

// NewEngine returns an engine with these policies, all of which must be valid.
func NewEngine(state *State, policies ...*v1alpha1.PodPolicy) (*Engine, error) {
	store, err := webhook.NewPolicyStore(logr.Discard(), policies...)
	if err != nil {
		return nil, err
	}
	var own rules
	ofAll := store.Policies().RemovalOfAll()
	if own.webhooks, err = apiserver.NewWebhooks(ofAll); err != nil {
		return nil, err
	}
	if own.policies, err = apiserver.NewPolicies(ofAll); err != nil {
		return nil, err
	}
	return &Engine{Policies: store, State: state, Namespace: corev1.NamespaceDefault, OwnNamespace: "podgrace-system", policies: policies, rules: own}, nil
}

// Review judges one document. The result is nil for an object that is no pod and makes none, and on which the question is
// none of Podgrace's. The error is about the document.
func (e *Engine) Review(ctx context.Context, d *manifest.Document, q Question) (*Result, *manifest.Error) {
	if isRecorded(d) {
		return e.recorded(ctx, d)
	}
	o, err := e.State.manifest(d)
	if err != nil {
		return nil, d.Wrong(err)
	}
	if o == nil {
		return nil, nil
	}
	r := &Result{Source: Source{File: d.File, Line: d.Line}, Operation: q.Operation, User: q.User.Username, Decision: Allowed}
	r.Resource = Resource{APIVersion: d.APIVersion, Kind: d.Kind, Namespace: d.Namespace, Name: d.Name}
	if r.Operation == "" {
		r.Operation = OperationCreate
	}
	s := &step{Engine: e, view: &view{State: e.State}, question: q, result: r}
	judged, err := s.object(ctx, o)
	if err != nil {
		return nil, d.Wrong(err)
	}
	if !judged {
		return nil, nil
	}
	return s.done(), nil
}

// step is the judgement of one request.
type step struct {
	*Engine
	view     *view
	question Question
	// creator of a workload's pod, where nobody in particular asks.
	creator authenticationv1.UserInfo
	result  *Result
}

// handlers are the webhook's own, over this step's view of the state.
func (s *step) handlers() *webhook.Engine {
	return &webhook.Engine{
		Policies: s.Policies, Lookup: &webhook.Lookup{Informers: s.view, Live: s.view, Partial: s.State.partial(), Exceptions: s.inForce},
		Ready: func() bool { return true }, Namespace: s.OwnNamespace, Clock: s.Clock, Offline: true,
	}
}

// object answers the question about an object; false: it is none of Podgrace's.
func (s *step) object(ctx context.Context, o client.Object) (bool, error) {
	switch s.result.Operation {
	case OperationCreate:
		return s.creation(ctx, o)
	case OperationDelete, OperationEvict:
		return s.removal(ctx, o)
	}
	return false, fmt.Errorf("operation %q: it is CREATE, DELETE or EVICT", s.result.Operation)
}

// done completes the result.
func (s *step) done() *Result {
	r := s.result
	r.Unknown = s.unknown()
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

// unknown is what was missed and matters: a namespace that no policy selects by does not, nor does anything where a removal is
// allowed, since what is unknown speaks against it.
func (s *step) unknown() []string {
	var matters []string
	if s.result.Operation != OperationCreate && s.result.Decision == Allowed {
		return nil
	}
	for _, what := range s.view.missed {
		switch {
		case strings.HasPrefix(what, "Namespace ") && !s.Policies.Policies().Undecided(policy.Namespace{Name: strings.TrimPrefix(what, "Namespace "), Unknown: true}):
		case what == "Node "+someNode:
			matters = append(matters, "the Node that it runs on")
		default:
			matters = append(matters, what)
		}
	}
	return append(matters, s.unknownForSpread()...)
}

// unknownForSpread is what constraints that a policy gives depend on: their selector on Services, and whether hard ones can be met on Nodes and,
// for minDomains, on what runs there.
func (s *step) unknownForSpread() []string {
	var matters []string
	if s.view.noneOf(&corev1.Service{}) && s.result.Decision == Allowed && s.servicesMatter() {
		matters = append(matters, "Services of Namespace "+s.result.Resource.Namespace)
	}
	i := slices.IndexFunc(s.result.Patch, func(o Operation) bool { return o.Path == "/spec/topologySpreadConstraints" })
	if i < 0 {
		return matters
	}
	var constraints []corev1.TopologySpreadConstraint
	if err := json.Unmarshal(s.result.Patch[i].Value, &constraints); err != nil {
		panic(err) // it was marshalled from these
	}
	hard := func(c corev1.TopologySpreadConstraint) bool { return c.WhenUnsatisfiable == corev1.DoNotSchedule }
	domains := func(c corev1.TopologySpreadConstraint) bool { return hard(c) && c.MinDomains != nil }
	switch {
	case s.view.noneOf(&corev1.Node{}) && slices.ContainsFunc(constraints, hard):
		matters = append(matters, "Nodes")
	case s.view.noneOf(&corev1.Pod{}) && slices.ContainsFunc(constraints, domains):
		matters = append(matters, "Pods of Namespace "+s.result.Resource.Namespace)
	}
	return matters
}

// take adds what a handler answered, and says whether it allows the request.
func (s *step) take(response admission.Response) bool {
	r := s.result
	for _, w := range response.Warnings {
		if !slices.Contains(r.Warnings, w) {
			r.Warnings = append(r.Warnings, w)
		}
	}
	for key, value := range response.AuditAnnotations {
		s.annotate(key, value)
	}
	for _, p := range response.Patches {
		o := Operation{Op: p.Operation, Path: p.Path}
		if p.Operation != "remove" {
			value, err := json.Marshal(p.Value)
			if err != nil {
				panic(err) // it was marshalled by the handler, or is a number
			}
			o.Value = value
		}
		r.Patch = append(r.Patch, o)
	}
	if !response.Allowed {
		s.deny(string(response.Result.Reason), response.Result.Message)
	}
	return response.Allowed
}

// annotate takes one audit annotation. Those about the decision as a whole have fields of their own.
func (s *step) annotate(key, value string) {
	r := s.result
	switch key {
	case "policies":
		for p := range strings.SplitSeq(value, ",") {
			if !slices.Contains(r.Policies, p) {
				r.Policies = append(r.Policies, p)
			}
		}
	case "exceptions":
		r.Exceptions = value
	case "denied", "verdict", "removal":
	case "reason":
		r.Reason = value
	default:
		if r.Why == nil {
			r.Why = map[string]string{}
		}
		r.Why[key] = value
	}
}

func (s *step) deny(reason, message string) {
	s.result.Decision, s.result.Reason, s.result.Message = Denied, reason, message
}

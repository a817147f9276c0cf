package webhook

import (
	"net/http"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/webhook/intake"
)

// The paths that the API server calls.
const (
	PathMutatePods        = "/mutate-pods"
	PathValidatePods      = "/validate-pods"
	PathValidateWorkloads = "/validate-workloads"
	PathValidateRemoval   = "/validate-removal"
	PathOpenRemoval       = "/validate-open-removal"
	PathValidatePolicies  = "/validate-policies"
	PathValidatePodGroups = "/validate-pod-groups"
	PathMutateEvictions   = "/mutate-evictions"
	PathMutateNodes       = "/mutate-nodes"
	PathAnswers           = "/answers"
)

// Handlers by the paths that the API server calls.
func (e *Engine) Handlers() map[string]Handler {
	return map[string]Handler{
		PathMutatePods:        e.MutatePods,
		PathValidatePods:      e.ValidatePods,
		PathValidateWorkloads: e.ValidateWorkloads,
		PathValidateRemoval:   e.ValidateRemoval,
		PathOpenRemoval:       e.ValidateOpenRemoval,
		PathValidatePolicies:  e.ValidatePolicies,
		PathValidatePodGroups: e.ValidatePodGroups,
		PathMutateEvictions:   e.MutateEvictions,
		PathMutateNodes:       e.MutateNodes,
	}
}

// Register puts the handlers on a server.
func (e *Engine) Register(mux interface {
	Register(path string, hook http.Handler)
}) {
	reviews := intake.New(func(path, reason string, uid types.UID) {
		e.Metrics.refuse(path, reason)
		e.Decisions.unread(path, reason, uid)
	})
	for path, handler := range e.Handlers() {
		read := reviews.Handler
		if path == PathMutatePods || path == PathValidatePods {
			read = reviews.PodHandler
		}
		mux.Register(path, read(path, e.Decisions.Logged(path, handler)))
	}
	mux.Register(PathAnswers, reviews.Handler(PathAnswers, admission.HandlerFunc(e.Answers)))
}

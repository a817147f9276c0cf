package webhook

import (
	"net/http"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/api/v1alpha1"
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

// NewScheme returns a scheme with the kinds that the webhook reads and writes. client-go's own scheme has every kind of
// Kubernetes, which takes some MiB in every replica.
func NewScheme() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, schedulingv1.AddToScheme,
		admissionregistrationv1.AddToScheme, authorizationv1.AddToScheme, coordinationv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, storagev1.AddToScheme, v1alpha1.AddToScheme,
	} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}

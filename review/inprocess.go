package review

import (
	"context"
	"fmt"
	"reflect"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/review/apiserver"
)

// asked is a request with what the API server's own code reads besides.
func (s *step) asked(req *admission.Request) apiserver.Request {
	r := apiserver.Request{AdmissionRequest: &req.AdmissionRequest, Authorizer: s.Authorizer}
	var ns corev1.Namespace
	if found, there, _ := s.State.kinds[reflect.TypeOf(&ns)].GetByKey(req.Namespace); there {
		r.Namespace = found.(*corev1.Namespace)
	}
	for _, p := range s.policies {
		r.Params = append(r.Params, p)
	}
	return r
}

// called says which paths the API server would call; false: it refuses the request without a call.
func (s *step) called(ctx context.Context, req *admission.Request, phase func(context.Context, apiserver.Request) (apiserver.Calls, error)) (paths []string, goesOn bool, err error) {
	calls, err := phase(ctx, s.asked(req))
	if err != nil {
		return nil, false, fmt.Errorf("find out what the API server calls: %w", err)
	}
	for _, what := range calls.Unknown {
		s.view.miss(what)
	}
	return calls.Paths, s.allowedInProcess(calls.Denials), nil
}

// inProcess are the ValidatingAdmissionPolicies; false: one refuses.
func (s *step) inProcess(ctx context.Context, req *admission.Request) (bool, error) {
	denials, unknown, err := s.rules.policies.Validate(ctx, s.asked(req))
	if err != nil {
		return false, fmt.Errorf("evaluate the policies that the API server judges itself: %w", err)
	}
	for _, what := range unknown {
		s.view.miss(what)
	}
	return s.allowedInProcess(denials), nil
}

// allowedInProcess tells the first refusal, as the API server does.
func (s *step) allowedInProcess(denials []apiserver.Denial) bool {
	if len(denials) == 0 {
		return true
	}
	s.deny(string(denials[0].Reason), denials[0].Message)
	return false
}

// workload judges a workload itself, which only the API server's own policies refuse.
func (s *step) workload(ctx context.Context, set *appsv1.StatefulSet) (bool, error) {
	set = set.DeepCopy()
	if set.Namespace == "" {
		set.Namespace = s.Namespace
	}
	apiserver.Default(set)
	req, err := s.objectRequest(set, admissionv1.Create)
	if err != nil {
		return false, err
	}
	s.result.Resource.Namespace = set.Namespace
	return s.inProcess(ctx, req)
}

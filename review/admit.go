package review

import (
	"context"
	"fmt"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/webhook"
)

// notJudged is the reason of a request that no rule of Podgrace's is for: the API server would not ask.
const notJudged = "NotJudged"

// admit takes a request through what the API server would do with it, in its order: the mutating webhooks, the policies that it
// judges itself, the validating webhooks.
func (s *step) admit(ctx context.Context, req *admission.Request) error {
	handlers := s.handlers()
	asked, goesOn, err := s.change(ctx, handlers, req)
	if err != nil || !goesOn {
		return err
	}
	if allowed, err := s.inProcess(ctx, req); err != nil || !allowed {
		return err
	}
	paths, goesOn, err := s.called(ctx, req, s.rules.webhooks.Validating)
	if err != nil || !goesOn {
		return err
	}
	if len(paths) == 0 && !asked {
		s.result.Reason = notJudged
	}
	for _, path := range paths {
		handle := map[string]admission.HandlerFunc{
			webhook.PathValidatePods: handlers.ValidatePods, webhook.PathValidateWorkloads: handlers.ValidateWorkloads, webhook.PathValidateRemoval: handlers.ValidateRemoval,
			webhook.PathValidatePolicies: handlers.ValidatePolicies, webhook.PathValidatePodGroups: handlers.ValidatePodGroups,
		}[path]
		if handle == nil {
			return fmt.Errorf("the API server calls %s, which is no handler here", path)
		}
		if !s.take(handle(ctx, *req)) {
			return nil
		}
	}
	return nil
}

func createsPod(req *admission.Request) bool {
	return req.Operation == admissionv1.Create && req.SubResource == "" && req.Kind.Group == "" && req.Kind.Kind == "Pod"
}

// pastWebhook does to a pod that the API server does not ask about, as one of kube-system, what it does to every pod; false: it refuses it.
func (s *step) pastWebhook(req *admission.Request, called []string) (bool, error) {
	if slices.Contains(called, webhook.PathMutatePods) || !createsPod(req) {
		return true, nil
	}
	pod, err := decodePod(req.Object.Raw)
	if err != nil {
		return false, err
	}
	if goesOn, err := s.resolvePriority(req, pod, s.State.classes()); err != nil || !goesOn {
		return false, err
	}
	s.result.Before, s.result.After = req.Object.Raw, req.Object.Raw
	return true, mergeKeys(req)
}

// change is the mutating phase. asked: a webhook was called; goesOn: nobody refused.
func (s *step) change(ctx context.Context, handlers *webhook.Engine, req *admission.Request) (asked, goesOn bool, err error) {
	paths, goesOn, err := s.called(ctx, req, s.rules.webhooks.Mutating)
	if err != nil || !goesOn {
		return false, false, err
	}
	if goesOn, err := s.pastWebhook(req, paths); err != nil || !goesOn {
		return false, false, err
	}
	for _, path := range paths {
		switch path {
		case webhook.PathMutatePods:
			if goesOn, err := s.mutate(ctx, handlers, req); err != nil || !goesOn {
				return true, false, err
			}
			s.result.After = req.Object.Raw
			if err := mergeKeys(req); err != nil {
				return true, false, err
			}
		case webhook.PathMutateEvictions, webhook.PathMutateNodes:
			mutate := handlers.MutateEvictions
			if path == webhook.PathMutateNodes {
				mutate = handlers.MutateNodes
			}
			response := mutate(ctx, *req)
			if !s.take(response) {
				return true, false, nil
			}
			if req.Object.Raw, err = patched(req.Object.Raw, response); err != nil {
				return true, false, err
			}
		default:
			return true, false, fmt.Errorf("the API server calls %s, which is no handler here", path)
		}
	}
	return len(paths) > 0, true, nil
}

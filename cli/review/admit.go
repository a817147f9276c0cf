package review

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	evanphx "github.com/evanphx/json-patch/v5"
	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/webhook"
)

// notJudged is the reason of a request that no rule of Podgrace's is for: the API server would not ask.
const notJudged = "NotJudged"

// admit takes a request through what the API server would do with it, in its order: the mutating webhooks, the policies that it
// judges itself, the validating webhooks. That for a pod of a StatefulSet comes after that for the StatefulSet.
func (s *step) admit(ctx context.Context, req *admission.Request) error {
	if goesOn, err := s.admitWorkload(ctx); err != nil || !goesOn {
		s.result.Via = "" // it is refused itself
		return err
	}
	handlers := s.handlers().Handlers()
	asked, goesOn, err := s.mutating(ctx, handlers, req)
	if err != nil || !goesOn {
		return err
	}
	if goesOn, err := s.validated(ctx, req); err != nil || !goesOn {
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
		if _, goesOn, err := s.call(ctx, handlers, path, req); err != nil || !goesOn {
			return err
		}
	}
	return nil
}

// admitWorkload is what comes before the pod of a workload is made; false: the workload is refused.
func (s *step) admitWorkload(ctx context.Context) (goesOn bool, err error) {
	switch {
	case s.refuseInvalid(s.invalid):
		return false, nil
	case s.made == nil:
		return true, nil
	}
	return s.inProcess(ctx, s.made)
}

// validated is the API server's own validation, of a pod that is created, and the policies that it judges itself; false: one refuses.
func (s *step) validated(ctx context.Context, req *admission.Request) (bool, error) {
	if s.pod != nil && createsPod(req) && s.refuseInvalid(apiserver.ValidatePodSpec(&s.pod.Spec, field.NewPath("spec"))) {
		return false, nil
	}
	return s.inProcess(ctx, req)
}

// refuseInvalid refuses what the API server's validation does, and reports whether it does.
func (s *step) refuseInvalid(errs field.ErrorList) bool {
	message := s.invalidity(errs)
	if message != "" {
		s.deny(string(metav1.StatusReasonInvalid), message)
	}
	return message != ""
}

// invalidity is the refusal of the API server's validation, with a way out if one is known; empty: it refuses nothing.
func (s *step) invalidity(errs field.ErrorList) string {
	errs = slices.DeleteFunc(errs, func(e *field.Error) bool {
		value, ok := e.BadValue.(string)
		return ok && manifest.HasVariable(value) // what it is then is not known
	})
	if len(errs) == 0 {
		return ""
	}
	message := "the API server refuses it: " + errs.ToAggregate().Error()
	if slices.ContainsFunc(errs, func(e *field.Error) bool {
		seconds, ok := e.BadValue.(int64)
		return ok && seconds > 0 && strings.Contains(e.Field, "template.") && strings.HasSuffix(e.Field, ".sleep")
	}) {
		message += ". Raise terminationGracePeriodSeconds of the template: policies raise that of a pod, and the API server validates the template before there is a pod"
	}
	return message + s.offer(errs)
}

// offer names the class that may be meant by a name that is none.
func (s *step) offer(errs field.ErrorList) string {
	for _, e := range errs {
		if name, ok := e.BadValue.(string); ok && strings.HasSuffix(e.Field, ".priorityClassName") {
			return isIt(name, s.State.classes())
		}
	}
	return ""
}

// call puts a request to the webhook's own handler of a path, as the API server would, and applies the patch of its answer. changed: it has one;
// goesOn: it does not refuse.
func (s *step) call(ctx context.Context, handlers map[string]webhook.Handler, path string, req *admission.Request) (changed, goesOn bool, err error) {
	handle := handlers[path]
	if handle == nil {
		return false, false, fmt.Errorf("the API server calls %s, which is no handler here", path)
	}
	d, err := handle(ctx, *req)
	answer := webhook.Answer(d, err)
	s.take(d, answer)
	if !answer.Allowed || len(answer.Patches) == 0 {
		return false, answer.Allowed, nil
	}
	req.Object.Raw, err = patched(req.Object.Raw, answer.Patches)
	return true, err == nil, err
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
	s.result.Before, s.result.After, s.pod = req.Object.Raw, req.Object.Raw, pod
	return true, mergeKeys(req, pod)
}

// mutating is the mutating phase. asked: a webhook was called; goesOn: nobody refused.
func (s *step) mutating(ctx context.Context, handlers map[string]webhook.Handler, req *admission.Request) (asked, goesOn bool, err error) {
	paths, goesOn, err := s.called(ctx, req, s.rules.webhooks.Mutating)
	if err != nil || !goesOn {
		return false, false, err
	}
	if goesOn, err := s.pastWebhook(req, paths); err != nil || !goesOn {
		return false, false, err
	}
	for _, path := range paths {
		if path != webhook.PathMutatePods {
			_, goesOn, err = s.call(ctx, handlers, path, req)
		} else {
			goesOn, err = s.mutate(ctx, handlers, req)
		}
		if err != nil || !goesOn {
			return true, false, err
		}
	}
	return len(paths) > 0, true, nil
}

// mutate is the API server's mutating phase for a pod: the in-tree Priority plugin, the webhook, and both again where the
// webhook changed something (k8s.io/apiserver/pkg/admission/reinvocation.go, 0.36.3); then its strategy. It changes the request's object, and
// returns false where the pod is refused.
func (s *step) mutate(ctx context.Context, handlers map[string]webhook.Handler, req *admission.Request) (bool, error) {
	pod, err := decodePod(req.Object.Raw)
	if err != nil {
		return false, err
	}
	for pass := range 2 {
		classes := s.State.classes()
		if goesOn, err := s.resolvePriority(req, pod, classes); err != nil || !goesOn {
			return false, err
		}
		if pass == 0 {
			s.result.Before = req.Object.Raw
		}
		changed, goesOn, err := s.call(ctx, handlers, webhook.PathMutatePods, req)
		s.missClasses(pod, classes)
		if err != nil || !goesOn {
			return false, err
		}
		if !changed {
			break
		}
		if pod, err = decodePod(req.Object.Raw); err != nil {
			return false, err
		}
	}
	s.result.After, s.pod = req.Object.Raw, pod
	return true, mergeKeys(req, pod)
}

// resolvePriority is the in-tree Priority plugin; false: it refuses the pod.
func (s *step) resolvePriority(req *admission.Request, pod *corev1.Pod, classes defaulting.Facts) (goesOn bool, err error) {
	if err := defaulting.ResolvePriority(pod, classes); err != nil {
		message := "the API server's own Priority plugin refuses it: " + err.Error()
		s.deny(defaulting.PriorityRefused.Code, message+isIt(pod.Spec.PriorityClassName, classes))
		return false, nil
	}
	req.Object.Raw, err = encodePod(pod)
	return err == nil, err
}

// missClasses notes the PriorityClasses that are not known: the pod's own, or else those that its policies give. A name that no object can
// have is not missed, unless it has a variable: the API server refuses the pod, whatever the cluster has.
func (s *step) missClasses(pod *corev1.Pod, known defaulting.Facts) {
	miss := func(name string) {
		if _, ok := known.PriorityClasses[name]; !ok && known.Partial && (len(validation.IsDNS1123Subdomain(name)) == 0 || manifest.HasVariable(name)) {
			what := "PriorityClass " + name
			if near := nearest(name, known); near != "" {
				what += " (is it " + near + "?)"
			}
			s.view.miss(what)
		}
	}
	miss(pod.Spec.PriorityClassName)
	for _, p := range s.policies {
		if pod.Spec.PriorityClassName == "" && p.Spec.Priority != nil && slices.Contains(s.result.Policies, p.Name) {
			miss(p.Spec.Priority.ClassName)
		}
	}
}

func isIt(name string, known defaulting.Facts) string {
	if near := nearest(name, known); near != "" {
		return "; is it " + near + "?"
	}
	return ""
}

// nearest is the PriorityClass whose name differs from one that does not exist by upper and lower case or by one slip; empty: there is none.
func nearest(name string, known defaulting.Facts) string {
	if _, there := known.PriorityClasses[name]; there || name == "" {
		return ""
	}
	for _, class := range slices.Sorted(maps.Keys(known.PriorityClasses)) {
		if strings.EqualFold(class, name) || oneSlip(class, name) {
			return class
		}
	}
	return ""
}

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

// mergeKeys does what the API server does between the mutating and the validating webhooks. pod is the request's.
func mergeKeys(req *admission.Request, pod *corev1.Pod) (err error) {
	if apiserver.MergeMatchLabelKeys(pod) {
		req.Object.Raw, err = encodePod(pod)
	}
	return err
}

func encodePod(pod *corev1.Pod) ([]byte, error) {
	pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	raw, err := json.Marshal(pod)
	if err != nil {
		return nil, fmt.Errorf("encode the pod: %w", err)
	}
	return raw, nil
}

func decodePod(raw []byte) (*corev1.Pod, error) {
	var pod corev1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		return nil, fmt.Errorf("decode the pod: %w", err)
	}
	return &pod, nil
}

// patched applies an answer as the API server does.
func patched(raw []byte, operations []jsonpatch.Operation) ([]byte, error) {
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("encode the patch: %w", err)
	}
	patch, err := evanphx.DecodePatch(text)
	if err != nil {
		return nil, fmt.Errorf("decode the patch: %w", err)
	}
	if raw, err = patch.Apply(raw); err != nil {
		return nil, fmt.Errorf("apply the patch: %w", err)
	}
	return raw, nil
}

// take adds what a handler decided; what reaches the user and the object is read from its answer.
func (s *step) take(d webhook.Decision, answer admission.Response) {
	r := s.result
	for _, w := range answer.Warnings {
		if !slices.Contains(r.Warnings, w) {
			r.Warnings = append(r.Warnings, w)
		}
	}
	for _, p := range d.Policies {
		if !slices.Contains(r.Policies, p) {
			r.Policies = append(r.Policies, p)
		}
	}
	if len(d.Exceptions) > 0 {
		r.Exceptions = defaulting.AuditOf(d.Exceptions)
	}
	if d.Removal != nil {
		r.Reason = d.Removal.Reason.Code
	}
	for i, c := range d.Changes {
		if c.Why != "" { // it follows from a policy
			if r.Why == nil {
				r.Why = map[string]string{}
			}
			change := Change{Path: c.Path, Name: c.Name(), Value: c.Text(), Why: c.Why}
			r.Changes = append(r.Changes, change)
			r.Why[change.Name] = change.Value + " (" + change.Why + ")"
		}
		if !answer.Allowed {
			continue
		}
		o := Operation{Op: string(c.Operation), Path: c.Path}
		o.Value, _ = answer.Patches[i].Value.(json.RawMessage)
		r.Patch = append(r.Patch, o)
		if constraints, ok := c.Value.([]corev1.TopologySpreadConstraint); ok {
			s.spread = constraints
		}
	}
	if !answer.Allowed {
		s.deny(string(answer.Result.Reason), answer.Result.Message)
	}
}

func (s *step) deny(reason, message string) {
	s.result.Decision, s.result.Reason, s.result.Message = Denied, reason, message
}

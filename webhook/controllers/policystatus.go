package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/internal/kube"
	"github.com/podgrace/podgrace/policy"
	"github.com/podgrace/podgrace/webhook/lookup"
)

// statusOwner is the field manager of the status of PodPolicies and PolicyExceptions.
const statusOwner = client.FieldOwner("podgrace-status")

// PolicyStatus reports in the status of each PodPolicy whether it can be applied. The leader runs it.
type PolicyStatus struct {
	Client client.Client
	Lookup *lookup.Lookup
	// Live reads policies with all their fields, also those of a later version's CustomResourceDefinition. nil: they are not looked for.
	Live client.Reader
	// Nodes reads those of the cluster, as CacheOptions keep them. nil: where a policy's node section holds is not said.
	Nodes client.Reader
	// Exempt are the namespaces that no policy is for.
	Exempt policy.Exempt
	// Guard returns the state of the removal guard for a policy.
	Guard func(types.UID) GuardState
	// Limits returns what the API server judges by itself of a policy at a generation (Limits.Condition). nil: nothing is said of it.
	Limits func(policy types.UID, generation int64) (condition *metav1.Condition, known bool)
}

// SetUp adds the controller to the manager. What is said of one policy depends on the others (equal weights) and on the
// PriorityClasses, so that every event of either is about all policies.
func (s *PolicyStatus) SetUp(mgr ctrl.Manager) error {
	all := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Name: "all"}}}
	})
	err := ctrl.NewControllerManagedBy(mgr).Named("podpolicy-status").WithOptions(controller.Options{RateLimiter: kube.Retries()}).
		Watches(&v1alpha1.PodPolicy{}, all).
		Watches(&schedulingv1.PriorityClass{}, all).
		Watches(&v1alpha1.NodePolicy{}, all).
		Watches(&rbacv1.Role{}, all). // by which policies are in force
		Watches(&admissionregistrationv1.ValidatingAdmissionPolicy{}, all).
		Complete(s)
	if err != nil {
		return fmt.Errorf("set up the status controller: %w", err)
	}
	return nil
}

// Reconcile writes the status of every policy where it is stale.
func (s *PolicyStatus) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	var list v1alpha1.PodPolicyList
	if err := s.Client.List(ctx, &list); err != nil {
		return reconcile.Result{}, fmt.Errorf("list PodPolicies: %w", err)
	}
	if s.Live != nil && slices.ContainsFunc(list.Items, saidUnread) {
		if err := s.Live.List(ctx, &list); err != nil {
			return reconcile.Result{}, fmt.Errorf("list PodPolicies live: %w", err)
		}
	}
	facts, err := s.Lookup.Facts(ctx, defaulting.Needs{}, "", nil)
	if err != nil {
		return reconcile.Result{}, err
	}
	unknown, err := s.unknownFields(ctx)
	if err != nil {
		return reconcile.Result{}, err
	}
	statuses := s.statuses(list.Items, facts)
	again, err := s.tellEnforced(ctx, list.Items, statuses)
	errs := []error{err} // of nodes; the rest is told all the same
	for i, status := range statuses {
		if !s.tellCompiled(&list.Items[i], &status) {
			again = sooner(again, time.Second)
		}
		if after := lookAgain(&status); after > 0 {
			again = sooner(again, after)
		}
		for _, field := range unknown[list.Items[i].UID] {
			status.Warnings = append(status.Warnings, fmt.Sprintf("this version of Podgrace does not know %s, so that it has no effect", field))
		}
		if p := &list.Items[i]; !equality.Semantic.DeepEqual(p.Status, status) {
			errs = append(errs, s.write(ctx, p, status))
		}
	}
	return reconcile.Result{RequeueAfter: again}, errors.Join(errs...)
}

// saidUnread reports whether a policy's status tells already of fields that are not read. The API server may have changed its mind since, without an event: an informer's
// watch that began under another definition goes on under that, and is resumed, not begun again. What is written then of the policy, read live, is an event for
// the informers of all replicas.
func saidUnread(p v1alpha1.PodPolicy) bool {
	ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
	return ready != nil && ready.Reason == v1alpha1.ReasonFieldsUnread
}

// lookAgain is when to look again at a policy; 0: at the next event. No event follows what Arming finds: it sees at the same time as we do that the guard is switched on again, and may
// be later. Nor does one follow where the API server reads more of a policy (saidUnread).
func lookAgain(status *v1alpha1.PodPolicyStatus) time.Duration {
	if c := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionCompiled); c != nil && c.Reason == v1alpha1.ReasonLimitsWaiting {
		return time.Second
	}
	switch meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionReady).Reason {
	case v1alpha1.ReasonGuardWaiting:
		return time.Second
	case v1alpha1.ReasonGuardOff, v1alpha1.ReasonFieldsUnread:
		return 5 * time.Second
	}
	return 0
}

// tellCompiled sets the condition Compiled in a status. It returns false where it is not known yet.
func (s *PolicyStatus) tellCompiled(p *v1alpha1.PodPolicy, status *v1alpha1.PodPolicyStatus) bool {
	if s.Limits == nil {
		return true
	}
	condition, known := s.Limits(p.UID, p.Generation)
	if known {
		setCompiled(status, condition)
	}
	return known
}

// unknownFields are fields of stored policies that this version does not know, and would ignore silently.
func (s *PolicyStatus) unknownFields(ctx context.Context) (map[types.UID][]string, error) {
	if s.Live == nil {
		return nil, nil
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodPolicyList"))
	if err := s.Live.List(ctx, list); err != nil {
		return nil, fmt.Errorf("list PodPolicies with all their fields: %w", err)
	}
	all := map[types.UID][]string{}
	for i := range list.Items {
		all[list.Items[i].GetUID()] = unknownFieldsOf(&list.Items[i])
	}
	return all, nil
}

// unknownFieldsOf a policy are paths such as spec.gracePeriod.newSeconds, sorted. What can't be decoded at all is not said here.
func unknownFieldsOf(policy *unstructured.Unstructured) []string {
	text, err := policy.MarshalJSON()
	if err != nil {
		return nil
	}
	strict, err := json.UnmarshalStrict(text, &v1alpha1.PodPolicy{})
	if err != nil {
		return nil
	}
	var paths []string
	for _, e := range strict {
		if field, ok := errors.AsType[json.FieldError](e); ok {
			paths = append(paths, field.FieldPath())
		}
	}
	slices.Sort(paths)
	return paths
}

// statuses returns what the status of each policy should be.
func (s *PolicyStatus) statuses(policies []v1alpha1.PodPolicy, facts defaulting.Facts) []v1alpha1.PodPolicyStatus {
	compiled := make([]*policy.Policy, len(policies))
	wrong := make([]error, len(policies))
	for i := range policies {
		compiled[i], wrong[i] = policy.Compile(&policies[i])
	}
	inForce := policy.Sort(slices.Clone(compiled))
	all := make([]v1alpha1.PodPolicyStatus, len(policies))
	for i := range policies {
		all[i] = statusOf(&policies[i], compiled[i], wrong[i], inForce, s.Exempt, facts, s.Guard(policies[i].UID))
	}
	return all
}

func statusOf(p *v1alpha1.PodPolicy, compiled *policy.Policy, wrong error, inForce policy.Policies, exempt policy.Exempt, facts defaulting.Facts, state GuardState) v1alpha1.PodPolicyStatus {
	status := *p.Status.DeepCopy()
	status.ObservedGeneration = p.Generation
	status.Summary = policy.Summary(&p.Spec)
	status.Warnings = nil
	ready := metav1.Condition{Type: v1alpha1.ConditionReady, ObservedGeneration: p.Generation, Status: metav1.ConditionTrue, Reason: v1alpha1.ReasonValid, Message: "in force"}
	problems := notInForce(compiled, state)
	if wrong != nil {
		reason := v1alpha1.ReasonInvalidSpec
		if len(policy.UnreadFields(p)) > 0 {
			reason = v1alpha1.ReasonFieldsUnread
		}
		problems = append(problems, policy.Problem{Reason: reason, Message: compiled.InForce() + ": " + wrong.Error()})
	} else {
		status.Warnings = compiled.Remarks(inForce, exempt)
		problems = append(problems, compiled.Problems(facts.PriorityClasses)...)
	}
	if len(problems) > 0 {
		messages := make([]string, len(problems))
		for i, problem := range problems {
			messages[i] = problem.Message
		}
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, problems[0].Reason, strings.Join(messages, "; ")
	}
	meta.SetStatusCondition(&status.Conditions, ready)
	return status
}

// notInForce returns the problem of a policy that the API server does not ask the webhook about.
func notInForce(p *policy.Policy, state GuardState) []policy.Problem {
	switch state {
	case GuardWaiting, GuardIdle: // which has not seen it yet
		return []policy.Problem{{Reason: v1alpha1.ReasonGuardWaiting, Message: "it is not in force yet: no replica of the webhook has answered the API server"}}
	case GuardSwitchedOff:
		if (policy.Policies{p}).RemovalOfAll().Guards() {
			return []policy.Problem{{Reason: v1alpha1.ReasonGuardOff, Message: "its removal section is not in force: the guard is switched off, by annotation " + AnnotationGuard + " of Role " + InForce}}
		}
	case GuardArmed:
	}
	return nil
}

func (s *PolicyStatus) write(ctx context.Context, p *v1alpha1.PodPolicy, status v1alpha1.PodPolicyStatus) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&status)
	if err != nil {
		return fmt.Errorf("status of PodPolicy %s: %w", p.Name, err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"status": content}}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PodPolicy"))
	u.SetName(p.Name)
	u.SetUID(p.UID) // a policy that was deleted and made again is another one
	err = s.Client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(u), statusOwner, client.ForceOwnership)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write the status of PodPolicy %s: %w", p.Name, err)
	}
	return nil
}

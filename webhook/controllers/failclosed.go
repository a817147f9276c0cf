package controllers

import (
	"context"
	"fmt"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The entries that hold limits. They fail open, unless who installs chooses otherwise (deploy/components/limits-fail-closed, limits.failurePolicy of the chart).
const (
	podsValidate      = "pods.validate.podgrace.dev"
	podGroupsValidate = "pod-groups.validate.podgrace.dev"
)

// The match conditions that they get where they fail closed, as deploy/components/limits-fail-closed and the chart have them (podgrace.answers in its _helpers.tpl): pods of control planes go
// on, and everything does before they are armed (ResourceClosedLimits), or once nobody holds them any more.
const (
	armedCondition       = "armed"
	armed                = "authorizer.serviceAccount('podgrace-system', 'podgrace-in-force').group('podgrace.dev').resource('closedlimits').namespace('podgrace-system').check('judge').allowed()"
	noMirrorPodCondition = "no-mirror-pod"
	noMirrorPod          = "!('kubernetes.io/config.mirror' in object.metadata.?annotations.orValue({}) && 'system:nodes' in request.userInfo.?groups.orValue([]))"
)

// InForceCondition is the match condition of entries that fail open by which the API server asks nothing without a policy.
const InForceCondition = "in-force"

// LimitsClosed are the match conditions that an entry has in place of InForceCondition if limits fail closed, in the namespace that the webhook runs in; none: it holds no limits.
func LimitsClosed(entry, namespace string) (all []admissionregistrationv1.MatchCondition) {
	if entry == podsValidate {
		all = append(all, admissionregistrationv1.MatchCondition{Name: noMirrorPodCondition, Expression: noMirrorPod})
	}
	if holdsLimits(entry) {
		all = append(all, admissionregistrationv1.MatchCondition{Name: armedCondition, Expression: strings.ReplaceAll(armed, manifestNamespace, namespace)})
	}
	return all
}

// holdsLimits reports whether an entry is one that may fail closed for the limits.
func holdsLimits(name string) bool { return name == podsValidate || name == podGroupsValidate }

// LimitsFailClosed reads whether the API server refuses pods about which no replica answers, once that is armed (ResourceClosedLimits): it is chosen at the installation.
func LimitsFailClosed(ctx context.Context, live client.Reader) (bool, error) {
	var configuration admissionregistrationv1.ValidatingWebhookConfiguration
	if err := live.Get(ctx, types.NamespacedName{Name: ConfigurationName}, &configuration); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read whether the limits fail closed: %w", err)
	}
	for _, w := range configuration.Webhooks {
		if holdsLimits(w.Name) && (w.FailurePolicy == nil || *w.FailurePolicy == admissionregistrationv1.Fail) {
			return true, nil
		}
	}
	return false, nil
}

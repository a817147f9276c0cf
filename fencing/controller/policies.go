package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing"
)

// policies are the FencePolicies, made ready and as they are stored.
func (f *Fencer) policies(ctx context.Context) (fencing.Policies, []v1alpha1.FencePolicy, error) {
	var list v1alpha1.FencePolicyList
	if err := f.Cache.List(ctx, &list); err != nil {
		return nil, nil, fmt.Errorf("list FencePolicies: %w", err)
	}
	policies := fencing.CompilePolicies(list.Items)
	if !policies.Unread() {
		return policies, list.Items, nil
	}
	// The informer's watch may have begun under an older definition, and goes on under that. Where the API server does not answer they stay paused.
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	var live v1alpha1.FencePolicyList
	if err := f.Live.List(ctx, &live); err != nil {
		return policies, list.Items, nil //nolint:nilerr // their status says so, and what else is read live fails the round
	}
	return fencing.CompilePolicies(live.Items), live.Items, nil
}

// policyStatus writes what has changed in the status of FencePolicies.
func (f *Fencer) policyStatus(ctx context.Context, policies fencing.Policies, stored []v1alpha1.FencePolicy, facts fencing.Facts) error {
	ready := fencing.ReadinessOf(policies, facts)
	var errs []error
	for i := range stored {
		p := &stored[i]
		status := p.Status.DeepCopy()
		status.ObservedGeneration = p.Generation
		set := func(kind string, is bool, reason, message string) {
			value := metav1.ConditionFalse
			if is {
				value = metav1.ConditionTrue
			}
			meta.SetStatusCondition(&status.Conditions, metav1.Condition{Type: kind, Status: value, Reason: reason, Message: message, ObservedGeneration: p.Generation})
		}
		r := ready[p.Name]
		set(fencing.ConditionReady, r.Ready, r.Reason, r.Message)
		last, stormed := facts.Storms[p.Name]
		if cooling := stormed && facts.Now.Led-last < p.Spec.Budget.Cooldown.Duration; cooling {
			set(fencing.ConditionCoolingDown, true, "TooManyUnhealthy", "more nodes were unhealthy than its budget allows: it begins no fence until they were not for "+p.Spec.Budget.Cooldown.Duration.String())
		} else {
			set(fencing.ConditionCoolingDown, false, "Calm", "no more nodes are unhealthy than its budget allows")
		}
		if equality.Semantic.DeepEqual(*status, p.Status) {
			continue
		}
		body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID}, "status": status})
		if err == nil {
			err = f.Client.Status().Patch(ctx, &v1alpha1.FencePolicy{ObjectMeta: metav1.ObjectMeta{Name: p.Name}}, client.RawPatch(types.MergePatchType, body))
		}
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("write the status of FencePolicy %s: %w", p.Name, err))
		}
	}
	return errors.Join(errs...)
}

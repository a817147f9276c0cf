package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/fencing"
)

// patchesPerSecond is how many conditions of pods are written, so that a zone that falls silent brings the API server no more than that. What there is no room for
// the next round says again.
const (
	patchesPerSecond = 10
	patchesBurst     = 50
)

type patchLimit struct {
	limiter *rate.Limiter
	clock   clock.PassiveClock
}

func newPatchLimit(c clock.PassiveClock) *patchLimit {
	return &patchLimit{limiter: rate.NewLimiter(patchesPerSecond, patchesBurst), clock: c}
}

func (l *patchLimit) allow() bool { return l.limiter.AllowN(l.clock.Now(), 1) }

// condition writes the conditions podgrace.dev/Partitioned.
func (f *Fencer) condition(ctx context.Context, conditions []fencing.Condition, facts fencing.Facts) error {
	var errs []error
	for _, c := range conditions {
		n := &facts.Nodes[c.Node]
		now := metav1.NewTime(f.Clock.Now().Truncate(time.Second))
		if c.OnNode {
			changed := now
			if n.Partitioned != nil && n.Partitioned.Status == c.Status {
				changed = n.Partitioned.LastTransitionTime
			}
			o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name}}
			err := f.patchCondition(ctx, o, n.UID, corev1.NodeCondition{
				Type: fencing.ConditionPartitioned, Status: c.Status, Reason: c.Reason, Message: c.Message, LastHeartbeatTime: now, LastTransitionTime: changed,
			})
			if err != nil {
				errs = append(errs, fmt.Errorf("write condition %s of node %s: %w", fencing.ConditionPartitioned, n.Name, err))
			}
		}
		for _, i := range c.Pods {
			if !f.limits.allow() {
				break
			}
			p := &n.Pods[i]
			changed := now
			if p.Partitioned != nil && p.Partitioned.Status == c.Status {
				changed = p.Partitioned.LastTransitionTime
			}
			o := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}
			err := f.patchCondition(ctx, o, p.UID, corev1.PodCondition{
				Type: fencing.ConditionPartitioned, Status: c.Status, Reason: c.Reason, Message: c.Message, LastTransitionTime: changed,
			})
			if err != nil {
				errs = append(errs, fmt.Errorf("write condition %s of pod %s/%s: %w", fencing.ConditionPartitioned, p.Namespace, p.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// patchCondition merges one condition, by its type, into the status of an object that has this UID.
func (f *Fencer) patchCondition(ctx context.Context, o client.Object, uid types.UID, condition any) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": uid}, "status": map[string]any{"conditions": []any{condition}}})
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	err = f.Client.Status().Patch(ctx, o, client.RawPatch(types.StrategicMergePatchType, body))
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // it is gone, or another one has its name
		return nil
	}
	return err
}

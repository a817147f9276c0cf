package nodeenforcer

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/status"
)

// leaving removes the enforcer's taint and conditions from its Node when the enforcer ends and its DaemonSet brings no other one to the node. After an update or a
// restart the next enforcer goes on with them.
type leaving struct {
	sets interface {
		DaemonSet(ctx context.Context, key types.NamespacedName) (*state.DaemonSet, error)
	}
	node      *status.Writer
	daemonSet types.NamespacedName
	log       logr.Logger
}

// leaveTimeout is for all of it: the kubelet kills the pod terminationGracePeriodSeconds after the stop signal.
const leaveTimeout = 5 * time.Second

// leave is called once nothing else writes to the Node any more.
func (l *leaving) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	why, err := l.why(ctx)
	if err != nil {
		l.log.Error(err, "cannot find out whether the node enforcer is being uninstalled, leaving the Node's conditions and taint; podgrace doctor finds them if it is", "daemonSet", l.daemonSet.String())
		return
	}
	if why == "" {
		return
	}
	if err := l.node.Remove(ctx); err != nil {
		l.log.Error(err, "failed to remove the Node's conditions and taint; podgrace doctor finds them", "reason", why)
		return
	}
	l.log.Info("removed the Node's conditions and taint", "reason", why)
}

func (l *leaving) why(ctx context.Context) (string, error) {
	set, err := l.sets.DaemonSet(ctx, l.daemonSet)
	if apierrors.IsNotFound(err) {
		return gone(nil, nil)
	} else if err != nil {
		return "", fmt.Errorf("read DaemonSet %s: %w", l.daemonSet, err)
	}
	node, err := l.node.Nodes.Get(ctx, l.node.Name)
	if apierrors.IsNotFound(err) {
		return "", nil
	} else if err != nil {
		return "", fmt.Errorf("read node %s: %w", l.node.Name, err)
	}
	return gone(set, node)
}

// gone returns why no enforcer follows this one on the node; empty: one does. The DaemonSet is nil if it does not exist.
func gone(set *state.DaemonSet, node *corev1.Node) (string, error) {
	switch {
	case set == nil:
		return "the DaemonSet is deleted", nil
	case set.DeletionTimestamp != nil:
		return "the DaemonSet is being deleted", nil
	}
	selects, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: set.Spec.Template.Spec}).Match(node)
	switch {
	case err != nil:
		return "", fmt.Errorf("read the DaemonSet's node affinity: %w", err)
	case !selects:
		return "the DaemonSet does not select the node any more", nil
	}
	return "", nil
}

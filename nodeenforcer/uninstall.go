package nodeenforcer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/podgrace/podgrace/nodeenforcer/status"
	"github.com/podgrace/podgrace/policy/enforcement"
)

// SelfFenceContainer is the name of the container that feeds a machine's watchdog. If its rights are deleted before it has ended, it can't disarm the watchdog.
const SelfFenceContainer = "self-fence"

// UninstallAPI is what Uninstall needs of the API server (state.Clients).
type UninstallAPI interface {
	status.Nodes
	// DeleteDaemonSet deletes one in the foreground: it exists until its pods have ended.
	DeleteDaemonSet(ctx context.Context, key types.NamespacedName) error
	// PodsIn lists the pods of a namespace with a label.
	PodsIn(ctx context.Context, namespace, selector string) (*corev1.PodList, error)
	// EachNode calls a function for each Node of the cluster.
	EachNode(ctx context.Context, do func(*corev1.Node)) error
}

// Uninstall removes the node enforcers from a cluster before their rights are deleted.
type Uninstall struct {
	API       UninstallAPI
	DaemonSet types.NamespacedName
	// Timeout is for the pods to end.
	Timeout time.Duration
	Clock   clock.Clock
	Log     logr.Logger
}

// uninstallPoll is how often the pods are listed.
const uninstallPoll = time.Second

// Run deletes the DaemonSet, waits until its pods have ended, each of which removes what it wrote into its Node, and removes what is left there.
func (u *Uninstall) Run(ctx context.Context) error {
	if err := u.API.DeleteDaemonSet(ctx, u.DaemonSet); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete DaemonSet %s: %w", u.DaemonSet, err)
	}
	u.Log.Info("deleting DaemonSet, waiting for its pods", "daemonSet", u.DaemonSet.String())
	if err := u.wait(ctx); err != nil {
		return err
	}
	var left []string
	if err := u.API.EachNode(ctx, func(n *corev1.Node) {
		if written(n) {
			left = append(left, n.Name)
		}
	}); err != nil {
		return fmt.Errorf("list nodes: %w", err)
	}
	var errs []error
	for _, name := range left {
		errs = append(errs, (&status.Writer{Nodes: u.API, Name: name, Now: u.Clock.Now}).Remove(ctx))
	}
	u.Log.Info("removed conditions and taints that were left", "nodes", len(left))
	return errors.Join(errs...)
}

// written reports whether a Node has something that an enforcer writes.
func written(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == enforcement.TaintPressure }) ||
		slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return slices.Contains(enforcement.NodeConditions, c.Type) })
}

// wait waits until no pod is left that can end. On a node that is not ready none can. After the timeout it goes on, unless a pod would leave a watchdog armed.
func (u *Uninstall) wait(ctx context.Context) error {
	for deadline := u.Clock.Now().Add(u.Timeout); ; {
		left, fences, err := u.left(ctx)
		if err != nil {
			return err
		}
		if len(left) == 0 {
			return nil
		}
		if !u.Clock.Now().Before(deadline) {
			names := strings.Join(left, ", ")
			if fences {
				return fmt.Errorf("pods have not ended after %s, and would leave a watchdog armed, by which their machines reset themselves: %s", u.Timeout, names)
			}
			u.Log.Info("pods have not ended, going on", "pods", names)
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-u.Clock.After(uninstallPoll):
		}
	}
}

// left returns the pods on ready nodes, and whether one of them feeds a watchdog.
func (u *Uninstall) left(ctx context.Context) (names []string, fences bool, err error) {
	pods, err := u.API.PodsIn(ctx, u.DaemonSet.Namespace, "app.kubernetes.io/name="+u.DaemonSet.Name)
	if err != nil {
		return nil, false, fmt.Errorf("list the pods of %s: %w", u.DaemonSet, err)
	}
	ready := map[string]bool{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if owner := metav1.GetControllerOf(p); owner == nil || owner.Kind != "DaemonSet" || owner.Name != u.DaemonSet.Name || p.Spec.NodeName == "" {
			continue
		}
		known, ok := ready[p.Spec.NodeName]
		if !ok {
			node, err := u.API.Get(ctx, p.Spec.NodeName)
			if err != nil && !apierrors.IsNotFound(err) {
				return nil, false, fmt.Errorf("read node %s: %w", p.Spec.NodeName, err)
			}
			known = err == nil && slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
				return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
			})
			ready[p.Spec.NodeName] = known
		}
		if !known {
			continue
		}
		names = append(names, p.Name)
		fences = fences || slices.ContainsFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == SelfFenceContainer })
	}
	return names, fences, nil
}

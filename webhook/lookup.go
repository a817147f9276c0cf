package webhook

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/guard"
)

// Lookup answers what a decision depends on.
type Lookup struct {
	// Informers is a reader of the informers' stores. What it returns must not be changed.
	Informers client.Reader
	// Live reads from the API server what no informer has yet: a namespace or a controller that was made a moment ago,
	// whose first pods come before the informer's event. nil: such an object is unknown.
	Live client.Reader
	// Partial: what the readers do not have is unknown, and not absent.
	Partial bool
}

// liveTimeout bounds a live read. The whole review has a few seconds.
const liveTimeout = time.Second

// informerTimeout bounds the wait for an informer that starts with the first decision that needs it.
const informerTimeout = 2 * time.Second

// current reads from the API server alone, where there is one: an informer may be behind, or its watch broken, and keeps only a part of
// an object's metadata.
func (l *Lookup) current() *Lookup {
	if l.Live == nil {
		return l
	}
	return &Lookup{Informers: l.Live, Partial: l.Partial}
}

// Namespace returns what policies select by. A namespace that can't be read is unknown.
func (l *Lookup) Namespace(ctx context.Context, name string) defaulting.Namespace {
	var ns corev1.Namespace
	if err := l.get(ctx, types.NamespacedName{Name: name}, &ns); err != nil {
		return defaulting.Namespace{Name: name, Unknown: true}
	}
	return defaulting.Namespace{Name: name, Labels: ns.Labels}
}

// Facts looks up what the needs name, for a pod in a namespace. An error is one of the informers', not an absent object.
func (l *Lookup) Facts(ctx context.Context, needs defaulting.Needs, namespace string, pod *corev1.Pod) (defaulting.Facts, error) {
	var facts defaulting.Facts
	var err error
	if facts.PriorityClasses, err = l.priorityClasses(ctx); err != nil {
		return facts, err
	}
	facts.Partial = l.Partial
	facts.GlobalDefault = defaulting.GlobalDefaultOf(facts.PriorityClasses)
	if needs.Selectors {
		if facts.ServiceSelectors, err = l.serviceSelectors(ctx, namespace); err != nil {
			return facts, err
		}
		facts.OwnerSelector = l.ownerSelector(ctx, namespace, metav1.GetControllerOfNoCopy(pod))
	}
	if needs.Nodes {
		if facts.Nodes, err = l.nodes(ctx); err != nil {
			return facts, err
		}
	}
	if needs.Pods {
		facts.Pods = l.pods(ctx, namespace)
	}
	if needs.Claims {
		facts.Claims = l.claims(ctx, namespace, pod)
	}
	return facts, nil
}

func (l *Lookup) priorityClasses(ctx context.Context) (map[string]*schedulingv1.PriorityClass, error) {
	classes, err := stored(ctx, l.Informers, &schedulingv1.PriorityClass{}, "", &schedulingv1.PriorityClassList{})
	if err != nil {
		return nil, fmt.Errorf("list PriorityClasses: %w", err)
	}
	byName := make(map[string]*schedulingv1.PriorityClass, len(classes))
	for _, c := range classes {
		byName[c.Name] = c
	}
	return byName, nil
}

func (l *Lookup) serviceSelectors(ctx context.Context, namespace string) ([]map[string]string, error) {
	services, err := stored(ctx, l.Informers, &corev1.Service{}, namespace, &corev1.ServiceList{})
	if err != nil {
		return nil, fmt.Errorf("list Services of %s: %w", namespace, err)
	}
	selectors := make([]map[string]string, 0, len(services))
	for _, s := range services {
		// A nil selector selects nothing (endpoints made by hand); an empty one can't be stored.
		if len(s.Spec.Selector) > 0 {
			selectors = append(selectors, s.Spec.Selector)
		}
	}
	return selectors, nil
}

// ownerSelector returns the selector of a pod's controller, or nil where there is none or it can't be read.
func (l *Lookup) ownerSelector(ctx context.Context, namespace string, owner *metav1.OwnerReference) *metav1.LabelSelector {
	if owner == nil || !defaulting.OwnerHasSelector(owner) {
		return nil
	}
	key := types.NamespacedName{Namespace: namespace, Name: owner.Name}
	switch owner.Kind {
	case "ReplicaSet":
		var o appsv1.ReplicaSet
		if err := l.get(ctx, key, &o); err == nil {
			return o.Spec.Selector
		}
	case "StatefulSet":
		var o appsv1.StatefulSet
		if err := l.get(ctx, key, &o); err == nil {
			return o.Spec.Selector
		}
	case "ReplicationController":
		var o corev1.ReplicationController
		if err := l.get(ctx, key, &o); err == nil {
			return &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
		}
	}
	return nil
}

func (l *Lookup) nodes(ctx context.Context) ([]*corev1.Node, error) {
	nodes, err := stored(ctx, l.Informers, &corev1.Node{}, "", &corev1.NodeList{})
	if err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	return nodes, nil
}

// pods returns the pods that the scheduler counts, or nil where they are not known.
func (l *Lookup) pods(ctx context.Context, namespace string) []defaulting.PodOnNode {
	ctx, cancel := context.WithTimeout(ctx, informerTimeout)
	defer cancel()
	pods, err := stored(ctx, l.Informers, &corev1.Pod{}, namespace, &corev1.PodList{})
	if err != nil {
		return nil
	}
	counted := make([]defaulting.PodOnNode, 0, len(pods))
	for _, p := range pods {
		if p.Spec.NodeName != "" && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			counted = append(counted, defaulting.PodOnNode{Node: p.Spec.NodeName, Labels: p.Labels})
		}
	}
	return counted
}

// claims returns what is known of the pod's claims. One that can't be read is left out: unknown.
func (l *Lookup) claims(ctx context.Context, namespace string, pod *corev1.Pod) guard.Claims {
	ctx, cancel := context.WithTimeout(ctx, informerTimeout)
	defer cancel()
	claims := guard.Claims{}
	for _, name := range guard.ClaimNames(pod) {
		var claim corev1.PersistentVolumeClaim
		if err := l.get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &claim); err == nil {
			claims[name] = guard.ClaimOf(&claim, pod)
		}
	}
	return claims
}

// get reads from the informer, and live where the informer does not have the object.
func (l *Lookup) get(ctx context.Context, key types.NamespacedName, into client.Object) error {
	err := l.Informers.Get(ctx, key, into)
	if !apierrors.IsNotFound(err) || l.Live == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	if err := l.Live.Get(ctx, key, into); err != nil {
		return fmt.Errorf("read %s %s: %w", kindOf(into), key, err)
	}
	return nil
}

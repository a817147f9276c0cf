package lookup

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/defaulting/topology"
	"github.com/podgrace/podgrace/internal/pod/workloads"
	"github.com/podgrace/podgrace/policy"
)

// Lookup reads the facts that a decision depends on.
type Lookup struct {
	// Informers reads from the informers' stores. The objects that it returns must not be changed.
	Informers client.Reader
	// Live reads from the API server what no informer has yet: a namespace or a controller that was created a moment ago, whose first
	// pods arrive before the informer's event. nil: such an object is unknown.
	Live client.Reader
	// Reads limits live reads for pods that are created. nil: they are not limited, as offline.
	Reads *Reads
	// Nodes of the cluster. nil: they are listed by Informers.
	Nodes *topology.Nodes
	// Exceptions returns those in force in a namespace now. nil: there are none.
	Exceptions func(namespace string) policy.Exceptions
	// Locks of volumes. nil: there are none, or they are not known.
	Locks *Locks
	// Partial: an object that the readers do not find is unknown, and not absent, as offline.
	Partial bool
}

// liveTimeout bounds one live read. A review has a few seconds in all.
const liveTimeout = time.Second

// Current returns a Lookup that reads everything live, where there is an API server: an informer may be stale, and stores only a part of each object.
func (l *Lookup) Current() *Lookup {
	if l.Live == nil {
		return l
	}
	return &Lookup{Informers: l.Live, Partial: l.Partial}
}

// Namespace returns what policies select by. A namespace that can't be read is unknown.
func (l *Lookup) Namespace(ctx context.Context, name string) policy.Namespace {
	known := policy.Namespace{Name: name}
	if l.Exceptions != nil {
		known.Exceptions = l.Exceptions(name)
	}
	var ns corev1.Namespace
	err := l.get(ctx, types.NamespacedName{Name: name}, &ns)
	known.Labels, known.Unknown = ns.Labels, err != nil
	return known
}

// NamespaceExists reports whether the informer has a namespace; also where it can't say at once, because it has not synced.
func (l *Lookup) NamespaceExists(ctx context.Context, name string) bool {
	ctx, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	var ns corev1.Namespace
	return !apierrors.IsNotFound(l.Informers.Get(ctx, types.NamespacedName{Name: name}, &ns))
}

// Facts looks up the facts that are needed for a pod in a namespace. An error means that an informer could not be read; an absent object is none.
func (l *Lookup) Facts(ctx context.Context, needs defaulting.Needs, namespace string, pod *corev1.Pod) (defaulting.Facts, error) {
	facts, err := l.factsOfCluster(ctx, needs, namespace, pod)
	if err == nil && needs.Selectors {
		facts.OwnerSelector = l.ownerSelector(ctx, namespace, metav1.GetControllerOfNoCopy(pod))
	}
	return facts, err
}

// FactsOfTemplate are those for the pods that a workload will make. Their controller is the workload itself, which has the selector. It must not be looked for:
// while its creation is judged it is not there, and for the next minute its pods would have a controller that is known not to exist.
func (l *Lookup) FactsOfTemplate(ctx context.Context, needs defaulting.Needs, namespace string, template *workloads.Template) (defaulting.Facts, error) {
	facts, err := l.factsOfCluster(ctx, needs, namespace, template.Pod)
	facts.OwnerSelector, facts.Later = template.OwnerSelector, template.Later
	return facts, err
}

// factsOfCluster are all but what comes from the pod's controller.
func (l *Lookup) factsOfCluster(ctx context.Context, needs defaulting.Needs, namespace string, pod *corev1.Pod) (defaulting.Facts, error) {
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
	}
	if needs.Nodes {
		if facts.Nodes, err = l.nodes(ctx); err != nil {
			return facts, err
		}
		facts.Pods = func(selector labels.Selector) ([]defaulting.Neighbour, bool) { return l.pods(ctx, namespace, selector) }
	}
	if needs.Claims {
		facts.Claims = l.Claims(ctx, namespace, pod)
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
	services, err := stored[client.Object](ctx, l.Informers, &corev1.Service{}, namespace, &corev1.ServiceList{})
	if err != nil {
		return nil, fmt.Errorf("list Services of %s: %w", namespace, err)
	}
	selectors := make([]map[string]string, 0, len(services))
	for _, s := range services {
		if selector := selectorOf(s); selector != nil {
			selectors = append(selectors, selector.MatchLabels)
		}
	}
	return selectors, nil
}

// owners are empty objects of the kinds of controllers from which the scheduler derives a selector.
var owners = map[string]func() client.Object{
	"ReplicaSet":            func() client.Object { return &appsv1.ReplicaSet{} },
	"StatefulSet":           func() client.Object { return &appsv1.StatefulSet{} },
	"ReplicationController": func() client.Object { return &corev1.ReplicationController{} },
}

// ownerSelector returns the selector of a pod's controller, or nil where there is none or it can't be read.
func (l *Lookup) ownerSelector(ctx context.Context, namespace string, owner *metav1.OwnerReference) *metav1.LabelSelector {
	if owner == nil || !defaulting.OwnerHasSelector(owner) {
		return nil
	}
	o, key := owners[owner.Kind](), types.NamespacedName{Namespace: namespace, Name: owner.Name}
	if l.Reads == nil {
		if err := l.get(ctx, key, o); err != nil {
			return nil
		}
		return selectorOf(o)
	}
	if selector, err := l.keptSelector(ctx, key, o); selector != nil || err != nil {
		return selector
	}
	if err := l.Reads.owner(ctx, key, owner.UID, o); err != nil {
		return nil
	}
	return selectorOf(o)
}

// keptSelector returns an owner's selector from the informer; nil: it has not seen the owner, or the owner is a ReplicaSet scaled to 0.
func (l *Lookup) keptSelector(ctx context.Context, key types.NamespacedName, kind client.Object) (*metav1.LabelSelector, error) {
	indexer, err := indexerOf(ctx, l.Informers, kind)
	if err != nil {
		return nil, err
	}
	if indexer == nil {
		if err := l.Informers.Get(ctx, key, kind); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		return selectorOf(kind), nil
	}
	object, _, err := indexer.GetByKey(key.String())
	if err != nil {
		return nil, fmt.Errorf("read the informer: %w", err)
	}
	return selectorOf(object), nil
}

func (l *Lookup) nodes(ctx context.Context) (*topology.Nodes, error) {
	if l.Nodes != nil {
		return l.Nodes, nil
	}
	nodes, err := stored(ctx, l.Informers, &corev1.Node{}, "", &corev1.NodeList{})
	if err != nil {
		return nil, fmt.Errorf("list Nodes: %w", err)
	}
	return topology.New(nodes...), nil
}

// pods returns each pod that the scheduler counts; false: they could not be read.
func (l *Lookup) pods(ctx context.Context, namespace string, selector labels.Selector) ([]defaulting.Neighbour, bool) {
	if l.Reads != nil {
		counted, err := l.Reads.pods(ctx, namespace, selector)
		return counted, err == nil
	}
	pods, err := stored(ctx, l.Informers, &corev1.Pod{}, namespace, &corev1.PodList{})
	if err != nil {
		return nil, false
	}
	counted := make([]defaulting.Neighbour, 0, len(pods))
	for _, p := range pods {
		if counts(p) && selector.Matches(labels.Set(p.Labels)) {
			counted = append(counted, neighbour(p))
		}
	}
	return counted, true
}

// Claims reads the pod's PersistentVolumeClaims live: they are many and rarely needed, so that they are not watched. One that can't be read is left out,
// which means that it is unknown.
func (l *Lookup) Claims(ctx context.Context, namespace string, pod *corev1.Pod) policy.Claims {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	read := l.get
	if l.Reads != nil {
		read = l.Reads.get
	}
	claims := policy.Claims{}
	var mu sync.Mutex
	var reads errgroup.Group
	reads.SetLimit(claimReads)
	names := policy.ClaimNames(pod)
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		reads.Go(func() error {
			var claim corev1.PersistentVolumeClaim
			if err := read(ctx, types.NamespacedName{Namespace: namespace, Name: name}, &claim); err == nil {
				mu.Lock()
				defer mu.Unlock()
				claims[name] = policy.ClaimOf(&claim, pod)
			}
			return nil
		})
	}
	_ = reads.Wait() // what could not be read is unknown
	return claims
}

// claimReads is how many claims of a pod are read in parallel. A pod with hundreds of volumes must not make a review long: meanwhile another
// pod could take the name of the one that is judged.
const claimReads = 16

// get reads an object from the informer, and live where the informer does not have it.
func (l *Lookup) get(ctx context.Context, key types.NamespacedName, into client.Object) error {
	err := l.Informers.Get(ctx, key, into)
	if !apierrors.IsNotFound(err) || l.Live == nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, liveTimeout)
	defer cancel()
	if err := l.Live.Get(ctx, key, into); err != nil {
		return fmt.Errorf("read %s %s: %w", KindOf(into), key, err)
	}
	return nil
}

// selectorOf returns the selector of a Service or of a controller of pods; nil: it has none.
func selectorOf(o any) *metav1.LabelSelector {
	switch o := o.(type) {
	case *kept:
		return o.selector
	case *appsv1.ReplicaSet:
		return o.Spec.Selector
	case *appsv1.StatefulSet:
		return o.Spec.Selector
	case *corev1.ReplicationController:
		return &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
	case *corev1.Service:
		// A nil selector selects nothing (endpoints made by hand); an empty one can't be stored.
		if len(o.Spec.Selector) > 0 {
			return &metav1.LabelSelector{MatchLabels: o.Spec.Selector}
		}
	}
	return nil
}

// stored returns the objects of a kind from an informer's store, in one namespace or, where that is empty, in all. The cache's own
// List copies each object into the list by reflection, even with UnsafeDisableDeepCopy, which is expensive in a namespace with
// many Services. A reader without informers is listed.
func stored[T client.Object](ctx context.Context, reader client.Reader, kind T, namespace string, list client.ObjectList) ([]T, error) {
	indexer, err := indexerOf(ctx, reader, kind)
	if err != nil {
		return nil, err
	}
	if indexer == nil {
		return listed[T](ctx, reader, namespace, list)
	}
	if namespace == "" {
		return as[T](indexer.List()), nil
	}
	objects, err := indexer.ByIndex(toolscache.NamespaceIndex, namespace)
	if err != nil {
		return nil, fmt.Errorf("read the informer: %w", err)
	}
	return as[T](objects), nil
}

// Indexed is a reader that is no cache and has the objects of a kind as one has them.
type Indexed interface {
	// Indexer has an index by namespace.
	Indexer(kind client.Object) toolscache.Indexer
}

// indexerOf returns the store behind a kind's informer, which it starts and waits for as List does; nil where the reader
// has none.
func indexerOf(ctx context.Context, reader client.Reader, kind client.Object) (toolscache.Indexer, error) {
	if indexed, ok := reader.(Indexed); ok {
		return indexed.Indexer(kind), nil
	}
	informers, ok := reader.(cache.Informers)
	if !ok {
		return nil, nil
	}
	informer, err := informers.GetInformer(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("start the informer: %w", err)
	}
	if shared, ok := informer.(toolscache.SharedIndexInformer); ok {
		return shared.GetIndexer(), nil
	}
	return nil, nil
}

func listed[T client.Object](ctx context.Context, reader client.Reader, namespace string, list client.ObjectList) ([]T, error) {
	if err := reader.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return nil, err
	}
	items, err := meta.ExtractList(list)
	if err != nil {
		return nil, err
	}
	return as[T](items), nil
}

func as[T any, E any](objects []E) []T {
	typed := make([]T, 0, len(objects))
	for _, o := range objects {
		if t, ok := any(o).(T); ok {
			typed = append(typed, t)
		}
	}
	return typed
}

package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/defaulting/topology"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/webhook"
)

// State is what is known of a cluster: the objects that decisions read. It takes the place of the webhook's informers and
// of its live reads.
type State struct {
	scheme   *runtime.Scheme
	kinds    map[reflect.Type]toolscache.Indexer
	complete map[reflect.Type]bool
	custom   map[schema.GroupKind][]custom
	// given are the kinds of SetTemplate, and podless those of them that make no pods.
	given, podless map[schema.GroupKind]bool
	// nodes are those of kinds, indexed once for all reviews.
	nodes *topology.Nodes
	// machines have deadlines for pods that are stopped with them.
	machines []*machines
}

// Kinds are those that decisions and remarks read, and that each state keeps.
func Kinds() []client.Object {
	return []client.Object{
		&corev1.Namespace{}, &schedulingv1.PriorityClass{}, &corev1.Service{}, &corev1.Node{}, &coordinationv1.Lease{}, &corev1.Pod{},
		&corev1.PersistentVolumeClaim{}, &corev1.ReplicationController{}, &appsv1.ReplicaSet{}, &appsv1.StatefulSet{},
		&v1alpha1.PolicyException{}, &v1alpha1.NodePolicy{}, &corev1.PersistentVolume{}, &storagev1.StorageClass{}, &storagev1.CSIDriver{},
	}
}

// NewState knows what every cluster has: the PriorityClasses of the system (pkg/apis/scheduling/v1/helpers.go
// SystemPriorityClasses, 1.36.3). It also keeps objects of further kinds, which decisions do not read but who asks it does.
func NewState(further ...client.Object) *State {
	s := &State{scheme: webhook.NewScheme(), kinds: map[reflect.Type]toolscache.Indexer{}, complete: map[reflect.Type]bool{}, custom: builtIn(), given: map[schema.GroupKind]bool{}, podless: map[schema.GroupKind]bool{}, nodes: topology.New()}
	for _, kind := range append(Kinds(), further...) {
		s.kinds[reflect.TypeOf(kind)] = toolscache.NewIndexer(toolscache.MetaNamespaceKeyFunc, toolscache.Indexers{
			toolscache.NamespaceIndex: toolscache.MetaNamespaceIndexFunc,
		})
	}
	for name, value := range map[string]int32{"system-cluster-critical": 2000000000, "system-node-critical": 2000001000} {
		s.Set(&schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, PreemptionPolicy: new(corev1.PreemptLowerPriority)})
	}
	return s
}

// Set puts an object into the state, in place of the one of its name. One of a kind that no decision reads is passed over.
func (s *State) Set(o client.Object) {
	if indexer := s.kinds[reflect.TypeOf(o)]; indexer != nil {
		_ = indexer.Add(o) // fails only for what has no metadata
	}
	if n, ok := o.(*corev1.Node); ok {
		s.nodes.Set(n)
		s.addMachine(n)
	}
}

// known are the Nodes; nil: there are none, so that the view is asked, which notes that.
func (s *State) known() *topology.Nodes {
	if s.nodes.Len() == 0 {
		return nil
	}
	return s.nodes
}

// Complete says that of a kind the state has all there are: what is not in it is then absent, and no longer unknown.
func (s *State) Complete(kind client.Object) { s.complete[reflect.TypeOf(kind)] = true }

// Add puts a document into the state, as Object makes it.
func (s *State) Add(d *manifest.Document, namespace string) error {
	o, err := s.Object(d, namespace)
	if o != nil {
		s.Set(o)
	}
	return err
}

// AddManifest puts a document under review into the state, as Add does: what is reviewed together is there together. A Pod that has neither run nor been
// stored is left out, since it is to be created.
func (s *State) AddManifest(d *manifest.Document, namespace string) error {
	o, err := s.Object(d, namespace)
	if pod, ok := o.(*corev1.Pod); ok && !exists(pod) {
		return err
	}
	if o != nil {
		s.Set(o)
	}
	return err
}

// AddAll adds documents by Add or AddManifest, and returns what is wrong with them.
func AddAll(documents []*manifest.Document, namespace string, add func(*manifest.Document, string) error) (errs []*manifest.Error) {
	for _, d := range documents {
		if err := add(d, namespace); err != nil {
			errs = append(errs, d.Wrong(err))
		}
	}
	return errs
}

// exists reports whether a pod is one that a cluster has, and not only a manifest.
func exists(pod *corev1.Pod) bool {
	return stored(pod) || pod.Spec.NodeName != "" || pod.Status.Phase != ""
}

// Object is that of a document if it is of a kind that the state keeps, with the defaults that the API server would have set; else nil. A
// namespaced object that names no namespace is put into the given one, or else into default, where a workload that names none goes. The
// error says what is wrong with the document, or that there is no such kind. It does not depend on what is in the state.
func (s *State) Object(d *manifest.Document, namespace string) (client.Object, error) {
	o, err := s.empty(d.APIVersion, d.Kind)
	switch {
	case err != nil:
		return nil, err
	case o == nil:
		return nil, s.misnamed(d)
	case s.kinds[reflect.TypeOf(o)] == nil:
		return nil, nil
	}
	if o, err = s.decode(d.APIVersion, d.Kind, d.JSON); err != nil {
		return nil, err
	}
	if o.GetNamespace() == "" {
		o.SetNamespace(namespaceOf(o, namespace))
	}
	apiserver.Default(o)
	return o, nil
}

// namespaceOf an object that names none.
func namespaceOf(o client.Object, given string) string {
	switch o.(type) {
	case *corev1.Namespace, *schedulingv1.PriorityClass, *corev1.Node, *corev1.PersistentVolume, *storagev1.StorageClass, *storagev1.CSINode, *storagev1.CSIDriver:
		return ""
	case *coordinationv1.Lease: // the only ones that decisions read are the heartbeats of nodes
		return corev1.NamespaceNodeLease
	}
	return cmp.Or(given, metav1.NamespaceDefault)
}

// classes are the PriorityClasses, as decisions want them.
func (s *State) classes() defaulting.Facts {
	f := defaulting.Facts{PriorityClasses: map[string]*schedulingv1.PriorityClass{}, Partial: s.partial()}
	for _, c := range all[*schedulingv1.PriorityClass](s) {
		f.PriorityClasses[c.Name] = c
	}
	f.GlobalDefault = defaulting.GlobalDefaultOf(f.PriorityClasses)
	return f
}

// IsComplete reports whether Complete was said of a kind.
func (s *State) IsComplete(kind client.Object) bool { return s.complete[reflect.TypeOf(kind)] }

// partial: a PriorityClass that is not here may be there all the same.
func (s *State) partial() bool { return !s.complete[reflect.TypeFor[*schedulingv1.PriorityClass]()] }

// Objects are those of a kind, by namespace and name; none of a kind that the state does not keep. They must not be changed.
func Objects[T client.Object](s *State) []T {
	objects := all[T](s)
	slices.SortFunc(objects, func(a, b T) int {
		return cmp.Or(cmp.Compare(a.GetNamespace(), b.GetNamespace()), cmp.Compare(a.GetName(), b.GetName()))
	})
	return objects
}

// Has reports whether an object of this kind is known.
func (s *State) Has(kind client.Object, key client.ObjectKey) bool {
	indexer := s.kinds[reflect.TypeOf(kind)]
	if indexer == nil {
		return false
	}
	_, there, err := indexer.GetByKey(toolscache.NewObjectName(key.Namespace, key.Name).String())
	return err == nil && there
}

// ObjectsOf is Objects of a kind that is not known before, in no order.
func (s *State) ObjectsOf(kind client.Object) []client.Object {
	indexer := s.kinds[reflect.TypeOf(kind)]
	if indexer == nil {
		return nil
	}
	stored := indexer.List()
	objects := make([]client.Object, len(stored))
	for i, o := range stored {
		objects[i] = o.(client.Object)
	}
	return objects
}

// all returns the objects of a kind, which must not be changed.
func all[T client.Object](s *State) []T {
	var kind T
	indexer := s.kinds[reflect.TypeOf(kind)]
	if indexer == nil {
		return nil
	}
	stored := indexer.List()
	objects := make([]T, len(stored))
	for i, o := range stored {
		objects[i] = o.(T)
	}
	return objects
}

// errUnknown is for what the state does not hold: not a NotFound, which would be taken for an answer.
var errUnknown = errors.New("not known here")

// view reads the state for one decision and remembers what was asked in vain. What is made up to ask what would become of it
// comes first: a workload's pod, and its controller.
type view struct {
	*State
	madeUp []client.Object
	missed []string
	seen   map[string]bool
	// none are known of these kinds, all of which were asked for: what follows from them may be otherwise.
	none map[reflect.Type]bool
}

// noneOf reports whether all objects of a kind were asked for and not one is known.
func (v *view) noneOf(kind client.Object) bool { return v.none[reflect.TypeOf(kind)] }

// miss notes what is not known, once.
func (v *view) miss(what string) {
	if v.seen == nil {
		v.seen = map[string]bool{}
	}
	if !v.seen[what] {
		v.seen[what] = true
		v.missed = append(v.missed, what)
	}
}

// Get is for client.Reader.
func (v *view) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	kind := reflect.TypeOf(into)
	for _, o := range v.madeUp {
		if reflect.TypeOf(o) == kind && client.ObjectKeyFromObject(o) == key {
			return assign(into, o)
		}
	}
	indexer := v.kinds[kind]
	if indexer == nil {
		return fmt.Errorf("%T: %w", into, errUnknown)
	}
	path := key.Name
	if key.Namespace != "" {
		path = key.Namespace + "/" + key.Name
	}
	found, there, err := indexer.GetByKey(path)
	switch {
	case err != nil:
		return err
	case there:
		return assign(into, found.(client.Object))
	case v.complete[kind] && key.Name != SomeNode: // nobody has deleted that one
		return v.notFound(into, key.Name)
	}
	if _, ok := into.(*corev1.PersistentVolumeClaim); ok {
		if made := v.ClaimOf(key); made != nil {
			return assign(into, made)
		}
	}
	name := kind.Elem().Name()
	if _, ok := into.(*coordinationv1.Lease); ok {
		name, path = "heartbeat of Node", key.Name
	}
	v.miss(name + " " + path)
	return fmt.Errorf("%s %s: %w", name, path, errUnknown)
}

// assign copies a stored object, whose parts stay shared: nobody changes what a decision reads.
func assign(into, from client.Object) error {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from).Elem())
	return nil
}

// List is for client.Reader. The only lists that are asked for are those that Indexer does not serve: the pods of a node.
func (v *view) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	pods, ok := list.(*corev1.PodList)
	if !ok {
		return fmt.Errorf("list %T: %w", list, errUnknown)
	}
	var o client.ListOptions
	o.ApplyOptions(options)
	node, _ := o.FieldSelector.RequiresExactMatch("spec.nodeName")
	known := all[*corev1.Pod](v.State)
	if !slices.ContainsFunc(known, exists) && !v.complete[reflect.TypeFor[*corev1.Pod]()] {
		v.miss("Pods of Node " + node)
		return fmt.Errorf("pods: %w", errUnknown)
	}
	for _, p := range known {
		if p.Spec.NodeName == node {
			pods.Items = append(pods.Items, *p)
		}
	}
	return nil
}

// Indexer is for lookup.Lookup, which reads what it needs all of without copying.
func (v *view) Indexer(kind client.Object) toolscache.Indexer {
	t := reflect.TypeOf(kind)
	indexer := v.kinds[t]
	if len(indexer.ListKeys()) == 0 && !v.complete[t] {
		if v.none == nil {
			v.none = map[reflect.Type]bool{}
		}
		v.none[t] = true
	}
	return indexer
}

var _ client.Reader = (*view)(nil)

// notFound is in the API server's words.
func (s *State) notFound(o client.Object, name string) error {
	kinds, _, err := s.scheme.ObjectKinds(o)
	if err != nil {
		return fmt.Errorf("find the kind of %T: %w", o, err)
	}
	resource, _ := meta.UnsafeGuessKindToResource(kinds[0])
	return apierrors.NewNotFound(resource.GroupResource(), name)
}

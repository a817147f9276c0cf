// Package exceptions reads PolicyExceptions and holds those that were granted. The informer is unstructured, and they are decoded one by one: tenants write
// them, and a single one that can't be decoded would keep a typed informer from syncing.
package exceptions

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/api/written"
	"github.com/podgrace/podgrace/policy"
)

// New is an empty PolicyException for unstructured reads.
func New() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PolicyException"))
	return u
}

// Trim reduces an exception to what is read of it. Its annotations may be long, as a tenant writes them.
func Trim(in any) (any, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return in, nil
	}
	kept := New()
	kept.SetNamespace(u.GetNamespace())
	kept.SetName(u.GetName())
	kept.SetUID(u.GetUID())
	kept.SetGeneration(u.GetGeneration())
	kept.SetResourceVersion(u.GetResourceVersion())
	kept.SetCreationTimestamp(u.GetCreationTimestamp())
	for _, part := range []string{"spec", "status"} {
		if content, ok := u.Object[part]; ok {
			kept.Object[part] = content
		}
	}
	// Who may request exceptions can request many, and large ones: of those that were not granted only what their status needs is kept, without the
	// pod selector.
	spec, ok := kept.Object["spec"].(map[string]any)
	if grantOf(kept) != nil {
		kept.SetManagedFields(written.Trim(u.GetManagedFields(), v1alpha1.GroupVersion.String())) // by which it is known what is not read of it
	} else if ok {
		told := map[string]any{"allPods": true}
		for _, field := range []string{"policy", "limits", "until"} {
			if content, ok := spec[field]; ok {
				told[field] = content
			}
		}
		kept.Object["spec"] = told
	}
	return kept, nil
}

// Exception is a PolicyException that was read: decoded and compiled, or the error.
type Exception struct {
	types.NamespacedName
	Generation int64
	Object     *v1alpha1.PolicyException // nil: it can't be decoded
	Compiled   *policy.Exception         // nil: it can't be read
	Err        error
}

// Read decodes and compiles an exception.
func Read(u *unstructured.Unstructured) Exception {
	a := Exception{NamespacedName: types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}, Generation: u.GetGeneration()}
	var x v1alpha1.PolicyException
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &x); err != nil {
		a.Err = fmt.Errorf("decode PolicyException %s: %w", a.NamespacedName, err)
		return a
	}
	a.Object = &x
	a.Compiled, a.Err = policy.CompileException(&x)
	return a
}

// List returns all exceptions. They are shared with the informer: read only.
func List(ctx context.Context, reader client.Reader) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("PolicyExceptionList"))
	if err := reader.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list PolicyExceptions: %w", err)
	}
	return list.Items, nil
}

// Granted are those that were granted and can be read.
func Granted(ctx context.Context, reader client.Reader) (policy.Exceptions, error) {
	all, err := List(ctx, reader)
	if err != nil {
		return nil, err
	}
	var granted []*policy.Exception
	for i := range all {
		if grantOf(&all[i]) == nil {
			continue
		}
		if a := Read(&all[i]); a.Compiled != nil && a.Compiled.GrantedBy != "" {
			granted = append(granted, a.Compiled)
		}
	}
	return policy.SortExceptions(granted), nil
}

// grantOf returns status.grant; nil: there is none.
func grantOf(o client.Object) any {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return nil
	}
	grant, _, _ := unstructured.NestedFieldNoCopy(u.Object, "status", "grant")
	return grant
}

// GrantChanged is a predicate for events that may change which exceptions are in force. All others are dropped, since who may request exceptions can create and edit
// as many as he likes.
var GrantChanged = predicate.Funcs{
	CreateFunc: func(e event.CreateEvent) bool { return grantOf(e.Object) != nil },
	DeleteFunc: func(e event.DeleteEvent) bool { return grantOf(e.Object) != nil },
	UpdateFunc: func(e event.UpdateEvent) bool {
		was, is := grantOf(e.ObjectOld), grantOf(e.ObjectNew)
		return !equality.Semantic.DeepEqual(was, is) || is != nil && (e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || e.ObjectOld.GetUID() != e.ObjectNew.GetUID())
	},
	GenericFunc: func(event.GenericEvent) bool { return true },
}

// Known reports whether the cluster has the CustomResourceDefinition of exceptions. It is missing where Podgrace was upgraded without its CRDs: then there are no
// exceptions until the program is restarted.
func Known(mapper meta.RESTMapper) (bool, error) {
	kind := v1alpha1.GroupVersion.WithKind("PolicyException")
	_, err := mapper.RESTMapping(kind.GroupKind(), kind.Version)
	if meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil, err
}

// Store holds the exceptions that were granted. Others are not stored, since who may request exceptions can request many.
type Store struct {
	clock clock.PassiveClock
	log   logr.Logger

	mu      sync.RWMutex
	granted map[string]policy.Exceptions // by namespace; a slice that was returned is never changed
}

// NewStore returns an empty store. The clock tells when exceptions end.
func NewStore(clock clock.PassiveClock, log logr.Logger) *Store {
	return &Store{clock: clock, log: log, granted: map[string]policy.Exceptions{}}
}

// InForce returns the exceptions in force in a namespace now.
func (s *Store) InForce(namespace string) policy.Exceptions {
	s.mu.RLock()
	granted := s.granted[namespace]
	s.mu.RUnlock()
	return granted.InForce(s.clock.Now())
}

// Watch watches the exceptions of the cluster. The function that it returns reports whether the store has synced.
func (s *Store) Watch(ctx context.Context, informers cache.Informers) (hasSynced func() bool, err error) {
	informer, err := informers.GetInformer(ctx, New(), cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch PolicyExceptions: %w", err)
	}
	registration, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    s.set,
		UpdateFunc: func(_, now any) { s.set(now) },
		DeleteFunc: func(object any) {
			if key, err := toolscache.DeletionHandlingMetaNamespaceKeyFunc(object); err == nil {
				namespace, name, _ := strings.Cut(key, "/")
				s.replace(namespace, name, nil)
			}
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch PolicyExceptions: %w", err)
	}
	return registration.HasSynced, nil
}

func (s *Store) set(object any) {
	u, ok := object.(*unstructured.Unstructured)
	if !ok {
		return
	}
	a := Read(u)
	if a.Err != nil {
		s.log.Error(a.Err, "invalid PolicyException: it lifts nothing", "policyException", a.NamespacedName)
	}
	if a.Compiled != nil && a.Compiled.GrantedBy == "" {
		a.Compiled = nil
	}
	s.replace(a.Namespace, a.Name, a.Compiled)
}

// replace stores the exception of a name, or removes it (nil).
func (s *Store) replace(namespace, name string, x *policy.Exception) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rest := slices.DeleteFunc(slices.Clone(s.granted[namespace]), func(have *policy.Exception) bool { return have.Name == name })
	if x != nil {
		rest = policy.SortExceptions(append(rest, x))
	}
	if len(rest) == 0 {
		delete(s.granted, namespace)
		return
	}
	s.granted[namespace] = rest
}

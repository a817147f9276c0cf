package review

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
)

// pageSize of lists from a cluster, as kubectl's.
const pageSize = 500

// FromCluster reads a state from a cluster, once: what is not in it is absent, also of further kinds. A kind that the user may not list stays
// unknown; the error says so, and the state can be used all the same.
func FromCluster(ctx context.Context, reader client.Reader, further ...client.Object) (*State, error) {
	s := NewState(further...)
	var errs []error
	for _, kind := range kinds(further) {
		err := s.fetch(ctx, reader, kind)
		switch kind.(type) {
		case *v1alpha1.PolicyException, *v1alpha1.NodePolicy:
			if meta.IsNoMatchError(err) {
				err = nil // a cluster without Podgrace has none
			}
		}
		if noDecision(kind) && !among(further, kind) && (apierrors.IsForbidden(err) || meta.IsNoMatchError(err)) {
			continue
		}
		if err != nil {
			errs = append(errs, err)
			continue
		}
		s.Complete(kind)
	}
	return s, errors.Join(errs...)
}

// kinds are those of each state and further ones, each once.
func kinds(further []client.Object) []client.Object {
	all := Kinds()
	for _, kind := range further {
		if !among(all, kind) {
			all = append(all, kind)
		}
	}
	return all
}

func among(kinds []client.Object, kind client.Object) bool {
	return slices.ContainsFunc(kinds, func(k client.Object) bool { return reflect.TypeOf(k) == reflect.TypeOf(kind) })
}

// noDecision reports whether only remarks depend on a kind.
func noDecision(kind client.Object) bool {
	switch kind.(type) {
	case *v1alpha1.NodePolicy, *corev1.PersistentVolume, *storagev1.StorageClass, *storagev1.CSIDriver:
		return true
	}
	return false
}

func (s *State) fetch(ctx context.Context, reader client.Reader, kind client.Object) error {
	kinds, _, err := s.scheme.ObjectKinds(kind)
	if err != nil {
		return fmt.Errorf("find the kind of %T: %w", kind, err)
	}
	object, err := s.scheme.New(kinds[0].GroupVersion().WithKind(kinds[0].Kind + "List"))
	if err != nil {
		return fmt.Errorf("find the list of %s: %w", kinds[0].Kind, err)
	}
	list, ok := object.(client.ObjectList)
	if !ok {
		return fmt.Errorf("%T is no list", object)
	}
	return pages(ctx, reader, list, kinds[0].Kind, func(o runtime.Object) error {
		if c, ok := o.(client.Object); ok {
			switch c.(type) {
			case *corev1.Node, *coordinationv1.Lease: // who wrote them when are signs of life (guard.NodeOf)
			case *v1alpha1.PolicyException, *v1alpha1.NodePolicy: // by these it is known what is not read of them (api/written)
			default:
				c.SetManagedFields(nil)
			}
			s.Set(c)
		}
		return nil
	})
}

// PoliciesOf reads the PodPolicies of a cluster.
func PoliciesOf(ctx context.Context, reader client.Reader) ([]*v1alpha1.PodPolicy, error) {
	var policies []*v1alpha1.PodPolicy
	err := pages(ctx, reader, &v1alpha1.PodPolicyList{}, "PodPolicy", func(o runtime.Object) error {
		if p, ok := o.(*v1alpha1.PodPolicy); ok {
			policies = append(policies, p)
		}
		return nil
	})
	return policies, err
}

// pages lists page by page. A list that changed so much that its pages can't be had any more begins again, whole.
func pages(ctx context.Context, reader client.Reader, list client.ObjectList, kind string, each func(runtime.Object) error, of ...client.ListOption) error {
	options := append([]client.ListOption{client.Limit(pageSize)}, of...)
	for empty := list; ; {
		// Not the last page's: its objects are kept, and would be written over.
		list = empty.DeepCopyObject().(client.ObjectList)
		err := reader.List(ctx, list, options...)
		if apierrors.IsResourceExpired(err) && len(options) > len(of)+1 {
			options = of
			continue
		}
		if err != nil {
			return fmt.Errorf("list the %s objects: %w", kind, err)
		}
		if err := meta.EachListItem(list, each); err != nil {
			return err
		}
		if list.GetContinue() == "" {
			return nil
		}
		options = append([]client.ListOption{client.Limit(pageSize), client.Continue(list.GetContinue())}, of...)
	}
}

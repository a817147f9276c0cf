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
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/json"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/policy/policyfile"
)

// Inputs are documents that were read, in their order, and what could not be.
type Inputs struct {
	Files     int
	Documents []*manifest.Document
	LeftOut   []input.LeftOut
	Errors    []*manifest.Error
	// Listed are the kinds of which there was a typed list.
	Listed []manifest.Listed
	// Refused are errors of kubectl about what was read nevertheless.
	Refused []*manifest.Error
}

// Read reads all documents of the paths.
func Read(r *input.Reader, paths ...string) Inputs {
	var documents []*manifest.Document
	in := ReadEach(r, func(d *manifest.Document) { documents = append(documents, d) }, paths...)
	in.Documents = documents
	return in
}

// ReadEach is Read for who takes the documents one by one: the inputs have none.
func ReadEach(r *input.Reader, each func(*manifest.Document), paths ...string) Inputs {
	var in Inputs
	before, left, refused := r.Files, len(r.LeftOut), len(r.Refused)
	for d, err := range r.Read(paths...) {
		if err != nil {
			in.Errors = append(in.Errors, err)
		} else {
			each(d)
		}
	}
	in.Files, in.LeftOut = r.Files-before, r.LeftOut[left:]
	in.Listed, in.Refused = r.Listed, r.Refused[refused:]
	return in
}

// SetAside takes out of errors those about objects that can't be read before a variable is filled in, and that no decision needs.
func SetAside(errs []*manifest.Error) (wrong []*manifest.Error, left []input.LeftOut) {
	for _, e := range manifest.Unique(errs) {
		if e.Variable == "" {
			wrong = append(wrong, e)
		} else {
			left = append(left, input.LeftOut{Path: e.File, As: input.Variable, Why: e.Variable})
		}
	}
	return wrong, left
}

// LoadPolicies reads the PodPolicies of files and folders, and those among documents. What is wrong is in the errors, and
// the others are returned all the same. The same policy may be in both. NodePolicies and PolicyExceptions are only checked.
func LoadPolicies(paths []string, documents []*manifest.Document) ([]*v1alpha1.PodPolicy, []*manifest.Error) {
	policies, err := policyfile.Require(paths...)
	policies, errs := AddPolicies(policies, documents)
	return policies, manifest.Unique(append(manifest.Errors(err), errs...))
}

// AddPolicies adds the PodPolicies among documents, as LoadPolicies does.
func AddPolicies(policies []*v1alpha1.PodPolicy, documents []*manifest.Document) ([]*v1alpha1.PodPolicy, []*manifest.Error) {
	var errs []*manifest.Error
	for _, d := range documents {
		p, wrong := policyfile.Check(d)
		errs = append(errs, wrong...)
		if p == nil {
			continue
		}
		twice := slices.IndexFunc(policies, func(q *v1alpha1.PodPolicy) bool { return q.Name == p.Name })
		switch {
		case twice < 0:
			policies = append(policies, p)
		case !apiequality.Semantic.DeepEqual(policies[twice].Spec, p.Spec):
			errs = append(errs, &manifest.Error{File: d.File, Line: d.Line, Message: fmt.Sprintf("PodPolicy %s is there twice, and not the same", p.Name)})
		}
	}
	return policies, manifest.Locate(errs)
}

// UnknownFields says which fields of manifests the API does not have, as kubectl does with its strict validation: a typo would be
// dropped without a word. What is of a kind that no decision reads, an AdmissionReview, or an object that a cluster has stored
// already, perhaps of a later version, is passed over.
func (s *State) UnknownFields(ctx context.Context, documents []*manifest.Document) ([]*manifest.Error, error) {
	wrong := make([][]*manifest.Error, len(documents))
	err := Each(ctx, len(documents), nil, func(i int) bool {
		wrong[i] = s.unknownFields(documents[i])
		return true
	})
	return slices.Concat(wrong...), err
}

func (s *State) unknownFields(d *manifest.Document) []*manifest.Error {
	o, err := s.empty(d.APIVersion, d.Kind)
	if err != nil || o == nil || policyfile.IsPolicy(d) {
		return nil // which is checked where it is loaded
	}
	strict, err := json.UnmarshalStrict(d.JSON, o)
	if err != nil || stored(o) {
		return nil // what can't be decoded is told by the review
	}
	var errs []*manifest.Error
	for _, e := range strict {
		wrong := d.Wrong(fmt.Errorf("%s %s: %w", d.Kind, d.Name, e))
		if of, ok := errors.AsType[json.FieldError](e); ok {
			wrong.Field = of.FieldPath()
		}
		errs = append(errs, wrong)
	}
	return errs
}

// stored reports whether an object came out of a cluster.
func stored(o metav1.Object) bool { return o.GetUID() != "" || o.GetResourceVersion() != "" }

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

package apiserver

import (
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/json"
)

// Request is a request to the API server and what is known of its surroundings.
type Request struct {
	// AdmissionRequest as a webhook would get it. Its objects are read from their JSON (Raw).
	*admissionv1.AdmissionRequest
	// Namespace of the request; nil: unknown.
	Namespace *corev1.Namespace
	// Authorizer answers what expressions ask of the user's rights; nil: unknown.
	Authorizer Authorizer
	// Params are objects that policies may have as parameters: the PodPolicies, all of them. Others are passed over.
	Params []runtime.Object

	// labelled is Namespace with the label that the API server gives it.
	labelled *corev1.Namespace
}

// kinds are those that our rules name, and what they may have for parameters.
var kinds = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, storagev1.AddToScheme} {
		utilruntime.Must(add(scheme))
	}
	return scheme
}()

// evaluation is one request in the course of several webhooks or policies.
type evaluation struct {
	*Request
	rulesOnly admission.Attributes
	decoded   *admission.VersionedAttributes
}

// plain are the request's attributes without its objects, which is enough for rules.
func (e *evaluation) plain() admission.Attributes {
	if e.rulesOnly == nil {
		e.rulesOnly = e.attributesWith(nil, nil, nil)
	}
	return e.rulesOnly
}

// versioned are all attributes, which most requests never need.
func (e *evaluation) versioned() (*admission.VersionedAttributes, error) {
	var err error
	if e.decoded == nil {
		e.decoded, err = e.attributes()
	}
	return e.decoded, err
}

// attributes are the request's attributes as expressions see them.
func (r *Request) attributes() (*admission.VersionedAttributes, error) {
	object, err := r.decode("object", r.Object.Raw)
	if err != nil {
		return nil, err
	}
	old, err := r.decode("old object", r.OldObject.Raw)
	if err != nil {
		return nil, err
	}
	options, err := r.options()
	if err != nil {
		return nil, err
	}
	return &admission.VersionedAttributes{
		Attributes:      r.attributesWith(object, old, options),
		VersionedKind:   schema.GroupVersionKind(r.Kind),
		VersionedObject: object, VersionedOldObject: old,
	}, nil
}

func (r *Request) attributesWith(object, old, options runtime.Object) admission.Attributes {
	return admission.NewAttributesRecord(object, old, schema.GroupVersionKind(r.Kind), r.AdmissionRequest.Namespace, r.Name,
		schema.GroupVersionResource(r.Resource), r.SubResource, admission.Operation(r.Operation), options, r.DryRun != nil && *r.DryRun, r.user())
}

// user has a name and groups, which the API server always gives, and expressions count on.
func (r *Request) user() user.Info {
	info := &user.DefaultInfo{Name: r.UserInfo.Username, UID: r.UserInfo.UID, Groups: r.UserInfo.Groups, Extra: map[string][]string{}}
	for key, values := range r.UserInfo.Extra {
		info.Extra[key] = values
	}
	group := user.AllAuthenticated
	if info.Name == "" {
		info.Name, group = user.Anonymous, user.AllUnauthenticated
	}
	if len(info.Groups) == 0 {
		info.Groups = []string{group}
	}
	return info
}

// decode reads an object as the API server does, into its type, by which fields are dropped that are null or that the type
// does not have: both would be there for an expression. Expressions then see it as a map, which is made here once for all of
// them.
func (r *Request) decode(what string, raw []byte) (runtime.Object, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	kind := schema.GroupVersionKind(r.Kind)
	typed, err := kinds.New(served(kind))
	if err != nil {
		typed = &unstructured.Unstructured{}
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(raw, typed); err != nil {
		return nil, fmt.Errorf("decode the %s of %s %s: %w", what, kind.Kind, r.fullName(), err)
	}
	typed.GetObjectKind().SetGroupVersionKind(kind)
	return asMap(typed)
}

// served is the version in which a kind is known here. The API server converts to it what comes in another one.
func served(kind schema.GroupVersionKind) schema.GroupVersionKind {
	if kinds.Recognizes(kind) {
		return kind
	}
	for _, version := range kinds.VersionsForGroupKind(kind.GroupKind()) {
		return version.WithKind(kind.Kind)
	}
	return kind
}

func asMap(typed runtime.Object) (*unstructured.Unstructured, error) {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(typed)
	if err != nil {
		return nil, fmt.Errorf("convert a %T for expressions: %w", typed, err)
	}
	return &unstructured.Unstructured{Object: content}, nil
}

// options are never absent in the API server.
func (r *Request) options() (runtime.Object, error) {
	var options runtime.Object
	switch r.Operation {
	case admissionv1.Create:
		options = &metav1.CreateOptions{}
	case admissionv1.Update:
		options = &metav1.UpdateOptions{}
	case admissionv1.Delete:
		options = &metav1.DeleteOptions{}
	default:
		return nil, nil
	}
	if len(r.Options.Raw) > 0 {
		if err := json.UnmarshalCaseSensitivePreserveInts(r.Options.Raw, options); err != nil {
			return nil, fmt.Errorf("decode the options of %s %s: %w", r.Kind.Kind, r.fullName(), err)
		}
	}
	return options, nil
}

// fullName is for messages.
func (r *Request) fullName() string {
	if r.AdmissionRequest.Namespace == "" {
		return r.Name
	}
	return r.AdmissionRequest.Namespace + "/" + r.Name
}

// namespace is labelled with its name, whether it was read from a file or is unknown: most selectors look at no other label.
func (r *Request) namespace() *corev1.Namespace {
	if r.labelled == nil {
		r.labelled = r.Namespace.DeepCopy()
		if r.labelled == nil {
			r.labelled = &corev1.Namespace{}
		}
		r.labelled.Name = r.AdmissionRequest.Namespace
		nameLabel(r.labelled)
	}
	return r.labelled
}

package collect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"

	"github.com/podgrace/podgrace/cli/doctor"
	"github.com/podgrace/podgrace/cli/input"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/pod/graceperiod/deadline"
)

// absent is why a source is unread that files do not have.
const absent = "it is not in --state"

// kinds are those whose objects a source has in files.
var kinds = map[string]doctor.Source{
	"Node": doctor.Nodes, "Deployment": doctor.Deployments, "DaemonSet": doctor.DaemonSets, "MutatingWebhookConfiguration": doctor.Mutating,
	"ValidatingWebhookConfiguration": doctor.Validating, "ValidatingAdmissionPolicy": doctor.AdmissionPolicies, "ValidatingAdmissionPolicyBinding": doctor.AdmissionBindings,
	"CustomResourceDefinition": doctor.CRDs, "PodPolicy": doctor.PodPolicies, "NodePolicy": doctor.NodePolicies, "NodePool": doctor.NodePools, "PriorityClass": doctor.PriorityClasses, "VolumeLock": doctor.VolumeLocks, "CSIDriver": doctor.CSIDrivers, "VolumeAttachment": doctor.VolumeAttachments, "Namespace": doctor.Namespace, "Pod": doctor.Pods,
	"PodDisruptionBudget": doctor.Budgets, "ResourceQuota": doctor.Quotas, "LimitRange": doctor.LimitRanges, "Lease": doctor.Leases, "Role": doctor.Roles, "RoleBinding": doctor.RoleBindings,
}

// listed counts as read what the files have a list of.
func listed(s *doctor.Snapshot, files *input.Reader) {
	for _, l := range files.Listed {
		delete(s.Unread, kinds[l.Kind])
		if l.Kind == "Pod" {
			delete(s.Unread, doctor.Records)
		}
	}
}

// FromFiles reads what kubectl get -o yaml has written. A kind of which there is no object and no list counts as unread. Of what is looked at in Podgrace's own namespace
// alone, the objects of another one tell nothing.
func FromFiles(files *input.Reader, o Options, paths ...string) (*doctor.Snapshot, []*manifest.Error) {
	s := newSnapshot(o)
	for source := range doctor.Rights() {
		s.Unread[source] = absent
	}
	decode := serializer.NewCodecFactory(newScheme()).UniversalDeserializer()
	var (
		errs    []*manifest.Error
		objects []runtime.Object
	)
	for d, wrong := range files.Read(paths...) {
		if wrong != nil {
			errs = append(errs, wrong)
			continue
		}
		if kinds[d.Kind] == "" {
			continue
		}
		object, wrong := decodeDocument(decode, d)
		if wrong != nil {
			errs = append(errs, wrong)
		} else if object != nil {
			objects = append(objects, object)
		}
	}
	listed(s, files)
	for i, object := range objects { // first the configurations, which say where Podgrace is
		switch object.(type) {
		case *admissionregistrationv1.MutatingWebhookConfiguration, *admissionregistrationv1.ValidatingWebhookConfiguration:
			s.Add(object)
			delete(s.Unread, kinds[object.GetObjectKind().GroupVersionKind().Kind])
			objects[i] = nil
		}
	}
	s.OwnNamespace = cmp.Or(o.Namespace, s.NamespaceOf(), doctor.DefaultNamespace)
	for _, object := range objects {
		if object != nil {
			s.Add(object)
			if object.GetObjectKind().GroupVersionKind().Kind == "Pod" {
				delete(s.Unread, doctor.Records) // of whatever namespace
			}
			if source := kinds[object.GetObjectKind().GroupVersionKind().Kind]; tells(source, object, s.OwnNamespace) {
				delete(s.Unread, source)
			}
		}
	}
	elsewhere(s)
	return s, errs
}

// elsewhere counts as read what other sources tell of.
func elsewhere(s *doctor.Snapshot) {
	if s.Unread[doctor.Nodes] == "" && !slices.ContainsFunc(s.Nodes, func(n corev1.Node) bool { return n.Labels[deadline.LabelNodePool] != "" }) {
		delete(s.Unread, doctor.NodePools) // a cluster without Karpenter has no such kind
	}
	if len(s.ControllerManagers) > 0 {
		delete(s.Unread, doctor.ControllerManagers)
	}
}

// decodeDocument is nil for an object of another group.
func decodeDocument(decode runtime.Decoder, d *manifest.Document) (runtime.Object, *manifest.Error) {
	if deadline.IsNodePool(schema.FromAPIVersionAndKind(d.APIVersion, d.Kind).GroupKind()) { // this program has no type for it
		var pool unstructured.Unstructured
		if err := json.Unmarshal(d.JSON, &pool.Object); err != nil {
			return nil, d.Wrong(err)
		}
		return &pool, nil
	}
	object, _, err := decode.Decode(d.JSON, nil, nil)
	switch {
	case runtime.IsNotRegisteredError(err):
		return nil, nil
	case err != nil:
		return nil, &manifest.Error{File: d.File, Line: d.Line, Message: fmt.Sprintf("%s %s: %v", d.Kind, d.Name, err)}
	}
	return object, nil
}

// tells reports whether an object is of what a source has, so that it was read.
func tells(source doctor.Source, object runtime.Object, own string) bool {
	o, err := meta.Accessor(object)
	switch {
	case err != nil:
		return false
	case source == doctor.Namespace:
		return o.GetName() == own
	case source == doctor.CRDs:
		return slices.Contains(doctor.Rights()[source].Names, o.GetName())
	}
	return doctor.Rights()[source].Scope != doctor.InOwn || o.GetNamespace() == own
}

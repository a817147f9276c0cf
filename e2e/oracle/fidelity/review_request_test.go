package fidelity

import (
	"encoding/json"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/apiserver"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy/policytest/draw"
)

// routeCase is a request as it comes to admission, with what it is judged by.
type routeCase struct {
	Resource, Subresource string
	Kind                  schema.GroupVersionKind
	Operation             admissionv1.Operation
	Namespace, Name       string
	User                  authenticationv1.UserInfo
	Object, Old           runtime.Object
	Options               runtime.Object
	// Right is what the authorizer says of everything.
	Right  apiserver.Answer
	Actors []string
	// Idle: no policy denies or warns about removals, so that the guard is not armed.
	Idle     bool
	Policies []*v1alpha1.PodPolicy
}

func (c *routeCase) GoString() string { return draw.Show(c) }

const judgedNode = "n0"

var routeCases = draw.Of(func(s draw.Source) *routeCase {
	c := &routeCase{
		Namespace: draw.Pick(s, namespace, namespace, namespace, otherNamespace, "kube-system", "podgrace-system"), Name: "db-0",
		User:   draw.Pick(s, userAlice, userAlice, userAlice, userKubelet, userEnforcer, userController, userRepair),
		Right:  draw.Pick(s, apiserver.No, apiserver.Yes, apiserver.Yes, apiserver.Unknown),
		Actors: draw.Pick(s, nil, []string{userRepair.Username}), Idle: s.Rarely(),
	}
	switch s.Below(9) {
	case 0, 1, 8:
		c.drawPodDelete(s)
	case 2, 3:
		c.drawPodUpdate(s)
	case 4, 5:
		c.drawEviction(s)
	case 6:
		c.drawNode(s)
	case 7:
		c.drawWorkload(s)
	}
	return c
})

var (
	userAlice      = authenticationv1.UserInfo{Username: "alice", Groups: []string{"system:authenticated"}}
	userKubelet    = authenticationv1.UserInfo{Username: "system:node:n0", Groups: []string{"system:nodes", "system:authenticated"}}
	userEnforcer   = authenticationv1.UserInfo{Username: "system:serviceaccount:podgrace-node:podgrace-nodeenforcer", Groups: []string{"system:authenticated"}}
	userController = authenticationv1.UserInfo{Username: "system:kube-controller-manager", Groups: []string{"system:authenticated"}}
	userRepair     = authenticationv1.UserInfo{Username: `ops\"repair`, Groups: []string{"system:authenticated"}}
)

func (c *routeCase) of(operation admissionv1.Operation, resource, subresource string, kind schema.GroupVersionKind) {
	c.Operation, c.Resource, c.Subresource, c.Kind = operation, resource, subresource, kind
	switch operation {
	case admissionv1.Create:
		c.Options = &metav1.CreateOptions{}
	case admissionv1.Update:
		c.Options = &metav1.UpdateOptions{}
	}
}

func (c *routeCase) drawPodDelete(s draw.Source) {
	c.of(admissionv1.Delete, "pods", "", podKind)
	c.Old = drawRemoved(s, c.Namespace, c.Name)
	c.Options = &metav1.DeleteOptions{GracePeriodSeconds: draw.Maybe[int64](s, 13, 0, 0, 1, 30)}
}

func (c *routeCase) drawPodUpdate(s draw.Source) {
	c.of(admissionv1.Update, "pods", draw.Pick(s, "status", "", "resize", "ephemeralcontainers"), podKind)
	if s.Rarely() {
		c.Operation = admissionv1.Create
	}
	old := drawRemoved(s, c.Namespace, c.Name)
	now := old.DeepCopy()
	if s.Chance(8) {
		now.Status.Phase = draw.Pick(s, corev1.PodFailed, corev1.PodSucceeded, corev1.PodRunning)
	}
	if s.Chance(8) {
		now.Finalizers = nil
	}
	if s.Chance(5) {
		c.User = userKubelet
	}
	if s.Chance(8) {
		now.Annotations = drawRemoved(s, c.Namespace, c.Name).Annotations
	}
	c.Old, c.Object = old, now
}

func (c *routeCase) drawEviction(s draw.Source) {
	c.of(admissionv1.Create, "pods", "eviction", policyv1.SchemeGroupVersion.WithKind("Eviction"))
	e := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name}}
	if s.Chance(10) {
		e.DeleteOptions = &metav1.DeleteOptions{GracePeriodSeconds: draw.Maybe[int64](s, 12, 0, 0, 5)}
	}
	c.Object = e
}

func (c *routeCase) drawNode(s draw.Source) {
	c.Namespace, c.Name = "", judgedNode
	if s.Chance(4) {
		c.of(admissionv1.Delete, "volumeattachments", "", storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"))
		c.Old, c.Options = &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: c.Name}, Status: storagev1.VolumeAttachmentStatus{Attached: s.Chance(12)}}, &metav1.DeleteOptions{}
		return
	}
	operation := draw.Pick(s, admissionv1.Update, admissionv1.Update, admissionv1.Delete, admissionv1.Create)
	c.of(operation, "nodes", draw.Pick(s, "", "", "status"), corev1.SchemeGroupVersion.WithKind("Node"))
	if operation != admissionv1.Create {
		c.Old = drawJudgedNode(s)
	}
	if operation != admissionv1.Delete {
		c.Object = drawJudgedNode(s)
	} else {
		c.Options = &metav1.DeleteOptions{}
	}
}

func (c *routeCase) drawWorkload(s draw.Source) {
	template := func() corev1.PodTemplateSpec {
		return corev1.PodTemplateSpec{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: draw.Maybe[int64](s, 14, 0, 0, 0, 0, 30)}}
	}
	meta := metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Name, OwnerReferences: drawOwners(s)}
	if s.Chance(10) {
		meta.OwnerReferences = nil
	}
	operation := draw.Pick(s, admissionv1.Create, admissionv1.Update)
	if s.Chance(5) {
		c.of(operation, "deployments", "", appsv1.SchemeGroupVersion.WithKind("Deployment"))
		c.Object, c.Old = &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template()}}, &appsv1.Deployment{ObjectMeta: meta, Spec: appsv1.DeploymentSpec{Template: template()}}
	} else {
		c.of(operation, "statefulsets", "", appsv1.SchemeGroupVersion.WithKind("StatefulSet"))
		c.Object, c.Old = &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: template()}}, &appsv1.StatefulSet{ObjectMeta: meta, Spec: appsv1.StatefulSetSpec{Template: template()}}
	}
	if operation == admissionv1.Create {
		c.Old = nil
	}
	for _, name := range draw.Some(s, 13, "p", "q") {
		c.Policies = append(c.Policies, drawZeroGrace(s, name))
	}
}

func drawZeroGrace(s draw.Source, name string) *v1alpha1.PodPolicy {
	p := &v1alpha1.PodPolicy{TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "PodPolicy"}, ObjectMeta: metav1.ObjectMeta{Name: name}}
	if s.Chance(14) {
		p.Spec.Removal = &v1alpha1.RemovalSection{ZeroGrace: draw.Pick(s, v1alpha1.ZeroGraceDeny, v1alpha1.ZeroGraceDeny, v1alpha1.ZeroGraceDeny, v1alpha1.ZeroGraceDeny, v1alpha1.ZeroGraceRaise, v1alpha1.ZeroGraceWarn, "")}
	}
	if s.Chance(7) {
		selector := &v1alpha1.LabelSelector{}
		if s.Chance(9) {
			selector.MatchLabels = map[string]v1alpha1.LabelValue{"team": draw.Pick(s, v1alpha1.LabelValue("till"), "vault")}
		}
		if s.Chance(9) {
			selector.MatchExpressions = []v1alpha1.LabelSelectorRequirement{draw.Pick(s,
				v1alpha1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpIn, Values: []string{"till", "x"}},
				v1alpha1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"till"}},
				v1alpha1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpExists},
				v1alpha1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpDoesNotExist})}
		}
		p.Spec.Match = &v1alpha1.PodMatch{NamespaceSelector: selector}
	}
	return p
}

// drawRemoved makes a pod that is being removed, or could be.
func drawRemoved(s draw.Source, in, name string) *corev1.Pod {
	p := &corev1.Pod{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}, ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name, UID: "u"}}
	p.Spec.NodeName = draw.Pick(s, judgedNode, judgedNode, judgedNode, "")
	p.Spec.TerminationGracePeriodSeconds = draw.Maybe[int64](s, 14, 30, 30, 0)
	p.Status.Phase = draw.Pick(s, corev1.PodRunning, corev1.PodRunning, corev1.PodPending, corev1.PodFailed, "")
	if s.Chance(8) {
		p.DeletionTimestamp = &metav1.Time{Time: metav1.Unix(1700000000, 0).Time}
		p.DeletionGracePeriodSeconds = draw.Maybe[int64](s, 14, 0, 0, 30)
	}
	if s.Chance(4) {
		p.Finalizers = []string{"example.org/hold"}
	}
	annotate(s, 10, p, guard.AnnotationConfirmForceDelete, "u/2026-01-01T10:00:00Z", "u/2026-01-01T10:00:00Z/2026-01-01T09:00:00.5Z", "u", "u/", "other/2026-01-01T10:00:00Z", "")
	annotate(s, 7, p, v1alpha1.AnnotationEnforcement, "{}", `{"oom":{"rank":50}}`)
	if s.Chance(8) {
		at := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC).Add(draw.Pick(s, 0, time.Minute, 6*time.Minute, time.Hour))
		field := draw.Pick(s, guard.AnnotationConfirmForceDelete, guard.AnnotationConfirmForceDelete, "a")
		p.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: "kubectl", Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &metav1.Time{Time: at},
			FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:` + field + `":{}}}}`),
		}}
	}
	return p
}

func drawJudgedNode(s draw.Source) *corev1.Node {
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: judgedNode, UID: types.UID(draw.Pick(s, "n", "n", "m"))}}
	if s.Chance(8) {
		n.Spec.Taints = []corev1.Taint{{Key: draw.Pick(s, corev1.TaintNodeOutOfService, corev1.TaintNodeOutOfService, "x"), Effect: corev1.TaintEffectNoExecute}}
	}
	if s.Chance(10) {
		n.Annotations = map[string]string{"podgrace.dev/confirm-off": draw.Pick(s, "n/b/2023-11-14T22:13:30Z/", "n/b/2023-11-14T22:13:30Z/2023-11-14T22:13:31.000000Z", "n/b//", "n/b", "n/c/2023-11-14T22:13:30Z/", "")}
	}
	if s.Chance(6) {
		n.Finalizers = []string{"example.org/drain"}
	}
	if s.Chance(4) {
		n.DeletionTimestamp = &metav1.Time{Time: metav1.Unix(1700000000, 0).Time}
	}
	n.Status.NodeInfo.BootID = draw.Pick(s, "b", "b", "")
	if s.Chance(14) {
		n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: draw.Pick(s, corev1.ConditionUnknown, corev1.ConditionFalse, corev1.ConditionTrue), LastHeartbeatTime: draw.Pick(s, metav1.Unix(1700000000, 0), metav1.Unix(1700000010, 0), metav1.Unix(1700000011, 0), metav1.Time{})}}
	}
	return n
}

// reviewed is the request as the review has it.
func (c *routeCase) reviewed(t fataler) apiserver.Request {
	group, version := c.Kind.Group, c.Kind.Version
	if c.Resource == "pods" {
		group = ""
	}
	r := apiserver.Request{AdmissionRequest: &admissionv1.AdmissionRequest{
		UID: "1", Kind: metav1.GroupVersionKind(c.Kind), Resource: metav1.GroupVersionResource{Group: group, Version: version, Resource: c.Resource}, SubResource: c.Subresource,
		Namespace: c.Namespace, Name: c.Name, Operation: c.Operation, UserInfo: c.User,
		Object: raw(t, c.Object), OldObject: raw(t, c.Old), Options: raw(t, c.Options),
	}, Authorizer: c}
	if c.Namespace != "" {
		r.Namespace = namespaceOf(c.Namespace)
	}
	for _, p := range c.Policies {
		r.Params = append(r.Params, p)
	}
	return r
}

func namespaceOf(name string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelMetadataName: name}}}
	if name == namespace {
		ns.Labels["team"] = "till"
	}
	return ns
}

func raw(t fataler, o runtime.Object) runtime.RawExtension {
	if o == nil {
		return runtime.RawExtension{}
	}
	text, err := json.Marshal(o)
	if err != nil {
		t.Fatalf("encoding: %v", err)
	}
	return runtime.RawExtension{Raw: text}
}

package confirm_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	kubefake "k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/policy"
)

func client(objects ...runtime.Object) (*confirm.Client, *kubefake.Clientset) {
	kube := kubefake.NewClientset(objects...)
	return &confirm.Client{Kube: kube, Clock: testingclock.NewFakePassiveClock(now)}, kube
}

// fail makes one kind of call fail.
func fail(kube *kubefake.Clientset, verb, resource string, err error) {
	kube.PrependReactor(verb, resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
}

var (
	forbidden = apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "x", nil)
	conflict  = apierrors.NewConflict(schema.GroupResource{Resource: "things"}, "x", nil)
)

func silentNode() []runtime.Object {
	s := node(corev1.ConditionUnknown, 12*time.Minute)
	s.Lease.Namespace, s.Lease.Name = corev1.NamespaceNodeLease, "worker-3"
	return []runtime.Object{s.Node, s.Lease}
}

func claim(namespace, name, volume string, mode corev1.PersistentVolumeAccessMode) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{mode}, VolumeName: volume}}
}

func TestReadPod(t *testing.T) {
	p := pod().Pod
	p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: "scratch", VolumeSource: corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{}}})
	objects := append(silentNode(), p, claim("shop", "data-db-0", "pv-1", corev1.ReadWriteOnce), claim("shop", "db-0-scratch", "pv-2", corev1.ReadWriteOncePod))
	c, _ := client(objects...)
	f, err := c.Pod(t.Context(), "shop", "db-0")
	if err != nil {
		t.Fatal(err)
	}
	if f.Node.State != guard.NodePresent || f.Node.Ready || !f.Node.Heartbeat.Equal(now.Add(-12*time.Minute)) || !f.Now.Equal(now) {
		t.Errorf("got %+v", f.Node)
	}
	want := []confirm.Claim{
		{Name: "data-db-0", Claim: policy.Claim{Volume: "pv-1", Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}}},
		{Name: "archive", Unknown: "it does not exist"},
		{Name: "db-0-scratch", Claim: policy.Claim{Volume: "pv-2", Modes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOncePod}}},
	}
	if diff := cmp.Diff(want, f.Claims); diff != "" {
		t.Error(diff)
	}
}

// Who administers a namespace may often not read nodes.
func TestReadPodWithFewRights(t *testing.T) {
	for name, tc := range map[string]struct {
		resource string
		err      error
		state    guard.NodeState
		unknown  string
	}{
		"nodes":  {"nodes", forbidden, guard.NodeUnknown, "you may not read it"},
		"leases": {"leases", forbidden, guard.NodeUnknown, "it is not ready, and its lease could not be read: you may not read it"},
		"gone":   {"nodes", apierrors.NewNotFound(schema.GroupResource{}, "worker-3"), guard.NodeGone, ""},
	} {
		t.Run(name, func(t *testing.T) {
			c, kube := client(append(silentNode(), pod().Pod)...)
			fail(kube, "get", tc.resource, tc.err)
			f, err := c.Pod(t.Context(), "shop", "db-0")
			if err != nil || f.Node.State != tc.state || f.NodeUnknown != tc.unknown || f.Node.Name != "worker-3" {
				t.Errorf("got %+v, %q, %v", f.Node, f.NodeUnknown, err)
			}
		})
	}
}

func TestNotFound(t *testing.T) {
	c, _ := client()
	if _, err := c.Pod(t.Context(), "shop", "worker-3"); err == nil || !strings.Contains(err.Error(), "there is no pod shop/worker-3 (if you mean a node: node/worker-3)") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Node(t.Context(), "worker-9"); err == nil || err.Error() != "there is no node worker-9" {
		t.Errorf("got %v", err)
	}
}

func TestReadNode(t *testing.T) {
	c, kube := client(silentNode()...)
	if s, err := c.Node(t.Context(), "worker-3"); err != nil || s.Lease == nil || s.LeaseUnknown != "" {
		t.Errorf("got %+v, %v", s, err)
	}
	fail(kube, "get", "leases", apierrors.NewNotFound(schema.GroupResource{}, "worker-3"))
	if s, err := c.Node(t.Context(), "worker-3"); err != nil || s.Lease != nil || s.LeaseUnknown != "" {
		t.Errorf("no lease: got %+v, %v", s, err)
	}
	fail(kube, "get", "leases", forbidden)
	if s, err := c.Node(t.Context(), "worker-3"); err != nil || s.LeaseUnknown != "you may not read it" {
		t.Errorf("forbidden: got %+v, %v", s, err)
	}
}

func TestBurden(t *testing.T) {
	db, done, web, ledger := pod().Pod, pod().Pod, pod().Pod, pod().Pod
	done.Name, done.Status.Phase = "done", corev1.PodSucceeded
	web.Name, web.OwnerReferences, web.Spec.Volumes = "web", owner("ReplicaSet", "web"), nil
	ledger.Name, ledger.OwnerReferences, ledger.Spec.Volumes = "ledger", nil, []corev1.Volume{claimed("shared"), claimed("ledger")}
	volume := "pv-1"
	here := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "a", Annotations: map[string]string{v1alpha1.AnnotationVolumeLock: "volume-1"}}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "worker-3", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}}, Status: storagev1.VolumeAttachmentStatus{Attached: true}}
	there := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "b"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "worker-4"}}
	lost := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "c", Annotations: map[string]string{v1alpha1.AnnotationVolumeLock: "volume-2"}}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "worker-3"}} // what it names another node holds
	c, kube := client(db, done, web, ledger, here, there, lost, claim("shop", "shared", "pv-2", corev1.ReadWriteMany), claim("shop", "ledger", "pv-3", corev1.ReadWriteOnce))
	want := confirm.Burden{
		Pods: []confirm.BoundPod{
			{Namespace: "shop", Name: "db-0", Why: "it is a pod of StatefulSet db"},
			{Namespace: "shop", Name: "ledger", Why: "its claim ledger is ReadWriteOnce"},
			{Namespace: "shop", Name: "web"},
		},
		Attachments: []confirm.Attachment{{Name: "c", Volume: "inline"}, {Name: "a", Volume: "pv-1", Attached: true, Lock: "volume-1"}},
	}
	if diff := cmp.Diff(want, c.Burden(t.Context(), "worker-3")); diff != "" {
		t.Error(diff)
	}
	fail(kube, "list", "pods", forbidden)
	fail(kube, "list", "volumeattachments", forbidden)
	if diff := cmp.Diff(confirm.Burden{PodsUnknown: "you may not read it", AttachmentsUnknown: "you may not read it"}, c.Burden(t.Context(), "worker-3")); diff != "" {
		t.Error(diff)
	}
}

func TestMay(t *testing.T) {
	c, kube := client()
	kube.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: "alice"}}}, nil
	})
	var asked []authorizationv1.ResourceAttributes
	kube.PrependReactor("create", "selfsubjectaccessreviews", func(a clienttesting.Action) (bool, runtime.Object, error) {
		review := a.(clienttesting.CreateAction).GetObject().(*authorizationv1.SelfSubjectAccessReview).DeepCopy()
		asked = append(asked, *review.Spec.ResourceAttributes)
		review.Status.Allowed = review.Spec.ResourceAttributes.Verb != guard.ConfirmVerb
		return true, review, nil
	})
	verb := confirm.Right{Verb: guard.ConfirmVerb, Group: "podgrace.dev", Resource: "pods", Namespace: "shop", Name: "db-0"}
	patch := confirm.Right{Verb: "patch", Resource: "pods", Namespace: "shop", Name: "db-0"}
	p, err := c.May(t.Context(), []confirm.Right{verb, patch})
	if diff := cmp.Diff(confirm.Permission{User: "alice", Needed: []confirm.Right{verb, patch}, Missing: []confirm.Right{verb}}, p); err != nil || diff != "" {
		t.Error(err, diff)
	}
	if diff := cmp.Diff(authorizationv1.ResourceAttributes{Verb: "force-delete", Group: "podgrace.dev", Resource: "pods", Namespace: "shop", Name: "db-0"}, asked[0]); diff != "" {
		t.Error(diff)
	}
	fail(kube, "create", "selfsubjectaccessreviews", forbidden)
	if _, err := c.May(t.Context(), []confirm.Right{verb}); err == nil {
		t.Error("an unanswered review must not count as a right")
	}
}

// patched returns the metadata of the patches that were sent.
func patched(t *testing.T, kube *kubefake.Clientset) (all []map[string]any) {
	t.Helper()
	for _, a := range kube.Actions() {
		if p, ok := a.(clienttesting.PatchAction); ok {
			var patch map[string]map[string]any
			if err := json.Unmarshal(p.GetPatch(), &patch); err != nil {
				t.Fatal(err)
			}
			all = append(all, patch["metadata"])
		}
	}
	return all
}

// noted has the API server note who writes to the pod. (client-go's fake does not keep managedFields as they are given.)
func noted(kube *kubefake.Clientset, p *corev1.Pod) {
	kube.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) {
		stored := p.DeepCopy()
		stored.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "kubelet"}}
		return true, stored, nil
	})
}

func TestConfirmPod(t *testing.T) {
	p := pod().Pod
	p.ResourceVersion = "7"
	c, kube := client(p)
	noted(kube, p)
	if err := c.ConfirmPod(t.Context(), p, "text"); err != nil {
		t.Fatal(err)
	}
	want := []map[string]any{{"uid": string(p.UID), "resourceVersion": "7", "annotations": map[string]any{guard.AnnotationConfirmForceDelete: "text"}}}
	if diff := cmp.Diff(want, patched(t, kube)); diff != "" {
		t.Error(diff)
	}
}

// A pod whose managedFields somebody emptied is confirmed by server-side apply, by which the API server notes writes again: it takes no other confirmation.
func TestConfirmPodOfWhichNothingIsNoted(t *testing.T) {
	p := pod().Pod
	p.ResourceVersion = "7"
	c, kube := client(p)
	var applied []clienttesting.PatchActionImpl
	kube.PrependReactor("patch", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		applied = append(applied, a.(clienttesting.PatchActionImpl))
		return true, p, nil
	})
	kube.PrependReactor("get", "pods", func(clienttesting.Action) (bool, runtime.Object, error) { return true, p, nil })
	if err := c.ConfirmPod(t.Context(), p, "text"); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"apiVersion": "v1", "kind": "Pod", "metadata": map[string]any{
		"namespace": p.Namespace, "name": p.Name, "uid": string(p.UID), "resourceVersion": "7", "annotations": map[string]any{guard.AnnotationConfirmForceDelete: "text"},
	}}
	if len(applied) != 1 || applied[0].PatchType != types.ApplyPatchType || !*applied[0].PatchOptions.Force {
		t.Fatalf("got %+v", applied)
	}
	var got map[string]any
	if err := json.Unmarshal(applied[0].Patch, &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// forceDeletedHalfWay is a pod that any update removes, with a field that this program does not know.
func forceDeletedHalfWay() (*corev1.Pod, *unstructured.Unstructured) {
	p := pod().Pod
	p.Finalizers, p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.ResourceVersion = nil, &metav1.Time{Time: now}, new(int64(0)), "7"
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(p)
	if err != nil {
		panic(err)
	}
	u := &unstructured.Unstructured{Object: object}
	u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	object["spec"].(map[string]any)["later"] = "unknown"
	return p, u
}

// A pod that is removed by its confirmation is put back whole, by its UID: a patch would remove who has its name by then.
func TestConfirmPodThatIsRemovedByIt(t *testing.T) {
	p, stored := forceDeletedHalfWay()
	c, kube := client(p)
	others := dynamicfake.NewSimpleDynamicClient(runtime.NewScheme(), stored)
	c.Dynamic = others
	if err := c.ConfirmPod(t.Context(), p, "text"); err != nil {
		t.Fatal(err)
	}
	var put []clienttesting.Action
	for _, a := range others.Actions() {
		if a.GetVerb() == "update" {
			put = append(put, a)
		}
	}
	if len(put) != 1 || len(patched(t, kube)) != 0 {
		t.Fatalf("%d times put, patched %v", len(put), patched(t, kube))
	}
	want := stored.DeepCopy()
	want.SetAnnotations(map[string]string{guard.AnnotationConfirmForceDelete: "text"})
	for k, v := range p.Annotations {
		if err := unstructured.SetNestedField(want.Object, v, "metadata", "annotations", k); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(want, put[0].(clienttesting.UpdateAction).GetObject()); diff != "" {
		t.Error(diff)
	}
}

func TestConfirmPodFails(t *testing.T) {
	successor := pod().Pod
	successor.UID = "another"
	for name, tc := range map[string]struct {
		now  []runtime.Object
		err  error
		says string
	}{
		"gone":      {nil, nil, "pod shop/db-0 is gone meanwhile"},
		"going":     {[]runtime.Object{pod().Pod}, apierrors.NewNotFound(schema.GroupResource{}, "db-0"), "pod shop/db-0 is gone meanwhile"},
		"replaced":  {[]runtime.Object{successor}, nil, "was replaced meanwhile, it is another one now (UID another)"},
		"written":   {[]runtime.Object{pod().Pod}, conflict, "write the confirmation to pod shop/db-0: Operation cannot be fulfilled"},
		"forbidden": {[]runtime.Object{pod().Pod}, forbidden, "write the confirmation to pod shop/db-0: things"},
	} {
		t.Run(name, func(t *testing.T) {
			c, kube := client(tc.now...)
			fail(kube, "patch", "pods", tc.err)
			if err := c.ConfirmPod(t.Context(), pod().Pod, "text"); err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestConfirmNode(t *testing.T) {
	n := silentNode()[0].(*corev1.Node)
	c, kube := client(n)
	if err := c.ConfirmNode(t.Context(), n, "text"); err != nil {
		t.Fatal(err)
	}
	set := map[string]any{"uid": nodeUID, "resourceVersion": "7", "annotations": map[string]any{guard.AnnotationConfirmOff: "text"}}
	if diff := cmp.Diff([]map[string]any{set}, patched(t, kube)); diff != "" {
		t.Error(diff)
	}
	for says, err := range map[string]error{
		"node worker-3 was written to meanwhile":      conflict,
		"node worker-3 is gone meanwhile":             apierrors.NewNotFound(schema.GroupResource{}, "worker-3"),
		"write the confirmation to node worker-3: th": forbidden,
	} {
		fail(kube, "patch", "nodes", err)
		if got := c.ConfirmNode(t.Context(), n, "text"); got == nil || !strings.Contains(got.Error(), says) {
			t.Errorf("got %v, want %q", got, says)
		}
	}
}

// A Fence that is at work for this boot releases its pods by the confirmation, so that nobody need taint the node by hand; others do nothing of it.
func TestReadNodeThatIsFenced(t *testing.T) {
	n := silentNode()[0].(*corev1.Node)
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		change func(*v1alpha1.Fence)
		want   string
	}{
		"at work":           {func(*v1alpha1.Fence) {}, "worker-3-1"},
		"over":              {func(f *v1alpha1.Fence) { f.Status.Phase = v1alpha1.FenceOver }, ""},
		"not decided":       {func(f *v1alpha1.Fence) { f.Status.Phase = v1alpha1.FenceWaiting }, ""},
		"of another boot":   {func(f *v1alpha1.Fence) { f.Spec.Node.BootID = "before" }, ""},
		"releases nothing":  {func(f *v1alpha1.Fence) { f.Status.Target.Release = v1alpha1.ReleaseNothing }, ""},
		"of an edited kind": {func(f *v1alpha1.Fence) { f.Status.Target = nil }, ""},
	} {
		f := &v1alpha1.Fence{
			TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Fence"}, ObjectMeta: metav1.ObjectMeta{Name: "worker-3-1"},
			Spec:   v1alpha1.FenceSpec{Node: v1alpha1.BootReference{Name: n.Name, UID: n.UID, BootID: n.Status.NodeInfo.BootID}},
			Status: v1alpha1.FenceStatus{Phase: v1alpha1.FenceActing, Target: &v1alpha1.FenceTarget{Release: v1alpha1.ReleasePodsAndTaint}},
		}
		tc.change(f)
		c, _ := client(n)
		c.Dynamic = dynamicfake.NewSimpleDynamicClient(scheme, f)
		if got, err := c.Node(t.Context(), n.Name); err != nil || got.Fence != tc.want {
			t.Errorf("%s: %q, %v", name, got.Fence, err)
		}
	}
}

// Where fencing is installed, a Fence that waits for a person finds a receipt in that person's name, for the boot as it was last heard of; elsewhere the annotation is all.
func TestConfirmNodeWritesAReceipt(t *testing.T) {
	n := silentNode()[0].(*corev1.Node)
	text := string(n.UID) + "/" + n.Status.NodeInfo.BootID + "/h/l"
	c, kube := client(n)
	kube.PrependReactor("create", "selfsubjectreviews", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, &authenticationv1.SelfSubjectReview{Status: authenticationv1.SelfSubjectReviewStatus{UserInfo: authenticationv1.UserInfo{Username: "jane"}}}, nil
	})
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	others := dynamicfake.NewSimpleDynamicClient(scheme)
	c.Dynamic = others
	if err := c.ConfirmNode(t.Context(), n, text); err != nil {
		t.Fatal(err)
	}
	var receipts v1alpha1.FenceReceiptList
	list, err := others.Resource(v1alpha1.GroupVersion.WithResource("fencereceipts")).List(t.Context(), metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(list.UnstructuredContent(), &receipts); err != nil || len(receipts.Items) != 1 {
		t.Fatalf("%d receipts, %v", len(receipts.Items), err)
	}
	want := v1alpha1.FenceReceiptSpec{
		Node: &v1alpha1.BootReference{Name: n.Name, UID: n.UID, BootID: n.Status.NodeInfo.BootID}, Class: v1alpha1.EvidenceConfirmed, By: "jane", LastSign: text,
		Message: "jane confirmed that this boot of node worker-3 is off",
	}
	if diff := cmp.Diff(want, receipts.Items[0].Spec); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for err, says := range map[error]string{
		apierrors.NewNotFound(schema.GroupResource{}, ""): "", // the kind is not installed
		forbidden: "", // there is no fencer, or one may not
		conflict:  "is confirmed to be off, but a Fence that waits for it will not see it",
	} {
		others.PrependReactor("create", "fencereceipts", func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		if got := c.ConfirmNode(t.Context(), n, text); fmt.Sprint(got) != "<nil>" && says == "" || says != "" && (got == nil || !strings.Contains(got.Error(), says)) {
			t.Errorf("got %v, want %q", got, says)
		}
	}
}

func TestComplete(t *testing.T) {
	c, _ := client(append(silentNode(), pod().Pod)...)
	for prefix, want := range map[string]string{"": "node/worker-3 db-0", "d": "db-0", "n": "node/worker-3", "node/w": "node/worker-3", "x": ""} {
		got, err := c.Complete(t.Context(), "shop", prefix)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%q: got %q, %v; want %q", prefix, got, err, want)
		}
	}
}

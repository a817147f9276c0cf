package apiserver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/adoption"
	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/cli/locks"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/volumelock"
)

// impatient is a clock that only waits move: each wait ends immediately, and ten seconds late.
type impatient struct{ *testclock.FakeClock }

func newImpatient() impatient { return impatient{testclock.NewFakeClock(time.Now())} }

func (c impatient) After(d time.Duration) <-chan time.Time {
	after := c.FakeClock.After(d)
	c.Step(d + 10*time.Second)
	return after
}

// A CSIDriver is immutable where it matters: the API server itself says so, and what is made in its place is the same but for that. The command dies between the two, and the next one goes on.
func TestAdoptDriver(t *testing.T) {
	s := shared.Get(t)
	const name = "adopt.example.com"
	kube, err := client.NewWithWatch(s.Config, client.Options{Scheme: locks.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	driver := &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "storage"}}, Spec: storagev1.CSIDriverSpec{
		AttachRequired: new(false), PodInfoOnMount: new(true), VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent, storagev1.VolumeLifecycleEphemeral},
	}}
	s.Create(t, driver)
	changed := driver.DeepCopy()
	changed.Spec.AttachRequired = new(true)
	if err := kube.Update(t.Context(), changed); !apierrors.IsInvalid(err) {
		t.Fatalf("attachRequired can be changed: %v", err)
	}
	namespace := s.Namespace(t)
	// Not ready from the first: where there are controllers, one would find that out between two looks.
	s.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "adopt-1"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot"}}})
	s.Create(t, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "adopt-1"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		ClaimRef: &corev1.ObjectReference{Namespace: namespace, Name: "data"}, PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: name, VolumeHandle: "handle"}},
	}})
	pod, _ := mustCreate(t, s, newPod(namespace, func(p *corev1.Pod) {
		p.Spec.NodeName = "adopt-1"
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}))

	out := &bytes.Buffer{}
	died := errors.New("it ended here")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	mortal := interceptor.NewClient(kube, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if _, is := o.(*storagev1.CSIDriver); is {
			cancel()
			return died
		}
		return c.Create(ctx, o, opts...)
	}})
	adopter := func(kube client.Client) *locks.Adopter {
		return &locks.Adopter{Client: &locks.Client{Kube: kube, Namespace: namespace}, Clock: newImpatient(), Session: &confirm.Session{Out: out, Err: out, Yes: true},
			Despite: []adoption.Code{adoption.SilentNodes, adoption.Managed}} // nodes of other tests; a client that is no kubectl
	}
	if done, err := adopter(mortal).Adopt(ctx, name); done || err != nil || !strings.Contains(out.String(), "--despite=no-volume-lock") {
		t.Fatalf("without a volume lock: %t, %v\n%s", done, err, out)
	}
	lock := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "podgrace-volumelock", Labels: map[string]string{"app.kubernetes.io/name": "podgrace-volumelock"}}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "lock"}},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "lock"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "lock", Image: "localhost/none:1", Args: []string{"--drivers=" + name}}}}},
	}}
	if err := kube.Create(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	if _, err := adopter(mortal).Adopt(ctx, name); !errors.Is(err, died) {
		t.Fatalf("%v\n%s", err, out)
	}
	if err := kube.Get(t.Context(), client.ObjectKey{Name: name}, &storagev1.CSIDriver{}); !apierrors.IsNotFound(err) {
		t.Fatalf("the CSIDriver is still there: %v", err)
	}
	if done, err := adopter(kube).Adopt(t.Context(), name); !done || err != nil {
		t.Fatalf("the next one: %t, %v\n%s", done, err, out)
	}
	var now storagev1.CSIDriver
	if err := kube.Get(t.Context(), client.ObjectKey{Name: name}, &now); err != nil {
		t.Fatal(err)
	}
	if !*now.Spec.AttachRequired || !*now.Spec.PodInfoOnMount || !slices.Equal(now.Spec.VolumeLifecycleModes, driver.Spec.VolumeLifecycleModes) || now.Labels["tier"] != "storage" || !volumelock.Adopted(&now) {
		t.Errorf("it is %+v", now)
	}
	var all v1alpha1.VolumeLockList
	if err := kube.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	mine := slices.DeleteFunc(all.Items, func(l v1alpha1.VolumeLock) bool { return l.Spec.Driver != name })
	if len(mine) != 1 || mine[0].Spec.Node.Name != "adopt-1" || mine[0].Spec.Node.UID == "" || mine[0].Spec.Node.BootID != "boot" || !mine[0].Spec.Adopted {
		t.Errorf("the locks are %+v", mine)
	}
	if t.Failed() {
		return
	}
	confirmsRelease(t, s, kube, &mine[0], pod)
	if done, err := adopter(kube).Leave(t.Context(), name); !done || err != nil {
		t.Fatalf("leave: %t, %v\n%s", done, err, out)
	}
	suite.Eventually(t, "the driver as it was", func(ctx context.Context) (bool, error) {
		err := kube.Get(ctx, client.ObjectKey{Name: name}, &now)
		return err == nil && !*now.Spec.AttachRequired && now.Annotations[v1alpha1.AnnotationGated] == "", err
	})
	if err := kube.List(t.Context(), &all); err != nil || slices.ContainsFunc(all.Items, func(l v1alpha1.VolumeLock) bool { return l.Spec.Driver == name }) {
		t.Errorf("after leaving there are %+v, %v", all.Items, err)
	}
}

// confirmsRelease confirms that a node is rid of a volume: not while its VolumeAttachment may be there, nor beside a pod, and then for this very release.
func confirmsRelease(t *testing.T, s *suite.Suite, kube client.Client, l *v1alpha1.VolumeLock, pod *corev1.Pod) {
	t.Helper()
	typed, err := kubernetes.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	others, err := dynamic.NewForConfig(s.Config)
	if err != nil {
		t.Fatal(err)
	}
	c := &confirm.LockClient{Client: &confirm.Client{Kube: typed, Dynamic: others, Clock: clock.RealClock{}}}
	try := func(says string) bool {
		t.Helper()
		out := &bytes.Buffer{}
		confirmed, err := (&confirm.Session{Out: out, Err: out, Yes: true}).Lock(t.Context(), c, l.Spec.PersistentVolume)
		if err != nil || !strings.Contains(out.String(), says) {
			t.Fatalf("%t, %v: it lacks %q\n%s", confirmed, err, says, out)
		}
		return confirmed
	}
	if try("is attached to node adopt-1") {
		t.Error("it is confirmed before the VolumeAttachment is deleted")
	}
	l.Status.Release = &v1alpha1.VolumeRelease{Since: metav1.NowMicro()}
	if err := kube.Status().Update(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if try("1 pod uses it of node adopt-1") {
		t.Error("it is confirmed beside a pod that uses the volume")
	}
	if err := kube.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	if !try("node adopt-1 does not use volume adopt-1") || !try("is confirmed already") {
		t.Error("it is not confirmed")
	}
	if err := kube.Get(t.Context(), client.ObjectKeyFromObject(l), l); err != nil || l.Annotations[v1alpha1.AnnotationConfirmRelease] != volumelock.Confirmation(l) {
		t.Errorf("%v: the annotation is %q and should be %q", err, l.Annotations[v1alpha1.AnnotationConfirmRelease], volumelock.Confirmation(l))
	}
	held, err := (&locks.Client{Kube: kube, Namespace: "podgrace-system"}).Held(t.Context(), l.Spec.PersistentVolume)
	if err != nil || len(held.Items) != 1 || !held.Items[0].Confirmed || held.Items[0].Node != "adopt-1" {
		t.Errorf("the list is %+v, %v", held, err)
	}
}

// Whoever is bound to the role for it, and to nothing else, adopts a driver and leaves it again, and each right of the role is one that this takes.
func TestAdoptWithItsRole(t *testing.T) {
	s := withVolumeLock(t)
	const name, role, namespace = "adopt-role.example.com", "podgrace-adopt-driver", "podgrace-system"
	admin, err := client.New(s.Config, client.Options{Scheme: locks.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	if err := rbacv1.AddToScheme(s.Client.Scheme()); err != nil {
		t.Fatal(err)
	}
	subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "adopter"}}
	s.Create(t, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "adopter"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}, Subjects: subjects})
	s.Create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "adopter"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role}, Subjects: subjects})
	s.Create(t, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}})
	workloads := s.Namespace(t)
	s.Create(t, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "adopt-role"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot"}, Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}})
	s.Create(t, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "adopt-role"}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		ClaimRef: &corev1.ObjectReference{Namespace: workloads, Name: "data"}, PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: name, VolumeHandle: "role"}},
	}})
	mustCreate(t, s, newPod(workloads, func(p *corev1.Pod) {
		p.Spec.NodeName = "adopt-role"
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}
	}))
	// A command that ended early before has left its copy, which is written again.
	copies := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "podgrace-volumelock-csidrivers"}}
	leave := func(ctx context.Context, text any) error {
		patch, err := json.Marshal(map[string]any{"data": map[string]any{name: text}})
		return errors.Join(err, admin.Patch(ctx, copies, client.RawPatch(types.MergePatchType, patch)))
	}
	if err := leave(t.Context(), `{"metadata":{"name":"`+name+`"}}`); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = leave(context.Background(), nil) })

	config, err := s.User("adopter")
	if err != nil {
		t.Fatal(err)
	}
	used := &calls{}
	config = rest.CopyConfig(config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { used.next = next; return used })
	kube, err := client.New(config, client.Options{Scheme: locks.NewScheme()})
	if err != nil {
		t.Fatal(err)
	}
	out := &bytes.Buffer{}
	a := &locks.Adopter{Client: &locks.Client{Kube: kube, Namespace: namespace}, Clock: newImpatient(), Session: &confirm.Session{Out: out, Err: out, Yes: true},
		Despite: []adoption.Code{adoption.SilentNodes, adoption.Managed, adoption.NoVolumeLock}} // nodes of other tests; a client that is no kubectl; its Deployment is not installed
	suite.Eventually(t, "its rights", func(ctx context.Context) (bool, error) {
		_, err := a.Facts(ctx, name)
		if apierrors.IsForbidden(err) {
			return false, nil
		}
		return err == nil, err
	})
	if done, err := a.Adopt(t.Context(), name); !done || err != nil {
		t.Fatalf("adopt: %t, %v\n%s", done, err, out)
	}
	if done, err := a.Leave(t.Context(), name); !done || err != nil || strings.Contains(out.String(), "forbidden") {
		t.Fatalf("leave: %t, %v\n%s", done, err, out)
	}

	if held, err := a.Held(t.Context()); err != nil || held.InterruptedUnknown != "" {
		t.Errorf("list: %+v, %v", held, err)
	}

	var cluster rbacv1.ClusterRole
	var namespaced rbacv1.Role
	if err := errors.Join(s.Client.Get(t.Context(), client.ObjectKey{Name: role}, &cluster), s.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: role}, &namespaced)); err != nil {
		t.Fatal(err)
	}
	for _, r := range slices.Concat(cluster.Rules, namespaced.Rules) {
		for _, of := range r.Resources {
			for _, verb := range r.Verbs {
				if right := verb + " " + of; verb != "force-delete" && !used.made[right] { // which the API server asks for when a VolumeLock is written
					t.Errorf("nothing takes the right to %s: %v", right, slices.Sorted(maps.Keys(used.made)))
				}
			}
		}
	}
}

// calls notes what a client asks of the API server, as "VERB RESOURCE".
type calls struct {
	next http.RoundTripper
	lock sync.Mutex
	made map[string]bool
}

func (c *calls) RoundTrip(r *http.Request) (*http.Response, error) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")[1:] // without api or apis
	if i := slices.Index(parts, "namespaces"); i >= 0 && len(parts) > i+2 {
		parts = slices.Delete(parts, i, i+2)
	}
	parts = parts[slices.IndexFunc(parts, func(p string) bool { return strings.HasPrefix(p, "v1") })+1:]
	if len(parts) > 0 {
		verb := map[string]string{http.MethodPost: "create", http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete", http.MethodGet: "list"}[r.Method]
		if verb == "list" && len(parts) > 1 {
			verb = "get"
		}
		c.lock.Lock()
		if c.made == nil {
			c.made = map[string]bool{}
		}
		c.made[verb+" "+parts[0]] = true
		c.lock.Unlock()
	}
	return c.next.RoundTrip(r)
}

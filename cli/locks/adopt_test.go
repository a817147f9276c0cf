package locks

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/adoption"
	"github.com/podgrace/podgrace/cli/confirm"
	"github.com/podgrace/podgrace/volumelock"
)

const driver = "nfs.csi.k8s.io"

// objects are a driver that attaches nothing, with one volume that a pod of node a uses.
func objects() []client.Object {
	return []client.Object{
		&storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver, UID: "old", Labels: map[string]string{"tier": "storage"}, Annotations: map[string]string{"note": "kept"}},
			Spec: storagev1.CSIDriverSpec{AttachRequired: new(false), PodInfoOnMount: new(true), FSGroupPolicy: new(storagev1.FileFSGroupPolicy)}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "podgrace-system", Name: "podgrace-volumelock", Labels: map[string]string{"app.kubernetes.io/name": "podgrace-volumelock"}},
			Spec: appsv1.DeploymentSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{"--drivers=other," + driver}}}}}}},
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}, Spec: corev1.PersistentVolumeSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			ClaimRef:               &corev1.ObjectReference{Namespace: "shop", Name: "data"},
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver, VolumeHandle: "handle"}}}},
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "podgrace-system", Name: copiesName}},
		node("a", corev1.ConditionTrue), node("b", corev1.ConditionTrue),
		pod("db-0", "a"),
	}
}

func node(name string, ready corev1.ConditionStatus) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid-" + name)}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{BootID: "boot-" + name},
		Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}}}
}

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Status: corev1.PodStatus{Phase: corev1.PodRunning}, Spec: corev1.PodSpec{NodeName: node,
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data"}}}}}}
}

// adopter answers yes, waits for nothing, and prints into out.
func adopter(kube client.Client, out *bytes.Buffer) *Adopter {
	return &Adopter{Client: &Client{Kube: kube, Namespace: "podgrace-system"}, Clock: testclock.NewFakeClock(time.Now()), Session: &confirm.Session{Out: out, Err: out, Yes: true}}
}

func newKube(list ...client.Object) client.WithWatch {
	uids := 0
	own := make([]client.Object, len(list)) // the fake sets their resourceVersion, and parallel tests share objects
	for i, o := range list {
		own[i] = o.DeepCopyObject().(client.Object)
	}
	return fake.NewClientBuilder().WithScheme(NewScheme()).WithReturnManagedFields().WithObjects(own...).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			uids++
			o.SetUID(types.UID(fmt.Sprintf("made-%d", uids))) // as the API server does
			return c.Create(ctx, o, opts...)
		},
	}).Build()
}

func get[T client.Object](t *testing.T, kube client.Client, name string, into T) T {
	t.Helper()
	if err := kube.Get(t.Context(), client.ObjectKey{Name: name}, into); err != nil {
		t.Fatal(err)
	}
	return into
}

// copied is the copy of the CSIDriver; empty: there is none.
func copied(t *testing.T, kube client.Client) string {
	t.Helper()
	text, err := (&Client{Kube: kube, Namespace: "podgrace-system"}).copyOf(t.Context(), driver)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func locked(t *testing.T, kube client.Client) []v1alpha1.VolumeLock {
	t.Helper()
	var list v1alpha1.VolumeLockList
	if err := kube.List(t.Context(), &list); err != nil {
		t.Fatal(err)
	}
	return list.Items
}

func adopted(t *testing.T, kube client.Client) {
	t.Helper()
	d := get(t, kube, driver, &storagev1.CSIDriver{})
	if d.UID == "old" || !*d.Spec.AttachRequired || !volumelock.Adopted(d) {
		t.Errorf("the CSIDriver is %+v", d)
	}
	if !*d.Spec.PodInfoOnMount || *d.Spec.FSGroupPolicy != storagev1.FileFSGroupPolicy || d.Labels["tier"] != "storage" || d.Annotations["note"] != "kept" {
		t.Errorf("it is not as it was: %+v", d)
	}
	all := locked(t, kube)
	if len(all) != 1 || all[0].Spec.Node != (v1alpha1.BootReference{Name: "a", UID: "uid-a", BootID: "boot-a"}) || !all[0].Spec.Adopted || all[0].Spec.PersistentVolume != "pv" {
		t.Errorf("the locks are %+v", all)
	}
	// The attach/detach controller calls the VolumeAttachment so: the sha256 of handle, driver and node.
	if len(all) == 1 && all[0].Spec.Attachment.Name != "csi-2c70e76a5d184dfb20f1698a36871b63a3c416742cf4f5d7ee508389ad9912bd" {
		t.Errorf("its VolumeAttachment is %q", all[0].Spec.Attachment.Name)
	}
	if text := copied(t, kube); text != "" {
		t.Errorf("the copy is still there: %s", text)
	}
}

func TestAdoptAndLeave(t *testing.T) {
	t.Parallel()
	kube, out := newKube(objects()...), &bytes.Buffer{}
	a := adopter(kube, out)
	a.Session.DryRun = true
	if done, err := a.Adopt(t.Context(), driver); !done || err != nil || get(t, kube, driver, &storagev1.CSIDriver{}).UID != "old" || len(locked(t, kube)) > 0 {
		t.Fatalf("a dry run: %t, %v\n%s", done, err, out)
	}
	a.Session.DryRun = false
	if done, err := a.Adopt(t.Context(), driver); !done || err != nil {
		t.Fatalf("%t, %v\n%s", done, err, out)
	}
	adopted(t, kube)
	if done, err := a.Adopt(t.Context(), driver); !done || err != nil {
		t.Errorf("again: %t, %v\n%s", done, err, out)
	}
	if done, err := a.Leave(t.Context(), driver); !done || err != nil {
		t.Fatalf("leave: %t, %v\n%s", done, err, out)
	}
	d := get(t, kube, driver, &storagev1.CSIDriver{})
	if *d.Spec.AttachRequired || d.Annotations[v1alpha1.AnnotationGated] != "" || d.Annotations["note"] != "kept" || len(locked(t, kube)) > 0 {
		t.Errorf("after leaving: %+v, %+v", d, locked(t, kube))
	}
}

// TestEndsAnywhere ends the command at each of its writes, before it and after it: the next command goes on.
func TestEndsAnywhere(t *testing.T) {
	t.Parallel()
	died := errors.New("it ended here")
	for n := 0; ; n++ {
		kube := newKube(objects()...)
		count, dead := 0, false
		at := func(do func() error) error {
			count++
			switch {
			case dead || n == 2*(count-1):
				dead = true
				return died
			case n == 2*count-1:
				if err := do(); err != nil {
					t.Fatal(err)
				}
				dead = true
				return died
			}
			return do()
		}
		ctx, cancel := context.WithCancel(t.Context())
		mortal := interceptor.NewClient(kube, interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				defer func() {
					if dead {
						cancel()
					}
				}()
				return at(func() error { return c.Create(context.WithoutCancel(ctx), o, opts...) })
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				return at(func() error { return c.Delete(ctx, o, opts...) })
			},
			Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
				return at(func() error { return c.Patch(ctx, o, p, opts...) })
			},
		})
		out := &bytes.Buffer{}
		done, err := adopter(mortal, out).Adopt(ctx, driver)
		cancel()
		if !dead {
			if !done || err != nil || count < 6 { // the copy, a lock, the old CSIDriver, the new one, its mark, the copy again
				t.Errorf("%t, %v, with %d writes\n%s", done, err, count, out)
			}
			return
		}
		if done, err := adopter(kube, out).Adopt(t.Context(), driver); !done || err != nil {
			t.Fatalf("write %d: the next one: %t, %v\n%s", n, done, err, out)
		}
		adopted(t, kube)
	}
}

// TestCameMeanwhile: a pod whose kubelet had not yet seen the new CSIDriver mounts past the gate, and is adopted; one that waits for the gate is not.
func TestCameMeanwhile(t *testing.T) {
	t.Parallel()
	for _, gated := range []bool{false, true} {
		t.Run(fmt.Sprintf("gated %t", gated), func(t *testing.T) {
			t.Parallel()
			list := objects()
			kube := newKube(list[:len(list)-1]...) // no pod
			late := interceptor.NewClient(kube, interceptor.Funcs{Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
				if _, is := o.(*storagev1.CSIDriver); is {
					n := get(t, c, "a", &corev1.Node{})
					if gated {
						n.Status.VolumesInUse = []corev1.UniqueVolumeName{"kubernetes.io/csi/" + driver + "^handle"}
					}
					p := pod("db-0", "a")
					if gated {
						p.Status.Phase = corev1.PodPending
					}
					if err := errors.Join(c.Create(ctx, p), c.Status().Update(ctx, n)); err != nil {
						t.Fatal(err)
					}
				}
				return c.Create(ctx, o, opts...)
			}})
			out := &bytes.Buffer{}
			if done, err := adopter(late, out).Adopt(t.Context(), driver); !done || err != nil {
				t.Fatalf("%t, %v\n%s", done, err, out)
			}
			if !gated {
				adopted(t, kube)
			} else if all := locked(t, kube); len(all) > 0 {
				t.Errorf("the locks are %+v", all)
			}
		})
	}
}

// TestMarksNewCluster: where the CSIDriver says attachRequired from the beginning, and nothing is mounted, it is only marked, and stays the one that it is.
func TestMarksNewCluster(t *testing.T) {
	t.Parallel()
	all := objects()
	all[0].(*storagev1.CSIDriver).Spec.AttachRequired = nil
	all = slices.DeleteFunc(all, func(o client.Object) bool { _, is := o.(*corev1.Pod); return is })
	kube, out := newKube(all...), &bytes.Buffer{}
	if done, err := adopter(kube, out).Adopt(t.Context(), driver); !done || err != nil {
		t.Fatalf("%t, %v\n%s", done, err, out)
	}
	if d := get(t, kube, driver, &storagev1.CSIDriver{}); d.UID != "old" || !volumelock.Adopted(d) || len(locked(t, kube)) > 0 {
		t.Errorf("the CSIDriver is %+v", d)
	}
}

// TestRestartedKubelet: what pods have mounted that run is adopted also where their kubelet was started again since, and lists the volume.
func TestRestartedKubelet(t *testing.T) {
	t.Parallel()
	for attached, want := range map[bool]int{false: 1, true: 0} {
		all := objects()
		all[0].(*storagev1.CSIDriver).Spec.AttachRequired = nil
		name := volumelock.AttachmentName(driver, "handle", "a")
		for _, o := range all {
			if n, is := o.(*corev1.Node); is && n.Name == "a" {
				n.Status.VolumesInUse = []corev1.UniqueVolumeName{volumelock.InUseName(driver, "handle")}
			}
		}
		all = append(all, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{v1alpha1.AnnotationVolumeLock: "x"}},
			Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "a"}, Status: storagev1.VolumeAttachmentStatus{Attached: attached}})
		kube, out := newKube(all...), &bytes.Buffer{}
		if done, err := adopter(kube, out).Adopt(t.Context(), driver); !done || err != nil || len(locked(t, kube)) != want {
			t.Errorf("attached %t: %t, %v, %+v\n%s", attached, done, err, locked(t, kube), out)
		}
	}
}

// TestRefuses changes nothing where something stands against it.
func TestRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func([]client.Object) []client.Object
		says   string
		waived adoption.Code
	}{
		{"two nodes", func(o []client.Object) []client.Object { return append(o, pod("db-1", "b")) }, "volume pv is used on 2 nodes: a (shop/db-0), b (shop/db-1)", ""},
		{"a silent node", func(o []client.Object) []client.Object { return append(o, node("c", corev1.ConditionUnknown)) }, "1 node is not ready: c", adoption.SilentNodes},
		{"a node that is gone", func(o []client.Object) []client.Object { return append(o[:len(o)-1], pod("db-0", "z")) }, "there is no such Node", ""},
		{"helm", func(o []client.Object) []client.Object {
			o[0].SetAnnotations(map[string]string{"meta.helm.sh/release-name": "nfs"})
			return o
		}, "kept by Helm release nfs", adoption.Managed},
		{"an operator", func(o []client.Object) []client.Object {
			o[0].SetManagedFields([]metav1.ManagedFieldsEntry{{Manager: "nfs-operator", Operation: metav1.ManagedFieldsOperationUpdate, FieldsType: "FieldsV1", APIVersion: "storage.k8s.io/v1", FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:attachRequired":{}}}`)}})
			return o
		}, `the program "nfs-operator"`, adoption.Managed},
		{"no volume lock", func(o []client.Object) []client.Object {
			o[1].(*appsv1.Deployment).Spec.Template.Spec.Containers[0].Args = []string{"--drivers", "other"}
			return o
		}, "does not gate it", adoption.NoVolumeLock},
		{"it attaches", func(o []client.Object) []client.Object {
			o[0].(*storagev1.CSIDriver).Spec.AttachRequired = nil
			return append(o, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver}, Status: storagev1.VolumeAttachmentStatus{Attached: true}})
		}, "VolumeAttachment csi-1 was attached by another attacher", adoption.AttachesSelf},
		{"an attacher of its own", func(o []client.Object) []client.Object {
			o[0].(*storagev1.CSIDriver).Spec.AttachRequired = nil
			return append(o, &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-1", Finalizers: []string{"external-attacher/nfs"}}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver}})
		}, "has an attacher of its own", ""},
		{"no driver", func(o []client.Object) []client.Object { return o[1:] }, "there is no CSIDriver", ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			kube, out := newKube(tc.change(objects())...), &bytes.Buffer{}
			a := adopter(kube, out)
			if done, err := a.Adopt(t.Context(), driver); done || err != nil || !strings.Contains(strings.Join(strings.Fields(out.String()), " "), tc.says) || len(locked(t, kube)) > 0 {
				t.Errorf("%t, %v\n%s", done, err, out)
			}
			if tc.waived == "" {
				a.Despite = adoption.Waivable()
			} else {
				a.Despite = []adoption.Code{tc.waived}
			}
			if done, err := a.Adopt(t.Context(), driver); done == (tc.waived == "") || err != nil {
				t.Errorf("in spite of it: %t, %v\n%s", done, err, out)
			}
		})
	}
}

// TestPutBack: an operator that makes the old CSIDriver in the moment between is named, and not fought.
func TestPutBack(t *testing.T) {
	t.Parallel()
	kube, out := newKube(objects()...), &bytes.Buffer{}
	operator := interceptor.NewClient(kube, interceptor.Funcs{Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
		err := c.Delete(ctx, o, opts...)
		if err == nil {
			err = c.Create(ctx, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: new(false)}})
		}
		return err
	}})
	if done, err := adopter(operator, out).Adopt(t.Context(), driver); done || err == nil || !strings.Contains(err.Error(), "somebody put it back as it was, with attachRequired: false") {
		t.Errorf("%t, %v\n%s", done, err, out)
	}
}

// TestLeaveRefuses: what waits for a volume would mount it at once.
func TestLeaveRefuses(t *testing.T) {
	t.Parallel()
	kube, out := newKube(objects()...), &bytes.Buffer{}
	a := adopter(kube, out)
	if done, err := a.Adopt(t.Context(), driver); !done || err != nil {
		t.Fatalf("%t, %v\n%s", done, err, out)
	}
	waits := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-b"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "b", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}}}
	if err := kube.Create(t.Context(), waits); err != nil {
		t.Fatal(err)
	}
	a.Despite = adoption.Waivable()
	if done, err := a.Leave(t.Context(), driver); done || err != nil || !strings.Contains(out.String(), "pods wait for it on b") {
		t.Errorf("%t, %v\n%s", done, err, out)
	}
}

// TestPutBackUnderLocks: a chart put the CSIDriver back under volumes that are held. Their pods go on to run, and it is adopted again beside the locks of before; that of a node which a person
// confirms to be rid of its volume gives way to the node that uses it.
func TestPutBackUnderLocks(t *testing.T) {
	t.Parallel()
	for _, confirmed := range []bool{false, true} {
		t.Run(fmt.Sprintf("confirmed %t", confirmed), func(t *testing.T) {
			t.Parallel()
			kube, out := newKube(objects()...), &bytes.Buffer{}
			a := adopter(kube, out)
			if done, err := a.Adopt(t.Context(), driver); !done || err != nil {
				t.Fatalf("%t, %v\n%s", done, err, out)
			}
			back := objects()[0]
			if err := errors.Join(kube.Delete(t.Context(), get(t, kube, driver, &storagev1.CSIDriver{})), kube.Create(t.Context(), back)); err != nil {
				t.Fatal(err)
			}
			a.Despite = []adoption.Code{adoption.Managed} // who put it back was told
			was := locked(t, kube)[0]
			if confirmed {
				was.UID = "lock"
				was.Status.DriverUID, was.Status.Release = new(back.GetUID()), &v1alpha1.VolumeRelease{Since: metav1.NowMicro()}
				was.Annotations = map[string]string{v1alpha1.AnnotationConfirmRelease: volumelock.Confirmation(&was)}
				if err := errors.Join(kube.Update(t.Context(), &was), kube.Delete(t.Context(), pod("db-0", "a")), kube.Create(t.Context(), pod("db-1", "b"))); err != nil {
					t.Fatal(err)
				}
			}
			a.Session.DryRun = true
			if done, err := a.Adopt(t.Context(), driver); !done || err != nil {
				t.Fatalf("a dry run: %t, %v\n%s", done, err, out)
			}
			a.Session.DryRun = false
			if done, err := a.Adopt(t.Context(), driver); !done || err != nil {
				t.Fatalf("%t, %v\n%s", done, err, out)
			}
			holder := "a"
			if confirmed {
				holder = "b"
			}
			if now := locked(t, kube); len(now) != 1 || now[0].Spec.Node.Name != holder || !now[0].Spec.Adopted || now[0].Status.Release != nil {
				t.Errorf("the locks are %+v", now)
			}
		})
	}
}

// asking is an adopter who is asked, and types these answers, and then the driver's name as often as that is; before each answer, counted from 0, something happens.
func asking(kube client.Client, out *bytes.Buffer, before func(int), answers ...string) *Adopter {
	a := adopter(kube, out)
	a.Session.Yes = false
	line, given := "", 0
	a.Session.In = readerFunc(func(to []byte) (int, error) {
		if line == "" {
			before(given)
			line = driver + "\n"
			if given < len(answers) {
				line = answers[given] + "\n"
			}
			given++
		}
		n := copy(to, line)
		line = line[n:]
		return n, nil
	})
	return a
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(to []byte) (int, error) { return f(to) }

// TestLooksAgain: what becomes of the cluster while the question stands is shown, and asked for, before anything is done; where nobody is asked, or it is refused now, nothing is. What is less
// than was shown needs no other word.
func TestLooksAgain(t *testing.T) {
	t.Parallel()
	other := func(name, claim string) []client.Object {
		v, p := objects()[2].(*corev1.PersistentVolume), pod("other-0", "b")
		v.Name, v.Spec.CSI.VolumeHandle, v.Spec.ClaimRef.Name = name, name, claim
		p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = claim
		return []client.Object{v, p}
	}
	for name, tc := range map[string]struct {
		meanwhile []client.Object // are made
		change    func(*storagev1.CSIDriver)
		ends      bool // a pod
		questions int
		done      bool
		says      string
	}{
		"nothing":               {questions: 1, done: true},
		"a pod ends":            {ends: true, questions: 1, done: true},
		"another volume":        {meanwhile: other("pv2", "more"), questions: 2, done: true, says: "Meanwhile it is not what was shown: 1 volume is to be adopted (pv2)."},
		"another node":          {meanwhile: []client.Object{pod("db-1", "b")}, questions: 1, says: "volume pv is used on 2 nodes"},
		"the CSIDriver changed": {change: func(d *storagev1.CSIDriver) { d.Spec.StorageCapacity = new(true) }, questions: 2, done: true, says: "somebody changed the CSIDriver"},
	} {
		for _, yes := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, yes %t", name, yes), func(t *testing.T) {
				t.Parallel()
				kube, out := newKube(objects()...), &bytes.Buffer{}
				happens := func() {
					for _, o := range tc.meanwhile {
						if err := kube.Create(t.Context(), o.DeepCopyObject().(client.Object)); err != nil {
							t.Error(err)
						}
					}
					d := get(t, kube, driver, &storagev1.CSIDriver{})
					if tc.change != nil {
						tc.change(d)
						if err := kube.Update(t.Context(), d); err != nil {
							t.Error(err)
						}
					}
					if tc.ends {
						if err := kube.Delete(t.Context(), pod("db-0", "a")); err != nil {
							t.Error(err)
						}
					}
				}
				questions := 0
				a := asking(kube, out, func(n int) {
					if questions = n + 1; n == 0 {
						happens()
					}
				})
				a.Despite = []adoption.Code{adoption.Managed}
				a.Session.Yes = yes
				if yes { // the moment between the two looks
					looked := 0
					a.Kube = interceptor.NewClient(kube, interceptor.Funcs{List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
						err := c.List(ctx, l, opts...)
						if _, pods := l.(*corev1.PodList); pods {
							if looked++; looked == 1 {
								happens()
							}
						}
						return err
					}})
				}
				done, err := a.Adopt(t.Context(), driver)
				again := tc.questions > 1
				if done != (tc.done && (!yes || !again)) || (err != nil) != (yes && again) || !yes && questions != tc.questions {
					t.Errorf("%t, %v, after %d questions\n%s", done, err, questions, out)
				}
				if !strings.Contains(strings.Join(strings.Fields(out.String()), " "), tc.says) {
					t.Errorf("it lacks %q\n%s", tc.says, out)
				}
				if d := get(t, kube, driver, &storagev1.CSIDriver{}); !done && (d.UID != "old" || len(locked(t, kube)) > 0) {
					t.Errorf("it was changed: %+v, %+v", d, locked(t, kube))
				}
			})
		}
	}
}

// TestLastLook: what a pod uses that came while the VolumeLocks were made has one before the CSIDriver is deleted, and what stands against it then ends it.
func TestLastLook(t *testing.T) {
	t.Parallel()
	for _, refused := range []bool{false, true} {
		t.Run(fmt.Sprintf("refused %t", refused), func(t *testing.T) {
			t.Parallel()
			kube, out := newKube(objects()...), &bytes.Buffer{}
			second := objects()[2].(*corev1.PersistentVolume)
			second.Name, second.Spec.CSI.VolumeHandle, second.Spec.ClaimRef.Name = "pv2", "h2", "more"
			late := pod("db-1", "b")
			if !refused {
				late.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "more"
			}
			busy := interceptor.NewClient(kube, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					if l, is := o.(*v1alpha1.VolumeLock); is && l.Spec.PersistentVolume == "pv" {
						if err := errors.Join(c.Create(ctx, second), c.Create(ctx, late)); err != nil {
							t.Error(err)
						}
					}
					return c.Create(ctx, o, opts...)
				},
				Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
					if _, is := o.(*storagev1.CSIDriver); is && (refused || len(locked(t, kube)) != 2) {
						t.Errorf("the CSIDriver is deleted beside %+v", locked(t, kube))
					}
					return c.Delete(ctx, o, opts...)
				},
			})
			if done, err := adopter(busy, out).Adopt(t.Context(), driver); done == refused || err != nil {
				t.Errorf("%t, %v\n%s", done, err, out)
			}
		})
	}
}

// TestLeaveLooksAgain: a pod that begins to wait while the question stands would mount at once.
func TestLeaveLooksAgain(t *testing.T) {
	t.Parallel()
	kube, out := newKube(objects()...), &bytes.Buffer{}
	if done, err := adopter(kube, out).Adopt(t.Context(), driver); !done || err != nil {
		t.Fatalf("%t, %v\n%s", done, err, out)
	}
	a := asking(kube, out, func(int) {
		waits := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "csi-b"}, Spec: storagev1.VolumeAttachmentSpec{Attacher: driver, NodeName: "b", Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: new("pv")}}}
		if err := kube.Create(t.Context(), waits); err != nil {
			t.Error(err)
		}
	})
	if done, err := a.Leave(t.Context(), driver); done || err != nil || !strings.Contains(out.String(), "pods wait for it on b") {
		t.Errorf("%t, %v\n%s", done, err, out)
	}
	if d := get(t, kube, driver, &storagev1.CSIDriver{}); !*d.Spec.AttachRequired {
		t.Errorf("it is %+v", d)
	}
	if text := copied(t, kube); text != "" {
		t.Errorf("the copy is still there: %s", text)
	}
}

// TestDeclinedLeave: whoever declines takes with them the copy that they made, and not the one that another's command needs: one that was there before, or any of a CSIDriver that is gone meanwhile.
func TestDeclinedLeave(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		answers      []string // the second one comes after the copy was made
		before, gone bool     // there was a copy; the CSIDriver is deleted meanwhile
		stays        bool
	}{
		"at once":                          {answers: []string{"no"}},
		"at once, beside another":          {answers: []string{"no"}, before: true, stays: true},
		"later":                            {answers: []string{driver, "no"}},
		"later, beside another":            {answers: []string{driver, "no"}, before: true, stays: true},
		"later, and the CSIDriver is gone": {answers: []string{driver, "no"}, gone: true, stays: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kube, out := newKube(objects()...), &bytes.Buffer{}
			if done, err := adopter(kube, out).Adopt(t.Context(), driver); !done || err != nil {
				t.Fatalf("%t, %v\n%s", done, err, out)
			}
			if tc.before {
				if err := keep(t.Context(), kube, "podgrace-system", get(t, kube, driver, &storagev1.CSIDriver{}), time.Now().Add(-time.Minute)); err != nil {
					t.Fatal(err)
				}
			}
			questions := 0
			a := asking(kube, out, func(n int) {
				questions++
				d := get(t, kube, driver, &storagev1.CSIDriver{})
				d.Spec.StorageCapacity = new(true) // by which it is asked once more
				err := kube.Update(t.Context(), d)
				if tc.gone && n > 0 {
					err = errors.Join(err, kube.Delete(t.Context(), d))
				}
				if err != nil {
					t.Error(err)
				}
			}, tc.answers...)
			a.Despite = []adoption.Code{adoption.Managed}
			if done, err := a.Leave(t.Context(), driver); done || err != nil || questions != len(tc.answers) {
				t.Errorf("%t, %v, after %d questions\n%s", done, err, questions, out)
			}
			if stays := copied(t, kube) != ""; stays != tc.stays {
				t.Errorf("there is a copy: %t\n%s", stays, out)
			}
		})
	}
}

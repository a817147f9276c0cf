package main

import (
	"context"
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/volumelock"
	"github.com/podgrace/podgrace/webhook"
)

// A machine is cut off in time if its kubelet had not said yet that it is rid of the volume; then another machine waits for it.
func TestCutGivingBack(t *testing.T) {
	for name, tc := range map[string]struct {
		answers int32
		freed   bool
		want    bool
	}{
		"in time": {0, false, true}, "it said so once": {1, false, false}, "it has given it back": {0, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: volumesNamespace, Name: volumeName(0) + "-0", UID: "1"}, Spec: corev1.PodSpec{NodeName: "machine-0"}}
			lock := &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: "lock"}, Spec: v1alpha1.VolumeLockSpec{PersistentVolume: volumeName(0), Node: v1alpha1.BootReference{Name: "machine-0"}}}
			next := &storagev1.VolumeAttachment{ObjectMeta: metav1.ObjectMeta{Name: "next"}, Spec: storagev1.VolumeAttachmentSpec{NodeName: "machine-1"}}
			next.Spec.Source.PersistentVolumeName = new(volumeName(0))
			// What the control plane and the volume lock make of the pod's end.
			ended := func(ctx context.Context, kube client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
				if tc.freed {
					return errors.Join(kube.Delete(ctx, o), kube.Delete(ctx, lock), kube.Create(ctx, next))
				}
				lock.Status.Release = &v1alpha1.VolumeRelease{Answers: tc.answers}
				return errors.Join(kube.Delete(ctx, o), kube.Update(ctx, lock), kube.Create(ctx, next))
			}
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine-0"}}
			l := scripted()
			l.kube = fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(pod, lock, node).WithInterceptorFuncs(interceptor.Funcs{Delete: ended}).Build()
			k := &bootedKubelet{}
			m := newMachine("machine-0", "", k, volumelock.NewWitness(), t.Errorf)
			waits, err := l.cutGivingBack(t.Context(), m, pod, volumeName(0))
			if err != nil || waits != tc.want || !k.silent {
				t.Errorf("it waits: %t, cut off: %t; %v", waits, k.silent, err)
			}
			if err := l.kube.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil || !node.Spec.Unschedulable {
				t.Errorf("its pod may come back to it: %v", err)
			}
		})
	}
}

// What a drill has broken is mended where it can't be made.
func TestUnreleasedIsMended(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: volumesNamespace, Name: volumeName(0) + "-0", UID: "1"}, Spec: corev1.PodSpec{NodeName: "machine-0"}}
	lock := &v1alpha1.VolumeLock{ObjectMeta: metav1.ObjectMeta{Name: "lock"}, Spec: v1alpha1.VolumeLockSpec{PersistentVolume: volumeName(0), Node: v1alpha1.BootReference{Name: "machine-0"}}}
	lock.Status.Release = &v1alpha1.VolumeRelease{}
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "machine-0"}}
	away := errors.New("nobody is there")
	for name, of := range map[string]func(lists *int) interceptor.Funcs{
		"the pod is not deleted": func(*int) interceptor.Funcs {
			return interceptor.Funcs{Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error { return away }}
		},
		"it was cut off by then": func(lists *int) interceptor.Funcs {
			return interceptor.Funcs{List: func(ctx context.Context, kube client.WithWatch, list client.ObjectList, o ...client.ListOption) error {
				if *lists++; *lists > 1 {
					return away
				}
				return kube.List(ctx, list, o...)
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			lists := 0
			l, k, node := scripted(), &bootedKubelet{}, node.DeepCopy()
			l.kube = fake.NewClientBuilder().WithScheme(webhook.NewScheme()).WithObjects(pod.DeepCopy(), lock.DeepCopy(), node).WithInterceptorFuncs(of(&lists)).Build()
			l.machines = []*machine{newMachine("machine-0", "", k, volumelock.NewWitness(), t.Errorf)}
			if _, err := l.unreleased(t.Context()); !errors.Is(err, away) {
				t.Errorf("it was made: %v", err)
			}
			if err := l.kube.Get(t.Context(), client.ObjectKeyFromObject(node), node); err != nil || node.Spec.Unschedulable || k.silent {
				t.Errorf("cordoned: %t, cut off: %t; %v", node.Spec.Unschedulable, k.silent, err)
			}
		})
	}
}

package vm

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/cluster/clustertest"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	"github.com/podgrace/podgrace/e2e/vm"
	core "github.com/podgrace/podgrace/volumelock"
)

const (
	// driver is the name that the driver has here: of those whose exports the volume lock knows.
	driver   = "nfs.csi.k8s.io"
	nodeName = "guest"
	// program is the driver in the guest, unit its service.
	program = "/usr/local/bin/csidriver"
	unit    = "csidriver"
	// soon is how long what takes half a minute may take on a busy machine with an emulated processor.
	soon = 5 * time.Minute
)

var shared = &suite.Shared{Tier: "virtual machine", Options: cluster.Options{ControllerManager: true, Scheduler: true}}

func TestMain(m *testing.M) { suite.Main(m, shared) }

// lab is a cluster with a node in a virtual machine, on which the driver runs, and the volume lock.
type lab struct {
	*suite.Suite
	node      *vm.Node
	namespace string
	began     time.Time
}

func start(t *testing.T) *lab {
	t.Helper()
	clustertest.Require(t, "virtual machine", vm.NodeSupported())
	l := &lab{Suite: shared.Get(t), began: time.Now()}
	ctx := t.Context()
	built := filepath.Join(l.Dir, "bin", "csidriver")
	if err := cluster.GoBuild(ctx, built, "e2e/kubernetes/csidriver"); err != nil {
		t.Fatal(err)
	}
	var err error
	if l.node, err = vm.Start(ctx, l.Cluster, vm.Options{Name: nodeName}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the driver and the kubelet:\n%s", l.script(t, "journalctl --no-pager --unit="+unit+"; journalctl --no-pager --unit=kubelet | grep -i volume | tail --lines=60"))
		}
		if err := l.node.Stop(); err != nil {
			t.Error(err)
		}
	})
	if err := l.node.Copy(ctx, built, program, 0o755); err != nil {
		t.Fatal(err)
	}
	l.script(t, "systemd-run --unit="+unit+" "+program+" --name="+driver)
	suite.EventuallyWithin(t, soon, "the kubelet to know the driver", func(ctx context.Context) (bool, error) {
		var n storagev1.CSINode
		err := l.Client.Get(ctx, client.ObjectKey{Name: nodeName}, &n)
		return len(n.Spec.Drivers) > 0 && n.Spec.Drivers[0].Name == driver, client.IgnoreNotFound(err)
	})
	l.step(t, "the kubelet knows the driver")
	l.namespace = l.Namespace(t)
	l.WaitServiceAccount(t, l.namespace)
	return l
}

// gate makes the driver's CSIDriver with attachRequired, and starts the volume lock.
func (l *lab) gate(t *testing.T) {
	t.Helper()
	l.csiDriver(t, true)
	ctx := t.Context()
	root, err := cluster.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"rbac.yaml", "policies.yaml"} {
		if err := podgrace.Apply(ctx, l.Cluster, filepath.Join(root, "deploy/components/volumelock", file)); err != nil {
			t.Fatal(err)
		}
	}
	built := filepath.Join(l.Dir, "bin", "volumelock")
	if err := cluster.GoBuild(ctx, built, "cmd/volumelock"); err != nil {
		t.Fatal(err)
	}
	config, err := l.KubeconfigFor("system:serviceaccount:podgrace-system:podgrace-volumelock", "system:serviceaccounts", "system:serviceaccounts:podgrace-system")
	if err != nil {
		t.Fatal(err)
	}
	log := l.LogPath("volumelock")
	p, err := cluster.StartProcess("volumelock", log, built, "--kubeconfig="+config, "--health-port=0", "--metrics-port=0", "--namespace=podgrace-system", "--drivers="+driver)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Stop(); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(log); t.Failed() && err == nil {
			t.Logf("the volume lock's log:\n%s", text)
		}
	})
}

// csiDriver says whether the driver's volumes are attached before they are mounted.
func (l *lab) csiDriver(t *testing.T, attach bool) {
	t.Helper()
	l.Create(t, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &attach}})
}

// claim makes a ReadWriteOnce volume of the one export, and the claim that is bound to it. Both have the name.
func (l *lab) claim(t *testing.T, name, handle string) {
	t.Helper()
	once, size := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	l.Create(t, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
		AccessModes: once, Capacity: size, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		ClaimRef: &corev1.ObjectReference{Namespace: l.namespace, Name: name},
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{
			Driver: driver, VolumeHandle: handle, VolumeAttributes: map[string]string{"server": "127.0.0.1", "share": "/"},
		}},
	}})
	l.Create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: size}, VolumeName: name, StorageClassName: new(""),
	}})
}

// pod makes one on a node that mounts a claim.
func (l *lab) pod(t *testing.T, name, node, claim string) *corev1.Pod {
	t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}, Spec: corev1.PodSpec{
		TerminationGracePeriodSeconds: new(int64(5)), NodeSelector: map[string]string{corev1.LabelHostname: node},
		Containers: []corev1.Container{{
			Name: "main", Image: cluster.PauseImage, ImagePullPolicy: corev1.PullNever, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
		}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
	}}
	l.Create(t, p)
	return p
}

// running returns when the pod is.
func (l *lab) running(t *testing.T, p *corev1.Pod) {
	t.Helper()
	suite.EventuallyWithin(t, soon, "pod "+p.Name+" to run", func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return p.Status.Phase == corev1.PodRunning, err
	})
	l.step(t, "pod "+p.Name+" runs")
}

// attachment is that of a volume for a node; nil: there is none.
func (l *lab) attachment(ctx context.Context, node, volume string) (*storagev1.VolumeAttachment, error) {
	var all storagev1.VolumeAttachmentList
	if err := l.Client.List(ctx, &all); err != nil {
		return nil, err
	}
	for i := range all.Items {
		if a := &all.Items[i]; a.Spec.NodeName == node && a.Spec.Source.PersistentVolumeName != nil && *a.Spec.Source.PersistentVolumeName == volume {
			return a, nil
		}
	}
	return nil, nil
}

// lock is the one VolumeLock, of the export; nil: there is none.
func (l *lab) lock(ctx context.Context) (*v1alpha1.VolumeLock, error) {
	var all v1alpha1.VolumeLockList
	if err := l.Client.List(ctx, &all); err != nil || len(all.Items) == 0 {
		return nil, err
	}
	if len(all.Items) > 1 {
		return nil, fmt.Errorf("there are %d VolumeLocks for one volume", len(all.Items))
	}
	return &all.Items[0], nil
}

// lists says whether a node lists a volume as in use.
func (l *lab) lists(ctx context.Context, node, handle string) (bool, error) {
	var n corev1.Node
	err := l.Client.Get(ctx, client.ObjectKey{Name: node}, &n)
	for _, v := range n.Status.VolumesInUse {
		if v == core.InUseName(driver, handle) {
			return true, err
		}
	}
	return false, err
}

// script runs in the guest.
func (l *lab) script(t *testing.T, text string) string {
	t.Helper()
	out, err := l.node.Run(context.WithoutCancel(t.Context()), text)
	if err != nil {
		t.Errorf("%s: %v: %s", text, err, out)
	}
	return strings.TrimSpace(out)
}

// step logs how long after the start something was so.
func (l *lab) step(t *testing.T, what string) {
	t.Helper()
	t.Logf("%6.1f s: %s", time.Since(l.began).Seconds(), what)
}

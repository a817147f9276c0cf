package volumelock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/suite"
	core "github.com/podgrace/podgrace/volumelock"
)

// A node is not ready after thirty seconds without a heartbeat, not fifty: its kubelet renews its Lease each second.
var shared = &suite.Shared{Options: cluster.Options{ControllerManager: true, Scheduler: true, ControllerManagerArgs: []string{"--node-monitor-grace-period=30s", "--node-monitor-period=2s"}}}

func TestMain(m *testing.M) {
	// They wait most of the time: not as many at once as there are processors, but all.
	if err := flag.Set("test.parallel", "16"); err != nil {
		panic(err)
	}
	suite.Main(m, shared)
}

// iscsi is a driver that attaches nothing itself, and whose volumes are known by where they lead.
const iscsi = "iscsi.csi.k8s.io"

// storageCluster is the label of the nodes that reach the storage.
const storageCluster = "storagecluster"

// lab is one test's part of the cluster: two nodes that reach the storage, with kubelets, and volumes of one driver, of which it starts the attacher. There is also node c, which does not reach it.
type lab struct {
	*suite.Suite
	a, b      string // the nodes
	driver    string
	namespace string
	witness   *Witness
	kubelets  map[string]*Kubelet // by machine
	replica   *podgrace.VolumeLock
}

// newLab is a lab without a volume lock.
func newLab(t *testing.T, name, driver string) *lab {
	t.Helper()
	l := &lab{Suite: shared.Get(t), a: name + "-a", b: name + "-b", driver: driver, witness: NewWitness(), kubelets: map[string]*Kubelet{}}
	if err := l.prepare(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if driver != iscsi {
		l.adopted(t, driver)
	}
	l.namespace = l.Namespace(t)
	t.Cleanup(func() { l.end(t) })
	l.join(t, l.a)
	l.join(t, l.b)
	return l
}

var (
	preparing sync.Mutex
	// program is the volume lock's, kubeconfig its own; empty: the cluster is not prepared yet.
	program, kubeconfig string
)

// prepare does what all tests need, once.
func (l *lab) prepare(ctx context.Context) (err error) {
	preparing.Lock()
	defer preparing.Unlock()
	if program != "" {
		return nil
	}
	if err := errors.Join(podgrace.AllowVolumeLock(ctx, l.Cluster), podgrace.AllowFencer(ctx, l.Cluster), l.AddNode(ctx, "c", nil)); err != nil {
		return err
	}
	if _, err = podgrace.CreateAdopted(ctx, l.Client, iscsi); err != nil {
		return err
	}
	if kubeconfig, err = podgrace.VolumeLockKubeconfig(l.Cluster); err != nil {
		return err
	}
	program, err = podgrace.BuildVolumeLock(ctx, filepath.Join(l.Dir, "bin"))
	return err
}

// end looks what the witness has seen.
func (l *lab) end(t *testing.T) {
	var locks v1alpha1.VolumeLockList
	if err := l.Client.List(context.Background(), &locks); err != nil {
		t.Error(err)
	}
	for i := range locks.Items { // whose nodes are gone with the test
		if k := &locks.Items[i]; strings.HasPrefix(k.Spec.PersistentVolume, l.namespace) {
			if err := client.IgnoreNotFound(l.Client.Delete(context.Background(), k)); err != nil {
				t.Error(err)
			}
		}
	}
	mounts, violations := l.witness.Seen()
	for _, v := range violations {
		t.Error(v)
	}
	t.Logf("%d mounts", mounts)
	if t.Failed() {
		for _, k := range l.kubelets {
			t.Log(k)
		}
	}
}

// adopted makes a CSIDriver that was adopted when nothing of it was mounted, and is gone with the test.
func (l *lab) adopted(t *testing.T, name string) {
	t.Helper()
	d, err := podgrace.CreateAdopted(t.Context(), l.Client, name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(l.Client.Delete(context.Background(), d)); err != nil {
			t.Error(err)
		}
	})
}

// join adds a node with a kubelet, which ends with the test, and the Node with it.
func (l *lab) join(t *testing.T, name string) {
	t.Helper()
	l.register(t, name)
	l.Create(t, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: l.driver, NodeID: name}}}})
	l.startKubelet(t, name, name)
	t.Cleanup(func() {
		if err := l.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Error(err)
		}
	})
}

// register makes the Node of a machine that reaches the storage.
func (l *lab) register(t *testing.T, name string) {
	t.Helper()
	if err := l.AddNode(t.Context(), name, map[string]string{storageCluster: "iscsi-1"}); err != nil {
		t.Fatal(err)
	}
	l.StopHeartbeat(name) // its kubelet has its own
	if err := l.AttachByController(t.Context(), name); err != nil {
		t.Fatal(err)
	}
}

// startKubelet starts the kubelet of a machine, which ends with the test.
func (l *lab) startKubelet(t *testing.T, name, machine string) {
	t.Helper()
	k, err := StartKubelet(l.Cluster, l.witness, name, machine)
	if err != nil {
		t.Fatal(err)
	}
	l.kubelets[machine] = k
	t.Cleanup(k.Stop)
}

// start starts the volume lock, by its own rights, for the driver and some others.
func (l *lab) start(t *testing.T, also ...string) {
	t.Helper()
	l.startBy(t, kubeconfig, also...)
}

// startBy starts it by a kubeconfig. The one that runs in the end is stopped with the test.
func (l *lab) startBy(t *testing.T, kubeconfig string, also ...string) {
	t.Helper()
	if err := l.startAnother(kubeconfig, also...); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.replica.Stop(); err != nil {
			t.Error(err)
		}
		if log, err := os.ReadFile(l.replica.LogPath); t.Failed() && err == nil {
			t.Logf("the volume lock's log:\n%s", log)
		}
	})
}

// startAnother starts one in the place of that which has ended. It waits for no other one's Lease.
func (l *lab) startAnother(kubeconfig string, also ...string) error {
	r, err := podgrace.StartVolumeLock(context.Background(), l.Cluster, program, kubeconfig, append([]string{l.driver}, also...), "--leader-elect=false")
	if err == nil {
		l.replica = r
	}
	return err
}

// size is that of all volumes, and once the access mode of most.
var (
	size = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	once = []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
)

// disk makes a volume of one unit and a claim that has it, for one node at a time unless there are access modes.
func (l *lab) disk(t *testing.T, name, lun string, modes ...corev1.PersistentVolumeAccessMode) *corev1.PersistentVolume {
	t.Helper()
	pv := l.newVolume(name, lun)
	if len(modes) > 0 {
		pv.Spec.AccessModes = modes
	}
	l.Create(t, pv)
	l.claim(t, name, pv)
	return pv
}

// newVolume is one that is not made yet, for the nodes that reach the storage, and for a claim of the name.
func (l *lab) newVolume(name, lun string) *corev1.PersistentVolume {
	return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: l.namespace + "-" + name}, Spec: corev1.PersistentVolumeSpec{
		Capacity: size, AccessModes: once, ClaimRef: &corev1.ObjectReference{Namespace: l.namespace, Name: name}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
		PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: l.driver, VolumeHandle: l.namespace + "-" + name, VolumeAttributes: map[string]string{
			"targetPortal": "192.0.2.1:3260", "iqn": "iqn.2026-11.org.example:" + l.namespace, "lun": lun,
		}}},
		NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: storageCluster, Operator: corev1.NodeSelectorOpIn, Values: []string{"iscsi-1"}}},
		}}}},
	}}
}

// claim makes a claim that has a volume.
func (l *lab) claim(t *testing.T, name string, pv *corev1.PersistentVolume) {
	t.Helper()
	l.Create(t, &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: pv.Spec.AccessModes, Resources: corev1.VolumeResourceRequirements{Requests: size}, StorageClassName: new(""), VolumeName: pv.Name,
	}})
}

// pod makes one that uses a claim, for a node, or c, which its volume is not for.
func (l *lab) pod(t *testing.T, name, claim, node string) *corev1.Pod {
	t.Helper()
	p := l.newPod(name, claim, node)
	l.Create(t, p)
	return p
}

// newPod is one that is not made yet.
func (l *lab) newPod(name, claim, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: l.namespace, Name: name}, Spec: corev1.PodSpec{
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node, "c"}}},
		}}}}},
		Containers: []corev1.Container{{Name: "main", Image: "localhost/none:1"}},
		Volumes:    []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}}}},
	}}
}

func (l *lab) delete(t *testing.T, o client.Object, options ...client.DeleteOption) {
	t.Helper()
	if err := l.Client.Delete(t.Context(), o, options...); err != nil {
		t.Fatal(err)
	}
}

// runs waits until a pod runs, and looks that its node alone can write to its volume.
func (l *lab) runs(t *testing.T, p *corev1.Pod, pv *corev1.PersistentVolume, node string) {
	t.Helper()
	l.running(t, p, node)
	l.writes(t, pv, node)
}

// running waits until a pod runs.
func (l *lab) running(t *testing.T, p *corev1.Pod, node string) {
	t.Helper()
	suite.Eventually(t, "pod "+p.Name+" to run on node "+node, func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
		return p.Status.Phase == corev1.PodRunning && p.Spec.NodeName == node, err
	})
}

// writes looks who can write to a volume.
func (l *lab) writes(t *testing.T, pv *corev1.PersistentVolume, want ...string) {
	t.Helper()
	if got := l.witness.Writers(unit(pv)); !slices.Equal(got, want) {
		t.Fatalf("%s can write to %s, and not %s", strings.Join(got, " and "), pv.Name, strings.Join(want, " and "))
	}
}

// gone waits until there is no such object.
func (l *lab) gone(t *testing.T, o client.Object) {
	t.Helper()
	suite.Eventually(t, fmt.Sprintf("%T %s to be gone", o, o.GetName()), func(ctx context.Context) (bool, error) {
		err := l.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
		if err == nil {
			return false, fmt.Errorf("it is there: %s", o.GetUID())
		}
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}

// lockOf is the VolumeLock of a volume; nil: there is none.
func (l *lab) lockOf(ctx context.Context, pv *corev1.PersistentVolume) (*v1alpha1.VolumeLock, error) {
	lock := &v1alpha1.VolumeLock{}
	err := l.Client.Get(ctx, client.ObjectKey{Name: core.LockFor(&storagev1.VolumeAttachment{}, pv)}, lock)
	if err != nil {
		lock = nil
	}
	return lock, client.IgnoreNotFound(err)
}

// locked returns the VolumeLock of a volume once it is as wanted.
func (l *lab) locked(t *testing.T, pv *corev1.PersistentVolume, what string, is func(*v1alpha1.VolumeLock) bool) (lock *v1alpha1.VolumeLock) {
	t.Helper()
	suite.Eventually(t, "the VolumeLock of "+pv.Name+what, func(ctx context.Context) (bool, error) {
		var err error
		if lock, err = l.lockOf(ctx, pv); lock == nil || err != nil {
			return false, err
		}
		if !is(lock) {
			return false, fmt.Errorf("it is %+v %+v", lock.Spec, lock.Status)
		}
		return true, nil
	})
	return lock
}

// heldBy returns the VolumeLock of a volume once a node holds it.
func (l *lab) heldBy(t *testing.T, pv *corev1.PersistentVolume, node string) *v1alpha1.VolumeLock {
	t.Helper()
	return l.locked(t, pv, " to be of node "+node, func(lock *v1alpha1.VolumeLock) bool { return lock.Spec.Node.Name == node })
}

// free waits until nobody holds a volume.
func (l *lab) free(t *testing.T, pv *corev1.PersistentVolume) {
	t.Helper()
	suite.Eventually(t, "volume "+pv.Name+" to be free", func(ctx context.Context) (bool, error) {
		lock, err := l.lockOf(ctx, pv)
		if lock != nil {
			return false, fmt.Errorf("%s: %+v", core.Whose(lock), lock.Status)
		}
		return err == nil, err
	})
}

// freeOnceBooted waits until nobody holds a volume. While the API server is killed again and again a node may have been not ready with nobody there to see it, after which the volume may have been detached by
// force: then its machine is started again, as the lock says.
func (l *lab) freeOnceBooted(t *testing.T, pv *corev1.PersistentVolume, node string) {
	t.Helper()
	k := l.kubelets[node]
	suite.Eventually(t, "volume "+pv.Name+" to be free", func(ctx context.Context) (bool, error) {
		lock, err := l.lockOf(ctx, pv)
		if lock == nil {
			return err == nil, err
		}
		if lock.Status.Release != nil && lock.Status.DistrustedBootID == k.BootID() {
			t.Logf("node %s is rebooted: %s", node, lock.Status.Message)
			k.Reboot()
		}
		return false, fmt.Errorf("%s: %+v", core.Whose(lock), lock.Status)
	})
}

// attachment is that of a volume to a node; nil: there is none.
func (l *lab) attachment(ctx context.Context, pv *corev1.PersistentVolume, node string) (*storagev1.VolumeAttachment, error) {
	a := &storagev1.VolumeAttachment{}
	err := l.Client.Get(ctx, client.ObjectKey{Name: attachmentName(pv, node)}, a)
	if err != nil {
		a = nil
	}
	return a, client.IgnoreNotFound(err)
}

package vm

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
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
	driver = "nfs.csi.k8s.io"
	// guest is the node in the virtual machine, other the one that is scripted, and holder one in another machine.
	guest, other, holder = "guest", "other", "holder"
	writerImage          = "localhost/podgrace/writer:1"
	// driverProgram and writerProgram are in the guest.
	driverProgram, writerProgram = "/usr/local/bin/csidriver", "/usr/local/bin/writer"
	// nfsPort is the NFS server's.
	nfsPort = 2049
	// export is the folder in the guest that its kernel serves by NFS, and records the file of the writers in it.
	export, records = "/srv/export", "records"
	// elsewhere is where the other node's mount is: in the guest as well, apart from the kubelet's.
	elsewhere = "/mnt/other"
	// soon is how long what takes half a minute may take on a busy machine with an emulated processor.
	soon = 5 * time.Minute
)

// serve has the guest's kernel export a folder by NFSv4. What it asks user space for, who a client is, what an export may be used for, and which one a file handle is of (exports(5), and
// Documentation/filesystems/nfs/rpc-cache.rst), it is told before: 9218 is insecure, no_subtree_check and fsid=0, the root of NFSv4. As there is nobody who remembers clients, it opens
// no file for the first seconds: as few as can be.
const serve = `
mkdir --parents ` + export + ` ` + elsewhere + `
modprobe nfsd
mount -t nfsd nfsd /proc/fs/nfsd
echo 'nfsd 127.0.0.1 2000000000 local' > /proc/net/rpc/auth.unix.ip/channel
echo 'nfsd ` + vm.Gateway + ` 2000000000 local' > /proc/net/rpc/auth.unix.ip/channel
echo 'local ` + export + ` 2000000000 9218 65534 65534 0' > /proc/net/rpc/nfsd.export/channel
echo 'local 1 \x00000000 2000000000 ` + export + `' > /proc/net/rpc/nfsd.fh/channel
echo '-3 +4.2' > /proc/fs/nfsd/versions
echo 10 > /proc/fs/nfsd/nfsv4leasetime
echo 10 > /proc/fs/nfsd/nfsv4gracetime
echo 'tcp 2049' > /proc/fs/nfsd/portlist
echo 2 > /proc/fs/nfsd/threads
`

var (
	shared  = &suite.Shared{Options: cluster.Options{ControllerManager: true, Scheduler: true}}
	once    sync.Once
	theNode *vm.Node
	onceErr error
)

func TestMain(m *testing.M) { suite.Main(m, shared) }

// lab is a cluster with a node in a virtual machine, on which the driver runs, and a scripted one.
type lab struct {
	*suite.Suite
	node      *vm.Node
	namespace string
	began     time.Time
}

func start(t *testing.T) *lab {
	t.Helper()
	clustertest.Require(t, vm.NodeSupported())
	l := &lab{Suite: shared.Get(t)}
	once.Do(func() { theNode, onceErr = deploy(context.Background(), l.Suite) })
	if onceErr != nil {
		t.Fatal(onceErr)
	}
	l.node, l.began = theNode, time.Now()
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the driver and the kubelet:\n%s", l.script(t, "journalctl --no-pager --unit=csidriver; journalctl --no-pager --unit=kubelet | grep "+driver+" | tail --lines=60"))
		}
	})
	l.knowsDriver(t, guest)
	return l.again(t)
}

// again is the lab for another test, with nothing mounted, nothing written, and another namespace.
func (l *lab) again(t *testing.T) *lab {
	t.Helper()
	suite.EventuallyWithin(t, soon, "what a test before has mounted to be unmounted", func(context.Context) (bool, error) { return l.mounted(t) == "", nil })
	l.script(t, "rm --force "+export+"/"+records)
	n := &lab{Suite: l.Suite, node: l.node, began: l.began, namespace: l.Namespace(t)}
	return n
}

// knowsDriver waits until the driver has registered with a node's kubelet.
func (l *lab) knowsDriver(t *testing.T, node string) {
	t.Helper()
	suite.EventuallyWithin(t, soon, "the kubelet of "+node+" to know the driver", func(ctx context.Context) (bool, error) {
		var n storagev1.CSINode
		err := l.Client.Get(ctx, client.ObjectKey{Name: node}, &n)
		return len(n.Spec.Drivers) > 0 && n.Spec.Drivers[0].Name == driver, client.IgnoreNotFound(err)
	})
}

// deploy makes both nodes, and starts the NFS server and the driver on the first.
func deploy(ctx context.Context, s *suite.Suite) (*vm.Node, error) {
	node, err := boot(ctx, s, vm.Options{Name: guest, Serves: nfsPort})
	if err != nil {
		return nil, err
	}
	if _, err := node.Run(ctx, "set -e"+serve); err != nil {
		return nil, err
	}
	return node, errors.Join(drive(ctx, node, "127.0.0.1"), s.AddNode(ctx, other, nil), s.AttachByController(ctx, other))
}

// boot boots a machine with the image and the programs.
func boot(ctx context.Context, s *suite.Suite, options vm.Options) (*vm.Node, error) {
	image := filepath.Join(s.Dir, "writer.tar")
	if err := cluster.BuildImage(ctx, writerImage, "e2e/volumelock/vm/writer", image); err != nil {
		return nil, err
	}
	options.Images = []string{image}
	node, err := vm.Start(ctx, s.Cluster, options)
	if err != nil {
		return nil, err
	}
	for program, folder := range map[string]string{driverProgram: "e2e/kubernetes/csidriver", writerProgram: "e2e/volumelock/vm/writer"} {
		built := filepath.Join(s.Dir, "bin", filepath.Base(program))
		if err := errors.Join(cluster.GoBuild(ctx, built, folder), node.Copy(ctx, built, program, 0o755)); err != nil {
			return nil, err
		}
	}
	return node, nil
}

// drive starts the driver in a machine, for an NFS server.
func drive(ctx context.Context, node *vm.Node, server string) error {
	_, err := node.Run(ctx, "systemd-run --unit=csidriver "+driverProgram+" --name="+driver+" --nfs="+server)
	return err
}

// endsNodes ends both nodes after the test. The next test makes them again.
func (l *lab) endsNodes(t *testing.T) {
	t.Cleanup(func() {
		l.StopHeartbeat(other)
		err := theNode.Stop()
		for _, name := range []string{guest, other} {
			err = errors.Join(err, client.IgnoreNotFound(l.Client.Delete(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}})))
		}
		if err != nil {
			t.Error(err)
		}
		once = sync.Once{}
	})
}

// reboot starts the machine again, as after a power cut, with nothing but its kubelet.
func (l *lab) reboot(t *testing.T) {
	t.Helper()
	err := l.node.Stop()
	if err == nil {
		theNode, err = vm.Start(t.Context(), l.Cluster, vm.Options{Name: guest})
	}
	if err != nil {
		t.Fatal(err)
	}
	l.node = theNode
}

// gate makes the driver's CSIDriver with attachRequired, and starts the volume lock.
func (l *lab) gate(t *testing.T) {
	t.Helper()
	l.csiDriver(t, true)
	ctx := t.Context()
	if err := podgrace.AllowVolumeLock(ctx, l.Cluster); err != nil {
		t.Fatal(err)
	}
	program, err := podgrace.BuildVolumeLock(ctx, filepath.Join(l.Dir, "bin"))
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, err := podgrace.VolumeLockKubeconfig(l.Cluster)
	if err != nil {
		t.Fatal(err)
	}
	lock, err := podgrace.StartVolumeLock(ctx, l.Cluster, program, kubeconfig, []string{driver}, "--leader-elect=false") // one that missed its lease would end, and no kubelet starts it again here
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		log, err := os.ReadFile(lock.LogPath)
		if stopErr := lock.Stop(); stopErr != nil {
			t.Error(stopErr)
		}
		if t.Failed() && err == nil {
			t.Logf("the volume lock's log:\n%s", log)
		}
	})
}

// csiDriver reports whether the driver's volumes are attached before they are mounted; if so it was adopted when none was.
func (l *lab) csiDriver(t *testing.T, attach bool) {
	t.Helper()
	if !attach {
		l.Create(t, &storagev1.CSIDriver{ObjectMeta: metav1.ObjectMeta{Name: driver}, Spec: storagev1.CSIDriverSpec{AttachRequired: &attach}})
		return
	}
	d, err := podgrace.CreateAdopted(t.Context(), l.Client, driver)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(l.Client.Delete(context.Background(), d)); err != nil {
			t.Error(err)
		}
	})
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
			Name: "main", Image: writerImage, ImagePullPolicy: corev1.PullNever, Args: []string{"/data/" + records, name}, VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
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

// report has the other node's kubelet say which volumes it uses, by their handles.
func (l *lab) report(ctx context.Context, handles ...string) error {
	var n corev1.Node
	if err := l.Client.Get(ctx, client.ObjectKey{Name: other}, &n); err != nil {
		return err
	}
	was := n.DeepCopy()
	n.Status.VolumesInUse = nil
	for _, handle := range handles {
		n.Status.VolumesInUse = append(n.Status.VolumesInUse, core.InUseName(driver, handle))
	}
	for i := range n.Status.Conditions {
		n.Status.Conditions[i].LastHeartbeatTime = metav1.Now()
	}
	return l.Client.Status().Patch(ctx, &n, client.StrategicMergeFrom(was))
}

// mount has the other node's kubelet mount the export, and a pod of the name write to it.
func (l *lab) mount(t *testing.T, name string) {
	t.Helper()
	l.script(t, "mount -i -t nfs4 -o vers=4.2,addr=127.0.0.1,clientaddr=127.0.0.1,nosharecache 127.0.0.1:/ "+elsewhere+" && systemd-run --unit=writer-"+name+" "+writerProgram+" "+elsewhere+"/"+records+" "+name)
	t.Cleanup(func() { l.unmount(t, name) })
}

// unmount ends what mount began, once.
func (l *lab) unmount(t *testing.T, name string) {
	t.Helper()
	l.script(t, "! systemctl is-active --quiet writer-"+name+" || { systemctl stop writer-"+name+" && umount "+elsewhere+"; }")
}

// mounted is where the export is mounted, one place a line: the pods' and the other node's.
func (l *lab) mounted(t *testing.T) string {
	t.Helper()
	return l.script(t, "findmnt --noheadings --raw --types nfs4 --output TARGET || true")
}

// wrote are the names of who has written, line by line. The first writer makes the file a moment after its pod runs.
func (l *lab) wrote(t *testing.T) []string {
	t.Helper()
	return strings.Fields(l.script(t, "test ! -e "+export+"/"+records+" || cat "+export+"/"+records))
}

// writes waits until a writer has written more than it has.
func (l *lab) writes(t *testing.T, name string) {
	t.Helper()
	had := len(l.wrote(t))
	suite.EventuallyWithin(t, soon, name+" to write", func(context.Context) (bool, error) {
		all := l.wrote(t)
		return len(all) > had && slices.Contains(all[had:], name), nil
	})
	l.step(t, name+" writes")
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

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/chaos/plan"
	"github.com/podgrace/podgrace/e2e/podgrace"
	"github.com/podgrace/podgrace/e2e/volumelock"
)

// What has volumes: StatefulSets of one pod, on machines of their own, in a namespace whose pods a policy protects.
const (
	volumesNamespace = "volumes"
	volumesDriver    = "iscsi.csi.k8s.io"
	volumesTarget    = "iqn.2026-11.org.example:chaos"
	volumes          = 4
)

// hostLabel says of a node which kubelet it has: its pods are this program's (node), or have volumes (machine).
const (
	hostLabel   = "chaos.example/host"
	hostNode    = "node"
	hostMachine = "machine"
)

func machineName(i int) string { return fmt.Sprintf("machine-%d", i) }

// volumeName is that of a volume's claim, PersistentVolume and StatefulSet.
func volumeName(i int) string { return fmt.Sprintf("volume-%d", i) }

// unitOf is what the storage calls a volume, as the scripted kubelets tell the witness.
func unitOf(i int) string { return fmt.Sprintf("%s/%d", volumesTarget, i) }

// addMachines adds the machines with the volume lock, and what has volumes.
func (l *lab) addMachines(ctx, working context.Context) error {
	if err := podgrace.AllowVolumeLock(ctx, l.Cluster, volumesDriver); err != nil {
		return err
	}
	if _, err := podgrace.CreateAdopted(ctx, l.kube, volumesDriver); err != nil {
		return err
	}
	l.storage = volumelock.NewWitness()
	for i := range plan.Machines {
		if err := l.addMachine(ctx, i); err != nil {
			return err
		}
	}
	program, err := podgrace.BuildVolumeLock(ctx, filepath.Join(l.Dir, "bin"))
	if err != nil {
		return err
	}
	kubeconfig, err := podgrace.VolumeLockKubeconfig(l.Cluster)
	if err != nil {
		return err
	}
	var locks []*watcher
	for i := range plan.VolumeLocks {
		w, err := newWatcher(l.Cluster, "volumelock", program, kubeconfig, i, "--drivers="+volumesDriver)
		if err != nil {
			return err
		}
		locks = append(locks, w)
	}
	if err := l.watch(working, locks...); err != nil {
		return err
	}
	objects := []client.Object{
		&v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: volumesNamespace}, Spec: v1alpha1.PodPolicySpec{
			Match:   &v1alpha1.PodMatch{NamespaceSelector: v1alpha1.SetAsLabelSelector(map[string]string{corev1.LabelMetadataName: volumesNamespace})},
			Removal: &v1alpha1.RemovalSection{ForceDelete: v1alpha1.RemovalDeny},
		}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: volumesNamespace}},
	}
	for i := range volumes {
		objects = append(objects, withVolume(i)...)
	}
	for _, o := range objects {
		if err := l.kube.Create(ctx, o); err != nil {
			return fmt.Errorf("make %T %s: %w", o, o.GetName(), err)
		}
	}
	l.working.Go(func() { l.witnessMachines(working) })
	return nil
}

// addMachine adds a machine with a kubelet.
func (l *lab) addMachine(ctx context.Context, i int) error {
	name, uuid := machineName(i), fmt.Sprintf("4c4c4544-0000-1000-8000-%012d", i)
	if err := l.AddNode(ctx, name, map[string]string{hostLabel: hostMachine}); err != nil {
		return err
	}
	l.StopHeartbeat(name) // its kubelet has its own
	text := fmt.Appendf(nil, `{"status":{"nodeInfo":{"systemUUID":%q}}}`, uuid)
	if err := errors.Join(
		l.AttachByController(ctx, name),
		l.kube.Status().Patch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}, client.RawPatch(types.MergePatchType, text)),
		l.kube.Create(ctx, &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: storagev1.CSINodeSpec{Drivers: []storagev1.CSINodeDriver{{Name: volumesDriver, NodeID: name}}}}),
	); err != nil {
		return fmt.Errorf("add %s: %w", name, err)
	}
	k, err := volumelock.StartKubelet(l.Cluster, l.storage, name, name)
	if err != nil {
		return err
	}
	l.ends = append(l.ends, func() error {
		k.Stop()
		return nil
	})
	l.machines = append(l.machines, newMachine(name, uuid, k, l.storage, l.violated))
	return nil
}

// withVolume are a volume and the StatefulSet of one pod that uses it.
func withVolume(i int) []client.Object {
	name := volumeName(i)
	size := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	once := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	pod := template(name)
	pod.Spec.NodeSelector = map[string]string{hostLabel: hostMachine}
	pod.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}
	return []client.Object{
		&corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeSpec{
			Capacity: size, AccessModes: once, ClaimRef: &corev1.ObjectReference{Namespace: volumesNamespace, Name: name}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: volumesDriver, VolumeHandle: name, VolumeAttributes: map[string]string{
				"targetPortal": "192.0.2.1:3260", "iqn": volumesTarget, "lun": fmt.Sprint(i),
			}}},
		}},
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: volumesNamespace, Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: once, Resources: corev1.VolumeResourceRequirements{Requests: size}, StorageClassName: new(""), VolumeName: name,
		}},
		&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: volumesNamespace, Name: name}, Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: pod,
		}},
	}
}

// witnessMachines tells of each two machines that could write to a volume at once, and of each receipt that is not so.
func (l *lab) witnessMachines(ctx context.Context) {
	seen, judged := 0, map[string]bool{}
	for ctx.Err() == nil {
		_, found := l.storage.Seen()
		for _, what := range found[seen:] {
			l.violated("%s", what)
		}
		seen = len(found)
		var receipts v1alpha1.FenceReceiptList
		if err := l.kube.List(ctx, &receipts); err == nil { // else the API server is away
			for i := range receipts.Items {
				r := &receipts.Items[i]
				if judged[r.Name] {
					continue
				}
				judged[r.Name] = true
				l.counts.add("receipts that a machine is off", 1)
				if wrong := untrue(r, l.machines); wrong != "" {
					l.violated("FenceReceipt %s: %s", r.Name, wrong)
				}
			}
		}
		until(ctx, time.Now().Add(200*time.Millisecond))
	}
}

// operateMachines does what a user does with pods that have volumes.
func (l *lab) operateMachines(ctx context.Context, o plan.Operation) {
	switch o.Do {
	case plan.ForceWithVolume:
		l.counts.operation(o.Do, l.forceVolume(ctx, o.Which%volumes))
	case plan.SayAttached:
		l.counts.operation(o.Do, l.sayAttached(ctx, o.Which))
	case plan.DropAttachment:
		l.counts.operation(o.Do, l.dropAttachment(ctx, o.Which))
	default:
		l.insist(ctx, o.Do, l.requestWithVolume(o))
	}
}

// podOf is the pod that has a volume, as the API server has it.
func (l *lab) podOf(ctx context.Context, volume int) (*corev1.Pod, error) {
	p := &corev1.Pod{}
	return p, l.kube.Get(ctx, client.ObjectKey{Namespace: volumesNamespace, Name: volumeName(volume) + "-0"}, p)
}

func copyOf(p *corev1.Pod) podCopy {
	return podCopy{uid: p.UID, namespace: p.Namespace, name: p.Name, node: p.Spec.NodeName, only: true}
}

// requestWithVolume is what a user asks for who is not to be refused. Which pod it is about is fixed once the API server has told of one.
func (l *lab) requestWithVolume(o plan.Operation) func(context.Context) error {
	volume := o.Which % volumes
	var of *corev1.Pod
	ofPod := func(do func(ctx context.Context, c podCopy) error) func(context.Context) error {
		return func(ctx context.Context) error {
			if of == nil {
				p, err := l.podOf(ctx, volume)
				if err != nil {
					return err
				}
				of = p
			}
			return do(ctx, copyOf(of))
		}
	}
	switch o.Do {
	case plan.MoveVolume:
		prefer := fmt.Sprintf(`{"weight":100,"preference":{"matchExpressions":[{"key":%q,"operator":"In","values":[%q]}]}}`, corev1.LabelHostname, machineName(o.How%plan.Machines))
		patch := `{"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[` + prefer + `]}}}}}}`
		return func(ctx context.Context) error {
			return l.patchWorkload(ctx, "statefulsets", volumesNamespace, volumeName(volume), patch)
		}
	case plan.DrainMachine:
		return func(ctx context.Context) error { return l.drainMachine(ctx, machineName(o.Which%plan.Machines)) }
	case plan.ConfirmedVolume:
		return ofPod(func(ctx context.Context, c podCopy) error {
			if err := l.confirm(ctx, c); err != nil {
				return err
			}
			return l.kube.Delete(ctx, c.pod(), client.GracePeriodSeconds(0), client.Preconditions{UID: &c.uid})
		})
	default:
		return ofPod(func(ctx context.Context, c podCopy) error {
			return l.kube.Delete(ctx, c.pod(), client.Preconditions{UID: &c.uid})
		})
	}
}

// drainMachine evicts all pods that a machine has.
func (l *lab) drainMachine(ctx context.Context, name string) error {
	pods, err := l.podsOn(ctx, name)
	errs := []error{err}
	for i := range pods {
		if err := l.evict(ctx, copyOf(&pods[i]), nil); !isMoot(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// podsOn are the pods with volumes that are bound to a machine.
func (l *lab) podsOn(ctx context.Context, name string) ([]corev1.Pod, error) {
	var pods corev1.PodList
	err := l.kube.List(ctx, &pods, client.InNamespace(volumesNamespace))
	return slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool { return p.Spec.NodeName != name }), err
}

// machine is the one of a name; nil: there is none.
func machineOf(all []*machine, name string) *machine {
	i := slices.IndexFunc(all, func(m *machine) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	return all[i]
}

// forceVolume asks for the removal of a pod whose machine has its volume mounted, as must never be let go while that boot runs.
func (l *lab) forceVolume(ctx context.Context, volume int) result {
	p, err := l.podOf(ctx, volume)
	if err != nil {
		return untried
	}
	m := machineOf(l.machines, p.Spec.NodeName)
	if m == nil || !slices.Contains(l.storage.Writers(unitOf(volume)), m.name) {
		return untried
	}
	c, boot := copyOf(p), m.kubelet.BootID()
	err = l.remove(ctx, removal{verb: plan.ForceProtected, of: c})
	_, over := m.endedAt(boot)
	switch {
	case ctx.Err() != nil:
		return unanswered
	case apierrors.IsForbidden(err):
		return refused
	case err == nil && !over && !l.copies.isConfirmed(c.uid):
		l.violated("%s: %s (%s) on %s, which has its volume mounted, was let go", plan.ForceWithVolume, c.key(), c.uid, m.name)
		return failed
	case err == nil || isMoot(err):
		return moot
	}
	return unanswered
}

// attachments are the VolumeAttachments that say attached, or do not.
func (l *lab) attachments(ctx context.Context, attached bool) ([]storagev1.VolumeAttachment, error) {
	var all storagev1.VolumeAttachmentList
	err := l.kube.List(ctx, &all)
	return slices.DeleteFunc(all.Items, func(a storagev1.VolumeAttachment) bool {
		return a.Status.Attached != attached || a.DeletionTimestamp != nil
	}), err
}

// sayAttached says of a volume that it is attached, as only the volume lock may.
func (l *lab) sayAttached(ctx context.Context, which int) result {
	all, _ := l.attachments(ctx, false) // there are none where nobody answers
	a, err := choose(all, which)
	if err != nil {
		return untried
	}
	text := fmt.Appendf(nil, `{"metadata":{"uid":%q,"resourceVersion":%q},"status":{"attached":true}}`, a.UID, a.ResourceVersion)
	return l.never(ctx, plan.SayAttached, &a, l.kube.Status().Patch(ctx, &a, client.RawPatch(types.MergePatchType, text)))
}

// dropAttachment deletes a VolumeAttachment that is attached, as only the attach/detach controller may unless its node is known to be off.
func (l *lab) dropAttachment(ctx context.Context, which int) result {
	all, _ := l.attachments(ctx, true)
	a, err := choose(all, which)
	if err != nil {
		return untried
	}
	return l.never(ctx, plan.DropAttachment, &a, l.kube.Delete(ctx, &a, client.Preconditions{UID: &a.UID, ResourceVersion: &a.ResourceVersion}))
}

// never is what came of what must not be done to a VolumeAttachment as long as its machine runs. It is as it was read, or nothing is done.
func (l *lab) never(ctx context.Context, verb plan.Verb, a *storagev1.VolumeAttachment, err error) result {
	m := machineOf(l.machines, a.Spec.NodeName)
	switch {
	case ctx.Err() != nil:
		return unanswered
	case apierrors.IsForbidden(err):
		return refused
	case err == nil && (verb == plan.SayAttached || m != nil && !m.isOff()):
		l.violated("%s: VolumeAttachment %s of %s to %s: it was let through", verb, a.Name, *a.Spec.Source.PersistentVolumeName, a.Spec.NodeName)
		return failed
	case err == nil || isMoot(err):
		return moot
	}
	return unanswered
}

// volumesUnwell is which pod has not its volume, or which volume somebody else has as well, or is said to have.
func (l *lab) volumesUnwell(ctx context.Context) error {
	var locks v1alpha1.VolumeLockList
	var attachments storagev1.VolumeAttachmentList
	if err := errors.Join(l.kube.List(ctx, &locks), l.kube.List(ctx, &attachments)); err != nil {
		return err
	}
	for i := range volumes {
		p, err := l.podOf(ctx, i)
		if err != nil {
			return err
		}
		if p.DeletionTimestamp != nil || p.Status.Phase != corev1.PodRunning {
			return fmt.Errorf("pod %s on %s is %s, deleted at %v%s", p.Name, p.Spec.NodeName, p.Status.Phase, p.DeletionTimestamp, heldBy(locks.Items, volumeName(i)))
		}
		if err := has(p.Spec.NodeName, volumeName(i), l.storage.Writers(unitOf(i)), locks.Items, attachments.Items); err != nil {
			return err
		}
	}
	if len(locks.Items) != volumes {
		return fmt.Errorf("there are %d VolumeLocks of %d volumes", len(locks.Items), volumes)
	}
	return nil
}

// heldBy says who holds a volume, and what its release waits for.
func heldBy(locks []v1alpha1.VolumeLock, volume string) string {
	i := slices.IndexFunc(locks, func(l v1alpha1.VolumeLock) bool { return l.Spec.PersistentVolume == volume })
	if i < 0 {
		return "; nobody holds " + volume
	}
	return fmt.Sprintf("; %s is held by %s of %s, to be released: %+v, %s", volume, locks[i].Spec.Node.BootID, locks[i].Spec.Node.Name, locks[i].Status.Release, locks[i].Status.Message)
}

// tend reboots the machines whose word is no proof any more of a volume, because it was detached by force: the VolumeLock says so, and waits for that, or for somebody who knows.
func (l *lab) tend(ctx context.Context) {
	var locks v1alpha1.VolumeLockList
	if err := l.kube.List(ctx, &locks); err != nil {
		return // nobody answers yet
	}
	for i := range locks.Items {
		k := &locks.Items[i]
		m := machineOf(l.machines, k.Spec.Node.Name)
		if m == nil || m.isAway() || k.Status.Release == nil || k.Status.DistrustedBootID != m.kubelet.BootID() {
			continue
		}
		l.counts.add("machines that were rebooted, because a volume had been detached from them by force", 1)
		l.say("%s is rebooted: %s", m.name, k.Status.Message)
		m.powerOff(m.kubelet.BootID())
		m.powerOn()
	}
}

// has says why a node does not have a volume, or is not the only one.
func has(node, volume string, writers []string, locks []v1alpha1.VolumeLock, attachments []storagev1.VolumeAttachment) error {
	if !slices.Equal(writers, []string{node}) {
		return fmt.Errorf("%s is for %s, and mounted by %q", volume, node, strings.Join(writers, " and "))
	}
	var holders, attached []string
	for i := range locks {
		if k := &locks[i]; k.Spec.PersistentVolume == volume {
			holders = append(holders, k.Spec.Node.Name)
		}
	}
	for i := range attachments {
		if a := &attachments[i]; *a.Spec.Source.PersistentVolumeName == volume && a.Status.Attached && a.DeletionTimestamp == nil {
			attached = append(attached, a.Spec.NodeName)
		}
	}
	if only := []string{node}; !slices.Equal(holders, only) || !slices.Equal(attached, only) {
		return fmt.Errorf("%s is for %s, locked for %v and attached to %v", volume, node, holders, attached)
	}
	return nil
}

// askVolumes asks in a calm for the removal of each pod that has a volume.
func (l *lab) askVolumes(ctx context.Context) {
	for i := range volumes {
		if got := l.forceVolume(ctx, i); got == refused {
			l.counts.operation(plan.ForceWithVolume, got)
		} else if got != failed {
			l.violated("in the calm nobody judges a force delete of the pod that has %s", volumeName(i))
		}
	}
}

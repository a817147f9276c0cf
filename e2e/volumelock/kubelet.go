package volumelock

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
	core "github.com/podgrace/podgrace/volumelock"
)

// statusEvery is how often a kubelet looks whether its node status has changed: nodeStatusUpdateFrequency, whose default is 10 s, set as low as heartbeats can be told apart by, which are stored in whole seconds.
const statusEvery = 1100 * time.Millisecond

// reportEvery is how often it writes one that has not changed (nodeStatusReportFrequency, by default).
const reportEvery = 5 * time.Minute

// Kubelet does of a node what has to do with volumes as the real one does (v1.36.3), with a kubelet's rights:
//
//   - of a pod that is bound to the node it wants the volumes; of one that is deleting, or gone, it does not any more. It has no containers: they start and end at once.
//   - status.volumesInUse has what is wanted, and what is known to be attached (pkg/kubelet/volumemanager GetVolumesInUse); what of it was stored it may go on with (MarkVolumesAsReportedInUse).
//   - it goes on once status.volumesAttached of the Node has the volume (operation_generator.go, VerifyControllerAttachedVolume), and mounts once it has read a VolumeAttachment that is attached and not being
//     deleted (pkg/volume/csi/csi_attacher.go, WaitForAttach). What it has once found attached it does not ask about again.
//   - it unmounts what is not wanted, then takes it out of the list, and deletes a pod that is deleting once its volumes are unmounted.
//
// What fails it tries again, as that does. That a status is worked out against an informer's copy is left out; what comes of that is in volumelock/volumelocktest.
type Kubelet struct {
	name    string // of the Node
	machine string // to the storage
	kube    client.Client
	witness *Witness

	end  context.CancelFunc
	done chan struct{}

	mu       sync.Mutex // held while it works
	boots    int
	silent   bool
	hung     bool
	volumes  map[corev1.UniqueVolumeName]*volume
	uses     map[types.UID][]corev1.UniqueVolumeName // of the pods that it knows
	reported time.Time                               // when it last wrote its status
	holding  bool
	held     func(context.Context) error
	last     error
}

// volume is what a kubelet knows of one volume.
type volume struct {
	pv         *corev1.PersistentVolume
	wanted     bool // by a pod: desired state of world
	stored     bool // in the list, as far as it was told
	known      bool // to be attached: actual state of world
	attachable bool // in the actual state of world
	mounted    bool
}

// StartKubelet starts the kubelet of a machine, for a Node that there is. It works until it is stopped.
func StartKubelet(c *cluster.Cluster, witness *Witness, name, machine string) (*Kubelet, error) {
	config, err := c.User("system:node:"+name, "system:nodes")
	if err != nil {
		return nil, err
	}
	kube, err := client.New(config, client.Options{})
	if err != nil {
		return nil, fmt.Errorf("make a client: %w", err)
	}
	ctx, end := context.WithCancel(context.Background())
	k := &Kubelet{name: name, machine: machine, kube: kube, witness: witness, end: end, done: make(chan struct{})}
	k.forget()
	go k.run(ctx)
	return k, nil
}

// Stop ends it.
func (k *Kubelet) Stop() {
	k.end()
	<-k.done
}

// SetSilent cuts its machine off from the API server, and no further: what is mounted stays so, and goes on writing.
func (k *Kubelet) SetSilent(is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.silent = is
}

// SetHung has unmounting hang.
func (k *Kubelet) SetHung(is bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.hung = is
}

// BootID is that of the boot that runs.
func (k *Kubelet) BootID() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bootID()
}

func (k *Kubelet) bootID() string { return fmt.Sprintf("boot-%d-of-%s", k.boots, k.machine) }

// Reboot starts the machine again: nothing is mounted, and the kubelet knows nothing.
func (k *Kubelet) Reboot() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.witness.Off(k.machine)
	k.boots++
	k.forget()
}

// forget is a kubelet's memory when it starts.
func (k *Kubelet) forget() {
	k.volumes, k.uses, k.reported = map[corev1.UniqueVolumeName]*volume{}, map[types.UID][]corev1.UniqueVolumeName{}, time.Time{}
}

// Restart starts the kubelet again, within its boot. It finds what is mounted on its disk, and takes for attachable what status.volumesAttached has (pkg/kubelet/volumemanager/reconciler/reconstruct.go).
func (k *Kubelet) Restart(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	node, err := k.node(ctx)
	if err != nil {
		return err
	}
	before := k.volumes
	k.forget()
	for name, v := range before {
		if v.mounted {
			k.volumes[name] = &volume{pv: v.pv, mounted: true, known: true, attachable: cluster.AttachedTo(node, name)}
		}
	}
	return nil
}

// HoldStatus has the next status stay on its way whose list is another one than the stored: nothing more is sent until the kubelet gives up.
func (k *Kubelet) HoldStatus() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holding, k.held = true, nil
}

// Held returns what has the status arrive that is on its way; nil: none is.
func (k *Kubelet) Held() (arrive func(context.Context) error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.held
}

// GiveUpStatus has the kubelet give up on the status that is on its way, which may arrive all the same.
func (k *Kubelet) GiveUpStatus() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.holding = false
}

// String says what it knows.
func (k *Kubelet) String() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "kubelet of node %s, %s, silent: %t, hung: %t, last error: %v", k.name, k.bootID(), k.silent, k.hung, k.last)
	for name, v := range k.volumes {
		fmt.Fprintf(&text, "\n  %s wanted: %t stored: %t known: %t attachable: %t mounted: %t", name, v.wanted, v.stored, v.known, v.attachable, v.mounted)
	}
	return text.String()
}

func (k *Kubelet) run(ctx context.Context) {
	defer close(k.done)
	var looked time.Time
	for ctx.Err() == nil {
		begin := time.Now()
		heartbeat := begin.Sub(looked) >= statusEvery
		if heartbeat {
			looked = begin
		}
		k.round(ctx, heartbeat)
		select {
		case <-ctx.Done():
		case <-time.After(max(cluster.Pause(time.Since(begin)), 100*time.Millisecond)):
		}
	}
}

func (k *Kubelet) round(ctx context.Context, heartbeat bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.silent {
		return
	}
	steps := []func(context.Context) error{k.sync}
	if heartbeat {
		steps = []func(context.Context) error{k.renew, k.report, k.sync}
	}
	for _, step := range steps {
		if err := step(ctx); err != nil && ctx.Err() == nil {
			k.last = err
		}
	}
}

func (k *Kubelet) node(ctx context.Context) (*corev1.Node, error) {
	node := &corev1.Node{}
	return node, k.kube.Get(ctx, client.ObjectKey{Name: k.name}, node)
}

// renew renews its Lease.
func (k *Kubelet) renew(ctx context.Context) error {
	patch, err := cluster.MergePatch("spec", map[string]any{"renewTime": metav1.NowMicro()})
	if err != nil {
		return err
	}
	return k.kube.Patch(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: corev1.NamespaceNodeLease, Name: k.name}}, patch)
}

// report is tryUpdateNodeStatus (pkg/kubelet/kubelet_node_status.go): of a status that has not changed nothing is sent, most of the time.
func (k *Kubelet) report(ctx context.Context) error {
	node, err := k.node(ctx)
	if err != nil {
		return err
	}
	was := node.DeepCopy()
	changed := k.setStatus(node)
	// By what differs, without a resourceVersion (k8s.io/component-helpers/node/util/status.go).
	send := func(ctx context.Context) error {
		return k.kube.Status().Patch(ctx, node, client.StrategicMergeFrom(was))
	}
	if k.holding && k.held == nil && !slices.Equal(node.Status.VolumesInUse, was.Status.VolumesInUse) {
		k.held = send
	}
	switch {
	case k.holding && k.held != nil:
		return nil
	case changed || time.Since(k.reported) >= reportEvery:
		if err := send(ctx); err != nil {
			return err
		}
		k.reported = time.Now()
	}
	for name, v := range k.volumes {
		v.stored = v.wanted && slices.Contains(node.Status.VolumesInUse, name)
	}
	return nil
}

// setStatus reports whether more than heartbeats has changed.
func (k *Kubelet) setStatus(node *corev1.Node) (changed bool) {
	s, now := &node.Status, metav1.Now()
	for i := range s.Conditions {
		c := &s.Conditions[i]
		is := corev1.ConditionFalse
		if c.Type == corev1.NodeReady {
			is = corev1.ConditionTrue
		}
		if c.Status != is {
			c.Status, c.LastTransitionTime, changed = is, now, true
		}
		c.LastHeartbeatTime = now
	}
	var list []corev1.UniqueVolumeName
	for name, v := range k.volumes {
		if v.wanted || v.known && v.attachable {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	changed = changed || !slices.Equal(list, s.VolumesInUse) || s.NodeInfo.BootID != k.bootID()
	s.VolumesInUse, s.NodeInfo.BootID = list, k.bootID()
	return changed
}

// sync is a round of the volume manager and the pod workers.
func (k *Kubelet) sync(ctx context.Context) error {
	var pods corev1.PodList
	if err := k.kube.List(ctx, &pods, client.MatchingFields{"spec.nodeName": k.name}); err != nil {
		return err
	}
	var errs []error
	for _, v := range k.volumes {
		v.wanted = false
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.DeletionTimestamp == nil {
			errs = append(errs, k.want(ctx, p))
		}
	}
	for name, v := range k.volumes {
		if err := k.reconcile(ctx, name, v); err != nil {
			errs = append(errs, fmt.Errorf("volume %s: %w", name, err))
		}
	}
	for i := range pods.Items {
		if err := k.tell(ctx, &pods.Items[i]); client.IgnoreNotFound(err) != nil {
			errs = append(errs, fmt.Errorf("pod %s: %w", pods.Items[i].Name, err))
		}
	}
	return errors.Join(errs...)
}

// want finds the volumes of a pod, once.
func (k *Kubelet) want(ctx context.Context, p *corev1.Pod) error {
	if _, known := k.uses[p.UID]; !known {
		var names []corev1.UniqueVolumeName
		for i := range p.Spec.Volumes {
			if p.Spec.Volumes[i].PersistentVolumeClaim == nil {
				continue
			}
			pv, err := k.claimed(ctx, p.Namespace, p.Spec.Volumes[i].PersistentVolumeClaim.ClaimName)
			if err != nil {
				return err
			}
			name := core.InUseName(pv.Spec.CSI.Driver, pv.Spec.CSI.VolumeHandle)
			if k.volumes[name] == nil {
				k.volumes[name] = &volume{attachable: true}
			}
			k.volumes[name].pv = pv
			names = append(names, name)
		}
		k.uses[p.UID] = names
	}
	for _, name := range k.uses[p.UID] {
		if k.volumes[name] != nil {
			k.volumes[name].wanted = true
		}
	}
	return nil
}

// claimed is the PersistentVolume that a claim is bound to.
func (k *Kubelet) claimed(ctx context.Context, namespace, claim string) (*corev1.PersistentVolume, error) {
	var pvc corev1.PersistentVolumeClaim
	if err := k.kube.Get(ctx, client.ObjectKey{Namespace: namespace, Name: claim}, &pvc); err != nil {
		return nil, err
	}
	if pvc.Status.Phase != corev1.ClaimBound {
		return nil, fmt.Errorf("claim %s is not bound", claim)
	}
	pv := &corev1.PersistentVolume{}
	return pv, k.kube.Get(ctx, client.ObjectKey{Name: pvc.Spec.VolumeName}, pv)
}

// reconcile takes a volume one step on.
func (k *Kubelet) reconcile(ctx context.Context, name corev1.UniqueVolumeName, v *volume) error {
	switch {
	case v.wanted && !v.known:
		if !v.stored {
			return errors.New("it is not in the list that was stored")
		}
		node, err := k.node(ctx)
		if err != nil {
			return err
		}
		v.known = cluster.AttachedTo(node, name)
		v.attachable = true
	case v.wanted && !v.mounted:
		var a storagev1.VolumeAttachment
		if err := k.kube.Get(ctx, client.ObjectKey{Name: attachmentName(v.pv, k.name)}, &a); err != nil {
			return err
		}
		if a.Status.Attached && a.DeletionTimestamp == nil {
			v.mounted = true
			k.witness.Mounted(k.machine, unit(v.pv))
		}
	case v.wanted:
	case v.mounted && k.hung:
	case v.mounted:
		v.mounted = false
		k.witness.Unmounted(k.machine, unit(v.pv))
	default:
		delete(k.volumes, name)
	}
	return nil
}

// tell says of a pod that it runs, or deletes one whose volumes are unmounted.
func (k *Kubelet) tell(ctx context.Context, p *corev1.Pod) error {
	mounted := func(name corev1.UniqueVolumeName) bool { return k.volumes[name] != nil && k.volumes[name].mounted }
	names, known := k.uses[p.UID]
	switch {
	case p.DeletionTimestamp != nil && !slices.ContainsFunc(names, mounted):
		delete(k.uses, p.UID)
		return k.kube.Delete(ctx, p, client.GracePeriodSeconds(0), client.Preconditions{UID: &p.UID})
	case p.DeletionTimestamp != nil || !known || p.Status.Phase != corev1.PodPending:
		return nil
	case slices.ContainsFunc(names, func(name corev1.UniqueVolumeName) bool { return !mounted(name) }):
		return nil
	}
	patch, err := cluster.MergePatch("status", cluster.RunningStatus())
	if err != nil {
		return err
	}
	return k.kube.Status().Patch(ctx, p, patch)
}

// attachmentName is what the VolumeAttachment of a volume and a node is called (pkg/volume/csi/csi_attacher.go, getAttachmentName, v1.36.3).
func attachmentName(pv *corev1.PersistentVolume, node string) string {
	return fmt.Sprintf("csi-%x", sha256.Sum256([]byte(pv.Spec.CSI.VolumeHandle+pv.Spec.CSI.Driver+node)))
}

// unit is what the storage calls the volume that a PersistentVolume leads to, whatever its handle: one of iSCSI is its target's name and the unit.
func unit(pv *corev1.PersistentVolume) string {
	attributes := pv.Spec.CSI.VolumeAttributes
	return attributes["iqn"] + "/" + attributes["lun"]
}

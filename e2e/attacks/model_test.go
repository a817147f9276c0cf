package attacks

import (
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// The annotations are part of what users rely on; the model has its own copy, so that it shares nothing with what it judges.
const (
	confirmForceDelete = "podgrace.dev/confirm-force-delete"
	confirmOff         = "podgrace.dev/confirm-off"
)

// event is one change of what is stored: the object after it, or, where it was deleted, as it was stored last.
type event struct {
	version uint64
	deleted bool
	object  any // *corev1.Pod, *corev1.Node, *coordinationv1.Lease or *storagev1.VolumeAttachment
}

// said is what the walk knows of what it sent. It is written before the request is sent, so that no event can come before it.
type said struct {
	// ended are pods of which their own kubelet said that they have ended.
	ended map[types.UID]bool
	// exclusive are pods that have a ReadWriteOnce claim, whatever becomes of the claim.
	exclusive map[types.UID]bool
	// actors' are the objects that an actor whom all policies allow removes, or taints.
	actors map[types.UID]bool
	// lately are the versions at which an allowed actor last removed what has a name: another object may have it by then.
	lately map[string]uint64
	// completed are pods whose confirmation comes with the very update that removes them: no stored state has it.
	completed map[types.UID]bool
	// confirming are the versions at which a pod was last confirmed by who has the verb: that may be the update that removes one of which a force
	// delete is half done.
	confirming map[types.UID]uint64
	// confirmations by who has the verb, of the object as it was then, and in time.
	confirmations map[string]bool
	// early are those of nodes that still run. On a busy machine one that is back may have been silent for its grace period when it is written: then
	// it counts.
	early map[string]bool
	// forged are confirmations by who has not, or of another time, and who that was. One may have the text of a true one.
	forged map[string]string
}

func newSaid() said {
	return said{
		ended: map[types.UID]bool{}, exclusive: map[types.UID]bool{}, actors: map[types.UID]bool{}, lately: map[string]uint64{}, completed: map[types.UID]bool{},
		confirming: map[types.UID]uint64{}, confirmations: map[string]bool{}, early: map[string]bool{}, forged: map[string]string{},
	}
}

// violation is a change that there is no reason for that counts.
type violation struct {
	what  string
	about []string // names as in request.about
	past  string   // what was stored last of these
}

// model holds what is stored against the reasons that count.
type model struct {
	said said
	// guarded are the namespaces with a policy that denies; the value reports whether it protects all pods.
	guarded map[string]bool

	pods        map[types.UID]*podState
	nodes       map[string]*nodeState
	attachments map[types.UID]*storagev1.VolumeAttachment
	// recent is the version from which on changes may have been judged by what was stored of other objects before it: a node renews its lease
	// while a pod of it is being removed. What one object says of itself is judged and stored at one version.
	recent uint64

	// vanished are the versions at which pods last vanished, by name.
	vanished   map[string]uint64
	removals   map[string]int // by what and reason
	violations []violation
	// history is what was stored of each object, in short, by the name under which requests are about it.
	history map[string][]string
}

type podState struct {
	pod       *corev1.Pod
	protected bool
	bound     uint64 // the version at which it was bound to its node
	epoch     int    // its node's, when its confirmation was written
	// off is the version at which its confirmation was taken back, which the update that takes the last finalizer away may not have seen: the
	// store judges it, and deletes what is there then (k8s.io/apiserver/pkg/registry/generic/registry/store.go deleteWithoutFinalizers, 0.36.3).
	off uint64
}

type nodeState struct {
	node  *corev1.Node // nil: there is none
	lease *coordinationv1.Lease
	// epoch counts the signs of life since.
	epoch int
	// confirmed is the epoch in which its confirmation was written.
	confirmed int
	// made and off are the versions at which it was last created, and at which it last stopped to count as confirmed off.
	made, off uint64
}

func newModel(guarded map[string]bool) *model {
	return &model{said: newSaid(), guarded: guarded, pods: map[types.UID]*podState{}, nodes: map[string]*nodeState{},
		attachments: map[types.UID]*storagev1.VolumeAttachment{}, removals: map[string]int{}, vanished: map[string]uint64{}, history: map[string][]string{}}
}

func podName(p *corev1.Pod) string { return p.Namespace + "/" + p.Name }

func nodeName(name string) string { return "node/" + name }

// apply takes the next change, in the order of versions.
func (m *model) apply(e event) {
	m.remember(e)
	switch o := e.object.(type) {
	case *corev1.Pod:
		m.pod(e, o)
	case *corev1.Node:
		m.node(e, o)
	case *coordinationv1.Lease:
		m.lease(e, o)
	case *storagev1.VolumeAttachment:
		if !e.deleted {
			m.attachments[o.UID] = o
			return
		}
		delete(m.attachments, o.UID)
		about := []string{nodeName(o.Spec.NodeName), "volumeattachment/" + o.Name}
		why := m.whyNode(o.UID, o.Spec.NodeName)
		if why == "" && !o.Status.Attached {
			why = "it was not attached"
		}
		m.judge("VolumeAttachment vanished", "VolumeAttachment "+o.Name+" of node "+o.Spec.NodeName, why, about)
	}
}

// past is what was stored last of what a violation is about.
func (m *model) past(about []string) string {
	var all []string
	for _, name := range about {
		all = append(all, m.history[name]...)
	}
	return strings.Join(all, "\n")
}

// versionsKept is how many versions of an object a finding prints.
const versionsKept = 12

// remember keeps what of a version decides.
func (m *model) remember(e event) {
	var name, says string
	switch o := e.object.(type) {
	case *corev1.Pod:
		name, says = podName(o), fmt.Sprintf("on %q, %s, %s", o.Spec.NodeName, o.Status.Phase, o.Annotations[confirmForceDelete])
	case *corev1.Node:
		c := readyCondition(o)
		name, says = nodeName(o.Name), fmt.Sprintf("ready %s, heartbeat %s, out of service %t, %s", c.Status, c.LastHeartbeatTime.UTC().Format(time.RFC3339), outOfService(o), o.Annotations[confirmOff])
	case *coordinationv1.Lease:
		name, says = nodeName(o.Name), "its lease"
		if o.Spec.RenewTime != nil {
			says += ", renewed " + o.Spec.RenewTime.UTC().Format(metav1.RFC3339Micro)
		}
	default:
		return
	}
	state, meta := "stored", e.object.(metav1.Object)
	switch {
	case e.deleted:
		state = "DELETED"
	case meta.GetDeletionTimestamp() != nil:
		state = "to go"
	}
	m.history[name] = append(m.history[name], fmt.Sprintf("%d %s %s, UID %s, finalizers %v: %s", e.version, name, state, meta.GetUID(), meta.GetFinalizers(), says))
	if n := len(m.history[name]); n > versionsKept {
		m.history[name] = m.history[name][n-versionsKept:]
	}
}

// nodeIsGone is the reason of what a Node had that vanished; that of the Node itself is judged when it vanishes.
const nodeIsGone = "its Node is gone"

func (m *model) judge(what, which, why string, about []string) {
	if why == "" {
		m.violations = append(m.violations, violation{fmt.Sprintf("%s without a reason that counts: %s", what, which), about, m.past(about)})
		why = "NONE"
	}
	m.removals[what+": "+why]++
}

func (m *model) pod(e event, o *corev1.Pod) {
	p, ok := m.pods[o.UID]
	if !ok {
		p = &podState{pod: &corev1.Pod{}, protected: m.isProtected(o)}
		m.pods[o.UID] = p
	}
	before := p.pod
	wasConfirmed := m.isConfirmed(p, before)
	if text := o.Annotations[confirmForceDelete]; text != before.Annotations[confirmForceDelete] && text != "" {
		p.epoch = m.nodeOf(o.Spec.NodeName).epoch
		m.forgery(podName(o), o.UID, text, []string{podName(o)})
	}
	if wasConfirmed && !m.isConfirmed(p, o) {
		p.off = e.version
	}
	if o.Spec.NodeName != before.Spec.NodeName {
		p.bound = e.version
	}
	about := []string{podName(o), nodeName(o.Spec.NodeName)}
	which := fmt.Sprintf("pod %s (UID %s) on node %q, version %d", podName(o), o.UID, o.Spec.NodeName, e.version)
	switch {
	case e.deleted:
		// What it was when it was deleted: the last state, with which the store compared.
		if m.holds(p) || m.holds(&podState{pod: o, protected: p.protected}) {
			m.judge("protected pod vanished", which, m.whyPod(p, o), about)
		}
		delete(m.pods, o.UID)
		m.vanished[podName(o)] = e.version
		return
	case ok && m.holds(p) && finished(o):
		m.judge("protected pod ended", which, m.whyPod(p, o), about)
	}
	p.pod = o
}

// isProtected reads what nobody can have edited yet: the pod as it was created.
func (m *model) isProtected(o *corev1.Pod) bool {
	all, guarded := m.guarded[o.Namespace]
	owner := metav1.GetControllerOfNoCopy(o)
	return guarded && (all || owner != nil && owner.Kind == "StatefulSet" || o.Spec.Hostname == o.Name)
}

// holds reports whether a pod must not be taken for gone.
func (m *model) holds(p *podState) bool {
	_, guarded := m.guarded[p.pod.Namespace]
	return guarded && (p.protected || m.said.exclusive[p.pod.UID]) && p.pod.Spec.NodeName != "" && !finished(p.pod)
}

func finished(o *corev1.Pod) bool {
	return o.Status.Phase == corev1.PodSucceeded || o.Status.Phase == corev1.PodFailed
}

// whyPod returns why a pod may be taken for gone that was last stored so; empty: nothing says so.
func (m *model) whyPod(p *podState, o *corev1.Pod) string {
	switch {
	case m.said.ended[o.UID]:
		return "its kubelet said so"
	case m.said.actors[o.UID] || m.isRecent(m.said.lately, podName(o)):
		return "an allowed actor"
	case m.said.completed[o.UID] || m.isConfirming(o.UID) || m.isConfirmed(p, o) || p.off > m.recent:
		return "the pod was confirmed"
	}
	if why := m.whyNode("", o.Spec.NodeName); why != "" {
		return why
	}
	// A path of removal that remains open (docs/removal-guard.md): an update that completed the removal of the pod that had the name.
	if p.bound > m.recent && m.vanished[podName(o)] > m.recent {
		return "OPEN ROAD, just bound, by what was judged before"
	}
	return ""
}

func (m *model) isRecent(versions map[string]uint64, name string) bool {
	v, ok := versions[name]
	return ok && v >= m.recent
}

func (m *model) isConfirming(uid types.UID) bool {
	v, ok := m.said.confirming[uid]
	return ok && v >= m.recent
}

// isConfirmed reports whether a pod is confirmed as it is stored so, and, where its node was silent then, without a sign of life of that since.
func (m *model) isConfirmed(p *podState, o *corev1.Pod) bool {
	text := o.Annotations[confirmForceDelete]
	return m.said.confirmations[text] && strings.HasPrefix(text, string(o.UID)+"/") &&
		(strings.Count(text, "/") == 1 || m.nodeOf(o.Spec.NodeName).epoch == p.epoch)
}

// whyNode returns why what a node has may be taken for gone; an actor may have said it of the object itself.
func (m *model) whyNode(uid types.UID, name string) string {
	n := m.nodeOf(name)
	switch {
	case uid != "" && (m.said.actors[uid] || m.isRecent(m.said.lately, nodeName(name))):
		return "an allowed actor"
	case m.isOff(n) || n.off > m.recent:
		return "the node was confirmed off"
	case n.node == nil || n.made > m.recent:
		return nodeIsGone
	}
	return ""
}

func (m *model) nodeOf(name string) *nodeState {
	n := m.nodes[name]
	if n == nil {
		n = &nodeState{confirmed: -1}
		m.nodes[name] = n
	}
	return n
}

// isOff reports whether a node is not ready, and confirmed since its last sign of life.
func (m *model) isOff(n *nodeState) bool {
	if n.node == nil || n.confirmed != n.epoch {
		return false
	}
	text := n.node.Annotations[confirmOff]
	return !ready(n.node) && m.said.confirmations[text] && strings.HasPrefix(text, string(n.node.UID)+"/")
}

func readyCondition(n *corev1.Node) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func ready(n *corev1.Node) bool { return readyCondition(n).Status == corev1.ConditionTrue }

func outOfService(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			return true
		}
	}
	return false
}

func (m *model) lease(e event, o *coordinationv1.Lease) {
	if e.deleted {
		return
	}
	n := m.nodeOf(o.Name)
	wasOff := m.isOff(n)
	if n.lease == nil || !n.lease.Spec.RenewTime.Equal(o.Spec.RenewTime) {
		n.epoch++
	}
	n.lease = o
	if wasOff && !m.isOff(n) {
		n.off = e.version
	}
}

func (m *model) node(e event, o *corev1.Node) {
	n := m.nodeOf(o.Name)
	about := []string{nodeName(o.Name)}
	which := fmt.Sprintf("node %s (UID %s), version %d", o.Name, o.UID, e.version)
	if e.deleted {
		why := "nothing protected was on it"
		if held := m.held(o.Name); len(held) > 0 {
			which += ", with " + strings.Join(held, ", ")
			about = append(about, held...)
			why = m.whyNodeItself(o)
		}
		m.judge("Node vanished", which, why, about)
		n.node = nil
		return
	}
	before, wasOff := n.node, m.isOff(n)
	if before == nil {
		before, n.made, n.confirmed = &corev1.Node{}, e.version, -1
	}
	n.node = o
	if heardOf(readyCondition(before), readyCondition(o), ready(o) && !ready(before)) {
		n.epoch++
	}
	if text := o.Annotations[confirmOff]; text != before.Annotations[confirmOff] {
		n.confirmed = n.epoch
		if m.said.early[text] && !ready(o) {
			m.said.confirmations[text] = true
		}
		m.forgery(nodeName(o.Name), o.UID, text, about)
	}
	if wasOff && !m.isOff(n) {
		n.off = e.version
	}
	if outOfService(o) && !outOfService(before) {
		m.judge("out-of-service taint", which, m.whyNodeItself(o), about)
	}
}

// heardOf reports whether a change of the condition Ready comes from the kubelet. Of a Node of which no kubelet ever said anything the node lifecycle
// controller says that it is Unknown, and gives it a heartbeat from when the Node was created (k8s.io/kubernetes
// pkg/controller/nodelifecycle/node_lifecycle_controller.go tryUpdateNodeHealth, 1.36.3).
func heardOf(was, is corev1.NodeCondition, becameReady bool) bool {
	if was.LastHeartbeatTime.IsZero() && is.Status == corev1.ConditionUnknown {
		return false
	}
	return becameReady || !is.LastHeartbeatTime.Equal(&was.LastHeartbeatTime)
}

// whyNodeItself is whyNode for the Node itself: that it is gone is no reason for it to go.
func (m *model) whyNodeItself(o *corev1.Node) string {
	if why := m.whyNode(o.UID, o.Name); why != nodeIsGone {
		return why
	}
	return ""
}

// held are the pods that hold a node: but for those of which who judged its removal may not have known.
func (m *model) held(node string) []string {
	var held []string
	for _, p := range m.pods {
		if p.pod.Spec.NodeName == node && m.holds(p) && p.bound <= m.recent && !m.said.ended[p.pod.UID] {
			held = append(held, podName(p.pod))
		}
	}
	return held
}

// forgery is a confirmation that is stored, and of which nobody said the like who may. One of another UID, with which a patch may have created the object
// again, confirms nothing.
func (m *model) forgery(which string, uid types.UID, text string, about []string) {
	if who, ok := m.said.forged[text]; ok && !m.said.confirmations[text] && strings.HasPrefix(text, string(uid)+"/") {
		m.violations = append(m.violations, violation{fmt.Sprintf("a confirmation of %s by %s, who has not the verb or dated it, is stored: %s", which, who, text), about, m.past(about)})
	}
}

package fencing

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/fencing/storage"
	"github.com/podgrace/podgrace/guard"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

const (
	// TaintValue is the value of the taint node.kubernetes.io/out-of-service that the fencer sets. It takes no other away.
	TaintValue = "podgrace-fence"
)

// Moment is a point in time.
type Moment struct {
	// Led is for how long the fencer has led, by its monotonic clock. All decisions go by it.
	Led time.Duration
	// Wall is the time of day. It is only written down.
	Wall time.Time
}

// Facts are what is known when the fencer decides. A zero value is unknown.
type Facts struct {
	Now  Moment
	Self Self
	// Known says which lists could be read.
	Known Known
	// Nodes are all nodes. Gone are the UIDs of those that a Fence is for and that the API server itself says are not there (none of that name is, or another one), with
	// since when this fencer has known that (Silence.Gone).
	Nodes []Node
	Gone  map[types.UID]time.Duration
	// Fences and Receipts are all that there are, listed from the API server itself.
	Fences   []v1alpha1.Fence
	Receipts []v1alpha1.FenceReceipt
	// Agents are all FenceAgents.
	Agents []v1alpha1.FenceAgent
	// Classes are csi-addons' NetworkFenceClasses by their names, and StorageFences all NetworkFences, whoever made them. They are needed where a FenceAgent is of that type.
	Classes       map[string]storage.Class
	StorageFences []storage.Fence
	// Storms are, by the name of the policy, when more nodes were unhealthy than it allows for the last time: the result of the function Storms.
	Storms map[string]time.Duration

	index *index
	// foreseen: they are not the fencer's.
	foreseen bool
}

// Known says which lists could be read.
type Known struct {
	Nodes, Fences, Receipts, Agents bool
	// Storage are Classes and StorageFences: without them no storage is taken away and none is given back, and all else goes on.
	Storage bool
}

func (k Known) all() bool { return k.Nodes && k.Fences && k.Receipts && k.Agents }

// Self is what the fencer knows of itself.
type Self struct {
	// Node that it runs on; empty: on none of this cluster.
	Node string
	// Wrote is when it last wrote something to the API server, and got an answer. HasWritten: it did so at all since it leads.
	Wrote      time.Duration
	HasWritten bool
}

// Node is what is known of a node.
type Node struct {
	Name   string
	UID    types.UID
	BootID string
	// SystemUUID and ProviderID say which machine it is, by its kubelet's word.
	SystemUUID, ProviderID string
	Zone                   string
	Labels                 map[string]string
	ControlPlane           bool
	// SelfFence is what its annotation of that name says of its watchdog; nil: nothing that can be used, and why not.
	SelfFence   *v1alpha1.SelfFence
	NoSelfFence string
	// Ready as the API server has it.
	Ready bool
	// Maintenance says in words why somebody expects it to be silent; empty: nobody does.
	Maintenance string
	// Deleting: the Node object is being deleted.
	Deleting bool
	// Sign is its last sign of life as it is stored, made by guard.ConfirmOff: as long as it is the same, nothing was heard of it.
	Sign string
	// LastRenewal of its Lease, by its own clock.
	LastRenewal *metav1.MicroTime
	// Lease is how long its Lease lasts (guard.LeaseLasts); 0: guard.DefaultLease.
	Lease time.Duration
	// Heartbeat is when it was last heard of as the removal guard reckons it (guard.Node.Heartbeat), by which what is confirmed is void later. Nothing is decided by it.
	Heartbeat time.Time
	// ConfirmOff is its annotation of that name. Taint is the value of its taint out-of-service; nil: it has none.
	ConfirmOff string
	Taint      *string
	// Partitioned is its condition; nil: it has none.
	Partitioned *corev1.NodeCondition

	// Addresses are all IP addresses that the Node object has now, and InternalIPs those of that type.
	Addresses, InternalIPs []string

	// The fields below are the caller's to fill.

	// Recorded are the InternalIPs that it had while it was healthy, and Told all that it said then, also where they changed (storage.Addresses.Of).
	Recorded, Told []string
	// Volumes are those that are attached to it or that its pods use. They are needed of a node for which there is a Fence that nobody has begun.
	Volumes      []storage.Volume
	VolumesKnown bool

	// Silent is for how long the fencer itself has not heard of it, and Heard reports whether it ever did since it began to count (Silence.Of).
	Silent time.Duration
	Heard  bool
	// Before is its sign of life before the present one; empty: it is not known (Silence.Before).
	Before string
	// Live: it was read from the API server itself for this round, with Lease, pods and attachments; nothing is done to a node that was not. Each Node needs it that a Fence
	// is for which is not over, or whose boot is that of a FenceReceipt.
	Live bool
	// Pods that are bound to it; of a node that is not Live, as they were read last. PodsKnown: they could be listed.
	Pods      []Pod
	PodsKnown bool
	// Attached are the names of its VolumeAttachments. AttachedKnown: they could be listed.
	Attached      []string
	AttachedKnown bool
}

// lease is how long the Lease of the node lasts; nil: the default.
func (n *Node) lease() time.Duration {
	if n == nil {
		return guard.DefaultLease
	}
	return cmp.Or(n.Lease, guard.DefaultLease)
}

// quiet reports whether the fencer has not heard of the node for as long as its Lease lasts.
func (n *Node) quiet() bool { return n.Silent >= n.lease() }

// Sighting returns what is recorded of a node while it is healthy. healthy: it is ready and has sent a heartbeat within the duration of its Lease.
func (n *Node) Sighting() (s storage.Sighting, healthy bool) {
	return storage.Sighting{UID: n.UID, BootID: n.BootID, Sign: n.Sign, InternalIPs: n.InternalIPs}, n.Ready && n.Heard && !n.quiet()
}

// Boot is which boot of which Node it is.
func (n *Node) Boot() v1alpha1.BootReference {
	return v1alpha1.BootReference{Name: n.Name, UID: n.UID, BootID: n.BootID}
}

// NodeOf is the Node of a Node object and its Lease, which may be nil.
func NodeOf(n *corev1.Node, lease *coordinationv1.Lease) Node {
	known := guard.NodeOf(n, lease, time.Time{}) // nothing that depends on the time of day is used
	node := Node{
		Name: known.Name, UID: known.UID, BootID: known.BootID, Ready: known.Ready, SystemUUID: n.Status.NodeInfo.SystemUUID, ProviderID: n.Spec.ProviderID,
		Zone: cmp.Or(n.Labels[corev1.LabelTopologyZone], n.Labels[corev1.LabelFailureDomainBetaZone]), Labels: n.Labels,
		ControlPlane: controlPlane(n), Deleting: n.DeletionTimestamp != nil, Maintenance: maintenance(n),
		Sign: guard.ConfirmOff(n, lease), Heartbeat: known.Heartbeat, Lease: known.Lease, ConfirmOff: n.Annotations[guard.AnnotationConfirmOff],
	}
	for i, c := range n.Status.Conditions {
		if c.Type == ConditionPartitioned {
			node.Partitioned = &n.Status.Conditions[i]
		}
	}
	for _, a := range n.Status.Addresses {
		if net.ParseIP(a.Address) == nil {
			continue
		}
		node.Addresses = append(node.Addresses, a.Address)
		if a.Type == corev1.NodeInternalIP {
			node.InternalIPs = append(node.InternalIPs, a.Address)
		}
	}
	for i, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeOutOfService {
			node.Taint = &n.Spec.Taints[i].Value
		}
	}
	node.SelfFence, node.NoSelfFence = selfFenceOf(n)
	if lease != nil {
		node.LastRenewal = lease.Spec.RenewTime
	}
	return node
}

// The label and the taint of the control plane's nodes (cmd/kubeadm/app/constants LabelNodeRoleControlPlane, 1.36.3), and what they were before 1.24.
var controlPlaneKeys = []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master", "node-role.kubernetes.io/etcd"}

func controlPlane(n *corev1.Node) bool {
	return slices.ContainsFunc(controlPlaneKeys, func(key string) bool {
		_, labelled := n.Labels[key]
		return labelled || slices.ContainsFunc(n.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	})
}

// maintenanceConditions announce that a node is worked on, or shuts down (KEP-5683, alpha in 1.37).
var maintenanceConditions = []corev1.NodeConditionType{"MaintenancePlanned", "MaintenanceInProgress", "DrainInProgress", "GracefulNodeShutdownInProgress"}

func maintenance(n *corev1.Node) string {
	if text := n.Annotations[v1alpha1.AnnotationMaintenance]; text != "" {
		return "its annotation " + v1alpha1.AnnotationMaintenance + " says: " + console.Clip(console.OneLine(text), 128)
	}
	for _, c := range n.Status.Conditions {
		if slices.Contains(maintenanceConditions, c.Type) && c.Status == corev1.ConditionTrue {
			return "its condition " + string(c.Type) + " is True"
		}
	}
	for _, t := range n.Spec.Taints {
		if t.Key == "ToBeDeletedByClusterAutoscaler" { // cluster-autoscaler/utils/taints ToBeDeletedTaint, 1.35
			return "the cluster autoscaler removes it"
		}
	}
	return ""
}

// Pod is a pod that is bound to a node.
type Pod struct {
	Namespace, Name string
	UID             types.UID
	// Protected: a policy protects it, in the way in which pods hold a node (policy.Removal.HoldsNode).
	Protected bool
	Priority  int32
	// Tolerates is how long it tolerates an unreachable node; nil: for ever.
	Tolerates *time.Duration
	// BrokenBudget: a PodDisruptionBudget for it has less healthy pods than it wants.
	BrokenBudget bool
	// Deleting: it is being deleted, and somebody waits for it. Forced: by force, so that its grace period is 0. Held: finalizers keep it.
	Deleting, Forced, Held bool
	// Finished: none of its containers runs any more.
	Finished bool
	// Partitioned is its condition; nil: it has none.
	Partitioned *corev1.PodCondition
	// Volumes are all that it is protected for, as names of PersistentVolumes; But says why that is not so, and storage that was revoked does not free it (policy.Removal.Storage).
	Volumes []string
	But     string
}

// left reports whether its node keeps it no more: none of its containers runs, or it was deleted by force and waits for its finalizers. A force delete that was cut off half-way, as by the death of an
// API server, leaves one without finalizers, which nothing removes but its kubelet or another delete.
func (p *Pod) left() bool { return p.Finished || p.Forced && p.Held }

// Reference to the pod.
func (p *Pod) Reference() v1alpha1.PodReference {
	return v1alpha1.PodReference{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// PodOf is the Pod of a pod object. Whether it is protected, and whether its PodDisruptionBudget is broken, the caller says.
func PodOf(p *corev1.Pod, protected, brokenBudget bool) Pod {
	pod := Pod{
		Namespace: p.Namespace, Name: p.Name, UID: p.UID, Protected: protected, BrokenBudget: brokenBudget, Tolerates: tolerates(p.Spec.Tolerations),
		Deleting: p.DeletionTimestamp != nil, Held: len(p.Finalizers) > 0, Finished: graceperiod.Finished(p),
	}
	pod.Forced = pod.Deleting && p.DeletionGracePeriodSeconds != nil && *p.DeletionGracePeriodSeconds == 0
	if p.Spec.Priority != nil {
		pod.Priority = *p.Spec.Priority
	}
	for i, c := range p.Status.Conditions {
		if c.Type == corev1.PodConditionType(ConditionPartitioned) {
			pod.Partitioned = &p.Status.Conditions[i]
		}
	}
	return pod
}

var unreachable = corev1.Taint{Key: corev1.TaintNodeUnreachable, Effect: corev1.TaintEffectNoExecute}

// tolerates is how long a pod tolerates an unreachable node: the shortest of the tolerations that match, as the taint eviction controller reckons
// (pkg/controller/tainteviction/taint_eviction.go getMinTolerationTime, 1.36.3); nil: for ever.
func tolerates(tolerations []corev1.Toleration) *time.Duration {
	var least *time.Duration
	matched := false
	for i := range tolerations {
		t := &tolerations[i]
		if !t.ToleratesTaint(logr.Discard(), &unreachable, false) {
			continue
		}
		matched = true
		if t.TolerationSeconds != nil {
			d := time.Duration(min(max(*t.TolerationSeconds, 0), 365*24*3600)) * time.Second
			if least == nil || d < *least {
				least = &d
			}
		}
	}
	if !matched {
		return new(time.Duration(0))
	}
	return least
}

func (f *Facts) gone(node types.UID) bool {
	_, gone := f.Gone[node]
	return gone
}

// index finds in the facts what is asked for again and again, in clusters of thousands of nodes. It is made when it is first needed, of the facts as they are then.
type index struct {
	// names and boots are of Nodes: the first that has it.
	names, boots map[string]int
	// claims are the names of the nodes that say that they are this machine, or this boot (claimsOf).
	claims map[string][]string
	// void are the names of the receipts that are void, standing those that stand, by the boot that they are of, and lies those that are void by the agent that said so.
	void           map[string]bool
	standing, lies map[string][]*v1alpha1.FenceReceipt
	agents         map[string]*listed
	// addresses are of nodes: those that they have, and those that they had while they were healthy, as blocks of one.
	addresses map[string][]int
}

// listed is an agent with the machines of its list, by what they say of which machine they are (one that says both is found by its UUID), and how many of them are at each
// place (placesOf).
type listed struct {
	agent    *v1alpha1.FenceAgent
	machines map[string][]int
	places   map[string]int
}

func listedOf(a *v1alpha1.FenceAgent) *listed {
	l := &listed{agent: a, machines: make(map[string][]int, len(a.Spec.Machines)), places: make(map[string]int, len(a.Spec.Machines))}
	for i := range a.Spec.Machines {
		m := &a.Spec.Machines[i]
		claim := claimProvider(m.ProviderID)
		if m.SystemUUID != "" {
			claim = claimUUID(m.SystemUUID)
		}
		if claim != "" {
			l.machines[claim] = append(l.machines[claim], i)
		}
		for _, place := range placesOf(&a.Spec, m) {
			l.places[place]++
		}
	}
	return l
}

// placesOf is where an agent powers a machine off, as far as it makes a difference to the agent: a program gets its parameters and no more, a BMC its address and the
// ComputerSystem, and a service is told which machine it is, so that where needs not be said. A BMC is a place of its own, beside each of its systems.
func placesOf(x *v1alpha1.FenceAgentSpec, m *v1alpha1.FenceMachine) []string {
	switch {
	case x.Type == v1alpha1.AgentExec && x.Exec != nil:
		parameters := map[string]string{}
		maps.Copy(parameters, x.Exec.Parameters)
		maps.Copy(parameters, m.Parameters)
		if m.Address != "" {
			parameters["ip"] = m.Address
		}
		return []string{fmt.Sprintf("%q", parameters)} // fmt sorts the keys
	case x.Type == v1alpha1.AgentRedfish:
		bmc := m.Address
		if u, err := url.Parse(m.Address); err == nil && u.Host != "" {
			bmc = strings.TrimSuffix(strings.ToLower(u.Host), ":443")
		}
		return []string{bmc, bmc + " " + strings.TrimSuffix(m.System, "/")}
	case m.Address == "" && m.System == "" && len(m.Parameters) == 0:
		return nil
	}
	return []string{fmt.Sprintf("%q %q %q", m.Address, m.System, m.Parameters)}
}

func (f *Facts) look() *index {
	if f.index != nil {
		return f.index
	}
	x := &index{
		names: make(map[string]int, len(f.Nodes)), boots: make(map[string]int, len(f.Nodes)), claims: make(map[string][]string, 2*len(f.Nodes)),
		void: guard.Voided(f.Receipts), standing: map[string][]*v1alpha1.FenceReceipt{}, lies: map[string][]*v1alpha1.FenceReceipt{},
		agents: make(map[string]*listed, len(f.Agents)), addresses: map[string][]int{},
	}
	for i := range f.Agents {
		x.agents[f.Agents[i].Name] = listedOf(&f.Agents[i])
	}
	for i := range f.Nodes {
		n := &f.Nodes[i]
		if _, ok := x.names[n.Name]; !ok {
			x.names[n.Name] = i
		}
		if _, ok := x.boots[n.BootID]; !ok && n.BootID != "" {
			x.boots[n.BootID] = i
		}
		for _, claim := range claimsOf(n) {
			x.claims[claim] = append(x.claims[claim], n.Name)
		}
		for _, address := range slices.Concat(n.Addresses, n.Told) {
			if b := storage.Block(address); b != "" {
				x.addresses[b] = append(x.addresses[b], i)
			}
		}
	}
	for i := range f.Receipts {
		switch r := &f.Receipts[i]; {
		case r.Spec.Class == v1alpha1.EvidenceVoid:
		case x.void[r.Name]:
			x.lies[r.Spec.Agent] = append(x.lies[r.Spec.Agent], r)
		case r.Spec.Node != nil:
			x.standing[r.Spec.Node.BootID] = append(x.standing[r.Spec.Node.BootID], r)
		}
	}
	f.index = x
	return x
}

// claimsOf is which machine, and which boot, a node says that it is.
func claimsOf(n *Node) (claims []string) {
	claims = []string{claimUUID(n.SystemUUID), claimProvider(n.ProviderID)}
	if n.BootID != "" {
		claims = append(claims, "boot/"+n.BootID)
	}
	return slices.DeleteFunc(claims, func(claim string) bool { return claim == "" })
}

func claimUUID(text string) string {
	if key := MachineKey(text); key != "" {
		return "uuid/" + key
	}
	return ""
}

func claimProvider(id string) string {
	if id != "" {
		return "provider/" + id
	}
	return ""
}

// node returns the Node that has the name; nil: there is none, or it is not known.
func (f *Facts) node(name string) *Node {
	if i, ok := f.look().names[name]; ok {
		return &f.Nodes[i]
	}
	return nil
}

// bootSeen returns the Node that has this boot, whatever its name and UID: a kubelet whose Node was deleted makes another one, and goes on. Nil: there is none.
func (f *Facts) bootSeen(bootID string) *Node {
	if i, ok := f.look().boots[bootID]; ok {
		return &f.Nodes[i]
	}
	return nil
}

// claimants are the nodes that say that they are the same machine, or the same boot, as this one.
func (f *Facts) claimants(n *Node) []string {
	var names []string
	for _, claim := range claimsOf(n) {
		names = append(names, f.look().claims[claim]...)
	}
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool { return name == n.Name })
}

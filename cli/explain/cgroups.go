package explain

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// noUID stands for the UID of a pod that does not exist yet.
const noUID = "UID"

const oomScoreFile = "oom_score_adj"

func cgroups(v *view) Cgroups {
	node := v.machine()
	c := Cgroups{Version: int(node.Version), Driver: string(node.Driver)}
	if graceperiod.Finished(v.pod) {
		c.None = fmt.Sprintf("it has finished (%s): its cgroups are gone", v.pod.Status.Phase)
		return c
	}
	pod := asRunning(v.pod)
	policy := v.nodePolicy()
	tree := plan.Build(node, policy, append(v.others(), pod))
	other := tree
	if node.Capacity.Memory().IsZero() {
		v.note("the node's memory is not known: values that depend on it are left out")
		small, large := capacities(pod)
		node.Capacity = small
		tree = plan.Build(node, policy, append(v.others(), pod))
		node.Capacity = large
		other = plan.Build(node, policy, append(v.others(), pod))
	}
	r := reader{v: v, node: node, policy: policy, pod: pod, other: valuesOf(other, pod)}
	r.read(tree, &c)
	if len(c.Files) == 0 {
		c.None = "nothing is planned for it"
	}
	return c
}

// machine is the node as the plan wants it, with what is assumed said.
func (v *view) machine() plan.Node {
	in := v.in
	n := plan.Node{Name: v.pod.Spec.NodeName, Version: in.Version, Driver: in.Driver, Kubelet: in.Kubelet, CPUs: in.CPUs}
	if in.Node != nil {
		n.Capacity, n.KubeletVersion = in.Node.Status.Capacity, in.Node.Status.NodeInfo.KubeletVersion
		n.Swap = plan.SwapOf(in.Node)
	}
	var assumed []string
	if n.Version != cgroupfile.V1 && n.Version != cgroupfile.V2 {
		n.Version = cgroupfile.V2
		assumed = append(assumed, "cgroup v2")
	}
	if n.Driver != plan.Cgroupfs && n.Driver != plan.Systemd {
		n.Driver = plan.Systemd
		if in.Kubelet != nil && in.Kubelet.CgroupDriver != "" {
			n.Driver = plan.Driver(in.Kubelet.CgroupDriver)
		} else {
			assumed = append(assumed, "the systemd driver")
		}
	}
	if in.Kubelet == nil {
		assumed = append(assumed, "the kubelet's default configuration")
	}
	if len(assumed) > 0 {
		v.note("of the node are assumed %s", strings.Join(assumed, ", "))
	}
	return n
}

// nodePolicy is the policy that has an effect: one that writes nothing leaves the kubelet's values.
func (v *view) nodePolicy() *v1alpha1.NodePolicySpec {
	p := v.in.NodePolicy
	if v.in.NodePolicyUnknown {
		v.note("which NodePolicy the node has is not known: the kubelet's own values are shown")
		return nil
	}
	if p == nil || !drift.Writes(p.Mode, plan.Nobody) {
		return nil
	}
	return p
}

// others are the node's other pods.
func (v *view) others() (out []*corev1.Pod) {
	for _, p := range v.in.Neighbours {
		if p != nil && (p.Namespace != v.pod.Namespace || p.Name != v.pod.Name) {
			out = append(out, p)
		}
	}
	return out
}

// asRunning is the pod with all its containers running, and a UID.
func asRunning(p *corev1.Pod) *corev1.Pod {
	p = p.DeepCopy()
	p.UID = cmp.Or(p.UID, noUID)
	for i, c := range graceperiod.Stoppable(p) {
		list := &p.Status.ContainerStatuses
		if c.RestartPolicy != nil && slices.ContainsFunc(p.Spec.InitContainers, func(o corev1.Container) bool { return o.Name == c.Name }) {
			list = &p.Status.InitContainerStatuses
		}
		at := slices.IndexFunc(*list, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
		if at < 0 {
			*list = append(*list, corev1.ContainerStatus{Name: c.Name})
			at = len(*list) - 1
		}
		if s := &(*list)[at]; s.State.Running == nil || s.ContainerID == "" {
			s.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
			s.ContainerID = fmt.Sprintf("containerd://explained%d", i)
		}
	}
	return p
}

// where a value is.
type where struct{ container, file string }

// valuesOf are the values of a pod in a tree.
func valuesOf(tree *plan.Tree, pod *corev1.Pod) map[where]string {
	out := map[where]string{}
	for _, g := range tree.Groups {
		if isOf(g.Pod, g.UID, pod) {
			for name, value := range g.Files {
				out[where{g.Container, name}] = value.Want
			}
		}
	}
	for _, p := range tree.Processes {
		if isOf(p.Pod, p.UID, pod) {
			out[where{p.Container, oomScoreFile}] = fmt.Sprint(p.OOMScoreAdj)
		}
	}
	return out
}

func isOf(name types.NamespacedName, uid types.UID, pod *corev1.Pod) bool {
	return name.Namespace == pod.Namespace && name.Name == pod.Name && uid == pod.UID
}

// reader takes a pod's part out of a plan.
type reader struct {
	v      *view
	node   plan.Node
	policy *v1alpha1.NodePolicySpec
	pod    *corev1.Pod
	// other are the values on a node of another size, where the node's is not known.
	other map[where]string
}

func (r *reader) read(tree *plan.Tree, c *Cgroups) {
	for _, g := range tree.Groups {
		if !isOf(g.Pod, g.UID, r.pod) {
			continue
		}
		if g.Level == plan.LevelPod {
			c.Path = g.Path
		}
		for _, name := range slices.Sorted(maps.Keys(g.Files)) {
			c.Files = append(c.Files, r.file(where{g.Container, name}, g.Level, g.Files[name]))
		}
	}
	for _, p := range tree.Processes {
		if isOf(p.Pod, p.UID, r.pod) {
			c.Files = append(c.Files, r.file(where{p.Container, oomScoreFile}, plan.LevelContainer, plan.Value{Want: fmt.Sprint(p.OOMScoreAdj), Owner: p.Owner}))
		}
	}
	slices.SortStableFunc(c.Files, func(a, b File) int { return cmp.Compare(r.rank(a.Container), r.rank(b.Container)) })
	for _, n := range tree.Notes {
		if n.Pod.Namespace == r.pod.Namespace && n.Pod.Name == r.pod.Name && n.Pod.Name != "" || n.Protection && protects(c.Files) {
			c.Notes = append(c.Notes, n.Message)
		}
	}
	c.Notes = append(c.Notes, r.v.policyNotes(r.policy)...)
}

// protects reports whether memory of the pod is protected, as far as that does not depend on a size of the node that is not known.
func protects(files []File) bool {
	return slices.ContainsFunc(files, func(f File) bool {
		return (f.Name == "memory.min" || f.Name == "memory.low") && f.Value != "" && f.Value != "0"
	})
}

// rank puts the pod first, then its containers in the order in which they are named.
func (r *reader) rank(container string) int {
	if container == "" {
		return -1
	}
	all := graceperiod.Stoppable(r.pod)
	if at := slices.IndexFunc(all, func(c *corev1.Container) bool { return c.Name == container }); at >= 0 {
		return at
	}
	return len(all)
}

func (r *reader) file(w where, level plan.Level, planned plan.Value) File {
	value, owner := planned.Want, planned.Owner
	f := File{Container: w.container, Name: w.file, Value: value, Writer: writer(owner)}
	if i := r.rule(w.file, level, owner); i >= 0 {
		f.When = string(plan.Ownership[i].When)
	}
	alone := r.v.in.Neighbours == nil
	switch {
	case r.other[w] != value:
		f.Value, f.Note = "", "depends on the node's memory"
	case planned.PerRuntime:
		f.Note = "or " + planned.Also + ", by the runtime's version"
	case alone && owner == plan.Nobody && w.file == oomScoreFile && r.policy != nil && r.policy.OOM != nil && r.policy.OOM.Order == v1alpha1.OOMOrderPriority:
		f.Value, f.Note = "", "depends on the priorities of the node's other pods"
	case alone && owner == plan.Nobody && (w.file == "memory.min" || w.file == "memory.low") && value != "0":
		f.Note = "less where the protection of the node's other pods leaves no room"
	}
	return f
}

func writer(o plan.Owner) string {
	if o == plan.Nobody {
		return "podgrace"
	}
	return string(o)
}

// rule of the table of owners that a file follows, by its place; -1 for none.
func (r *reader) rule(file string, level plan.Level, owner plan.Owner) int {
	return slices.IndexFunc(plan.Ownership, func(o plan.Rule) bool {
		matches, _ := path.Match(o.File, file)
		return matches && o.Level == level && o.Owner == owner && (o.Version == 0 || o.Version == r.node.Version) && (o.Driver == "" || o.Driver == r.node.Driver)
	})
}

// The sizes in bytes of nodes of which nothing is known.
const (
	leastMemory = int64(1) << 30
	mostMemory  = int64(1) << 50
	// apart is how many times larger one is than the other.
	apart = 1024
)

// capacities are those of two nodes on which the pod has room. A value that is the same on both does not depend on the node's memory.
func capacities(pod *corev1.Pod) (small, large corev1.ResourceList) {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	bytes := min(max(min(requests.Memory().Value(), mostMemory)*4, leastMemory), mostMemory)
	of := func(n int64) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: *resource.NewQuantity(n, resource.BinarySI)}
	}
	return of(bytes), of(bytes * apart)
}

// policyNotes say what becomes of the contract where no policy has an effect.
func (v *view) policyNotes(effective *v1alpha1.NodePolicySpec) []string {
	_, asks := v.pod.Annotations[v1alpha1.AnnotationEnforcement]
	switch p := v.in.NodePolicy; {
	case v.in.NodePolicyUnknown || effective != nil:
		return nil
	case p == nil && asks && v.pod.Spec.NodeName == "":
		return []string{"it has no node yet: what becomes of its contract depends on the NodePolicy there"}
	case p == nil && asks:
		return []string{"no NodePolicy is for its node: its contract counts for nothing there"}
	case p != nil:
		return []string{fmt.Sprintf("NodePolicy %s is in mode %s and writes nothing: these are the kubelet's own values, but for what was written in another mode", v.in.NodePolicyName, or(string(p.Mode), string(v1alpha1.NodeModeObserve)))}
	}
	return nil
}

// maxReasons is how many things of one kind are named.
const maxReasons = 3

var meansQoS = map[corev1.PodQOSClass]string{
	corev1.PodQOSGuaranteed: "The kernel's OOM killer takes it last",
	corev1.PodQOSBurstable:  "The kernel's OOM killer takes it after BestEffort and before Guaranteed pods",
	corev1.PodQOSBestEffort: "The kernel's OOM killer takes it first, and it has the least share of the CPU",
}

func qos(v *view) QoS {
	pod := v.pod
	class := plan.QOSClass(pod, true)
	q := QoS{Class: class, Means: meansQoS[class]}
	if pod.Spec.Resources != nil {
		q.Why = append(q.Why, "by the resources of the pod itself, not of its containers")
	}
	gaps := gapsOf(pod)
	switch {
	case class == corev1.PodQOSGuaranteed && len(gaps) == 0:
		q.Why = append(q.Why, "each has limits of cpu and memory, and its requests equal them")
	case class == corev1.PodQOSBestEffort:
		q.Why = append(q.Why, "nothing has a request or limit of cpu or memory")
	case class == corev1.PodQOSBurstable && len(gaps) > 0:
		q.Why = append(q.Why, "not Guaranteed because "+some(gaps))
	}
	if spec := specOnly(pod); plan.QOSClass(spec, true) != class {
		q.Why = []string{"as its status says: it was decided when the pod was made, and its spec would be " + string(plan.QOSClass(spec, true)) + " now"}
	}
	return q
}

func specOnly(pod *corev1.Pod) *corev1.Pod {
	spec := *pod
	spec.Status.QOSClass = ""
	return &spec
}

// gapsOf are the containers and resources by which a pod is not Guaranteed: each needs limits of cpu and memory, and requests that
// equal them (pkg/apis/core/v1/helper/qos/qos.go ComputePodQOS, 1.36.3).
func gapsOf(pod *corev1.Pod) (gaps []string) {
	if r := pod.Spec.Resources; r != nil {
		return gapsIn("the pod", *r)
	}
	for _, list := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range list {
			gaps = append(gaps, gapsIn(list[i].Name, list[i].Resources)...)
		}
	}
	return gaps
}

func gapsIn(whose string, r corev1.ResourceRequirements) (gaps []string) {
	var lacks []corev1.ResourceName
	for _, name := range []corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory} {
		limit, request := r.Limits[name], r.Requests[name]
		switch {
		case limit.Sign() <= 0:
			lacks = append(lacks, name)
		case request.Cmp(limit) != 0:
			gaps = append(gaps, fmt.Sprintf("%s requests %s of %s and is limited to %s", whose, request.String(), name, limit.String()))
		}
	}
	if len(lacks) > 0 {
		gaps = append(gaps, fmt.Sprintf("%s has no limit of %s", whose, join(lacks, " and ")))
	}
	return gaps
}

// some names the first of many.
func some(list []string) string {
	text := ""
	for i, s := range list {
		if i == maxReasons {
			return text + fmt.Sprintf(", and %d more", len(list)-maxReasons)
		}
		if i > 0 {
			text += ", "
		}
		text += s
	}
	return text
}

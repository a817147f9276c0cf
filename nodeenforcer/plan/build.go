package plan

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/kube"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/policy/enforcement"
)

type quantity = resource.Quantity

// value is what a file should hold, and by which of its rules.
type value struct {
	file string
	why  Condition
	want string
	also string
	per  bool // the runtime's version decides which of both it is
	keep bool // no value is planned, and what was written stays
}

// The rules of each level, in order; which, for a file, is of no matter: no two give the same.
var (
	kubepodsRules  = []func(*builder) []value{kubepodsFiles, (*builder).unboundedHuge, kubepodsProtection}
	qosRules       = []func(*builder, corev1.PodQOSClass) []value{qosCPU, qosMemory, qosHuge, qosProtection}
	podRules       = []func(*builder, *member) []value{podCPU, podQuota, podMemory, podHuge, podPIDs, podProtection, podThrottle, podIO}
	containerRules = []func(*builder, *member, *container) []value{
		containerCPU, containerQuota, containerMemory, containerSwap, containerHuge, containerProtection, containerThrottle, containerOOMGroup, containerCPUs, containerMemoryNodes,
	}
)

// builder is what the rules plan from.
type builder struct {
	node    Node
	policy  v1alpha1.NodePolicySpec
	managed bool // there is a policy
	bounds  enforcement.Bounds
	set     settings
	members []*member
	// protects reports whether Podgrace protects memory here; sum and burstable are what it protects.
	protects       bool
	sum, burstable protected
	reserved       *reserved
	bands          map[int32]band
	groups         []Group
	processes      []Process
	notes          []Note
}

// Build plans the cgroups of a node, from its pods as the API has them and its policy. Without a policy the plan is the kubelet's tree alone:
// contracts count only within a policy's bounds. The result does not depend on the order of the pods. Input that can't be parsed, and values
// that were bounded, become notes.
func Build(node Node, policy *v1alpha1.NodePolicySpec, pods []*corev1.Pod) *Tree {
	b := &builder{node: withDefaults(node), managed: policy != nil}
	if policy != nil {
		b.policy = *policy
	}
	b.bounds = enforcement.BoundsOf(b.policy.Bounds)
	var notes []string
	b.set, notes = newSettings(b.node, policy)
	for _, n := range notes {
		b.noteNode("%s", n)
	}
	b.noteContradictions()
	b.noteKernel()
	if b.rooted() {
		b.members = b.active(pods)
		b.protect()
		b.reserved = newReserved(b)
		b.bands = b.oomBands()
		b.plan()
	}
	return b.tree()
}

// PodPaths are the cgroups of the pods, by UID, as Build names them, without the rest of a plan.
func PodPaths(node Node, pods []*corev1.Pod) map[types.UID]string {
	b := &builder{node: withDefaults(node)}
	b.set, _ = newSettings(b.node, nil)
	paths := map[types.UID]string{}
	if !b.rooted() {
		return paths
	}
	for _, m := range b.active(pods) {
		if m.path != "" {
			paths[m.pod.UID] = m.path
		}
	}
	return paths
}

// withDefaults sets what the caller left out.
func withDefaults(n Node) Node {
	if n.Version != cgroupfile.V1 {
		n.Version = cgroupfile.V2
	}
	if n.Driver != Cgroupfs && n.Driver != Systemd {
		n.Driver = Cgroupfs
		if n.Kubelet != nil && n.Kubelet.CgroupDriver == string(Systemd) {
			n.Driver = Systemd
		}
	}
	if n.PageSize <= 0 {
		n.PageSize = defaultPageSize
	}
	return n
}

// rooted reports whether the kubelet has a tree that is known, and where.
func (b *builder) rooted() bool {
	if why := kube.TooOld("the kubelet", b.node.KubeletVersion); why != "" {
		b.unusableNode("nothing is planned: %s", why)
		return false
	}
	if k := b.node.Kubelet; k != nil && k.CgroupsPerQOS != nil && !*k.CgroupsPerQOS {
		b.unusableNode("nothing is planned: cgroupsPerQOS is off, and then the kubelet has no tree")
		return false
	}
	if _, err := b.set.root.path(b.node.Driver); err != nil {
		b.unusableNode("nothing is planned: the kubelet's cgroupRoot: %v", err)
		return false
	}
	return true
}

func (b *builder) plan() {
	b.planReserved()
	b.add(Group{Path: b.path(b.set.root), Level: LevelKubepods}, collect(kubepodsRules, func(rule func(*builder) []value) []value { return rule(b) }))
	for _, class := range []corev1.PodQOSClass{corev1.PodQOSBurstable, corev1.PodQOSBestEffort} {
		b.add(Group{Path: b.path(b.set.root.class(class)), Level: LevelQOS, QOS: class},
			collect(qosRules, func(rule func(*builder, corev1.PodQOSClass) []value) []value { return rule(b, class) }))
	}
	for _, m := range b.members {
		if m.path != "" {
			b.planPod(m)
		}
	}
}

// path of what rooted has tried.
func (b *builder) path(n cgroupName) string {
	path, _ := n.path(b.node.Driver)
	return path
}

func (b *builder) planPod(m *member) {
	group := Group{Path: m.path, Level: LevelPod, QOS: m.class, Pod: m.name(), UID: m.pod.UID}
	b.add(group, collect(podRules, func(rule func(*builder, *member) []value) []value { return rule(b, m) }))
	for _, c := range m.containers {
		group.Path, group.Level, group.Container = m.path+"/"+c.name, LevelContainer, c.spec.Name
		b.add(group, collect(containerRules, func(rule func(*builder, *member, *container) []value) []value { return rule(b, m, c) }))
		if score, started, why, ok := b.oomScore(m, c); ok {
			b.processes = append(b.processes, Process{Path: group.Path, Pod: group.Pod, UID: group.UID, Container: group.Container,
				OOMScoreAdj: score, Started: started, Owner: b.node.rule(OOMScoreFile, LevelContainer, why).Owner})
		}
	}
}

func collect[R any](rules []R, apply func(R) []value) (all []value) {
	for _, rule := range rules {
		all = append(all, apply(rule)...)
	}
	return all
}

// add takes the owners from the table.
func (b *builder) add(g Group, values []value) {
	g.Files = make(map[string]Value, len(values))
	for _, v := range values {
		if v.keep {
			g.Kept = append(g.Kept, v.file)
			continue
		}
		rule := b.node.rule(v.file, g.Level, v.why)
		g.Files[v.file] = Value{Want: v.want, Also: v.also, PerRuntime: v.per, Owner: rule.Owner, Every: b.set.every(rule.When)}
	}
	b.groups = append(b.groups, g)
}

// tree sorts all groups by path, component by component, so that parents come before their children.
func (b *builder) tree() *Tree {
	slices.SortFunc(b.groups, func(x, y Group) int { return comparePaths(x.Path, y.Path) })
	slices.SortFunc(b.processes, func(x, y Process) int { return comparePaths(x.Path, y.Path) })
	slices.SortFunc(b.notes, func(x, y Note) int {
		return cmp.Or(cmp.Compare(x.Pod.Namespace, y.Pod.Namespace), cmp.Compare(x.Pod.Name, y.Pod.Name), cmp.Compare(x.Message, y.Message))
	})
	return &Tree{Groups: b.groups, Processes: b.processes, Daemons: b.daemons(), MemoryProtector: b.set.protector, Notes: slices.Compact(b.notes)}
}

func comparePaths(x, y string) int {
	return slices.Compare(strings.Split(x, "/"), strings.Split(y, "/"))
}

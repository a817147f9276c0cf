package nodeplan

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	resourcehelper "k8s.io/component-helpers/resource"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup"
	"github.com/podgrace/podgrace/nodeenforcer/cgroup/cgroupfile"
	"github.com/podgrace/podgrace/nodeenforcer/drift"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
)

// Input is what is printed.
type Input struct {
	Node, Policy string
	Mode         v1alpha1.NodeMode
	Version      cgroupfile.Version
	Driver       plan.Driver
	Pods         []*corev1.Pod
	// From says where the pods are from.
	From string
	Tree *plan.Tree
	// Have is what was read; nil: nothing was, the plan is of another machine.
	Have drift.Have
	// Counted is what the kernel counted, by path; it may lack some.
	Counted map[string]cgroup.Statistics
	// Drift of files, ProcessDrift of processes, Missing groups: drift.Difference.
	Drift, ProcessDrift []drift.Drift
	Missing             []drift.Where
}

// Text prints a table of the tree and, below it, each drift with its reason.
func Text(w io.Writer, in Input) error {
	t := &table{in: in, out: &strings.Builder{}, drift: map[string]int{}, pods: map[types.UID]*corev1.Pod{}, adj: map[string]int{}}
	t.header()
	t.rows()
	t.findings()
	if _, err := io.WriteString(w, t.out.String()); err != nil {
		return fmt.Errorf("print the plan: %w", err)
	}
	return nil
}

type table struct {
	in    Input
	out   *strings.Builder
	drift map[string]int // by path
	pods  map[types.UID]*corev1.Pod
	adj   map[string]int // oom_score_adj by path
}

func (t *table) header() {
	in := t.in
	policy := "no NodePolicy"
	if in.Policy != "" {
		policy = "NodePolicy " + in.Policy
	}
	pods := console.Plural(len(in.Pods), "pod", "pods")
	if in.From != "" {
		pods += " from " + in.From
	}
	fmt.Fprintf(t.out, "%s: cgroup v%d, %s driver; %s, mode %s; %s\n\n", cmp.Or(in.Node, "node"), in.Version, in.Driver, policy, in.Mode, pods)
}

func (t *table) rows() {
	for _, d := range slices.Concat(t.in.Drift, t.in.ProcessDrift) {
		t.drift[d.Path]++
	}
	for _, p := range t.in.Pods {
		t.pods[p.UID] = plan.Allocated(p)
	}
	for _, p := range t.in.Tree.Processes {
		t.adj[p.Path] = p.OOMScoreAdj
	}
	rows := [][]string{{"CGROUP", "QOS", "PRIORITY", "CPU", "PROMISE", "KEPT", "LIMIT", "OOM ADJ"}}
	if t.in.Have != nil {
		rows[0] = append(rows[0], "USAGE", "USED", "DRIFT")
	}
	for _, g := range t.in.Tree.Groups {
		rows = append(rows, t.row(g)[:len(rows[0])])
	}
	page := console.New(console.Style{}, 0)
	page.Table("", rows)
	t.out.WriteString(page.String())
}

func (t *table) row(g plan.Group) []string {
	limit, usage := t.limit(g), int64(-1)
	if seen, ok := t.in.Have[g.Path]; ok {
		usage = seen.MemoryUsage
	}
	return []string{
		indent(g), t.qos(g), t.priority(g), t.cpu(g), t.promise(g), kept(g), size(limit), t.oom(g), size(usage), share(usage, limit), t.drifted(g),
	}
}

func indent(g plan.Group) string {
	switch g.Level {
	case plan.LevelReserved:
		return strings.TrimPrefix(g.Path, "/")
	case plan.LevelKubepods:
		return "kubepods"
	case plan.LevelQOS:
		return "  " + strings.ToLower(string(g.QOS))
	case plan.LevelPod:
		depth := "    "
		if g.QOS == corev1.PodQOSGuaranteed {
			depth = "  " // directly below kubepods
		}
		return depth + g.Pod.String()
	default:
		depth := "      "
		if g.QOS == corev1.PodQOSGuaranteed {
			depth = "    "
		}
		return depth + g.Container
	}
}

func (t *table) qos(g plan.Group) string {
	if g.Level == plan.LevelPod {
		return string(g.QOS)
	}
	return ""
}

func (t *table) priority(g plan.Group) string {
	if p := t.pods[g.UID]; g.Level == plan.LevelPod && p != nil && p.Spec.Priority != nil {
		return strconv.Itoa(int(*p.Spec.Priority))
	}
	return ""
}

// resources are what the group's pod or container has been allocated.
func (t *table) resources(g plan.Group) (requests, limits corev1.ResourceList) {
	p := t.pods[g.UID]
	if p == nil {
		return nil, nil
	}
	if g.Level == plan.LevelPod {
		return resourcehelper.PodRequests(p, resourcehelper.PodResourcesOptions{}), resourcehelper.PodLimits(p, resourcehelper.PodResourcesOptions{})
	}
	for _, c := range slices.Concat(p.Spec.Containers, p.Spec.InitContainers) {
		if c.Name == g.Container {
			return c.Resources.Requests, c.Resources.Limits
		}
	}
	return nil, nil
}

func (t *table) cpu(g plan.Group) string {
	requests, limits := t.resources(g)
	if requests.Cpu().IsZero() && limits.Cpu().IsZero() {
		return ""
	}
	if limits.Cpu().IsZero() {
		return requests.Cpu().String() + "-"
	}
	return requests.Cpu().String() + "-" + limits.Cpu().String()
}

func (t *table) promise(g plan.Group) string {
	requests, _ := t.resources(g)
	if requests.Memory().IsZero() {
		return ""
	}
	return requests.Memory().String()
}

// kept is what the kernel keeps of a promise: by memory.min or memory.low.
func kept(g plan.Group) string {
	for _, file := range []string{"memory.min", "memory.low"} {
		if n, err := strconv.ParseInt(g.Files[file].Want, 10, 64); err == nil && n > 0 {
			return size(n) + " " + strings.TrimPrefix(file, "memory.")
		}
	}
	return ""
}

// unlimited is where the kernels of both versions print "no limit", or nothing of use.
const unlimited = int64(1) << 62

func (t *table) limit(g plan.Group) int64 {
	for _, file := range []string{"memory.max", "memory.limit_in_bytes"} {
		if n, err := strconv.ParseInt(g.Files[file].Want, 10, 64); err == nil && n < unlimited {
			return n
		}
	}
	return -1
}

func size(n int64) string {
	switch {
	case n < 0:
		return ""
	case n < 1<<20 || n%(1<<30) == 0:
		return resource.NewQuantity(n, resource.BinarySI).String()
	case n < 10<<30:
		return fmt.Sprintf("%dMi", n>>20)
	default:
		return fmt.Sprintf("%.1fGi", float64(n)/(1<<30))
	}
}

func share(usage, limit int64) string {
	if usage < 0 || limit <= 0 {
		return ""
	}
	return fmt.Sprintf("%d%%", usage*100/limit)
}

func (t *table) oom(g plan.Group) string {
	if adj, ok := t.adj[g.Path]; ok {
		return strconv.Itoa(adj)
	}
	return ""
}

func (t *table) drifted(g plan.Group) string {
	switch n := t.drift[g.Path]; {
	case t.in.Have == nil:
		return ""
	case slices.ContainsFunc(t.in.Missing, func(w drift.Where) bool { return w.Path == g.Path }):
		return "not there"
	case n > 0:
		return console.Plural(n, "file", "files")
	}
	return "-"
}

func (t *table) findings() {
	drift := slices.Concat(t.in.Drift, t.in.ProcessDrift)
	switch {
	case t.in.Have == nil:
		fmt.Fprintln(t.out, "\nNothing was read from a machine: this is how it should be.")
	case len(drift) == 0:
		fmt.Fprintln(t.out, "\nEvery file that is there holds what it should.")
	default:
		fmt.Fprintf(t.out, "\nDrift (%d):\n", len(drift))
		for _, d := range drift {
			fmt.Fprintf(t.out, "  %s\n", d)
		}
	}
	t.counted()
	t.daemons()
	if len(t.in.Tree.Notes) > 0 {
		fmt.Fprintln(t.out, "\nNotes:")
	}
	for _, n := range t.in.Tree.Notes {
		fmt.Fprintf(t.out, "  %s\n", n)
	}
}

// daemons tells where the kubelet has itself and the host's processes.
func (t *table) daemons() {
	if len(t.in.Tree.Daemons) > 0 {
		fmt.Fprintln(t.out, "\nDaemons, by the kubelet's configuration:")
	}
	for _, d := range t.in.Tree.Daemons {
		text := "the host's processes of the root cgroup"
		if d.OOMScoreAdj != nil {
			text = fmt.Sprintf("%s: oom_score_adj %d", d.Name, *d.OOMScoreAdj)
		}
		if d.Path != "" {
			text += ", moved to the cgroup " + d.Path
		}
		fmt.Fprintf(t.out, "  %s\n", text)
	}
}

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/e2e/cluster"
)

// auditEvent is what the report reads of an audit event.
type auditEvent struct {
	Annotations    map[string]string
	ResponseObject struct{ Metadata metav1.ObjectMeta }
}

// mutated is what the API server writes before the annotations of our mutating webhook.
const mutated = "pods.mutate.podgrace.dev/"

// waitReasons returns, for each pod by namespace/name, the webhook's reasons by field, as the API server's audit log has
// them: the log is written a moment after the response.
func waitReasons(ctx context.Context, path string, pods []corev1.Pod) (map[string]map[string]string, error) {
	var found map[string]map[string]string
	err := cluster.Until(ctx, "the audit log "+path, func(context.Context) (_ bool, err error) {
		if found, err = reasons(path); err != nil {
			return false, err
		}
		for i := range pods {
			if _, ok := found[pods[i].Namespace+"/"+pods[i].Name]; !ok {
				return false, nil
			}
		}
		return true, nil
	})
	return found, err
}

func reasons(path string) (map[string]map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found := map[string]map[string]string{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 4<<20)
	for lines.Scan() {
		var e auditEvent
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			continue // a line that is being written
		}
		for key, value := range e.Annotations {
			field, ours := strings.CutPrefix(key, mutated)
			m := e.ResponseObject.Metadata
			if !ours || m.Name == "" {
				continue
			}
			pod := m.Namespace + "/" + m.Name
			if found[pod] == nil {
				found[pod] = map[string]string{}
			}
			found[pod][field] = value
		}
	}
	return found, lines.Err()
}

// describe prints a block a workload: what its pods asked for, what they got, and why. Where there is no node enforcer nobody has got what was asked of the node.
func describe(asked map[string]corev1.PodSpec, pods []corev1.Pod, reasons map[string]map[string]string, zoneOf map[string]string, enforced bool) string {
	byWorkload := map[string][]corev1.Pod{}
	for _, p := range pods {
		w := workloadOf(p, asked)
		byWorkload[w] = append(byWorkload[w], p)
	}
	var b strings.Builder
	for _, w := range slices.Sorted(maps.Keys(byWorkload)) {
		own := byWorkload[w]
		fmt.Fprintf(&b, "%s: %d pods, %s\n", w, len(own), spreadOver(own, zoneOf))
		table := tabwriter.NewWriter(&b, 2, 0, 2, ' ', 0)
		fmt.Fprintln(table, "  \tASKED\tGOT\tWHY")
		for _, r := range rows(asked[w], own[0], reasons[own[0].Namespace+"/"+own[0].Name], enforced) {
			fmt.Fprintf(table, "  %s\t%s\t%s\t%s\n", r[0], r[1], r[2], r[3])
		}
		_ = table.Flush() // to a strings.Builder
		b.WriteString("\n")
	}
	return b.String()
}

func workloadOf(p corev1.Pod, asked map[string]corev1.PodSpec) string {
	owner := metav1.GetControllerOfNoCopy(&p)
	if owner == nil {
		return p.Namespace + "/" + p.Name
	}
	name := p.Namespace + "/" + owner.Name
	if _, ok := asked[name]; !ok { // a ReplicaSet: its Deployment has the name without the hash
		name = name[:strings.LastIndex(name, "-")]
	}
	return name
}

func spreadOver(pods []corev1.Pod, zoneOf map[string]string) string {
	counts := map[string]int{}
	for _, p := range pods {
		counts[zoneOf[p.Spec.NodeName]]++
	}
	var parts []string
	for _, z := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d in %s", counts[z], z))
	}
	return strings.Join(parts, ", ")
}

func rows(asked corev1.PodSpec, got corev1.Pod, reasons map[string]string, enforced bool) [][4]string {
	grace := "-"
	if g := ptr.Deref(asked.TerminationGracePeriodSeconds, 30); g != 30 {
		grace = fmt.Sprintf("%d s", g)
	}
	node := enforcement(got.Annotations[v1alpha1.AnnotationEnforcement])
	if !enforced && node != "-" {
		node = "would be " + node
	}
	return [][4]string{
		{"priority", orDash(asked.PriorityClassName), fmt.Sprintf("%s (%d)", got.Spec.PriorityClassName, ptr.Deref(got.Spec.Priority, 0)), why(reasons, "priorityClassName")},
		{"spread", constraints(asked.TopologySpreadConstraints), constraints(got.Spec.TopologySpreadConstraints), why(reasons, "topologySpreadConstraints")},
		{"grace", grace, fmt.Sprintf("%d s", ptr.Deref(got.Spec.TerminationGracePeriodSeconds, 0)), why(reasons, "terminationGracePeriodSeconds")},
		{"node", "-", node, why(reasons, "enforcement")},
	}
}

// why takes the reason out of "value (reason)".
func why(reasons map[string]string, field string) string {
	value, ok := reasons[field]
	if !ok {
		return "its own choice"
	}
	if _, reason, found := strings.Cut(value, " ("); found {
		return strings.TrimSuffix(reason, ")")
	}
	return value
}

func constraints(list []corev1.TopologySpreadConstraint) string {
	var parts []string
	for _, c := range list {
		key := c.TopologyKey[strings.LastIndex(c.TopologyKey, "/")+1:]
		if c.WhenUnsatisfiable == corev1.DoNotSchedule {
			key += "!"
		}
		parts = append(parts, fmt.Sprintf("%s<=%d", key, c.MaxSkew))
	}
	return orDash(strings.Join(parts, " "))
}

// enforcement says in words what the annotation holds.
func enforcement(text string) string {
	var e v1alpha1.Enforcement
	if text == "" || json.Unmarshal([]byte(text), &e) != nil {
		return orDash(text)
	}
	var parts []string
	if e.Memory != nil {
		parts = append(parts, "memory "+string(e.Memory.Protection))
	}
	if e.CPU != nil {
		parts = append(parts, fmt.Sprintf("cpu %d", e.CPU.Weight))
	}
	if e.IO != nil {
		parts = append(parts, fmt.Sprintf("io %d", e.IO.Weight))
	}
	if e.OOM != nil {
		parts = append(parts, fmt.Sprintf("oom %d", e.OOM.Rank))
	}
	if e.Eviction != nil {
		parts = append(parts, fmt.Sprintf("eviction %d", e.Eviction.Order))
	}
	return strings.Join(parts, ", ")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func indent(s string) string {
	if s = strings.TrimSpace(s); s == "" {
		return ""
	}
	return "  " + strings.ReplaceAll(strings.ReplaceAll(s, "\n", "\n  "), "\n  \n", "\n\n") + "\n"
}

package review

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"

	"github.com/podgrace/podgrace/defaulting/topology"
	"github.com/podgrace/podgrace/internal/console"
	"github.com/podgrace/podgrace/internal/manifest"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/internal/pod/graceperiod/deadline"
)

// machines are nodes with the same deadlines.
type machines struct {
	facts deadline.Facts
	// nodes are those that a pod must fit on one of; nil: any pod may run there.
	nodes []*corev1.Node
}

// addMachine keeps a Node if its labels set a deadline.
func (s *State) addMachine(n *corev1.Node) {
	of := deadline.Of(&corev1.Pod{}, deadline.Facts{Labels: n.Labels})
	if len(of) == 0 {
		return
	}
	for _, m := range s.machines {
		if at := slices.IndexFunc(m.nodes, func(known *corev1.Node) bool { return known.Name == n.Name }); m.facts.Pool == nil && at >= 0 {
			m.nodes[at] = n
			return
		}
	}
	for _, m := range s.machines {
		if m.nodes != nil && m.facts.Pool == nil && deadline.Of(&corev1.Pod{}, m.facts)[0] == of[0] {
			m.nodes = append(m.nodes, n)
			return
		}
	}
	s.machines = append(s.machines, &machines{deadline.Facts{Labels: n.Labels}, []*corev1.Node{n}})
}

// HasDeadline reports whether AddDeadlines may read something from a document.
func HasDeadline(d *manifest.Document) bool {
	kind := schema.FromAPIVersionAndKind(d.APIVersion, d.Kind)
	return kind == kubeletConfiguration || deadline.IsNodePool(kind.GroupKind()) || kind == appsv1.SchemeGroupVersion.WithKind("Deployment") && bytes.Contains(d.JSON, []byte("cluster-autoscaler"))
}

var kubeletConfiguration = kubeletconfigv1beta1.SchemeGroupVersion.WithKind("KubeletConfiguration")

// AddDeadlines reads from documents how long who stops a node waits for its pods: from KubeletConfigurations, the NodePools of Karpenter and the Deployment of
// the cluster-autoscaler. It passes over all others.
func (s *State) AddDeadlines(documents []*manifest.Document) (errs []*manifest.Error) {
	for _, d := range documents {
		if !HasDeadline(d) {
			continue
		}
		switch kind := schema.FromAPIVersionAndKind(d.APIVersion, d.Kind); {
		case kind == kubeletConfiguration:
			var k kubeletconfigv1beta1.KubeletConfiguration
			if err := json.Unmarshal(d.JSON, &k); err != nil {
				errs = append(errs, d.Wrong(fmt.Errorf("read the KubeletConfiguration: %w", err)))
				continue
			}
			s.machines = append(s.machines, &machines{facts: deadline.Facts{Kubelet: &k}})
		case deadline.IsNodePool(kind.GroupKind()):
			var o unstructured.Unstructured
			if err := json.Unmarshal(d.JSON, &o.Object); err != nil {
				errs = append(errs, d.Wrong(fmt.Errorf("read the %s: %w", d.Kind, err)))
				continue
			}
			p := deadline.ReadNodePool(&o)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: p.Name, Labels: p.Labels}, Spec: corev1.NodeSpec{Taints: p.Taints}}
			s.machines = append(s.machines, &machines{deadline.Facts{Labels: p.Labels, Pool: p}, []*corev1.Node{node}})
		default:
			var deployment appsv1.Deployment
			if json.Unmarshal(d.JSON, &deployment) != nil {
				continue // whose review says what is wrong with it
			}
			if waits := deadline.AutoscalerOf(&deployment); waits != nil {
				s.machines = append(s.machines, &machines{facts: deadline.Facts{Autoscaler: waits}})
			}
		}
	}
	return errs
}

// Deadlines are those of the nodes that a pod may run on, the shortest first, each once.
func (s *State) Deadlines(pod *corev1.Pod) []deadline.Deadline { return s.deadlines(pod, deadline.Of) }

func (s *State) deadlines(pod *corev1.Pod, of func(*corev1.Pod, deadline.Facts) []deadline.Deadline) (all []deadline.Deadline) {
	for _, m := range s.machines {
		found := of(pod, m.facts)
		if len(found) == 0 {
			continue
		}
		asks := topology.ForPod(pod)
		if m.nodes != nil && !slices.ContainsFunc(m.nodes, asks.Fits) {
			continue
		}
		for _, d := range found {
			if !slices.Contains(all, d) {
				all = append(all, d)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b deadline.Deadline) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return all
}

// maxShort is how many workloads a remark names whose pods don't get their grace period.
const maxShort = 3

// RemarkDeadlines tells which pods would not get their grace period when their node is stopped, once for each deadline.
func (e *Engine) RemarkDeadlines(results []Result) (remarks []Remark) {
	var order []deadline.Deadline
	about := map[deadline.Deadline][]string{}
	for i := range results {
		for _, d := range results[i].Short {
			if about[d] == nil {
				order = append(order, d)
			}
			about[d] = append(about[d], fmt.Sprintf("%s (%d s)", results[i].Resource, results[i].GraceSeconds))
		}
	}
	for _, d := range order {
		remarks = append(remarks, Remark{Deadline: d.Of, Message: fmt.Sprintf(
			"it leaves a pod %d s at most, and the grace period is longer for %s; %s, or lower the grace period", d.Seconds, console.Some(about[d], maxShort, ", "), d.Remedy,
		)})
	}
	return remarks
}

// short notes the deadlines that leave a pod less than its grace period.
func (s *step) short() {
	if s.pod == nil || s.result.Operation != OperationCreate || s.result.Decision != Allowed {
		return
	}
	s.result.Short, s.result.GraceSeconds = s.State.deadlines(s.pod, deadline.Short), graceperiod.Of(&s.pod.Spec)
}

// Package deadline compares the grace period of a pod with how long those who stop its node wait for it.
package deadline

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"

	"github.com/podgrace/podgrace/internal/pod/graceperiod"
)

// Deadline is how long one way of stopping a node leaves a pod, at most.
type Deadline struct {
	// Of is what stops the node, and the setting that bounds it, such as "a shutdown of the node (the kubelet's shutdownGracePeriod)".
	Of string `json:"of"`
	// Seconds that the pod has, preStop hooks included.
	Seconds int64 `json:"seconds"`
	// Remedy is what gives pods more time; empty: nothing does.
	Remedy string `json:"remedy,omitempty"`
}

// Facts about a node. The zero value has no deadline.
type Facts struct {
	// Labels of the Node. Providers mark spot capacity with them.
	Labels map[string]string
	// Kubelet is its configuration; nil: not known.
	Kubelet *kubeletconfigv1beta1.KubeletConfiguration
	// Pool is Karpenter's for the node; nil: none, or not known.
	Pool *NodePool
	// Autoscaler is what --max-graceful-termination-sec of the cluster-autoscaler says; nil: there is none, or it is not known.
	Autoscaler *time.Duration
}

// NodePool is what counts of a NodePool or a NodeClaim of Karpenter.
type NodePool struct {
	Name string
	// Labels and Taints of its nodes.
	Labels map[string]string
	Taints []corev1.Taint
	// TerminationGracePeriod is how long a node's drain takes at most; nil: it waits as long as its pods need.
	TerminationGracePeriod *time.Duration
}

// spot are the labels of nodes that the provider takes back, and how long it announces that before: AWS' Spot Instance interruption notices (120 s), Google's
// preemption (30 s) and Azure's Scheduled Events (30 s), as their documentation had it in November 2026.
var spot = []struct {
	label, value string
	who          string
	seconds      int64
}{
	{"eks.amazonaws.com/capacityType", "SPOT", "AWS", 120},
	{"node.kubernetes.io/lifecycle", "spot", "AWS", 120},
	{"cloud.google.com/gke-spot", "true", "Google Cloud", 30},
	{"cloud.google.com/gke-preemptible", "true", "Google Cloud", 30},
	{"kubernetes.azure.com/scalesetpriority", "spot", "Azure", 30},
	{"karpenter.sh/capacity-type", "spot", "the provider", 120},
}

// Of returns the deadlines that a node has for a pod, the shortest first. A pod without a priority has priority 0.
func Of(pod *corev1.Pod, f Facts) []Deadline {
	all := f.shutdown(ptr.Deref(pod.Spec.Priority, 0))
	owner := metav1.GetControllerOfNoCopy(pod)
	drained := owner == nil || owner.Kind != "DaemonSet" // neither drains these
	if p := f.Pool; drained && p != nil && p.TerminationGracePeriod != nil {
		all = append(all, Deadline{
			fmt.Sprintf("a drain by Karpenter (terminationGracePeriod of NodePool %s)", p.Name), whole(*p.TerminationGracePeriod), "raise terminationGracePeriod of the NodePool",
		})
	}
	if drained && f.Autoscaler != nil && f.Labels[LabelNodePool] == "" && f.Pool == nil {
		all = append(all, Deadline{"a scale-down by the cluster-autoscaler (--max-graceful-termination-sec)", whole(*f.Autoscaler), "raise --max-graceful-termination-sec"})
	}
	for _, s := range spot {
		if f.Labels[s.label] == s.value {
			all = append(all, Deadline{fmt.Sprintf("an interruption of its spot capacity (%s gives notice)", s.who), s.seconds, "run it on capacity that is not taken back"})
			break
		}
	}
	slices.SortStableFunc(all, func(a, b Deadline) int { return cmp.Compare(a.Seconds, b.Seconds) })
	return all
}

// Short returns the deadlines that leave a pod less than its grace period.
func Short(pod *corev1.Pod, f Facts) []Deadline {
	own := graceperiod.Of(&pod.Spec)
	return slices.DeleteFunc(Of(pod, f), func(d Deadline) bool { return d.Seconds >= own })
}

// shutdown is what the kubelet's graceful node shutdown leaves a pod of a priority: the time of the class with the highest priority that is not above its own, else of the lowest class
// (migrateConfig and groupByPriority, pkg/kubelet/nodeshutdown/nodeshutdown_manager.go, 1.36.3). Without a setting a shutdown is not graceful, and how long it takes is not known.
func (f Facts) shutdown(priority int32) []Deadline {
	k := f.Kubelet
	if k == nil {
		return nil
	}
	const raise = "raise it in the kubelet's configuration"
	if classes := slices.Clone(k.ShutdownGracePeriodByPodPriority); len(classes) > 0 {
		slices.SortFunc(classes, func(a, b kubeletconfigv1beta1.ShutdownGracePeriodByPodPriority) int {
			return cmp.Compare(a.Priority, b.Priority)
		})
		of := classes[0]
		for _, c := range classes {
			if c.Priority <= priority {
				of = c
			}
		}
		return []Deadline{{fmt.Sprintf("a shutdown of the node (the kubelet's shutdownGracePeriodByPodPriority from %d)", of.Priority), max(of.ShutdownGracePeriodSeconds, graceperiod.PodFloor), raise}}
	}
	total, critical := k.ShutdownGracePeriod.Duration, k.ShutdownGracePeriodCriticalPods.Duration
	switch {
	case total <= 0 || total < critical:
		return nil
	case priority >= systemCritical:
		return []Deadline{{"a shutdown of the node (the kubelet's shutdownGracePeriodCriticalPods)", max(whole(critical), graceperiod.PodFloor), raise}}
	}
	return []Deadline{{"a shutdown of the node (the kubelet's shutdownGracePeriod less shutdownGracePeriodCriticalPods)", max(whole(total-critical), graceperiod.PodFloor), raise}}
}

// systemCritical is the priority from which pods are critical (pkg/apis/scheduling/types.go SystemCriticalPriority, 1.36.3).
const systemCritical = int32(2000000000)

func whole(d time.Duration) int64 { return int64(d / time.Second) }

// LabelNodePool is Karpenter's label of a Node, with the name of its NodePool.
const LabelNodePool = "karpenter.sh/nodepool"

// karpenter are the kinds of Karpenter that bound a drain.
const karpenter = "karpenter.sh"

// IsNodePool reports whether objects of a kind are read by ReadNodePool.
func IsNodePool(kind schema.GroupKind) bool {
	return kind == schema.GroupKind{Group: karpenter, Kind: "NodePool"} || kind == schema.GroupKind{Group: karpenter, Kind: "NodeClaim"}
}

// ReadNodePool reads a NodePool, or a NodeClaim, of karpenter.sh/v1. It passes over what it can't read: the CustomResourceDefinition says what is right.
func ReadNodePool(o *unstructured.Unstructured) *NodePool {
	p := &NodePool{Name: o.GetName()}
	spec := []string{"spec"}
	if o.GetKind() == "NodePool" {
		spec = []string{"spec", "template", "spec"}
		p.Labels, _, _ = unstructured.NestedStringMap(o.Object, "spec", "template", "metadata", "labels")
	} else {
		p.Labels = o.GetLabels()
		p.Name = cmp.Or(p.Labels[LabelNodePool], p.Name)
	}
	if text, _, _ := unstructured.NestedString(o.Object, append(slices.Clone(spec), "terminationGracePeriod")...); text != "" {
		if d, err := time.ParseDuration(text); err == nil {
			p.TerminationGracePeriod = &d
		}
	}
	p.Labels = withRequired(p.Labels, o, spec)
	taints, _, _ := unstructured.NestedSlice(o.Object, append(slices.Clone(spec), "taints")...)
	for _, t := range taints {
		if t, ok := t.(map[string]any); ok {
			text := func(key string) string { s, _ := t[key].(string); return s }
			p.Taints = append(p.Taints, corev1.Taint{Key: text("key"), Value: text("value"), Effect: corev1.TaintEffect(text("effect"))})
		}
	}
	return p
}

// withRequired adds the labels that the requirements leave no choice of, and spot where it is one of the capacity types.
func withRequired(labels map[string]string, o *unstructured.Unstructured, spec []string) map[string]string {
	all := map[string]string{LabelNodePool: o.GetName()}
	maps.Copy(all, labels)
	requirements, _, _ := unstructured.NestedSlice(o.Object, append(slices.Clone(spec), "requirements")...)
	for _, r := range requirements {
		r, ok := r.(map[string]any)
		if !ok || r["operator"] != string(corev1.NodeSelectorOpIn) {
			continue
		}
		key, _ := r["key"].(string)
		values, _, _ := unstructured.NestedStringSlice(r, "values")
		switch {
		case len(values) == 1:
			all[key] = values[0]
		case key == "karpenter.sh/capacity-type" && slices.Contains(values, "spot"):
			all[key] = "spot"
		}
	}
	return all
}

// defaultAutoscaler is the default of --max-graceful-termination-sec (cluster-autoscaler's FAQ, What are the parameters to CA?, 1.35).
const defaultAutoscaler time.Duration = 10 * time.Minute

// AutoscalerOf returns how long a Deployment waits for pods, if it is the cluster-autoscaler; else nil.
func AutoscalerOf(d *appsv1.Deployment) *time.Duration {
	for _, c := range d.Spec.Template.Spec.Containers {
		line := append(slices.Clone(c.Command), c.Args...)
		image := c.Image[strings.LastIndexByte(c.Image, '/')+1:]
		if name, _, _ := strings.Cut(image, ":"); name != "cluster-autoscaler" && (len(line) == 0 || !strings.HasSuffix(line[0], "/cluster-autoscaler") && line[0] != "cluster-autoscaler") {
			continue
		}
		for i, arg := range line {
			name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
			if name != "max-graceful-termination-sec" {
				continue
			}
			if !given && i+1 < len(line) {
				value = line[i+1]
			}
			if seconds, err := time.ParseDuration(value + "s"); err == nil {
				return &seconds
			}
		}
		return new(defaultAutoscaler)
	}
	return nil
}

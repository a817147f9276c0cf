package deadline

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"sigs.k8s.io/yaml"
)

// classes are those of a kubelet, not in order.
var classes = []kubeletconfigv1beta1.ShutdownGracePeriodByPodPriority{
	{Priority: 1000, ShutdownGracePeriodSeconds: 60}, {Priority: 0, ShutdownGracePeriodSeconds: 20}, {Priority: 2000000000, ShutdownGracePeriodSeconds: 5},
}

func kubelet(total, critical time.Duration, by ...kubeletconfigv1beta1.ShutdownGracePeriodByPodPriority) *kubeletconfigv1beta1.KubeletConfiguration {
	return &kubeletconfigv1beta1.KubeletConfiguration{
		ShutdownGracePeriod: metav1.Duration{Duration: total}, ShutdownGracePeriodCriticalPods: metav1.Duration{Duration: critical}, ShutdownGracePeriodByPodPriority: by,
	}
}

func TestOf(t *testing.T) {
	daemon := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Controller: new(true)}}}}
	pool := &NodePool{Name: "batch", TerminationGracePeriod: new(5 * time.Minute)}
	for name, test := range map[string]struct {
		pod      *corev1.Pod
		priority int32
		facts    Facts
		want     []int64
	}{
		"nothing is known":                         {},
		"no graceful shutdown":                     {facts: Facts{Kubelet: kubelet(0, 0)}},
		"critical pods have more than there is":    {facts: Facts{Kubelet: kubelet(10*time.Second, 20*time.Second)}},
		"a shutdown":                               {facts: Facts{Kubelet: kubelet(30*time.Second, 10*time.Second)}, want: []int64{20}},
		"a shutdown of a critical pod":             {priority: 2000000000, facts: Facts{Kubelet: kubelet(30*time.Second, 10*time.Second)}, want: []int64{10}},
		"a shutdown that has only critical pods":   {facts: Facts{Kubelet: kubelet(10*time.Second, 10*time.Second)}, want: []int64{1}},
		"by priority":                              {facts: Facts{Kubelet: kubelet(30*time.Second, 0, classes...)}, want: []int64{20}},
		"by priority, between two":                 {priority: 5000, facts: Facts{Kubelet: kubelet(0, 0, classes...)}, want: []int64{60}},
		"by priority, below all":                   {priority: -5, facts: Facts{Kubelet: kubelet(0, 0, classes...)}, want: []int64{20}},
		"by priority, critical":                    {priority: 2000001000, facts: Facts{Kubelet: kubelet(0, 0, classes...)}, want: []int64{5}},
		"Karpenter":                                {facts: Facts{Pool: pool}, want: []int64{300}},
		"Karpenter without a period":               {facts: Facts{Pool: &NodePool{}}},
		"Karpenter and a DaemonSet":                {pod: daemon, facts: Facts{Pool: pool, Autoscaler: new(time.Minute)}},
		"the cluster-autoscaler":                   {facts: Facts{Autoscaler: new(10 * time.Minute)}, want: []int64{600}},
		"the cluster-autoscaler, beside Karpenter": {facts: Facts{Autoscaler: new(10 * time.Minute), Labels: map[string]string{"karpenter.sh/nodepool": "batch"}}},
		"spot of EKS":                              {facts: Facts{Labels: map[string]string{"eks.amazonaws.com/capacityType": "SPOT"}}, want: []int64{120}},
		"no spot of EKS":                           {facts: Facts{Labels: map[string]string{"eks.amazonaws.com/capacityType": "ON_DEMAND"}}},
		"spot of GKE":                              {facts: Facts{Labels: map[string]string{"cloud.google.com/gke-spot": "true"}}, want: []int64{30}},
		"spot by two labels":                       {facts: Facts{Labels: map[string]string{"eks.amazonaws.com/capacityType": "SPOT", "karpenter.sh/capacity-type": "spot"}}, want: []int64{120}},
		"all of it": {
			facts: Facts{Labels: map[string]string{"karpenter.sh/capacity-type": "spot"}, Kubelet: kubelet(time.Minute, 0), Pool: pool, Autoscaler: new(time.Minute)},
			want:  []int64{60, 120, 300},
		},
	} {
		pod := &corev1.Pod{}
		if test.pod != nil {
			pod = test.pod.DeepCopy()
		}
		pod.Spec.Priority = &test.priority
		var got []int64
		for _, d := range Of(pod, test.facts) {
			got = append(got, d.Seconds)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// A deadline is short if it leaves less than the grace period, which is 30 s where a pod has none.
func TestShort(t *testing.T) {
	f := Facts{Kubelet: kubelet(40*time.Second, 10*time.Second)}
	for _, test := range []struct {
		grace *int64
		want  int
	}{{nil, 0}, {new(int64(30)), 0}, {new(int64(31)), 1}, {new(int64(0)), 0}} {
		pod := &corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: test.grace}}
		if got := Short(pod, f); len(got) != test.want {
			t.Errorf("%v: %v", test.grace, got)
		}
	}
}

func TestReadNodePool(t *testing.T) {
	for text, want := range map[string]*NodePool{
		`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: batch}, spec: {template: {metadata: {labels: {team: ml}}, spec: {
			terminationGracePeriod: 1h30m, taints: [{key: gpu, value: "true", effect: NoSchedule}],
			requirements: [{key: karpenter.sh/capacity-type, operator: In, values: [on-demand, spot]}, {key: kubernetes.io/arch, operator: In, values: [arm64]},
				{key: kubernetes.io/os, operator: NotIn, values: [windows]}, {key: node.kubernetes.io/instance-type, operator: In, values: [a, b]}]}}}}`: {
			Name: "batch", Labels: map[string]string{"team": "ml", "karpenter.sh/nodepool": "batch", "karpenter.sh/capacity-type": "spot", "kubernetes.io/arch": "arm64"},
			Taints: []corev1.Taint{{Key: "gpu", Value: "true", Effect: corev1.TaintEffectNoSchedule}}, TerminationGracePeriod: new(90 * time.Minute),
		},
		`{apiVersion: karpenter.sh/v1, kind: NodeClaim, metadata: {name: batch-x7, labels: {karpenter.sh/nodepool: batch}}, spec: {terminationGracePeriod: 5m}}`: {
			Name: "batch", Labels: map[string]string{"karpenter.sh/nodepool": "batch"}, TerminationGracePeriod: new(5 * time.Minute),
		},
		`{apiVersion: karpenter.sh/v1, kind: NodePool, metadata: {name: bad}, spec: {template: {metadata: 3, spec: {terminationGracePeriod: soon, taints: [4], requirements: {}}}}}`: {
			Name: "bad", Labels: map[string]string{"karpenter.sh/nodepool": "bad"},
		},
	} {
		var o unstructured.Unstructured
		if err := yaml.Unmarshal([]byte(text), &o.Object); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, ReadNodePool(&o)); diff != "" || !IsNodePool(o.GroupVersionKind().GroupKind()) {
			t.Error(o.GetName(), diff)
		}
	}
}

func TestAutoscalerOf(t *testing.T) {
	for _, test := range []struct {
		image         string
		command, args []string
		want          *time.Duration
	}{
		{"registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0", []string{"./cluster-autoscaler", "--max-graceful-termination-sec=1200"}, nil, new(20 * time.Minute)},
		{"mirror/ca:v1", []string{"/cluster-autoscaler"}, []string{"--max-graceful-termination-sec", "60"}, new(time.Minute)},
		{"registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0", nil, []string{"--v=4"}, new(10 * time.Minute)},
		{"registry.k8s.io/autoscaling/cluster-autoscaler:v1.35.0", nil, []string{"--max-graceful-termination-sec=many"}, new(10 * time.Minute)},
		{"registry.k8s.io/autoscaling/cluster-autoscaler-adapter:v1", nil, nil, nil},
		{"nginx", []string{"nginx"}, []string{"--max-graceful-termination-sec=5"}, nil},
	} {
		d := &appsv1.Deployment{}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "sidecar"}, {Image: test.image, Command: test.command, Args: test.args}}
		if diff := cmp.Diff(test.want, AutoscalerOf(d)); diff != "" {
			t.Errorf("%+v: %s", test, diff)
		}
	}
}

package enforcer

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/podgrace/podgrace/e2e/cluster"
)

// ChangePod is what a test makes of a pod.
type ChangePod = func(*corev1.Pod)

// Pod has one container, of an image that is on the node, with requests and limits as "cpu/memory".
func (g *Ground) Pod(namespace, name, image, requests, limits string, args []string, changes ...ChangePod) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: corev1.PodSpec{
			TerminationGracePeriodSeconds: new(int64(5)), RestartPolicy: corev1.RestartPolicyNever,
			Containers: []corev1.Container{{
				Name: "main", Image: image, ImagePullPolicy: corev1.PullNever, Args: args, Resources: g.resources(requests, limits),
			}},
		},
	}
	for _, c := range changes {
		c(p)
	}
	return p
}

// resources have a limit on CPU of at least LeastCPU.
func (g *Ground) resources(requests, limits string) corev1.ResourceRequirements {
	list := func(text string) corev1.ResourceList {
		if text == "" {
			return nil
		}
		cpu, memory, _ := strings.Cut(text, "/")
		return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
	}
	r := corev1.ResourceRequirements{Requests: list(requests), Limits: list(limits)}
	if least := resource.MustParse(g.LeastCPU); limits != "" && r.Limits.Cpu().Cmp(least) < 0 {
		r.Limits[corev1.ResourceCPU] = least
		if requests == limits {
			r.Requests[corev1.ResourceCPU] = least
		}
	}
	return r
}

// Priority is a pod's PriorityClass.
func Priority(class string) ChangePod {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = class }
}

// classes are pods of every QoS class, and of what makes their cgroups differ, with eight containers.
func (g *Ground) classes(namespace string) []*corev1.Pod {
	sidecar := func(p *corev1.Pod) {
		p.Spec.InitContainers = []corev1.Container{{
			Name: "sidecar", Image: cluster.PauseImage, ImagePullPolicy: corev1.PullNever, RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
			Resources: g.resources("10m/16Mi", "20m/32Mi"),
		}}
	}
	idle := func(name, requests, limits string, changes ...ChangePod) *corev1.Pod {
		return g.Pod(namespace, name, cluster.PauseImage, requests, limits, nil, changes...)
	}
	return []*corev1.Pod{
		idle("guaranteed", "250m/64Mi", "250m/64Mi"),
		idle("guaranteed-sidecar", "100m/32Mi", "100m/32Mi", sidecar),
		idle("burstable", "100m/64Mi", "500m/256Mi"),
		idle("burstable-unlimited", "15m/64Mi", ""),
		idle("besteffort", "", ""),
		idle("tiny", "1m/8Mi", "2m/16Mi"),
		idle("odd", "3m/8Mi", "155m/64Mi"),
	}
}

// Make makes a pod, which goes with the test.
func (g *Ground) Make(t *testing.T, p *corev1.Pod) {
	t.Helper()
	g.Create(t, p)
	t.Cleanup(func() { _ = g.Client.Delete(context.Background(), p, client.GracePeriodSeconds(1)) })
}

// Running makes pods and returns when they run. Who is soon evicted may run and be gone between two looks: it is made, and that it was evicted says that it ran.
func (g *Ground) Running(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		g.Make(t, p)
	}
	for _, p := range pods {
		g.Eventually(t, "pod "+p.Name+" running", func(ctx context.Context) (bool, error) {
			err := g.Client.Get(ctx, client.ObjectKeyFromObject(p), p)
			running := p.Status.Phase == corev1.PodRunning
			for _, c := range append(p.Status.InitContainerStatuses, p.Status.ContainerStatuses...) {
				running = running && c.Started != nil && *c.Started
			}
			return running, err
		})
	}
}

// Lives fails for a pod that did not run on.
func (g *Ground) Lives(t *testing.T, pods ...*corev1.Pod) {
	t.Helper()
	for _, p := range pods {
		var now corev1.Pod
		if err := g.Client.Get(t.Context(), client.ObjectKeyFromObject(p), &now); err != nil {
			t.Errorf("pod %s: %v", p.Name, err)
			continue
		}
		if now.UID != p.UID || now.DeletionTimestamp != nil || now.Status.Phase != corev1.PodRunning || now.Status.ContainerStatuses[0].RestartCount != 0 {
			t.Errorf("pod %s did not live on: %s, deleted at %v", p.Name, now.Status.Phase, now.DeletionTimestamp)
		}
	}
}

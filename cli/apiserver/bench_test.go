package apiserver_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/podgrace/podgrace/cli/apiserver"
)

// BenchmarkRequests is what one request costs, once the expressions have been compiled.
func BenchmarkRequests(b *testing.B) {
	w, p := webhooks(b), policies(b)
	for name, r := range map[string]apiserver.Request{
		"create-pod":        request(b, create, "pods", object(pod())),
		"apply-deployment":  request(b, create, "deployments", object(deployment)),
		"apply-statefulset": request(b, create, "statefulsets", object(statefulSet("")), params(refusing("p", nil))),
		"delete":            request(b, remove, "pods", oldObject(pod()), options(patient)),
		"force-delete":      request(b, remove, "pods", oldObject(pod()), options(hasty)),
		"evict":             request(b, create, "pods/eviction", object(eviction(""))),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.Mutating(b.Context(), r); err != nil {
					b.Fatal(err)
				}
				if _, err := w.Validating(b.Context(), r); err != nil {
					b.Fatal(err)
				}
				if _, _, err := p.Validate(b.Context(), r); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkCompile is what is spent once in a process, at the first force delete and update of a pod.
func BenchmarkCompile(b *testing.B) {
	force := request(b, remove, "pods", oldObject(pod()), options(hasty))
	change := request(b, update, "pods", oldObject(pod()), object(pod()))
	for b.Loop() {
		if _, err := webhooks(b).Validating(b.Context(), force); err != nil {
			b.Fatal(err)
		}
		if _, _, err := policies(b).Validate(b.Context(), change); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDefault(b *testing.B) {
	template := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Image: "registry.example.com/team/app:v1"}, {Image: "nginx"}}, Volumes: []corev1.Volume{{Name: "v"}}}}
	b.ReportAllocs()
	for b.Loop() {
		apiserver.Default(template.DeepCopy())
	}
}

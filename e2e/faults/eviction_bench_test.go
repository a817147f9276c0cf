package faults

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// What the policy on half-done force deletes costs an eviction, which it compares with every pod of the namespace.
//
//	go test -C e2e ./faults -run '^$' -bench Eviction
func BenchmarkEviction(b *testing.B) {
	s := shared.Get(b)
	namespace := s.Namespace(b)
	config := rest.CopyConfig(s.Config)
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	evict := func(b *testing.B) {
		for b.Loop() {
			if err := kube.PolicyV1().Evictions(namespace).Evict(b.Context(), &policyv1.Eviction{
				ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: "p-0"},
				DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
			}); err != nil {
				b.Fatal(err)
			}
		}
	}
	made := 0
	grow := func(to int) {
		for ; made < to; made++ {
			p := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("p-%d", made)},
				Spec:       corev1.PodSpec{NodeName: "nowhere", Containers: []corev1.Container{{Name: "c", Image: "localhost/none:1"}}},
			}
			if _, err := kube.CoreV1().Pods(namespace).Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
				b.Fatal(err)
			}
		}
	}
	for _, pods := range []int{10, 100, 1000} {
		grow(pods)
		b.Run(fmt.Sprintf("pods=%d", pods), evict)
	}
}

package faults

import (
	"fmt"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// What the guard costs an eviction, as kubectl drain sends it: beside each in a guarded namespace one in a namespace of as many pods that nothing
// of ours is asked about. ms is until the answer, cpu-ms what the API server spends; times compares. Neither may grow with the number of pods.
//
//	go test -C e2e ./faults -run '^$' -bench Eviction
func BenchmarkEviction(b *testing.B) {
	s := shared.Get(b)
	config := rest.CopyConfig(s.Config)
	config.QPS = -1
	kube, err := kubernetes.NewForConfig(config)
	if err != nil {
		b.Fatal(err)
	}
	namespaces := [2]string{s.Namespace(b), metav1.NamespaceSystem}
	s.Policy(b, namespaces[0], guarding)
	made := 0
	for _, pods := range []int{10, 1000, 10000} {
		for _, namespace := range namespaces {
			bindPods(b, kube, namespace, made, pods)
		}
		made = pods
		b.Run(fmt.Sprintf("pods=%d", pods), func(b *testing.B) {
			var waited, spent [2]time.Duration
			for b.Loop() {
				for i, namespace := range namespaces {
					begin := time.Now()
					dryEvict(b, kube, namespace, 1)
					waited[i] += time.Since(begin)
				}
			}
			const at = 300 // reading the metrics costs as much as some evictions
			for i, namespace := range namespaces {
				before := apiServerSpent(b, kube)
				dryEvict(b, kube, namespace, at)
				spent[i] = apiServerSpent(b, kube) - before
			}
			report := func(unit string, took [2]time.Duration, n int) {
				b.ReportMetric(took[0].Seconds()*1000/float64(n), unit)
				b.ReportMetric(took[1].Seconds()*1000/float64(n), unit+"-unasked")
				b.ReportMetric(took[0].Seconds()/took[1].Seconds(), unit+"-times")
			}
			b.ReportMetric(0, "ns/op")
			report("ms", waited, b.N)
			report("cpu-ms", spent, at)
		})
	}
}

// bindPods makes the pods p-FROM to p-(TO-1), bound to a node that answers nobody.
func bindPods(b *testing.B, kube kubernetes.Interface, namespace string, from, to int) {
	b.Helper()
	names := make(chan int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for n := range names {
				p := &corev1.Pod{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("p-%d", n)},
					Spec:       corev1.PodSpec{NodeName: "nowhere", Containers: []corev1.Container{{Name: "c", Image: "localhost/none:1"}}},
				}
				if _, err := kube.CoreV1().Pods(namespace).Create(b.Context(), p, metav1.CreateOptions{}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for n := from; n < to; n++ {
		names <- n
	}
	close(names)
	all.Wait()
}

func dryEvict(b *testing.B, kube kubernetes.Interface, namespace string, times int) {
	b.Helper()
	for range times {
		if err := kube.PolicyV1().Evictions(namespace).Evict(b.Context(), &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: namespace, Name: "p-0"},
			DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
		}); err != nil {
			b.Fatal(err)
		}
	}
}

var processSeconds = regexp.MustCompile(`(?m)^process_cpu_seconds_total ([0-9.e+]+)$`)

// apiServerSpent is the processor time that the API server has spent so far.
func apiServerSpent(b *testing.B, kube kubernetes.Interface) time.Duration {
	b.Helper()
	text, err := kube.Discovery().RESTClient().Get().AbsPath("/metrics").Do(b.Context()).Raw()
	if err != nil {
		b.Fatal(err)
	}
	m := processSeconds.FindSubmatch(text)
	if m == nil {
		b.Fatal("the API server does not tell its processor time")
	}
	seconds, err := strconv.ParseFloat(string(m[1]), 64)
	if err != nil {
		b.Fatal(err)
	}
	return time.Duration(seconds * float64(time.Second))
}

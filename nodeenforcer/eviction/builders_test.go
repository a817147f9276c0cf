package eviction_test

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/nodeenforcer/eviction"
)

const (
	memory = v1alpha1.SignalMemoryAvailable
	stall  = v1alpha1.SignalMemoryStall
	disk   = v1alpha1.SignalNodeFsAvailable
	inodes = v1alpha1.SignalNodeFsInodesFree
	pids   = v1alpha1.SignalPIDAvailable
)

type option func(*eviction.Candidate)

// candidate is a pod without requests that uses nothing known.
func candidate(name string, options ...option) eviction.Candidate {
	c := eviction.Candidate{
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)},
			Spec:       corev1.PodSpec{NodeName: "n1", TerminationGracePeriodSeconds: new(int64(30)), Containers: []corev1.Container{{Name: "app"}}},
			Status:     corev1.PodStatus{Phase: corev1.PodRunning},
		},
		Usage: map[v1alpha1.EvictionSignal]int64{},
	}
	for _, o := range options {
		o(&c)
	}
	return c
}

func uses(signal v1alpha1.EvictionSignal, n int64) option {
	return func(c *eviction.Candidate) { c.Usage[signal] = n }
}

func requests(name corev1.ResourceName, quantity string) option {
	return func(c *eviction.Candidate) {
		r := &c.Pod.Spec.Containers[0].Resources
		if r.Requests == nil {
			r.Requests = corev1.ResourceList{}
		}
		r.Requests[name] = resource.MustParse(quantity)
	}
}

func prio(p int32) option { return func(c *eviction.Candidate) { c.Pod.Spec.Priority = &p } }

func annotated(key, value string) option {
	return func(c *eviction.Candidate) { metav1.SetMetaDataAnnotation(&c.Pod.ObjectMeta, key, value) }
}

func order(n int) option {
	return annotated(v1alpha1.AnnotationEnforcement, fmt.Sprintf(`{"eviction":{"order":%d}}`, n))
}

func phase(p corev1.PodPhase) option { return func(c *eviction.Candidate) { c.Pod.Status.Phase = p } }

func names(ranked []eviction.Ranked) string {
	var out []string
	for _, r := range ranked {
		out = append(out, r.Pod.Name)
	}
	return strings.Join(out, " ")
}

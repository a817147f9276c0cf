package explain_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/cli/explain"
	"github.com/podgrace/podgrace/defaulting"
	"github.com/podgrace/podgrace/policy"
)

// resources are of cpu and memory; an empty one is left out.
func resources(cpu, memory string) corev1.ResourceList {
	list := corev1.ResourceList{}
	if cpu != "" {
		list[corev1.ResourceCPU] = resource.MustParse(cpu)
	}
	if memory != "" {
		list[corev1.ResourceMemory] = resource.MustParse(memory)
	}
	return list
}

type option func(*explain.Input)

// web is a pod that exists, with a class of its own and no policies, and whatever the options make of it.
func web(options ...option) explain.Input {
	in := explain.Input{
		Now: now, Created: true,
		Pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1", UID: "u1", Labels: map[string]string{"app": "web"}},
			Spec: corev1.PodSpec{
				NodeName: "n1", TerminationGracePeriodSeconds: new(int64(30)), Priority: new(int32(0)),
				PreemptionPolicy: new(corev1.PreemptLowerPriority), Containers: []corev1.Container{{Name: "app"}},
			},
			Status: corev1.PodStatus{Phase: corev1.PodRunning},
		},
		Namespace: policy.Namespace{Name: "shop", Labels: map[string]string{"team": "web"}},
		Facts:     defaulting.Facts{PriorityClasses: map[string]*schedulingv1.PriorityClass{}},
	}
	for _, o := range options {
		o(&in)
	}
	return in
}

func manifest(in *explain.Input) {
	in.Created, in.Pod.Spec.NodeName, in.Pod.Status.Phase, in.Pod.UID = false, "", "", ""
	in.Pod.Spec.Priority, in.Pod.Spec.PreemptionPolicy = nil, nil
	review(in)
}

func class(name string, value int32, global bool) option {
	return func(in *explain.Input) {
		in.Facts.PriorityClasses[name] = &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value, GlobalDefault: global}
		in.Facts.GlobalDefault = defaulting.GlobalDefaultOf(in.Facts.PriorityClasses)
	}
}

// ranked gives the pod a class.
func ranked(name string, value int32) option {
	return func(in *explain.Input) {
		in.Pod.Spec.PriorityClassName, in.Pod.Spec.Priority = name, new(value)
	}
}

func grace(n int64) option {
	return func(in *explain.Input) { in.Pod.Spec.TerminationGracePeriodSeconds = &n }
}

func edit(f func(*corev1.Pod)) option { return func(in *explain.Input) { f(in.Pod) } }

func annotated(key, value string) option {
	return edit(func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, key, value)
	})
}

func owned(kind string) option {
	version := "apps/v1"
	if kind == "Job" {
		version = "batch/v1"
	}
	return edit(func(p *corev1.Pod) {
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: version, Kind: kind, Name: "web", Controller: new(true)}}
	})
}

func podPolicy(t testing.TB, name string, weight int32, change func(*v1alpha1.PodPolicySpec)) option {
	t.Helper()
	p := &v1alpha1.PodPolicy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.PodPolicySpec{Weight: weight}}
	change(&p.Spec)
	compiled, err := policy.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return func(in *explain.Input) { in.Policies = policy.Sort(append(in.Policies, compiled)) }
}

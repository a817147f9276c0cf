package state_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/podgrace/podgrace/api/v1alpha1"
	"github.com/podgrace/podgrace/internal/pod/graceperiod"
	"github.com/podgrace/podgrace/nodeenforcer/plan"
	"github.com/podgrace/podgrace/nodeenforcer/state"
	"github.com/podgrace/podgrace/nodeenforcer/state/statetest"
)

// many containers like this one.
func many(p *corev1.Pod, n int) *corev1.Pod {
	c, s := p.Spec.Containers[0], p.Status.ContainerStatuses[0]
	p.Spec.Containers, p.Status.ContainerStatuses = nil, nil
	for i := range n {
		c.Name = fmt.Sprint("c", i)
		s.Name, s.ContainerID = c.Name, fmt.Sprint("containerd://", i)
		p.Spec.Containers, p.Status.ContainerStatuses = append(p.Spec.Containers, c), append(p.Status.ContainerStatuses, s)
	}
	return p
}

// Of the 1.5 MiB that the API server takes, whatever they are, little is kept: a dozen such pods must not end the enforcer by its memory limit.
func TestSlimIsBounded(t *testing.T) {
	const large = 1 << 20
	text := strings.Repeat("x", large)
	for name, p := range map[string]*corev1.Pod{
		"many containers": many(statetest.Pod("a", "cpu=1m", "memory=1Mi"), 5000),
		"probe": func() *corev1.Pod {
			p := statetest.Pod("a")
			p.Spec.Containers[0].LivenessProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true", text}}}}
			return p
		}(),
		"hook": func() *corev1.Pod {
			p := statetest.Pod("a")
			p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{
				PreStop:   &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "sleep" + strings.Repeat(" ", large) + "5"}}},
				PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{text}}},
			}
			return p
		}(),
		"annotations and labels": func() *corev1.Pod {
			p := statetest.Pod("a")
			p.Labels, p.Annotations = map[string]string{"a": text}, map[string]string{v1alpha1.AnnotationEnforcement: text, "b": text, corev1.MirrorPodAnnotationKey: text}
			return p
		}(),
		"owners and finalizers": func() *corev1.Pod {
			p := statetest.Pod("a")
			p.OwnerReferences, p.Finalizers = make([]metav1.OwnerReference, 10000), []string{text}
			return p
		}(),
		"volumes": func() *corev1.Pod {
			p := statetest.Pod("a")
			for i := range 20000 {
				p.Spec.Volumes = append(p.Spec.Volumes, corev1.Volume{Name: fmt.Sprint(i), VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}})
			}
			return p
		}(),
		"resources": func() *corev1.Pod {
			p := statetest.Pod("a", "cpu=1")
			for i := range 20000 {
				p.Spec.Containers[0].Resources.Requests[corev1.ResourceName(fmt.Sprint("example.com/", i))] = resource.MustParse("1")
				p.Spec.Containers[0].Resources.Limits[corev1.ResourceName(fmt.Sprint("hugepages-", i))] = resource.MustParse("1")
			}
			return p
		}(),
		"conditions": func() *corev1.Pod {
			p := statetest.Pod("a")
			for range 10000 {
				p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: text[:100]})
			}
			return p
		}(),
		"over": func() *corev1.Pod {
			p := many(statetest.Pod("a"), 60)
			p.Status.Phase, p.Status.Message = corev1.PodFailed, text
			return p
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := state.Slim(p); err != nil {
				t.Fatal(err)
			}
			once, err := json.Marshal(p)
			if err != nil || len(once) > 16<<10 {
				t.Errorf("%d bytes are kept (%v): %.200s", len(once), err, once)
			}
			if _, err := state.Slim(p); err != nil { // an informer may do it twice
				t.Fatal(err)
			}
			if twice, err := json.Marshal(p); err != nil || string(twice) != string(once) {
				t.Errorf("the second time it differs: %v, %.200s", err, twice)
			}
		})
	}
}

// The plan of what is kept is the plan of the whole pods; of one with too many containers, but for theirs.
func TestSlimKeepsThePlan(t *testing.T) {
	resized := statetest.Pod("resized", "cpu=1", "memory<1Gi")
	resized.Generation, resized.Status.ObservedGeneration = 2, 1
	resized.Status.ContainerStatuses[0].Resources = &corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse("512Mi")}}
	resized.Status.ContainerStatuses[0].AllocatedResources = corev1.ResourceList{"cpu": resource.MustParse("2"), "memory": resource.MustParse("512Mi")}
	refused := resized.DeepCopy()
	refused.Name, refused.UID, refused.Status.ObservedGeneration = "refused", "uid.refused", 2
	refused.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: corev1.PodReasonInfeasible}}
	begun := resized.DeepCopy()
	begun.Name, begun.UID, begun.Status.ObservedGeneration = "begun", "uid.begun", 2
	begun.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: corev1.PodResizeInProgress, Status: corev1.ConditionTrue}}
	asked := statetest.Pod("asked", "cpu=1", "example.com/gpu=1")
	asked.Annotations = map[string]string{v1alpha1.AnnotationEnforcement: `{"cpu":{"weight":300},"oom":{"rank":50}}`}
	asked.Spec.Overhead = corev1.ResourceList{"cpu": resource.MustParse("100m")}
	mirror := statetest.Pod("mirror", "memory=64Mi")
	mirror.Annotations = map[string]string{corev1.MirrorPodAnnotationKey: "x", "kubernetes.io/config.hash": "0123456789abcdef"}
	mirror.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", Controller: new(true)}}
	over := statetest.Pod("over", "memory=64Mi")
	over.Status.Phase = corev1.PodSucceeded
	partly := many(statetest.Pod("partly", "cpu<10m", "memory<1Mi"), 100)
	delete(partly.Spec.Containers[99].Resources.Limits, "memory")
	for name, test := range map[string]struct {
		pod  *corev1.Pod
		root bool // only of cgroups above the containers'
	}{
		"resized": {resized, false}, "refused": {refused, false}, "begun": {begun, false}, "asked": {asked, false}, "mirror": {mirror, false}, "over": {over, false},
		"folded, all limited": {many(statetest.Pod("folded", "cpu<10m", "memory<1Mi"), 100), true}, "folded, not all limited": {partly, true},
	} {
		t.Run(name, func(t *testing.T) {
			b := statetest.NewBed(t, test.pod, statetest.Pod("other", "cpu=1"))
			b.Policy.OOM = &v1alpha1.NodeOOM{Order: v1alpha1.OOMOrderPriority}
			build := func() map[string]map[string]plan.Value {
				all := map[string]map[string]plan.Value{}
				for _, g := range plan.Build(b.Node, b.Policy, b.Pods).Groups {
					if !test.root || g.Level != plan.LevelContainer {
						all[g.Path] = g.Files
					}
				}
				return all
			}
			want := build()
			whole := test.pod.DeepCopy()
			if _, err := state.Slim(test.pod); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, build()); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if is, was := plan.Resizing(test.pod), plan.Resizing(whole); is != was {
				t.Errorf("it is resized: %v, was %v", is, was)
			}
			if whole.Annotations[v1alpha1.AnnotationEnforcement] != test.pod.Annotations[v1alpha1.AnnotationEnforcement] {
				t.Error("the annotation is not what it was")
			}
		})
	}
}

// How a container is stopped is what it was.
func TestSlimKeepsTheHook(t *testing.T) {
	for name, hook := range map[string]corev1.LifecycleHandler{
		"sleep":   {Sleep: &corev1.SleepAction{Seconds: 7}},
		"script":  {Exec: &corev1.ExecAction{Command: []string{"sh", "-c", "exec sleep 9;"}}},
		"command": {Exec: &corev1.ExecAction{Command: []string{"drain", "--now"}}},
		"http":    {HTTPGet: &corev1.HTTPGetAction{Path: "/drain"}},
	} {
		p := statetest.Pod("a")
		p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &hook, StopSignal: new(corev1.SIGINT)}
		p.Spec.TerminationGracePeriodSeconds = new(int64(30))
		grace := new(int64(30))
		want := graceperiod.Container(p, &p.Spec.Containers[0], graceperiod.Deleted, grace)
		if _, err := state.Slim(p); err != nil {
			t.Fatal(err)
		}
		l := p.Spec.Containers[0].Lifecycle
		if got := graceperiod.Container(p, &p.Spec.Containers[0], graceperiod.Deleted, grace); got != want || *l.StopSignal != corev1.SIGINT ||
			(l.PreStop.Exec == nil) != (hook.Exec == nil) || (l.PreStop.HTTPGet == nil) != (hook.HTTPGet == nil) {
			t.Errorf("%s: got %+v, want %+v; %+v", name, got, want, l.PreStop)
		}
	}
}

// What an enforcer saved that kept more is bounded as well.
func TestCheckpointOfLargePods(t *testing.T) {
	name := filepath.Join(t.TempDir(), "checkpoint")
	p := statetest.Pod("a")
	p.Spec.Containers[0].Command = []string{strings.Repeat("x", 1<<20)}
	if err := state.SaveCheckpoint(name, &state.Checkpoint{Node: nodeWith(nil), Pods: []*corev1.Pod{p, statetest.Pod("b")}}); err != nil {
		t.Fatal(err)
	}
	c, err := state.LoadCheckpoint(name)
	if err != nil || len(c.Pods) != 2 || c.Pods[0].Spec.Containers[0].Command != nil {
		t.Errorf("got %v, %v", c, err)
	}
}
